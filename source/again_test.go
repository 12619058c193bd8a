package source

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// An election is over before it is worth a line; a longer trouble is logged, and so is its end.
func TestShortTroubleIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c, err := kafkaconn.Open(kafkaconn.Config{Brokers: []string{"127.0.0.1:1"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		for _, long := range []time.Duration{sayAfter / 2, 3 * sayAfter} {
			r := newRetry(c, time.Hour, "fetch events/3@1042")
			for began := time.Now(); time.Since(began) < long; {
				if err := r.again(t.Context(), kafka.NotLeaderForPartition); err != nil {
					t.Fatal(err)
				}
			}
			r.succeeded()
			said := strings.Contains(log.String(), "retrying") && strings.Contains(log.String(), "recovered")
			if said != (long > sayAfter) {
				t.Errorf("after %v: %q", long, &log)
			}
		}
	})
}

// A broker that is away for long is in the log now and then, not once.
func TestLongTroubleIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c, err := kafkaconn.Open(kafkaconn.Config{Brokers: []string{"127.0.0.1:1"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		r := newRetry(c, time.Hour, "fetch events/3@1042")
		for began := time.Now(); time.Since(began) < 5*time.Minute; {
			if err := r.again(t.Context(), kafka.GroupCoordinatorNotAvailable); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(log.String(), "retrying"); n < 9 || n > 11 {
			t.Errorf("%d lines in 5 minutes, want one in %v:\n%s", n, sayEvery, &log)
		}
	})
}

// An answer that another try follows is the end of a trouble: what brokers do wrong after that has all its time, and is neither given up at
// once, as if it had begun before time did, nor because of an older trouble.
func TestTroubleBeginsAfterAnAnswer(t *testing.T) {
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: []string{"127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const limit = time.Minute
	for name, before := range map[string]func(*testing.T, *retry){
		"an answer": func(t *testing.T, r *retry) {
			if err := r.answered(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"a trouble, and long waiting": func(t *testing.T, r *retry) {
			if err := r.again(t.Context(), io.EOF); err != nil {
				t.Fatal(err)
			}
			for began := time.Now(); time.Since(began) < 2*limit; {
				if err := r.answered(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRetry(c, limit, "join group")
				before(t, r)
				began := time.Now()
				for err = nil; err == nil; {
					err = r.again(t.Context(), io.EOF)
				}
				if lasted := time.Since(began); lasted < limit || lasted > limit+2*maxBackoff || !strings.Contains(err.Error(), "gave up after 1m") {
					t.Errorf("given up after %v, want %v: %v", lasted, limit, err)
				}
			})
		})
	}
}

// A right that a process had may be missing for a while, as when rights are replaced; one that it never had ends it at once, and so does one that
// stays away. Time without it counts from the first refusal that follows an answer.
func TestRightsThatAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, missing := range []error{kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.TransactionalIDAuthorizationFailed} {
			c, err := kafkaconn.Open(kafkaconn.Config{Brokers: []string{"127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if err := newRetry(c, time.Hour, "look up offsets").again(t.Context(), missing); !errors.Is(err, missing) {
				t.Errorf("at the start: %v, want %v", err, missing)
			}
			c.Allow()
			r := newRetry(c, time.Hour, "look up offsets")
			for range 3 {
				began := time.Now()
				var err error
				for err == nil && time.Since(began) < kafkaconn.RightsGrace-maxBackoff {
					err = r.again(t.Context(), missing)
				}
				if err != nil {
					t.Errorf("%v, after %v", err, time.Since(began))
				}
				r.succeeded()
			}
			began := time.Now()
			for err = nil; err == nil; {
				err = r.again(t.Context(), missing)
			}
			if took := time.Since(began); !errors.Is(err, missing) || took < kafkaconn.RightsGrace || took > kafkaconn.RightsGrace+maxBackoff {
				t.Errorf("one that stays away: %v after %v", err, took)
			}
			if err := newRetry(c, time.Hour, "x").again(t.Context(), kafka.ClusterAuthorizationFailed); err == nil {
				t.Error("a right that is none of the reader's is waited for")
			}
		}
	})
}
