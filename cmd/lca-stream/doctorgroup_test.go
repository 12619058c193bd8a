package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/segmentio/kafka-go"
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
