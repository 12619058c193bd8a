package doctor

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/offsets"
)

// The first group of a cluster makes the broker create and load a topic, which is no fault of the cluster.
func TestWhenLoaded(t *testing.T) {
	for _, c := range []struct {
		answers []error
		want    error
	}{
		{[]error{kafka.GroupCoordinatorNotAvailable, fmt.Errorf("ask: %w", kafka.NotCoordinatorForGroup), nil}, nil},
		{[]error{kafka.GroupLoadInProgress, kafka.GroupAuthorizationFailed}, kafka.GroupAuthorizationFailed},
		{[]error{kafka.TransactionalIDAuthorizationFailed}, kafka.TransactionalIDAuthorizationFailed},
	} {
		asked := 0
		err := whenLoaded(t.Context(), func(context.Context) error {
			asked++
			return c.answers[asked-1]
		})
		if !errors.Is(err, c.want) || asked != len(c.answers) {
			t.Errorf("%v: %v after %d requests", c.answers, err, asked)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := whenLoaded(ctx, func(context.Context) error { return kafka.NotCoordinatorForGroup }); !errors.Is(err, kafka.NotCoordinatorForGroup) {
		t.Errorf("when the time is up: %v", err)
	}
}

// A learner alone has begun, too.
func TestWhatHasBegun(t *testing.T) {
	lag := func(n int64) offsets.Place { return offsets.Place{Lag: &n} }
	for _, c := range []struct {
		parts []offsets.Partition
		want  string
	}{
		{[]offsets.Partition{{}, {}}, "nothing has begun yet: the first start reads from earliest"},
		{[]offsets.Partition{{Transform: lag(3), Learn: lag(9)}, {Transform: lag(4)}}, "2 of 2 partitions begun, lag 7"},
		{[]offsets.Partition{{Learn: lag(0)}, {}}, "the learner has begun 1 of 2 partitions, lag 0; no transform has: its first start reads from earliest"},
	} {
		if got := begun(c.parts, "earliest"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
