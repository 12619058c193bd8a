package source_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// slowRegistry answers once it is open.
type slowRegistry struct{ open chan struct{} }

func (r slowRegistry) Schema(ctx context.Context, id int) (*format.Schema, error) {
	select {
	case <-r.open:
		return &format.Schema{ID: id, Type: "a type of its own"}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A message whose schema is not known yet does not hold up what came before it, and is read once it is known.
func TestABatchDoesNotWaitForASchema(t *testing.T) {
	broker := kafkatest.Start(t, kafkatest.Embedded)
	broker.CreateTopic(t, "t", 1, nil)
	p := producer(t, broker.Addrs())
	write(t, p, record("t", 0, "", `{"a":1}`), record("t", 0, "", `{"a":2}`), record("t", 0, "", "\x00\x00\x00\x00\x07body"), record("t", 0, "", `{"a":3}`))
	r := slowRegistry{make(chan struct{})}
	k, err := source.OpenKafka(within(t), source.KafkaConfig{
		Cluster: open(t, broker.Addrs()...), Start: source.Offsets{{Topic: "t"}: 0}, Decoder: newDecoder(t, format.Config{Registry: r}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}()
	b, err := k.Read(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if b.Rows() != 2 || b.Claim.Next[source.Partition{Topic: "t"}] != 2 {
		t.Errorf("the first batch has %d rows, claim %v", b.Rows(), b.Claim.Next)
	}
	b.Release()
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	if _, err := k.Read(ctx); err == nil {
		t.Error("the message was read without its schema")
	}
	if err := k.Seek(within(t), nil); err != nil {
		t.Fatal(err)
	}
	close(r.open)
	if b, err = k.Read(within(t)); err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if len(b.Messages) != 2 || b.Messages[0].Err == nil || b.Messages[0].Err.Code != format.CodeSchemaInvalid || b.Rows() != 1 {
		t.Errorf("with the schema: %+v", b.Messages)
	}
}

// listeningRegistry says what it is asked for, has no schema, and answers once it is open.
type listeningRegistry struct {
	asked chan int
	open  chan struct{}
}

func (r listeningRegistry) Schema(ctx context.Context, id int) (*format.Schema, error) {
	r.asked <- id
	select {
	case <-r.open:
		return nil, format.ErrNoSchema
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// The ids of messages behind one that waits for its schema are asked for at the same time: each that the registry does not know takes seconds.
func TestUnknownSchemasAreAskedForTogether(t *testing.T) {
	const messages = 20
	broker := kafkatest.Start(t, kafkatest.Embedded)
	broker.CreateTopic(t, "t", 1, nil)
	p := producer(t, broker.Addrs())
	var all []*kgo.Record
	for i := range messages {
		all = append(all, record("t", 0, "", "\x00\x00\x00\x01"+string(rune('a'+i))+"body"))
	}
	write(t, p, all...)
	r := listeningRegistry{make(chan int, 1000), make(chan struct{})}
	k, err := source.OpenKafka(within(t), source.KafkaConfig{
		Cluster: open(t, broker.Addrs()...), Start: source.Offsets{{Topic: "t"}: 0}, Decoder: newDecoder(t, format.Config{Registry: r}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}()
	go func() {
		defer close(r.open)
		seen := map[int]bool{}
		for ctx := within(t); len(seen) < messages; {
			select {
			case id := <-r.asked:
				seen[id] = true
			case <-ctx.Done():
				t.Errorf("%d of %d ids were asked for", len(seen), messages)
				return
			}
		}
	}()
	read := 0
	for read < messages {
		b, err := k.Read(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range b.Messages {
			if m.Err == nil || m.Err.Code != format.CodeSchemaUnknown {
				t.Errorf("%+v", m)
			}
		}
		read += len(b.Messages)
		b.Release()
	}
}
