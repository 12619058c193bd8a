package system

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Records of our own topics may go between the look where a topic begins and the first read of it: by retention where it has one, on the
// embedded broker by compaction.
func TestOwnTopicWhoseBeginningMoves(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "state", 1, nil)
	p, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, value := range []string{"a", "b", "c"} {
		if err := p.ProduceSync(t.Context(), &kgo.Record{Topic: "state", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := &Topics{Config: &config.Config{}, Cluster: c, Log: slog.New(slog.DiscardHandler)}
	f, err := s.OpenPartition(t.Context(), source.Partition{Topic: "state"}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.DeleteRecords(t, "state", map[int32]int64{0: 2})
	got, err := f.Fetch(t.Context())
	if err != nil || len(got.Records) != 1 || string(got.Records[0].Value) != "c" {
		t.Fatalf("read %v, %v", got.Records, err)
	}
}

// What people accept is read without another try: the learner would wait each time, for as long as a right that is missing may return.
func TestCommandsAreNotWaitedFor(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "alarms", 1, nil)
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	cl.Allow()
	set := config.Default()
	set.Alarms.Topic = "alarms"
	s := &Topics{Config: set, Cluster: cl, Log: slog.New(slog.DiscardHandler)}
	r, err := s.commands().Open(t.Context(), source.Partition{Topic: "alarms"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	denied := b.Embedded().Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if _, err := r.Fetch(t.Context()); !errors.Is(err, kafka.TopicAuthorizationFailed) || denied.Hits() != 1 {
		t.Errorf("after %d requests: %v", denied.Hits(), err)
	}
}

// The largest message that we write, however well it compresses, is read back; what is too large for a topic of states is passed over,
// which is said once per topic.
func TestLargestMessageIsReadBack(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var log bytes.Buffer
	s := &Topics{Config: &config.Config{}, Cluster: cl, Log: slog.New(slog.NewTextHandler(&log, nil))}
	s.Config.Transform.Topic, s.Config.Transform.StateTopic, s.Config.Snapshot.Topic, s.Config.Checkpoint.Topic = "out", "states", "snapshots", "checkpoints"
	s.Config.Alarms.Topic = "alarms"
	k, err := sink.OpenKafka(t.Context(), sink.KafkaConfig{Cluster: cl, TransactionalID: "large", Compress: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	zeros := make([]byte, sink.MostMessage-1<<10)
	for topic, want := range map[string]int{"out": 2, "states": 1, "alarms": 1} {
		b.CreateTopic(t, topic, 1, nil)
		for _, value := range [][]byte{zeros, []byte("small")} {
			if err := k.Put(t.Context(), []sink.Message{{Topic: topic, Value: value}}, source.Claim{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // as take-overs do
			read := 0
			err := s.ReadBackOf(source.Partition{Topic: topic}, source.Latest).Read(t.Context(), func(got *source.Fetched) error {
				read += len(got.Records)
				return nil
			})
			if err != nil || read != want {
				t.Errorf("%s: %d records were read, want %d: %v", topic, read, want, err)
			}
		}
		if said := strings.Count(log.String(), "topic="+topic+" partition=0 offset=0 to=0 error="); said != 2-want {
			t.Errorf("%s: said %d times, want %d:\n%s", topic, said, 2-want, &log)
		}
	}
}

// Each partition has a decoder of its own; what they leave out is said once.
func TestLeftOutIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	s := &Topics{Log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 3 {
		s.leftOut(format.LeftOut{Of: "plant.Node", Paths: []string{"next", "more"}})
		s.leftOut(format.LeftOut{Of: "plant.Other", Paths: []string{"next"}, More: 7})
	}
	for _, want := range []string{`schema=plant.Node fields="next, more"`, "schema=plant.Other fields=next and_more=7"} {
		if strings.Count(log.String(), "level=WARN") != 2 || strings.Count(log.String(), want) != 1 {
			t.Errorf("want %q once:\n%s", want, &log)
		}
	}
}

// Times are written as people write them; what has no zone is UTC, and a duration counts back from now.
func TestParsePlace(t *testing.T) {
	now := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-11-22":                time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC),
		"2026-11-22T12:30":          time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC),
		"2026-11-22 12:30:05":       time.Date(2026, 11, 22, 12, 30, 5, 0, time.UTC),
		"2026-11-22T12:00:00+02:00": time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC),
		"2h":                        now.Add(-2 * time.Hour),
		"90m":                       now.Add(-90 * time.Minute),
	} {
		p, err := ParsePlace("--from", text, now)
		if err != nil || !p.time.Equal(want) {
			t.Errorf("%s is %v, %v; want %v", text, p.time, err, want)
		}
	}
	for _, text := range []string{"-2h", "22.11.2026", "2026-13-01", ""} {
		if p, err := ParsePlace("--from", text, now); err == nil {
			t.Errorf("%q is taken for %+v", text, p)
		}
	}
}
