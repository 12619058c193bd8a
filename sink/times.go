package sink

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// TimestampError is a message whose timestamp its topic does not take. Nothing of the Put is visible.
type TimestampError struct {
	Topic         string
	Known         bool          // whether the broker tells what the topic takes
	Before, After time.Duration // AnyTime: without a bound
	Err           error
}

// AnyTime is the bound of a topic that has none, or one of more than 292 years.
const AnyTime time.Duration = math.MaxInt64

// Error says which setting to raise.
func (e *TimestampError) Error() string {
	const remedy = "raise the topic's message.timestamp.before.max.ms or message.timestamp.after.max.ms, or set its message.timestamp.type to LogAppendTime"
	if !e.Known {
		return fmt.Sprintf("topic %s does not take the time of a message: %v: %s", e.Topic, e.Err, remedy)
	}
	return fmt.Sprintf("topic %s takes times %s, and not that of a message: %v: %s", e.Topic, e.takes(), e.Err, remedy)
}

// takes says from when to when a topic takes times.
func (e *TimestampError) takes() string {
	switch {
	case e.Before == AnyTime:
		return fmt.Sprintf("up to %v ahead", e.After)
	case e.After == AnyTime:
		return fmt.Sprintf("from %v ago on", e.Before)
	}
	return fmt.Sprintf("from %v ago to %v ahead", e.Before, e.After)
}

// Unwrap returns the broker's refusal.
func (e *TimestampError) Unwrap() error { return e.Err }

// Topic settings, in milliseconds. Kafka before 3.6 has only the last one.
const (
	timeBefore     = "message.timestamp.before.max.ms"
	timeAfter      = "message.timestamp.after.max.ms"
	timeDifference = "message.timestamp.difference.max.ms"
)

// untimely asks a topic that has refused a timestamp which ones it takes.
func (k *Kafka) untimely(ctx context.Context, topic string, cause error) error {
	e := &TimestampError{Topic: topic, Before: AnyTime, After: AnyTime, Err: cause}
	ctx, cancel := context.WithTimeout(ctx, k.request)
	defer cancel()
	values, err := k.limits.settings(ctx, topic, timeBefore, timeAfter, timeDifference)
	if err != nil {
		return e // no right, or no answer: the bounds are not known
	}
	for name, value := range values {
		ms, err := strconv.ParseInt(value, 10, 64)
		if err != nil || ms > math.MaxInt64/int64(time.Millisecond) {
			continue // without a bound
		}
		d := time.Duration(ms) * time.Millisecond
		if name != timeAfter {
			e.Before, e.Known = min(e.Before, d), true
		}
		if name != timeBefore {
			e.After, e.Known = min(e.After, d), true
		}
	}
	return e
}
