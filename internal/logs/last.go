package logs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

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
