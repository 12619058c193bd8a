package main

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// historyFlag adds the flag of the commands that learn.
func historyFlag(flags *pflag.FlagSet) *bool {
	return flags.Bool("from-history", false, "at the first start of a model learn all that is there, without skipping rows, before the first version is published")
}

// checkHistory refuses --from-history where there is no history to begin with.
func checkHistory(c *config.Config) error {
	if err := notKeyed(c, "--from-history", "each model begins with the first row of its value that is read (`lca-stream replay` learns the history of all values before)"); err != nil {
		return err
	}
	if c.Source.StartOffset == config.StartLatest {
		return usageError("--from-history: source.start_offset is latest, which leaves the history out: set it to earliest")
	}
	return nil
}

// warnEager warns that transforms do not wait for the history: a learner cannot tell those of other processes.
func (s *learning) warnEager() {
	if u := s.config.UntilModel(); u != pipeline.Hold {
		s.log.Warn("transforms of this configuration do not wait until the history is learnt; set transform.until_model to hold", "until_model", u)
	}
}

// backlog returns where the records end that a learner of these partitions learns before its first version.
func backlog(s *Topics, parts []source.Partition) func(context.Context) (source.Offsets, error) {
	at := source.LatestStable // what is behind it may be taken back
	if s.config.Source.IsolationLevel == config.ReadUncommitted {
		at = source.Latest
	}
	return func(ctx context.Context) (source.Offsets, error) {
		return source.ListOffsets(ctx, s.cluster, parts, at)
	}
}

// learnSource opens the source of a learner: what comes, or the history before it. The template has all but the range.
type learnSource struct {
	system   *Process
	template source.KafkaConfig
	epochs   func(source.Offsets) source.Epochs

	lag atomic.Pointer[func() map[source.Partition]source.Lag] // of what is open
}

// open begins at start; end is that of the history, nil if none is to be learnt first.
func (l *learnSource) open(ctx context.Context, start, end source.Offsets) (pipeline.Source, error) {
	if end == nil {
		return l.live(ctx, start)
	}
	return &pipeline.History{Past: l.past, Live: l.live, End: end, Next: start.Clone(), Claim: l.template.Claim}, nil
}

func (l *learnSource) live(ctx context.Context, start source.Offsets) (pipeline.Source, error) {
	k := l.template
	k.Start, k.Epochs = start, l.epochs(start)
	src, err := l.system.reader(ctx, k, l.system.featuresOnly())
	if err != nil {
		return nil, err
	}
	lag := src.Lag
	l.lag.Store(&lag)
	return src, nil
}

func (l *learnSource) past(ctx context.Context, from, to source.Offsets) (pipeline.Source, error) {
	k := l.template
	k.Epochs = l.epochs(from)
	merged, lag, err := l.system.merged(ctx, k, from, to)
	if err != nil {
		return nil, err
	}
	l.lag.Store(&lag)
	return merged, nil
}

// Lag returns how far each partition is behind; none before the source is open.
func (l *learnSource) Lag() map[source.Partition]source.Lag {
	lag := l.lag.Load()
	if lag == nil {
		return nil
	}
	return (*lag)()
}

// behind returns the number of records up to the ends of the partitions.
func (l *learnSource) behind() (records int64) {
	for _, lag := range l.Lag() {
		records += max(lag.High-lag.Next, 0)
	}
	return records
}

// aheadMost bounds the partitions that are read ahead: more of them are decoded no faster, and each holds a batch.
const aheadMost = 32

// merged opens a reader for each partition of a range, merged by time, and returns their lags as well. k has all but the
// range.
func (s *Topics) merged(ctx context.Context, k source.KafkaConfig, from, to source.Offsets) (*pipeline.Merge, func() map[source.Partition]source.Lag, error) {
	readers, each := map[source.Partition]pipeline.Source{}, []*source.Kafka{}
	for p, start := range from {
		k.Start, k.End = source.Offsets{p: start}, source.Offsets{p: to[p]}
		r, err := s.reader(ctx, k, withValues(s.featuresOnly(), s.config.Model.By))
		if err != nil {
			return nil, nil, errors.Join(err, pipeline.NewMerge(readers).Close())
		}
		if readers[p] = r; len(readers) <= aheadMost {
			readers[p] = pipeline.ReadAhead(r)
		}
		each = append(each, r)
	}
	lag := func() map[source.Partition]source.Lag {
		all := map[source.Partition]source.Lag{}
		for _, r := range each {
			maps.Copy(all, r.Lag())
		}
		return all
	}
	return pipeline.NewMerge(readers), lag, nil
}
