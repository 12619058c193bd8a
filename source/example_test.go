package source_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lca-stream/lca-stream/internal/embedded"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// All rows of a topic, from its beginning to the end that it has now.
func Example() {
	ctx := context.Background()
	cluster, stop := broker("temperatures", `{"room": "kitchen", "celsius": 20.5}`, `[{"room": "attic", "celsius": 17}, {"room": "cellar", "celsius": 12}]`, `{"celsius"`)
	defer stop()

	partitions, err := source.Partitions(ctx, cluster, "temperatures")
	if err != nil {
		log.Fatal(err)
	}
	start, err := source.ListOffsets(ctx, cluster, partitions, source.Earliest)
	if err != nil {
		log.Fatal(err)
	}
	end, err := source.ListOffsets(ctx, cluster, partitions, source.Latest)
	if err != nil {
		log.Fatal(err)
	}
	decoder, err := format.NewDecoder(format.Config{})
	if err != nil {
		log.Fatal(err)
	}
	k, err := source.OpenKafka(ctx, source.KafkaConfig{Cluster: cluster, Start: start, End: end, Decoder: decoder})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()
	for {
		batch, err := k.Read(ctx)
		if errors.Is(err, source.ErrEnd) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range batch.Messages {
			if m.Err != nil {
				fmt.Printf("%s@%d cannot be read: %s\n", m.Partition, m.Offset, m.Err.Code)
				continue
			}
			fmt.Printf("%s@%d: room %v, celsius %v\n", m.Partition, m.Offset, m.Record.Column(0), m.Record.Column(1))
		}
		batch.Release()
	}
	// Output:
	// temperatures/0@0: room ["kitchen"], celsius [20.5]
	// temperatures/0@1: room ["attic" "cellar"], celsius [17 12]
	// temperatures/0@2 cannot be read: json_invalid
}

// Files are read as a topic is: each is a partition, and its batches have their number as offset.
func ExampleOpenFiles() {
	ctx := context.Background()
	files, err := source.OpenFiles([]string{"format/testdata/files/replaced.arrows", "format/testdata/files/zstd.parquet"}, format.FileConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer files.Close()
	fmt.Println(files.Rows(), "rows")
	for {
		batch, err := files.Read(ctx)
		if errors.Is(err, source.ErrEnd) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		m := batch.Messages[0]
		fmt.Printf("%s@%d: %d rows, then offset %d\n", m.Partition, m.Offset, batch.Rows(), batch.Claim.Next[m.Partition])
		batch.Release()
	}
	// Output:
	// 259 rows
	// replaced.arrows/0@0: 3 rows, then offset 1
	// replaced.arrows/0@1: 3 rows, then offset 2
	// replaced.arrows/0@2: 3 rows, then offset 3
	// zstd.parquet/1@0: 100 rows, then offset 1
	// zstd.parquet/1@1: 100 rows, then offset 2
	// zstd.parquet/1@2: 50 rows, then offset 3
}

// broker is an embedded broker in place of a Kafka cluster, with a topic that has these values.
func broker(topic string, values ...string) (cluster *kafkaconn.Cluster, stop func()) {
	b, err := embedded.Start(embedded.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := b.CreateTopic(topic, 1, nil); err != nil {
		log.Fatal(err)
	}
	if cluster, err = kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs()}); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	out, err := sink.OpenKafka(ctx, sink.KafkaConfig{Cluster: cluster, TransactionalID: "example"})
	if err != nil {
		log.Fatal(err)
	}
	var messages []sink.Message
	for _, v := range values {
		messages = append(messages, sink.Message{Topic: topic, Value: []byte(v)})
	}
	if err := errors.Join(out.Put(ctx, messages, source.Claim{}), out.Close()); err != nil {
		log.Fatal(err)
	}
	return cluster, func() {
		cluster.Close()
		b.Close()
	}
}
