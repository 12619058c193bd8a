package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/lca-stream/lca-stream/source/format"
)

// mostReferences bounds what a schema refers to, directly or not.
const mostReferences = 256

// answer is the registry's JSON of an id. Other registries have types that Confluent's has not, and sr would refuse the answer.
type answer struct {
	Schema     *string
	SchemaType string
	References []sr.SchemaReference
}

// fetch asks for the schema of an id once, and for all that it refers to.
func (c *Client) fetch(ctx context.Context, id int) (*format.Schema, error) {
	var got answer
	if err := c.api.Do(ctx, http.MethodGet, fmt.Sprintf("/schemas/ids/%d", id), nil, &got); err != nil {
		return nil, err
	}
	if got.Schema == nil {
		return nil, errors.New("the answer has no schema")
	}
	return c.whole(ctx, id, strings.ToUpper(cmp.Or(got.SchemaType, string(format.SchemaAvro))), *got.Schema, got.References)
}

// whole adds what a schema refers to.
func (c *Client) whole(ctx context.Context, id int, kind, text string, references []sr.SchemaReference) (*format.Schema, error) {
	w := walk{client: c, seen: map[sr.SchemaReference]bool{}}
	if err := w.take(text); err != nil {
		return nil, err
	}
	if err := w.add(ctx, references, true); err != nil {
		return nil, err
	}
	return &format.Schema{ID: id, Type: format.SchemaType(kind), Text: text, References: w.found}, nil
}

// walk collects references, each after what it refers to itself.
type walk struct {
	client *Client
	seen   map[sr.SchemaReference]bool
	found  []format.SchemaReference
	text   int // bytes of all
}

// take adds a text.
func (w *walk) take(text string) error {
	if w.text += len(text); w.text > w.client.most {
		return &beyondError{fmt.Sprintf("with all that it refers to it has %d bytes or more, at most %d are read (a thousandth of memory.limit): raise memory.limit to have such a schema", w.text, w.client.most)}
	}
	return nil
}

func (w *walk) add(ctx context.Context, references []sr.SchemaReference, direct bool) error {
	for _, r := range references {
		if w.seen[r] {
			w.mark(r, direct)
			continue
		}
		if w.seen[r] = true; len(w.seen) > mostReferences {
			return &beyondError{fmt.Sprintf("it refers to more than %d schemas", mostReferences)}
		}
		// A subject may have been deleted while there are still records of it.
		s, err := w.client.api.SchemaByVersion(sr.WithParams(ctx, sr.ShowDeleted), r.Subject, r.Version)
		if err != nil {
			return fmt.Errorf("%q, version %d of %s, to which it refers: %w", r.Name, r.Version, r.Subject, err)
		}
		if err := w.take(s.Schema.Schema); err != nil {
			return err
		}
		if err := w.add(ctx, s.References, false); err != nil {
			return err
		}
		w.found = append(w.found, format.SchemaReference{Name: r.Name, Subject: r.Subject, Version: r.Version, Text: s.Schema.Schema, Direct: direct})
	}
	return nil
}

// mark notes that the schema itself refers to what was found already.
func (w *walk) mark(r sr.SchemaReference, direct bool) {
	for i, f := range w.found {
		if direct && f.Name == r.Name && f.Subject == r.Subject && f.Version == r.Version {
			w.found[i].Direct = true
		}
	}
}

// beyondError is a schema that is beyond what is taken. Those who name it are set aside: they should not stop others.
type beyondError struct{ what string }

func (e *beyondError) Error() string { return e.what }

func (*beyondError) Unwrap() error { return format.ErrUnusableSchema }
