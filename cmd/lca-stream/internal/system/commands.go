package system

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// commands are what people say of episodes; nil: there are none.
func (s *Topics) commands() *learn.Commands {
	if !s.Config.Accepts() {
		return nil
	}
	topic := s.Config.Alarms.Topic
	e, of := &sharedEnds{topics: s, topic: topic}, &sharedEnds{topics: s, topic: s.Config.Source.Topic}
	return &learn.Commands{
		Topic: topic, Owner: s.Ours(), Ends: e.ends, SourceEnds: of.ends,
		Open: func(ctx context.Context, p source.Partition, from int64) (checkpoint.TopicReader, error) {
			return s.openPartition(ctx, p, from, 0, time.Nanosecond) // learning waits for it: what cannot be read at once is read later
		},
	}
}

// Tell writes a record about an episode to the topic of alarms, as those who route records do: in no transaction.
func (s *Topics) Tell(ctx context.Context, key string, value any) error {
	alarms, err := s.Alarms(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	answer, err := s.Cluster.Client().Produce(ctx, &kafka.ProduceRequest{
		Addr: s.Cluster.Addr(), Topic: alarms.Topic, Partition: int(alarms.To(key)), RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(kafka.Record{
			Time: time.Now(), Key: kafka.NewBytes([]byte(key)), Value: kafka.NewBytes(text),
			Headers: []kafka.Header{{Key: reject.ContentType, Value: []byte("application/json")}},
		}),
	})
	if err == nil {
		err = answer.Error
	}
	if errors.Is(err, kafka.TopicAuthorizationFailed) {
		return &kafkaconn.Error{Err: err, Remedy: "the user needs WRITE on topic " + alarms.Topic}
	}
	return s.Cluster.Explain(err)
}

// sharedEnds are the ends of a topic, which all learners of a process ask for between any two batches, and which are looked up once a second.
type sharedEnds struct {
	topics *Topics
	topic  string

	mu   sync.Mutex
	at   time.Time
	last source.Offsets
	err  error
}

const (
	endsEvery = time.Second
	endsFor   = 5 * time.Second // a learner waits for them
)

func (e *sharedEnds) ends(ctx context.Context) (source.Offsets, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.at) < endsEvery {
		return e.last, e.err
	}
	ctx, cancel := context.WithTimeout(ctx, endsFor)
	defer cancel()
	parts, err := e.topics.Partitions(ctx, e.topic)
	if err == nil {
		e.last, err = source.ListOffsets(ctx, e.topics.Cluster, parts, source.LatestStable)
	}
	e.at, e.err = time.Now(), err
	return e.last, err
}
