package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// trouble is an error that lasts for a while; forever if that is 0.
type trouble struct {
	err    error
	lasts  time.Duration
	begun  time.Time
	failed int
}

func (u *trouble) now() error {
	if u.begun.IsZero() {
		u.begun = time.Now()
	}
	if u.lasts > 0 && time.Since(u.begun) >= u.lasts {
		return nil
	}
	u.failed++
	return u.err
}

var (
	errLoading = fmt.Errorf("source: read the committed offsets: gave up after 1m0s: %w", kafka.GroupLoadInProgress)
	errDeleted = fmt.Errorf("source: look up topic: %w: %w", source.ErrNoTopic, kafka.UnknownTopicOrPartition)
	errUnknown = errors.New("not on any list")
)

// A partition is taken up, and a loop goes back to its last commit, however long brokers are away; what does not
// pass by itself ends the process, and a deleted topic does so after brokers have denied it for a while.
func TestPatience(t *testing.T) {
	for _, c := range []struct {
		name string
		trouble
		ends bool // taking up ends with the error
		back bool // … and going back too
	}{
		{"a coordinator loads for ten minutes", trouble{err: errLoading, lasts: 10 * time.Minute}, false, false},
		{"a restarted broker does not know the topic yet", trouble{err: errDeleted, lasts: absentFor / 2}, false, false},
		{"a stage says so of a restarted broker", trouble{err: &reject.Stop{Err: errDeleted}, lasts: absentFor / 2}, false, false},
		{"the topic is deleted", trouble{err: errDeleted}, true, true},
		{"a stage says that the topic is deleted", trouble{err: &reject.Stop{Err: errDeleted}}, true, true},
		{"a right is missing", trouble{err: fmt.Errorf("no right: %w", kafka.TopicAuthorizationFailed)}, true, true},
		{"the offset is gone", trouble{err: &source.OffsetError{Offset: 3, Start: 7, End: 9}, lasts: time.Minute}, true, false},
		{"the log was truncated", trouble{err: &reject.Stop{Err: &source.TruncatedError{Offset: 9, End: 7}}}, true, true},
		{"on no list", trouble{err: errUnknown, lasts: time.Minute}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
				defer cancel()
				up := c.trouble
				s := &scripted{ctx: ctx, member: "m", begun: time.Now()}
				err := (&Transforms{Members: s, Log: fixtures.Quiet(), Open: func(ctx context.Context, p source.Partition, claim source.Claim) (*Loop, error) {
					if err := up.now(); err != nil {
						return nil, err
					}
					return s.open(ctx, p, claim)
				}}).Run(ctx)
				if c.ends != errors.Is(err, c.err) || c.ends == (s.puts > 0) {
					t.Errorf("take up: %v after %v and %d puts", err, time.Since(s.begun), s.puts)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
				defer cancel()
				back := c.trouble
				s := &scripted{script: []error{errors.New("the transaction was aborted")}, opened: []time.Duration{0}}
				l := &Loop{Source: endless{}, Sink: s, Stage: returning{trouble: &back, s: s}, Stats: stats.NewStats(), Log: fixtures.Quiet()}
				err := l.Run(ctx)
				if c.back != errors.Is(err, c.err) || c.back == (s.puts > 0) {
					t.Errorf("go back: %v after %d tries and %d puts", err, back.failed, s.puts)
				}
			})
		})
	}
}

// returning is a stage whose first return is in trouble.
type returning struct {
	idle
	*trouble
	s *scripted
}

func (r returning) Rewind(context.Context) (source.Offsets, error) {
	err := r.now()
	if err == nil {
		r.s.script = nil
	}
	return nil, err
}
