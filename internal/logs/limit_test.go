package logs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// step is one record at a time of its own.
type step struct {
	at      time.Duration
	level   slog.Level
	message string
	attrs   []any
}

func play(t *testing.T, with []any, steps []step) string {
	t.Helper()
	var out bytes.Buffer
	h := Limit(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}), time.Minute)
	if len(with) > 0 {
		h = slog.New(h).With(with...).Handler()
	}
	for _, s := range steps {
		r := slog.NewRecord(time.Unix(1000, 0).Add(s.at), s.level, s.message, 0)
		r.Add(s.attrs...)
		if err := h.Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestLimit(t *testing.T) {
	refused := func(offset int) []any {
		return []any{"what", fmt.Sprintf("fetch events/3@%d", offset), "error", fmt.Errorf("dial 127.0.0.1:%d: refused", 9092+offset)}
	}
	for name, c := range map[string]struct {
		with  []any
		steps []step
		want  string
	}{
		"the same cause passes once, whatever its numbers": {
			steps: []step{{0, slog.LevelWarn, "retrying", refused(1)}, {time.Second, slog.LevelWarn, "retrying", refused(22)}, {59 * time.Second, slog.LevelWarn, "retrying", refused(333)}},
			want:  "msg=retrying what=\"fetch events/3@1\" error=\"dial 127.0.0.1:9093: refused\"\n",
		},
		"and again after a minute, with what was held back": {
			steps: []step{{0, slog.LevelWarn, "w", nil}, {time.Second, slog.LevelWarn, "w", nil}, {2 * time.Second, slog.LevelWarn, "w", nil}, {61 * time.Second, slog.LevelWarn, "w", nil}, {122 * time.Second, slog.LevelWarn, "w", nil}},
			want:  "msg=w\nmsg=w repeated=2\nmsg=w\n",
		},
		"another error, message or level is another cause": {
			steps: []step{{0, slog.LevelWarn, "w", []any{"error", "a"}}, {0, slog.LevelWarn, "w", []any{"error", "b"}}, {0, slog.LevelWarn, "v", []any{"error", "a"}}, {0, slog.LevelError, "w", []any{"error", "a"}}},
			want:  "msg=w error=a\nmsg=w error=b\nmsg=v error=a\nmsg=w error=a\n",
		},
		"other attributes do not make a cause": {
			steps: []step{{0, slog.LevelWarn, "w", []any{"partition", "a"}}, {0, slog.LevelWarn, "w", []any{"partition", "b"}}},
			want:  "msg=w partition=a\n",
		},
		"news is never held back": {
			steps: []step{{0, slog.LevelInfo, "i", nil}, {0, slog.LevelInfo, "i", nil}, {0, slog.LevelDebug, "d", nil}, {0, slog.LevelDebug, "d", nil}},
			want:  "msg=i\nmsg=i\nmsg=d\nmsg=d\n",
		},
		"the end of a trouble that each partition had is news once": {
			steps: []step{{0, slog.LevelInfo, "recovered", []any{"what", "fetch events/3@1"}}, {0, slog.LevelInfo, "recovered", []any{"what", "fetch events/4@7"}}},
			want:  "msg=recovered what=\"fetch events/3@1\"\n",
		},
		"what With has fixed is part of the cause": {
			with:  []any{"error", "x", "stage", "learn"},
			steps: []step{{0, slog.LevelWarn, "w", nil}, {0, slog.LevelWarn, "w", nil}},
			want:  "msg=w error=x stage=learn\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := play(t, c.with, c.steps); got != c.want {
				t.Errorf("got:\n%swant:\n%s", got, c.want)
			}
		})
	}
}

// A logger made of another one shares what has passed: a hundred partitions are one cause.
func TestLoggersOfOneShare(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(Limit(slog.NewTextHandler(&out, nil), time.Minute))
	for i := range 100 {
		log.With("partition", i).WithGroup("g").Warn("down", "error", "gone")
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

// Causes come from outside in the end, so what is remembered of them is bounded.
func TestCausesAreBounded(t *testing.T) {
	c := &causes{every: time.Minute, seen: map[string]*cause{}}
	for i := range 10 * maxCauses {
		key := squeeze(strings.Repeat("x", i) + "9")
		if len(key) > maxCause || strings.Contains(key, "9") {
			t.Fatalf("%d bytes: %q", len(key), key)
		}
		c.pass(fmt.Sprintf("%d", i), time.Unix(int64(i), 0))
	}
	if len(c.seen) != maxCauses {
		t.Errorf("%d causes are remembered", len(c.seen))
	}
	if passes, _ := c.pass(fmt.Sprint(10*maxCauses-1), time.Unix(10*maxCauses, 0)); passes {
		t.Error("the newest was forgotten instead of the oldest")
	}
}

// What its caller says once passes, whatever was said before it.
func TestUnlimited(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(Limit(slog.NewTextHandler(&out, nil), time.Minute))
	for i := range 3 {
		log.WarnContext(Unlimited(t.Context()), "lost", "from", i)
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}
