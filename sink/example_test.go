package sink_test

import (
	"context"
	"fmt"
	"log"

	"github.com/lca-stream/lca-stream/internal/embedded"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Three input records become two output messages. The messages and the next input offset are committed in one
// transaction, so a restart at that offset neither repeats nor loses an output.
func Example() {
	ctx := context.Background()
	broker, err := embedded.Start(embedded.Config{}) // in place of a Kafka cluster
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	for _, topic := range []string{"orders", "totals"} {
		if err := broker.CreateTopic(topic, 1, nil); err != nil {
			log.Fatal(err)
		}
	}
	cluster, err := kafkaconn.Open(kafkaconn.Config{Brokers: broker.Addrs()})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	k, err := sink.OpenKafka(ctx, sink.KafkaConfig{Cluster: cluster, TransactionalID: "totals-0"})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()
	orders := source.Partition{Topic: "orders", ID: 0}
	err = k.Put(ctx,
		[]sink.Message{{Topic: "totals", Key: []byte("anna"), Value: []byte("30")}, {Topic: "totals", Key: []byte("ben"), Value: []byte("12")}},
		source.Claim{Group: "totals", Generation: -1, Next: source.Offsets{orders: 3}}) // −1: no consumer group protocol
	if err != nil {
		log.Fatal(err)
	}

	committed, err := source.Committed(ctx, cluster, "totals", []source.Partition{orders})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("next offset of", orders, "is", committed[orders].Next)
	totals := source.Partition{Topic: "totals", ID: 0}
	r, err := source.OpenKafka(ctx, source.KafkaConfig{Cluster: cluster, Start: source.Offsets{totals: 0}, End: source.Offsets{totals: 2}})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for {
		batch, err := r.Read(ctx)
		if err != nil {
			break // source.ErrEnd
		}
		for _, m := range batch.Messages {
			fmt.Printf("%s: %s\n", m.Key, m.Value)
		}
		batch.Release()
	}
	// Output:
	// next offset of orders/0 is 3
	// anna: 30
	// ben: 12
}
