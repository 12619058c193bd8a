package main

import (
	"context"

	"github.com/lca-stream/lca-stream/sink"
)

// openSink takes a transactional id over, after the former ids of the same work, with the settings and the link that
// all producers of the process share.
func (s *Topics) openSink(ctx context.Context, id string, former ...string) (*sink.Kafka, error) {
	c := s.sinkConfig(id)
	c.Former = former
	return sink.OpenKafka(ctx, c)
}

// sinkConfig is what a producer of the process is opened with.
func (s *Topics) sinkConfig(id string) sink.KafkaConfig {
	return sink.KafkaConfig{
		Cluster: s.cluster, TransactionalID: id, Compression: s.config.Transform.Compression, Link: s.link, Log: s.log,
		Timeout: s.config.Kafka.TransactionTimeout, Request: s.config.Kafka.RequestTimeout,
	}
}
