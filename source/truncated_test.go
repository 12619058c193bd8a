package source_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
)

// fill writes n records of a word.
func fill(t *testing.T, p *kgo.Client, topic, word string, n int) {
	t.Helper()
	for i := range n {
		write(t, p, record(topic, 0, "", fmt.Sprint(word, " ", i)))
	}
}

// follow reads on until that number of records in all are behind the position.
func follow(t *testing.T, f *source.Fetcher, next int64) {
	t.Helper()
	for ctx := within(t); f.Next() < next; {
		if _, err := f.Fetch(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// lostRecords expects that the next fetch says which records are lost, before it gives any.
func lostRecords(t *testing.T, f *source.Fetcher, topic string, offset, end int64) {
	t.Helper()
	got, err := f.Fetch(within(t))
	var truncated *source.TruncatedError
	if !errors.As(err, &truncated) {
		t.Fatalf("read on at %d with %d records, error %v", f.Next(), len(got.Records), err)
	}
	t.Log(err)
	want := source.TruncatedError{Partition: source.Partition{Topic: topic}, Offset: offset, End: end, Epoch: truncated.Epoch}
	if diff := cmp.Diff(want, *truncated); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLostDisk: the only replica loses its disk, and has more records than before when the reader asks
// for the next one. A reader that was away notices it as well, by the epoch of its committed offset.
// Kafka 3.9 leads on in the same epoch after a crash of its only node, and then no client can see it; after
// an orderly stop it does not.
func TestLostDisk(t *testing.T) {
	for _, kind := range kafkatest.Kinds()[1:] { // of Java
		t.Run(string(kind), func(t *testing.T) {
			b := kafkatest.Shared(t, kind)
			b.CreateTopic(t, "disk", 1, nil)
			p := producer(t, b.Addrs())
			config := source.FetcherConfig{Cluster: open(t, b.Addrs()...), Partition: source.Partition{Topic: "disk"}}
			f := source.NewFetcher(config)
			fill(t, p, "disk", "lost", 7)
			follow(t, f, 7)
			if kind == kafkatest.Kafka39 {
				b.Stop()
			} else {
				b.Kill()
			}
			b.LoseLogs(t, "disk")
			b.Restart()
			fill(t, producer(t, b.Addrs()), "disk", "new", 12)
			lostRecords(t, f, "disk", 7, 0)
			config.Offset, config.Epochs = 7, source.Epochs{{Topic: "disk"}: 0}
			lostRecords(t, source.NewFetcher(config), "disk", 7, 0)

			// What was not lost before is no fault now: a restart alone truncates nothing.
			config.Offset, config.Epochs = 0, nil
			whole := source.NewFetcher(config)
			follow(t, whole, 12)
			b.Kill()
			b.Restart()
			fill(t, producer(t, b.Addrs()), "disk", "newer", 3)
			follow(t, whole, 15)
		})
	}
}

// TestUncleanElection: a replica that was down while records were written and read becomes the leader,
// because unclean.leader.election.enable lets it.
func TestUncleanElection(t *testing.T) {
	b := kafkatest.StartN(t, kafkatest.Kafka41, 3)
	const leader, behind = 0, 1 // the third node is there for the controllers' majority
	topic := kafka.TopicConfig{Topic: "events", NumPartitions: -1, ReplicationFactor: -1,
		ReplicaAssignments: []kafka.ReplicaAssignment{{Partition: 0, Replicas: []int{leader + 1, behind + 1}}},
		ConfigEntries:      []kafka.ConfigEntry{{ConfigName: "min.insync.replicas", ConfigValue: "1"}, {ConfigName: "unclean.leader.election.enable", ConfigValue: "true"}},
	}
	made, err := b.Client().CreateTopics(within(t), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil || made.Errors["events"] != nil {
		t.Fatal(err, made)
	}
	f := source.NewFetcher(source.FetcherConfig{
		Cluster: open(t, b.Addrs()...), Partition: source.Partition{Topic: "events"}, RetryFor: 2 * time.Minute,
	})
	fill(t, producer(t, b.Addrs()), "events", "kept", 5)
	follow(t, f, 5)
	b.Kill(behind)
	fill(t, producer(t, b.Addrs()), "events", "lost", 6)
	follow(t, f, 11)
	b.Kill(leader)
	b.Restart(behind)
	fill(t, producer(t, b.Addrs()), "events", "new", 20)
	lostRecords(t, f, "events", 11, 5)
}
