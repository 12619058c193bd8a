package kafkatest_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"go.uber.org/goleak"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// startsUp are errors of a cluster that has just started: not all replicas are in sync yet, and no leader of a partition is known yet.
func startsUp(err error) bool {
	return errors.Is(err, kafka.NotEnoughReplicas) || errors.Is(err, kafka.NotLeaderForPartition) || errors.Is(err, kafka.LeaderNotAvailable)
}

// produce writes a record.
func produce(t *testing.T, c *kafka.Client, topic, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		res, err := c.Produce(ctx, &kafka.ProduceRequest{
			Topic: topic, RequiredAcks: kafka.RequireAll,
			Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte(value))}),
		})
		if err == nil {
			err = res.Error
		}
		switch {
		case err == nil:
			return
		case !startsUp(err) || ctx.Err() != nil:
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func first(t *testing.T, c *kafka.Client, topic string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	fetch := func() (*kafka.FetchResponse, error) {
		res, err := c.Fetch(ctx, &kafka.FetchRequest{Topic: topic, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 5 * time.Second})
		if err == nil {
			err = res.Error
		}
		return res, err
	}
	res, err := fetch()
	for startsUp(err) && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		res, err = fetch()
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := res.Records.ReadRecord()
	if err != nil {
		t.Fatal(err)
	}
	value, err := io.ReadAll(r.Value)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

// What was acknowledged outlives a kill and a stop, on every kind of broker, at the same address.
func TestRestartKeepsData(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("github.com/lca-stream/lca-stream/internal/kafkatest.StartProcess.func1")) // the shared brokers
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		b.CreateTopic(t, "events", 2, map[string]string{"max.message.bytes": "2000000"})
		produce(t, b.Client(), "events", "before")
		for _, down := range []func(...int){b.Kill, b.Stop} {
			down()
			b.Restart()
			if got := first(t, b.Client(), "events"); got != "before" {
				t.Fatalf("after a restart the first value is %q", got)
			}
		}
	})
}

// The broker that only particular tests ask for starts, keeps what it acknowledged, and serves it.
func TestKafka38(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Kafka38)
	b.CreateTopic(t, "events", 2, nil)
	produce(t, b.Client(), "events", "before")
	b.Kill()
	b.Restart()
	if got := first(t, b.Client(), "events"); got != "before" {
		t.Fatalf("after a restart the first value is %q", got)
	}
}

// A cluster of three serves on when the leader of everything is killed.
func TestThreeNodes(t *testing.T) {
	b := kafkatest.StartN(t, kafkatest.Kafka41, 3)
	b.CreateTopic(t, "events", 3, nil)
	produce(t, b.Client(), "events", "before")
	b.Kill(0)
	deadline := time.Now().Add(60 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		res, err := b.Client().Fetch(ctx, &kafka.FetchRequest{Topic: "events", MinBytes: 1, MaxBytes: 1 << 20, MaxWait: time.Second})
		cancel()
		if err == nil && res.Error == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no leader after one of three nodes was killed: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
