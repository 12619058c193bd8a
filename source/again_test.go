package source

import (
	"bytes"
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
