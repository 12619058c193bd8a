package source_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
)

// With IdleWait a pause is a batch without messages whose claim stays where it was, and what comes
// after it is not lost.
func TestReadOfAPause(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "quiet", 1, nil)
	p := source.Partition{Topic: "quiet"}
	k, err := source.OpenKafka(within(t), source.KafkaConfig{
		Cluster: open(t, b.Addrs()...), Start: source.Offsets{p: 0}, GatherWait: time.Millisecond, IdleWait: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	batch, err := k.Read(within(t))
	if err != nil || len(batch.Messages) != 0 {
		t.Fatalf("%d messages, %v", len(batch.Messages), err)
	}
	if diff := cmp.Diff(source.Offsets{p: 0}, batch.Claim.Next); diff != "" {
		t.Error(diff)
	}
	write(t, producer(t, b.Addrs()), record("quiet", 0, "k", "v"))
	for ctx := within(t); len(batch.Messages) == 0; {
		if batch, err = k.Read(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(batch.Messages[0].Key); got != "k" || batch.Claim.Next[p] != 1 {
		t.Errorf("key %q, claim %v", got, batch.Claim.Next)
	}
}
