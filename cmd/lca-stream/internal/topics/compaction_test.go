package topics

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// What a start reads of the snapshot topic is bounded by a few segments, however much was published: brokers
// compact what init has made. With their defaults nothing is compacted before a segment of 1 GiB is full.
func TestCompactedTopicsStaySmall(t *testing.T) {
	const (
		slots, versions, bytes = 4, 50, 900_000 // 180 MB in all, 3.6 of them newest
		most                   = 80 << 20       // the open segment, one that waits for the cleaner, what is newest
	)
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs(), ClientID: "topics"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	wants := Wanted(configured("small"))
	b.CreateTopic(t, wants[0].Topic, 1, nil)
	if _, err := Init(t.Context(), cl, wants, Creation{}); err != nil {
		t.Fatal(err)
	}
	topic := wants[2].Topic
	value, random := make([]byte, bytes), rand.NewChaCha8([32]byte{1})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client, fresh := b.Client(), &kafka.Transport{} // knows of topics made a moment ago
	defer fresh.CloseIdleConnections()
	client.Transport = fresh
	for range versions {
		for slot := range slots {
			_, _ = random.Read(value)
			answer, err := client.Produce(ctx, &kafka.ProduceRequest{Topic: topic, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(
				kafka.Record{Key: kafka.NewBytes(fmt.Appendf(nil, "default/%d", slot)), Value: kafka.NewBytes(value)})})
			if err == nil {
				err = answer.Error
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for deadline := time.Now().Add(time.Minute); ; {
		size := b.TopicBytes(t, topic)
		if size > 0 && size < most {
			t.Logf("%d bytes were published, %d are left to read", slots*versions*bytes, size)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes after a minute, want less than %d", size, most)
		}
		<-time.After(100 * time.Millisecond)
	}
}
