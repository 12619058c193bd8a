package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// refusedFor is how long brokers may refuse every token of a process whose tokens they have taken before. After the
	// keys of the OAuth server have changed, brokers need about that long to read the new ones.
	refusedFor = time.Minute

	// firstAsk and lastAsk bound the time between the requests for two tokens, if the first of them was taken and soon
	// refused. It doubles each time.
	firstAsk = time.Second
	lastAsk  = 30 * time.Second
)

// record is what brokers have said to the tokens of a process. The first token that is shown decides whether the
// configuration is right. Later a token is refused because it ended early, because clocks differ, because it was
// revoked, or because the server's keys have changed. That passes with a new token.
type record struct {
	mu      sync.Mutex
	known   bool          // brokers have taken a token
	trouble time.Time     // when brokers began to refuse, with no token taken since; zero: they do not
	next    time.Time     // earliest time to ask for a token
	apart   time.Duration // time between the last two requests for tokens that were soon refused
}

func (r *record) taken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.trouble = true, time.Time{}
}

// refused notes that t was refused, and reports whether a new token may be taken. The first connection to say so decides
// when to ask for it: at once if t was of use for some time.
func (r *record) refused(t *token, first bool, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch use := min(max(t.expires.Sub(t.asked)/4, firstAsk), lastAsk); {
	case !first:
	case now.Sub(t.asked) > use:
		r.apart, r.next = 0, now
	default:
		r.apart = min(max(2*r.apart, firstAsk), lastAsk)
		r.next = t.asked.Add(r.apart)
	}
	if r.trouble.IsZero() {
		r.trouble = now
	}
	return r.known && now.Sub(r.trouble) < refusedFor
}

// wait returns an error that passes as long as no token should be asked for.
func (r *record) wait(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.next.Sub(now); d > 0 {
		return &refusal{fmt.Errorf("the last token was refused soon after it was taken, and a new one is asked for in %v", d.Round(time.Millisecond)), true}
	}
	return nil
}

// refused returns the error of a login that showed t, which is not shown again.
func (b *bearer) refused(t *token, err error) error {
	refused := &refusal{err: fmt.Errorf("kafkaconn: the token is refused: %w", err)}
	if refused.passes = b.record.refused(t, b.token.CompareAndSwap(t, nil), time.Now()); refused.passes {
		return &Error{Err: refused, Remedy: "brokers have taken tokens before, so a new one is asked for: this one may have been revoked, or clocks differ"}
	}
	return refused
}

// refusal is the error of a login for which brokers refuse the token.
type refusal struct {
	err    error
	passes bool // a new token may be taken
}

var _ net.Error = (*refusal)(nil)

func (e *refusal) Error() string { return e.err.Error() }

// Unwrap hides what passes, because callers do not try again after kafka.SASLAuthenticationFailed.
func (e *refusal) Unwrap() error {
	if e.passes {
		return nil
	}
	return e.err
}

// Timeout makes callers try again, as after a time-out, if it passes.
func (e *refusal) Timeout() bool { return e.passes }

// Temporary is part of net.Error.
func (e *refusal) Temporary() bool { return e.passes }

// login is the token that was shown last for a request.
type login struct{ shown atomic.Pointer[token] }

type loginKey struct{}

// bearerTransport also sees brokers that refuse a token by an error code or by closing the connection. kafka-go does
// not tell the mechanism about these.
type bearerTransport struct {
	*kafka.Transport
	bearer *bearer
}

// RoundTrip sends a request over a connection that has shown a token.
func (t *bearerTransport) RoundTrip(ctx context.Context, address net.Addr, r kafka.Request) (kafka.Response, error) {
	l := new(login)
	response, err := t.Transport.RoundTrip(context.WithValue(ctx, loginKey{}, l), address, r)
	if shown := l.shown.Load(); shown != nil && errors.Is(err, kafka.SASLAuthenticationFailed) && !errors.As(err, new(*refusal)) {
		err = t.bearer.refused(shown, err)
	}
	return response, err
}
