package source_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/lca-stream/lca-stream/source"
)

// truncate lets a broker say that its log has the asked epoch only to an offset. It counts the questions.
func truncate(c *kfake.Cluster, end int64) (asked *int) {
	asked = new(int)
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		*asked++
		q := r.(*kmsg.OffsetForLeaderEpochRequest)
		a := q.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, t := range q.Topics {
			topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				partition.Partition, partition.LeaderEpoch, partition.EndOffset = p.Partition, p.LeaderEpoch, end
				topic.Partitions = append(topic.Partitions, partition)
			}
			a.Topics = append(a.Topics, topic)
		}
		return a, nil, true
	})
	return asked
}

// TestTruncatedWhileReading: a leader that does not have what was read is noticed before anything of
// its log is read, although its log has grown past the position.
func TestTruncatedWhileReading(t *testing.T) {
	for _, c := range []struct {
		name string
		end  int64 // of our epoch in the log of the new leader
		lost bool
	}{
		{"one record is lost", 2, true},
		{"all are lost", 0, true},
		{"none is lost", 3, false},
		{"the new leader does not know", -1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := fake(t)
			p := producer(t, b.ListenAddrs())
			f := source.NewFetcher(source.FetcherConfig{
				Cluster: open(t, b.ListenAddrs()...), Partition: source.Partition{Topic: "t"}, MaxWait: 10 * time.Millisecond,
			})
			write(t, p, record("t", 0, "", "one"), record("t", 0, "", "two"), record("t", 0, "", "three"))
			fetchEnd(t, f)
			asked := truncate(b, c.end)
			if err := b.MoveTopicPartition("t", 0, (b.LeaderFor("t", 0)+1)%3); err != nil {
				t.Fatal(err)
			}
			write(t, p, record("t", 0, "", "four"))
			if !c.lost {
				if values, _ := fetchEnd(t, f); strings.Join(values, " ") != "four" || *asked != 1 {
					t.Errorf("read %v after %d questions", values, *asked)
				}
				return
			}
			got, err := f.Fetch(within(t))
			var truncated *source.TruncatedError
			if !errors.As(err, &truncated) {
				t.Fatalf("read %d records, error %v", len(got.Records), err)
			}
			want := source.TruncatedError{Partition: source.Partition{Topic: "t"}, Offset: 3, Epoch: 0, End: c.end}
			if diff := cmp.Diff(want, *truncated); diff != "" || !strings.Contains(err.Error(), "offsets reset") {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestTruncatedWhileAway: a reader that starts where its last claim ended notices it as well.
func TestTruncatedWhileAway(t *testing.T) {
	b := fake(t)
	p := source.Partition{Topic: "t"}
	prod := producer(t, b.ListenAddrs())
	write(t, prod, record("t", 0, "", "one"), record("t", 0, "", "two"))
	config := source.KafkaConfig{Cluster: open(t, b.ListenAddrs()...), Start: source.Offsets{p: 0}, GatherWait: time.Millisecond}
	k, err := source.OpenKafka(within(t), config)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := k.Read(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	claim := batch.Claim
	if diff := cmp.Diff(source.Epochs{p: 0}, claim.Epochs); diff != "" {
		t.Fatalf("epochs of the claim (-want +got):\n%s", diff)
	}
	truncate(b, 1)
	write(t, prod, record("t", 0, "", "three"))
	config.Start, config.Epochs = claim.Next, claim.Epochs
	if k, err = source.OpenKafka(within(t), config); err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err = k.Read(within(t)); !errors.As(err, new(*source.TruncatedError)) {
		t.Errorf("got %v, want a TruncatedError", err)
	}
	// Ahead of what was read here nothing is known of the records before the position.
	if err := k.Seek(within(t), source.Offsets{p: 3}); err != nil {
		t.Fatal(err)
	}
	write(t, prod, record("t", 0, "", "four"))
	if batch, err = k.Read(within(t)); err != nil || len(batch.Messages) != 1 || batch.Messages[0].Offset != 3 {
		t.Errorf("after a seek: %+v, %v", batch.Messages, err)
	}
}

// TestNoEpochs: of a broker that has no answer to give, records are read as before.
func TestNoEpochs(t *testing.T) {
	b := fake(t, kfake.MaxVersions(kversion.V2_1_0()))
	p := producer(t, b.ListenAddrs())
	f := source.NewFetcher(source.FetcherConfig{
		Cluster: open(t, b.ListenAddrs()...), Partition: source.Partition{Topic: "t"}, MaxWait: 10 * time.Millisecond,
		Offset: 1, Epochs: source.Epochs{{Topic: "t"}: 0},
	})
	write(t, p, record("t", 0, "", "one"), record("t", 0, "", "two"))
	if values, _ := fetchEnd(t, f); strings.Join(values, " ") != "two" {
		t.Errorf("read %v", values)
	}
}
