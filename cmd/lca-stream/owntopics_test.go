package main

import (
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
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
	s := &Topics{cluster: c, log: slog.New(slog.DiscardHandler)}
	f, err := s.openPartition(t.Context(), source.Partition{Topic: "state"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.DeleteRecords(t, "state", map[int32]int64{0: 2})
	got, err := f.Fetch(t.Context())
	if err != nil || len(got.Records) != 1 || string(got.Records[0].Value) != "c" {
		t.Fatalf("read %v, %v", got.Records, err)
	}
}
