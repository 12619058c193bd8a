package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/lca-stream/lca-stream/internal/credentials"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

const (
	firstWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second

	// sayEvery is the interval of log lines about a registry that does not answer.
	sayEvery = 30 * time.Second

	// strangeFor is how long something else may answer at the registry's address, such as a proxy before the registry
	// has started.
	strangeFor = 5 * time.Second
)

// persist makes a request until it is answered: with success, or with what waiting does not change.
func (c *Client) persist(ctx context.Context, request func(context.Context) error) error {
	var strange time.Time // since when the answers have not been a registry's
	for wait := firstWait; ; wait = longer(wait) {
		err := request(ctx)
		if ctx.Err() != nil && err != nil {
			return err
		}
		switch meaning := c.meaning(err); {
		case meaning == strangeAnswer && strange.IsZero():
			strange = time.Now()
		case meaning == strangeAnswer && time.Since(strange) < strangeFor:
		case meaning == noAnswer:
			strange = time.Time{}
			c.trouble.note(err)
		case meaning == unknown:
			c.trouble.note(nil)
			return fmt.Errorf("%w: %w", format.ErrNoSchema, err)
		case meaning == unusable:
			c.trouble.note(nil)
			return err
		case err != nil:
			c.trouble.note(nil)
			return c.refusal(err)
		default:
			c.trouble.note(nil)
			return nil
		}
		if sleep(ctx, wait) != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// meaning is what an answer leads to.
type meaning int

const (
	answered      meaning = iota
	unknown               // there is no such schema
	unusable              // it is beyond what is taken
	noAnswer              // the registry is away: wait
	strangeAnswer         // something else answers
	refused               // a person is needed
)

// The error codes of Confluent's API for what does not exist.
const (
	noSubject = 40401
	noVersion = 40402
	noSchema  = 40403
)

func (c *Client) meaning(err error) meaning {
	var answer *sr.ResponseError
	var certificate *tls.CertificateVerificationError
	var elsewhere *redirectError
	switch {
	case err == nil:
		return answered
	case errors.Is(err, format.ErrNoSchema):
		return unknown
	case errors.Is(err, format.ErrUnusableSchema):
		return unusable
	case errors.As(err, &certificate), errors.As(err, &elsewhere):
		return refused
	case !errors.As(err, &answer) && ofNetwork(err):
		return noAnswer
	case answer == nil:
		return strangeAnswer // it does not parse
	}
	switch code := answer.StatusCode; {
	case code == http.StatusNotFound && (answer.ErrorCode == noSubject || answer.ErrorCode == noVersion || answer.ErrorCode == noSchema):
		return unknown
	case code == http.StatusNotFound || code < http.StatusBadRequest:
		return strangeAnswer
	case code >= http.StatusInternalServerError, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return noAnswer
	}
	return refused
}

// ofNetwork reports whether err came instead of an answer.
func ofNetwork(err error) bool {
	var request *url.Error
	var network net.Error
	return errors.As(err, &request) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// redirectError is an answer that leads elsewhere: to another server, which would be shown the login and asked whatever the first
// one likes, or to a question in place of what was to be registered, because HTTP clients follow 301, 302 and 303 with a GET.
type redirectError struct{ to string }

func (e *redirectError) Error() string { return "it leads to " + e.to }

// pageError is a page for people in place of an answer, as of a login.
type pageError struct{ from string }

func (e *pageError) Error() string { return "it answers with a page for people, at " + e.from }

// stay follows redirections that ask the same of the same server: scheme, host and port.
func stay(next *http.Request, former []*http.Request) error {
	const most = 10
	if len(former) >= most {
		return fmt.Errorf("stopped after %d redirections", most)
	}
	if first := former[0]; next.Method != first.Method || origin(next.URL) != origin(first.URL) {
		return &redirectError{next.URL.Scheme + "://" + next.URL.Host}
	}
	return nil
}

// origin is a server: scheme, host and port.
func origin(u *url.URL) [3]string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return [3]string{u.Scheme, strings.ToLower(u.Hostname()), port}
}

// login shows user and password, which may be renewed, with each request. None goes to another server: see stay.
type login struct {
	transport http.RoundTripper
	username  string
	password  func() string
}

// RoundTrip is that of http.RoundTripper. What a refusal says is shown, so it is without the login.
func (l login) RoundTrip(r *http.Request) (*http.Response, error) {
	const most = 64 << 10
	password := l.password()
	r = r.Clone(r.Context()) // which a RoundTripper must not change
	r.SetBasicAuth(l.username, password)
	answer, err := l.transport.RoundTrip(r)
	if err != nil || answer.StatusCode < http.StatusBadRequest {
		return answer, err
	}
	said, err := io.ReadAll(io.LimitReader(answer.Body, most))
	_ = answer.Body.Close()
	if err != nil {
		return nil, err
	}
	answer.Body, answer.ContentLength = io.NopCloser(strings.NewReader(credentials.Hidden(string(said), l.username, password))), -1
	return answer, nil
}

// refusal adds to an error what to do about it.
func (c *Client) refusal(err error) error {
	var answer *sr.ResponseError
	var certificate *tls.CertificateVerificationError
	var elsewhere *redirectError
	const nobody = "no schema registry answers there: check source.registry.url, its path included, such as /apis/ccompat/v7"
	remedy := "check source.registry"
	switch {
	case errors.As(err, &certificate):
		remedy = "the registry's certificate is not trusted here, or is for another name: set source.registry.ca_file, or correct source.registry.url"
	case errors.As(err, &elsewhere):
		remedy = "set source.registry.url to where it leads, with the path that it has there; if that is a login, check source.registry.username and password_file"
	case !errors.As(err, &answer):
		remedy = nobody
	case answer.StatusCode == http.StatusUnauthorized:
		remedy = "check source.registry.username and password_file"
	case answer.StatusCode == http.StatusForbidden:
		remedy = "the registry's user needs the right to read schemas, and to register those that are written"
	case answer.StatusCode == http.StatusNotFound, answer.StatusCode < http.StatusBadRequest:
		remedy = nobody
	case answer.StatusCode == http.StatusConflict, answer.StatusCode == http.StatusUnprocessableEntity:
		remedy = "the registry refuses the schema: see its rules of compatibility for the subject"
	}
	return &kafkaconn.Error{Err: fmt.Errorf("%s answers: %w", c.url, plain(err)), Remedy: remedy}
}

// plain shortens what a registry says, which may be a page of HTML.
func plain(err error) error {
	const most = 500
	var answer *sr.ResponseError
	if !errors.As(err, &answer) {
		return err
	}
	said := strings.Join(strings.Fields(answer.Error()), " ")
	if len(said) > most {
		said = strings.ToValidUTF8(said[:most], "") + "…"
	}
	return &saidError{fmt.Sprintf("%d %s: %s", answer.StatusCode, http.StatusText(answer.StatusCode), said), err}
}

// saidError is an answer in few words.
type saidError struct {
	text string
	err  error
}

func (e *saidError) Error() string { return e.text }

// Unwrap returns the whole answer.
func (e *saidError) Unwrap() error { return e.err }

// trouble tells when the registry does not answer.
type trouble struct {
	url     string
	log     *slog.Logger
	changed func(error)

	mu    sync.Mutex
	known bool      // changed has been called
	since time.Time // since when it does not answer; zero: it does
	said  time.Time // time of the last line
}

// note takes the result of a request; nil: it was answered.
func (t *trouble) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil && !t.since.IsZero():
		t.log.Info("the schema registry answers again", "url", t.url, "after", now.Sub(t.since).Round(time.Second))
		t.since, t.said, t.known = time.Time{}, time.Time{}, false
	case err != nil && t.since.IsZero():
		t.since, t.known = now, false
	}
	if err != nil && now.Sub(t.said) >= sayEvery {
		t.said = now
		t.log.Warn("the schema registry does not answer; waiting for it", "url", t.url, "error", plain(err), "for", now.Sub(t.since).Round(time.Second))
	}
	if t.known || t.changed == nil {
		return
	}
	t.known = true
	t.changed(err)
}

