package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// alive runs work, and logs its beginning and its end. What cannot be finished within shutdown_timeout after a signal, because no broker answers or because it takes longer to compute, is no fault: it was not
// committed, and the next start does it again.
func (s *Process) alive(ctx context.Context, command string, work func(context.Context) error) error {
	c := s.config
	s.log.Info("starting", "command", command, "version", buildInfo().Version, "topic", c.Source.Topic, "group", c.Source.Group, "model_id", c.Snapshot.ModelID)
	said := make(chan struct{})
	unsaid := context.AfterFunc(ctx, func() {
		defer close(said)
		s.stats.SetStopping()
		s.log.Info("stopping: what is in progress is finished first", "within", c.ShutdownTimeout.String())
	})
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-after(ctx, c.ShutdownTimeout):
		s.log.Warn("what was in progress takes longer than shutdown_timeout and is given up; none of it is committed, and the next start does it again", "within", c.ShutdownTimeout.String())
		return nil
	}
	if !unsaid() {
		<-said
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		s.log.Warn("what was in progress could not be finished; none of it is committed, and the next start does it again", "error", err)
		err = nil
	}
	if err == nil {
		s.log.Info("stopped", s.left(context.WithoutCancel(ctx), command)...)
	}
	return err
}

// after returns a channel that is closed some time after ctx has ended.
func after(ctx context.Context, d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(d, func() { close(over) }) })
	return over
}

// leftWithin is how long the brokers have to say what is left.
const leftWithin = 2 * time.Second

// left asks what is left of the partitions that this process has had: records that are not committed.
func (s *Process) left(ctx context.Context, command string) []any {
	ctx, cancel := context.WithTimeout(ctx, leftWithin)
	defer cancel()
	lag, err := s.uncommitted(ctx, command)
	if err != nil {
		return []any{"records_left", "not known: no broker says it"}
	}
	if len(lag) == 0 {
		return nil // it has had no partition
	}
	left, by := leftOf(lag)
	about := []any{"records_left", left}
	if by != "" {
		about = append(about, "by_partition", by)
	}
	return about
}

func (s *Process) uncommitted(ctx context.Context, command string) (map[source.Partition]int64, error) {
	group, parts := s.config.Source.Group, s.stats.Owned("transform")
	if command == "learn" {
		all, err := s.input(ctx)
		if err != nil {
			return nil, err
		}
		group, parts = learnGroup(s.config), all
	}
	committed, err := source.CommittedSoFar(ctx, s.cluster, group, parts)
	if err != nil {
		return nil, err
	}
	ends, err := source.ListOffsets(ctx, s.cluster, parts, source.Latest)
	lag := map[source.Partition]int64{}
	for _, p := range parts {
		lag[p] = max(ends[p]-max(committed[p].Next, 0), 0)
	}
	return lag, err
}

// leftOf returns the number of records left, and that of each partition that has any.
func leftOf(lag map[source.Partition]int64) (left int64, by string) {
	const shown = 40
	var each []string
	for _, p := range slices.SortedFunc(maps.Keys(lag), source.Partition.Compare) {
		if left += lag[p]; lag[p] > 0 {
			each = append(each, fmt.Sprintf("%d=%d", p.ID, lag[p]))
		}
	}
	if more := len(each) - shown; more > 0 {
		each = append(each[:shown], fmt.Sprintf("and %d more partitions", more))
	}
	return left, strings.Join(each, ", ")
}
