package registry

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/lca-stream/lca-stream/source/format"
)

// mostReferences bounds what a schema refers to, directly or not.
const mostReferences = 256

// fetch asks for the schema of an id once, and for all that it refers to.
func (c *Client) fetch(ctx context.Context, id int) (*format.Schema, error) {
	s, err := c.api.SchemaByID(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.whole(ctx, id, s)
}

// whole adds what a schema refers to.
func (c *Client) whole(ctx context.Context, id int, s sr.Schema) (*format.Schema, error) {
	w := walk{client: c, seen: map[sr.SchemaReference]bool{}}
	if err := w.add(ctx, s.References, true); err != nil {
		return nil, err
	}
	return &format.Schema{ID: id, Type: format.SchemaType(s.Type.String()), Text: s.Schema, References: w.found}, nil
}

// walk collects references, each after what it refers to itself.
type walk struct {
	client *Client
	seen   map[sr.SchemaReference]bool
	found  []format.SchemaReference
}

func (w *walk) add(ctx context.Context, references []sr.SchemaReference, direct bool) error {
	for _, r := range references {
		if w.seen[r] {
			w.mark(r, direct)
			continue
		}
		if w.seen[r] = true; len(w.seen) > mostReferences {
			return &tooManyError{}
		}
		// A subject may have been deleted while there are still records of it.
		s, err := w.client.api.SchemaByVersion(sr.WithParams(ctx, sr.ShowDeleted), r.Subject, r.Version)
		if err != nil {
			return fmt.Errorf("%q, version %d of %s, to which it refers: %w", r.Name, r.Version, r.Subject, err)
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

// tooManyError is a schema with more references than are followed: its id counts as unknown.
type tooManyError struct{}

func (*tooManyError) Error() string {
	return fmt.Sprintf("it refers to more than %d schemas", mostReferences)
}

// Unwrap makes it an unknown schema, so that the records which name it are set aside.
func (*tooManyError) Unwrap() error { return format.ErrNoSchema }
