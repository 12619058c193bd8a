package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"golang.org/x/sync/singleflight"

	"github.com/lca-stream/lca-stream/internal/credentials"
	"github.com/lca-stream/lca-stream/source/format"
)

// Config says how the registry is reached.
type Config struct {
	URL          string // http[s]://HOST[:PORT][/PATH], with the path at which the registry has Confluent's API
	Username     string // "": no login
	Password     string
	PasswordFile string // instead of Password: its content without the line end, read for each request
	CAFile       string // PEM file of the authorities that may sign the registry's certificate; "": the system's

	// MostText bounds a schema with all that it refers to, in bytes: what is made of it takes up to 70 times as many. 0: 4 MiB.
	MostText int

	// Log gets a line when the registry does not answer, and when it does again; nil is silent.
	Log *slog.Logger

	// Changed is called when the registry ceases to answer, with the reason, and with nil when it has answered;
	// nil is not called. Calls come one at a time.
	Changed func(cause error)

	// Transport sends requests; nil is HTTP. Tests put faulty networks here.
	Transport http.RoundTripper
}

const (
	// requestWait bounds a request.
	requestWait = 10 * time.Second

	// lookAgain is how long unknown ids are asked for again, and unknownFor how long they are then taken for unknown. For as long others are
	// taken for unknown at once, for a moment: values may name any ids, and would otherwise hold up those behind them for good.
	lookAgain  = 5 * time.Second
	unknownFor = 30 * time.Second

	// defaultText is the default of MostText, and mostTurns is how many schemas are fetched at a time.
	defaultText = 4 << 20
	mostTurns   = 8
)

// Client is a connection to a registry, with the schemas that it has answered. It is safe for concurrent use.
type Client struct {
	url     string // without secrets
	api     *sr.Client
	known   *schemas
	asking  singleflight.Group
	trouble *trouble
	most    int           // Config.MostText
	turns   chan struct{} // of those that are fetched
	looks   looks

	life context.Context // ends with Close: what is asked in the background
	end  context.CancelFunc
}

// Open checks the configuration and loads password and certificates. It connects to nothing: the first request does.
func Open(c Config) (*Client, error) {
	address, err := CheckURL(c.URL)
	if err != nil {
		return nil, fmt.Errorf("registry: source.registry.url: %w", err)
	}
	password, err := credentials.Renewed(c.Password, c.PasswordFile, "source.registry.password")
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	authorities, err := credentials.Authorities(c.CAFile, "source.registry.ca_file")
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	if c.MostText <= 0 {
		c.MostText = defaultText
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
			IdleConnTimeout: requestWait,
		}
	}
	transport := c.Transport
	if c.Username != "" {
		transport = login{transport, c.Username, password}
	}
	api, err := sr.NewClient(sr.URLs(address.String()), sr.UserAgent("lca-stream"),
		sr.HTTPClient(&http.Client{Transport: bounded{transport, mostAnswer(c.MostText)}, Timeout: requestWait, CheckRedirect: stay}))
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	client := &Client{url: address.String(), api: api, known: newSchemas(keptTexts * c.MostText), most: c.MostText, turns: make(chan struct{}, mostTurns)}
	client.trouble = &trouble{url: client.url, log: c.Log, changed: c.Changed}
	client.life, client.end = context.WithCancel(context.Background())
	return client, nil
}

// CheckURL reads the address of a registry. Credentials do not belong into it: it is logged.
func CheckURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("is not http://HOST:PORT or https://HOST, with the path of Confluent's API if it has one")
	case u.User != nil:
		return nil, errors.New("has a user in it, who belongs into source.registry.username")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("has more than an address and a path")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// URL returns the registry's address.
func (c *Client) URL() string { return c.url }

// Close ends what is being asked.
func (c *Client) Close() { c.end() }

// Schema returns the schema of an id, with all that it refers to. It waits for as long as the registry does not
// answer, until ctx ends; the question stays open for the next caller. The error wraps format.ErrNoSchema if the
// registry does not know the id, and format.ErrUnusableSchema if the schema is beyond what is taken.
func (c *Client) Schema(ctx context.Context, id int) (*format.Schema, error) {
	if id > math.MaxInt32 {
		return nil, fmt.Errorf("registry: id %d is beyond those of any registry: %w", id, format.ErrNoSchema)
	}
	if s, err := c.known.of(id); s != nil || err != nil {
		return s, err
	}
	answer := c.asking.DoChan(strconv.Itoa(id), func() (any, error) {
		if s, err := c.known.of(id); s != nil || err != nil {
			return s, err // of a call that has ended just now
		}
		return c.ask(c.life, id)
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case got := <-answer:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*format.Schema), nil
	}
}

