// Package logs keeps a log readable while something is wrong. A broker that is down fails every
// partition, again and again, and an operator needs to read that once:
//
//	log := slog.New(logs.Limit(slog.NewTextHandler(os.Stderr, nil), time.Minute))
//
// Warnings and errors with the same cause pass once per interval; the next one that passes says how many were held
// back. The cause is the message with its attributes "error" and "what", without digits, so that other offsets, ports
// or durations do not make another cause. Records below the level of a warning pass, because they report something
// that happened once, unless they have the attribute "what": that is the end of a trouble, and each partition had it.
// A warning under Unlimited passes too.
//
// Plain and Last are for the same reader: the one takes the names of packages out of an error, the other remembers the
// newest trouble.
package logs

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxCauses bounds the number of remembered causes; the cause that passed longest ago is forgotten first.
const maxCauses = 256

// maxCause bounds the length of a cause, in bytes.
const maxCause = 512

// Limit passes records on to next, at most one for each cause in every interval.
func Limit(next slog.Handler, every time.Duration) slog.Handler {
	return &limited{next: next, causes: &causes{every: every, seen: map[string]*cause{}}}
}

// Unlimited marks warnings that always pass, because their caller logs each of them only once.
//
//	log.WarnContext(logs.Unlimited(ctx), "records are lost", "partition", p)
func Unlimited(ctx context.Context) context.Context { return context.WithValue(ctx, unlimited{}, true) }

type unlimited struct{}

type limited struct {
	next   slog.Handler
	causes *causes // shared by all loggers derived from one
	known  string  // part of the cause that comes from With
}

// Enabled asks the next handler.
func (l *limited) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

// Handle passes a record on unless another one with the same cause passed a moment ago.
func (l *limited) Handle(ctx context.Context, r slog.Record) error {
	if ctx.Value(unlimited{}) != nil {
		return l.next.Handle(ctx, r)
	}
	key, limited := r.Level.String()+" "+r.Message+l.known, r.Level >= slog.LevelWarn
	r.Attrs(func(a slog.Attr) bool {
		key += causeOf(a)
		limited = limited || a.Key == "what"
		return true
	})
	if !limited {
		return l.next.Handle(ctx, r)
	}
	passes, repeated := l.causes.pass(squeeze(key), r.Time)
	if !passes {
		return nil
	}
	if repeated > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeated", repeated))
	}
	return l.next.Handle(ctx, r)
}

// WithAttrs returns a handler with the same record of causes.
func (l *limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	known := l.known
	for _, a := range attrs {
		known += causeOf(a)
	}
	return &limited{next: l.next.WithAttrs(attrs), causes: l.causes, known: known}
}

// WithGroup returns a handler with the same record of causes.
func (l *limited) WithGroup(name string) slog.Handler {
	return &limited{next: l.next.WithGroup(name), causes: l.causes, known: l.known}
}

func causeOf(a slog.Attr) string {
	if a.Key == "error" || a.Key == "what" {
		return "\x00" + a.Value.String()
	}
	return ""
}

// squeeze removes the digits.
func squeeze(s string) string {
	s = strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), maxCause)]
}

// causes remembers when a record of each cause last passed.
type causes struct {
	every time.Duration
	mu    sync.Mutex // guards seen; never held while a record is written
	seen  map[string]*cause
}

type cause struct {
	passed time.Time
	held   int // records held back since then
}

// pass reports whether a record may pass, and how many records of its cause were held back before.
func (c *causes) pass(key string, now time.Time) (passes bool, repeated int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.seen[key]
	switch {
	case !ok:
		c.makeRoom()
		c.seen[key] = &cause{passed: now}
		return true, 0
	case now.Sub(known.passed) < c.every:
		known.held++
		return false, 0
	}
	repeated, known.held, known.passed = known.held, 0, now
	return true, repeated
}

func (c *causes) makeRoom() {
	if len(c.seen) < maxCauses {
		return
	}
	oldest, first := "", true
	for key, k := range c.seen {
		if first || k.passed.Before(c.seen[oldest].passed) {
			oldest, first = key, false
		}
	}
	delete(c.seen, oldest)
}

// Last remembers the newest trouble that was logged: an error, or a warning with the attribute "error". The zero value
// is ready.
type Last struct {
	trouble atomic.Pointer[Trouble]
}

// Trouble is what went wrong, and when.
type Trouble struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// Trouble returns the newest trouble, nil if there was none.
func (l *Last) Trouble() *Trouble { return l.trouble.Load() }

// Handler passes records on to next, and remembers their trouble. It belongs in front of Limit, which holds records
// back.
func (l *Last) Handler(next slog.Handler) slog.Handler { return remembering{next, l} }

type remembering struct {
	slog.Handler
	last *Last
}

// Enabled reports warnings and errors as wanted, whatever is logged of them.
func (r remembering) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || r.Handler.Enabled(ctx, level)
}

// Handle remembers the record's trouble.
func (r remembering) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn {
		r.remember(record)
	}
	if !r.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return r.Handler.Handle(ctx, record)
}

func (r remembering) remember(record slog.Record) {
	text, is := record.Message, record.Level >= slog.LevelError
	record.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "what":
			text += ": " + a.Value.String()
		case "error":
			is = true
			text += ": " + plainValue(a.Value)
		}
		return true
	})
	if is {
		r.last.trouble.Store(&Trouble{Time: record.Time, Text: text})
	}
}

// WithAttrs returns a handler that remembers in the same place.
func (r remembering) WithAttrs(attrs []slog.Attr) slog.Handler {
	return remembering{r.Handler.WithAttrs(attrs), r.last}
}

// WithGroup returns a handler that remembers in the same place.
func (r remembering) WithGroup(name string) slog.Handler {
	return remembering{r.Handler.WithGroup(name), r.last}
}

func plainValue(v slog.Value) string {
	if err, ok := v.Any().(error); ok {
		return Plain(err.Error())
	}
	return v.String()
}

// prefixes are the names of packages and of kafka-go's methods at the beginning of the parts of an error. They say
// where in the code it arose, which is of no use to an operator.
var prefixes = regexp.MustCompile(`(^|: |; |\n|\()(?:(?:config|embedded|format|kafkaconn|lca|minibatch|online|pipeline|sink|snapshot|source|status|topics|tracing|kafka\.\(\*\w+\)\.\w+): )+`)

// Plain takes the names of packages out of the text of an error:
//
//	source: look up topic "events": kafkaconn: metadata: connection refused
//	look up topic "events": metadata: connection refused
func Plain(text string) string { return prefixes.ReplaceAllString(text, "$1") }
