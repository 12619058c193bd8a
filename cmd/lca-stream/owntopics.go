package main

import (
	"context"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// Reading our own topics: to an end, from an offset, or backwards from the newest record.

// patience is how long brokers may be away: a process that gave up would only be started again.
const patience = 10 * 365 * 24 * time.Hour

// end returns source.Latest or source.LatestStable of the single partition of one of our topics.
func (s *Topics) end(topic string, at source.At) func(context.Context) (int64, error) {
	p := source.Partition{Topic: topic}
	return func(ctx context.Context) (int64, error) { return s.endOf(ctx, p, at) }
}

// endOf returns an end of a partition.
func (s *Topics) endOf(ctx context.Context, p source.Partition, at source.At) (int64, error) {
	o, err := source.ListOffsets(ctx, s.cluster, []source.Partition{p}, at)
	return o[p], err
}

// readBack reads one of our topics to one of its ends.
func (s *Topics) readBack(topic string, to source.At) *pipeline.ReadBack {
	return s.readBackOf(source.Partition{Topic: topic}, to)
}

// readBackOf reads one partition of one of our topics to one of its ends.
func (s *Topics) readBackOf(p source.Partition, to source.At) *pipeline.ReadBack {
	openAt := func(ctx context.Context, from int64) (pipeline.TopicReader, error) {
		return s.openPartition(ctx, p, from)
	}
	return &pipeline.ReadBack{
		Topic: p.Topic, OpenAt: openAt, Log: s.log,
		Open:  func(ctx context.Context) (pipeline.TopicReader, error) { return openAt(ctx, 0) },
		End:   func(ctx context.Context) (int64, error) { return s.endOf(ctx, p, to) },
		Begin: func(ctx context.Context) (int64, error) { return s.endOf(ctx, p, source.Earliest) },
		TopicID: func(ctx context.Context) (string, error) {
			topic, err := source.LookUp(ctx, s.cluster, p.Topic)
			return topic.ID, err
		},
	}
}

// openLog opens the single partition of one of our topics from its beginning.
func (s *Topics) openLog(topic string) func(context.Context) (pipeline.TopicReader, error) {
	at := s.openLogAt(topic)
	return func(ctx context.Context) (pipeline.TopicReader, error) { return at(ctx, 0) }
}

// openLogAt opens it from an offset, or from its beginning if that is later.
func (s *Topics) openLogAt(topic string) func(context.Context, int64) (pipeline.TopicReader, error) {
	p := source.Partition{Topic: topic}
	return func(ctx context.Context, from int64) (pipeline.TopicReader, error) {
		return s.openPartition(ctx, p, from)
	}
}

// openPartition opens a partition of one of our topics.
func (s *Topics) openPartition(ctx context.Context, p source.Partition, from int64) (*source.Fetcher, error) {
	return s.openPartitionFor(ctx, p, from, 0)
}

// openPartitionFor is openPartition for responses of at most some bytes; 0: the default.
func (s *Topics) openPartitionFor(ctx context.Context, p source.Partition, from int64, most int) (*source.Fetcher, error) {
	o, err := source.ListOffsets(ctx, s.cluster, []source.Partition{p}, source.Earliest)
	if err != nil {
		return nil, err
	}
	return source.NewFetcher(source.FetcherConfig{
		Cluster: s.cluster, Partition: p, Offset: max(o[p], from), MaxBytes: most, RetryFor: patience, PassGaps: true,
		Remedy: "what it held is gone: start again, which says what is missing and what to do",
	}), nil
}