// ask fetches a schema and remembers it, or that there is none that can be used.
func (c *Client) ask(ctx context.Context, id int) (s *format.Schema, err error) {
	for wait := firstWait; ; wait = longer(wait) {
		err = c.persist(ctx, func(ctx context.Context) error {
			select {
			case c.turns <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			defer func() { <-c.turns }()
			s, err = c.fetch(ctx, id)
			return err
		})
		if err == nil {
			c.known.add(s)
			return s, nil
		}
		if errors.Is(err, format.ErrUnusableSchema) {
			c.known.lack(id, err, unknownFor)
			return nil, err
		}
		if !errors.Is(err, format.ErrNoSchema) {
			return nil, err
		}
		left := c.looks.left(time.Now())
		if left <= 0 {
			lasts := unknownFor
			if wait == firstWait { // it was asked for once
				lasts = lookAgain
			}
			c.known.lack(id, err, lasts)
			return nil, err
		}
		if err := sleep(ctx, max(firstWait, min(wait, left))); err != nil {
			return nil, err
		}
	}
}

// looks says how long unknown ids are asked for again.
type looks struct {
	mu    sync.Mutex
	since time.Time
}

// left is what is left of lookAgain since the first unknown id, or, once that was unknownFor ago, since this one.
func (l *looks) left(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= lookAgain+unknownFor {
		l.since = now
	}
	return lookAgain - now.Sub(l.since)
}

// Latest returns the newest schema of a subject. The error wraps format.ErrNoSchema if there is none.
func (c *Client) Latest(ctx context.Context, subject string) (s *format.Schema, err error) {
	err = c.persist(ctx, func(ctx context.Context) error {
		newest, err := c.api.SchemaByVersion(ctx, subject, -1)
		if err != nil {
			return err
		}
		s, err = c.whole(ctx, newest.ID, newest.Type.String(), newest.Schema.Schema, newest.References)
		return err
	})
	return s, err
}

// Register registers a schema under a subject, and returns its id; a schema that is registered already keeps its id. It
// waits for as long as the registry does not answer. A registry that refuses it, such as for not being compatible, is
// quoted in the error.
func (c *Client) Register(ctx context.Context, subject string, s *format.Schema) (id int, err error) {
	registered := sr.Schema{Schema: s.Text}
	if err := registered.Type.UnmarshalText([]byte(s.Type)); err != nil {
		return 0, fmt.Errorf("registry: %w", err)
	}
	for _, r := range s.References {
		if r.Direct {
			registered.References = append(registered.References, sr.SchemaReference{Name: r.Name, Subject: r.Subject, Version: r.Version})
		}
	}
	wait := firstWait
	for range registerTimes {
		err = c.persist(ctx, func(ctx context.Context) error {
			id, err = c.api.RegisterSchema(ctx, subject, registered, -1, -1)
			if err == nil && (id < 1 || id > math.MaxInt32) {
				err = fmt.Errorf("the answer has no id of a schema, but %d", id)
			}
			return err
		})
		if !conflicts(err) || sleep(ctx, wait) != nil {
			break
		}
		wait = longer(wait)
	}
	if err != nil {
		return 0, fmt.Errorf("registry: registering a schema under %s: %w", subject, err)
	}
	return id, nil
}

// registerTimes is how often a schema is registered until a conflict counts. Where several clients register at once, some
// registries answer all but one of them that the subject exists already; the next answer is its id.
const registerTimes = 5

func conflicts(err error) bool {
	var answer *sr.ResponseError
	return errors.As(err, &answer) && answer.StatusCode == http.StatusConflict
}

// mostSchemas bounds what is remembered, and so do keptTexts times the bytes that a schema may have; the oldest is forgotten first.
const (
	mostSchemas = 1000
	keptTexts   = 16
)

// schemas is what the registry has answered: the schemas of ids, and which ids it did not know a short while ago.
type schemas struct {
	mu     sync.Mutex
	byID   map[int]*format.Schema
	oldest []int // ids of byID, in the order in which they came
	text   int   // bytes of all schemas
	most   int   // of text
	absent map[int]absence
}

type absence struct {
	err   error
	until time.Time
}

func newSchemas(most int) *schemas {
	return &schemas{most: most, byID: map[int]*format.Schema{}, absent: map[int]absence{}}
}

// of returns what is remembered of an id: its schema, that there is none, or neither.
func (s *schemas) of(id int) (*format.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.byID[id]; known != nil {
		return known, nil
	}
	if a, ok := s.absent[id]; ok && time.Now().Before(a.until) {
		return nil, a.err
	}
	return nil, nil
}

func (s *schemas) add(schema *format.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.absent, schema.ID)
	if s.byID[schema.ID] != nil {
		return
	}
	s.byID[schema.ID] = schema
	s.oldest = append(s.oldest, schema.ID)
	s.text += size(schema)
	for len(s.oldest) > 1 && (len(s.oldest) > mostSchemas || s.text > s.most) {
		s.text -= size(s.byID[s.oldest[0]])
		delete(s.byID, s.oldest[0])
		s.oldest = s.oldest[1:]
	}
}

// lack remembers for a while that there is no such id. Hostile values may name many.
func (s *schemas) lack(id int, err error, lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.absent) >= mostSchemas {
		clear(s.absent)
	}
	s.absent[id] = absence{err, time.Now().Add(lasts)}
}

func size(s *format.Schema) int {
	n := len(s.Text)
	for _, r := range s.References {
		n += len(r.Text)
	}
	return n
}

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
