package sink

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
)

// A request that is refused for long is in the log now and then, not once: an operator who looks an hour
// later must see why nothing goes on. Its waits differ, so that partitions do not repeat in step.
func TestLongTroubleIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k := &Kafka{log: slog.New(slog.NewTextHandler(&log, nil)), request: time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var tries []time.Time
		err := k.repeat(ctx, "InitProducerId", func(context.Context) error {
			tries = append(tries, time.Now())
			return kafka.GroupCoordinatorNotAvailable
		})
		if !errors.Is(err, kafka.GroupCoordinatorNotAvailable) {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "a request is repeated"); n < 9 || n > 11 {
			t.Errorf("%d lines in 5 minutes, want one in %v:\n%s", n, sayEvery, &log)
		}
		waits := map[time.Duration]bool{}
		for i := 20; i < len(tries); i++ {
			wait := tries[i].Sub(tries[i-1])
			waits[wait] = true
			if wait < lastWait/2 || wait > 3*lastWait/2 {
				t.Errorf("a wait of %v", wait)
			}
		}
		if len(waits) < 100 {
			t.Errorf("%d different waits of %d", len(waits), len(tries))
		}
	})
}

// Where the time is over while a request waits for its answer, the error is what the attempts before it were told, and not that this one had no answer.
func TestLastAnswerIsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &Kafka{log: slog.New(slog.DiscardHandler), request: time.Minute}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		err := k.repeat(ctx, "AddPartitionsToTxn", func(one context.Context) error {
			if deadline, _ := ctx.Deadline(); time.Until(deadline) > time.Second {
				return kafka.UnknownTopicOrPartition
			}
			<-one.Done()
			return one.Err()
		})
		if !errors.Is(err, kafka.UnknownTopicOrPartition) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
