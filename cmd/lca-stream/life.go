package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/source"
)

// alive runs work, and logs its beginning and its end. What is left is what was behind when the metrics of the lag were
// last updated, at most a second before the end.
func (s *system) alive(ctx context.Context, command string, work func(context.Context) error) error {
	c := s.config
	s.log.Info("starting", "command", command, "version", buildInfo().Version, "topic", c.Source.Topic, "group", c.Source.Group, "model_id", c.Snapshot.ModelID)
	said := make(chan struct{})
	unsaid := context.AfterFunc(ctx, func() {
		defer close(said)
		s.log.Info("stopping: what is in progress is finished first", "within", c.ShutdownTimeout.String())
	})
	err := work(ctx)
	if !unsaid() {
		<-said
	}
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		left, by := leftOf(s.stats.Tables().Lag)
		s.log.Info("stopped", "records_left", left, "by_partition", by)
	}
	return err
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