// bounded bounds the answers that a transport brings.
type bounded struct {
	transport http.RoundTripper
	most      int // bytes of an answer
}

// mostAnswer bounds an answer, in bytes: a schema in JSON may take six for one, and its references some.
func mostAnswer(text int) int { return 6*text + 1<<20 }

// RoundTrip is that of http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body := &limited{ReadCloser: answer.Body, left: b.most, most: b.most}
	if answer.StatusCode == http.StatusOK {
		at := *r.URL
		at.RawQuery = "" // it may hold a secret
		body.page = &pageError{at.Redacted()}
	}
	answer.Body = body
	return answer, nil
}

// limited is a body that fails behind its bound.
type limited struct {
	io.ReadCloser
	left, most int
	page       error // what it is if it begins as HTML does; nil: that does not matter, or is known
}

func (l *limited) Read(p []byte) (n int, err error) {
	if l.left == 0 {
		return 0, &beyondError{fmt.Sprintf("the answer has more than %d bytes: raise memory.limit to have such a schema", l.most)}
	}
	n, err = l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	if begins := bytes.TrimLeft(p[:n], " \t\r\n"); l.page != nil && len(begins) > 0 {
		if begins[0] == '<' {
			return 0, l.page
		}
		l.page = nil
	}
	return n, err
}

// longer returns the next wait.
func longer(wait time.Duration) time.Duration { return min(2*wait, mostWait) }

// sleep returns nil after about the delay, or the reason why ctx ended before.
func sleep(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay/2 + rand.N(delay/2+1)) // spread, so that processes do not ask in step
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
