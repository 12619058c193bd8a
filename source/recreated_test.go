package source_test

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
)

// idOf is a topic's id, as committed metadata spell it.
func idOf(t *testing.T, b *kafkatest.Broker, name string) string {
	t.Helper()
	topic, err := source.LookUp(within(t), open(t, b.Addrs()...), name)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := base64.RawURLEncoding.DecodeString(topic.ID); err != nil || len(id) != 16 {
		t.Fatalf("topic id %q", topic.ID)
	}
	return topic.ID
}

// again deletes a topic and creates it again, with n records.
func again(t *testing.T, b *kafkatest.Broker, name string, n int) {
	t.Helper()
	b.DeleteTopic(t, name)
	b.CreateTopic(t, name, 1, nil)
	fill(t, producer(t, b.Addrs()), name, "new", n)
}

// recreated expects that the next fetch says that the topic is another one, before it gives any record.
func recreated(t *testing.T, f *source.Fetcher, was, is string) {
	t.Helper()
	got, err := f.Fetch(within(t))
	var e *source.RecreatedError
	if !errors.As(err, &e) {
		t.Fatalf("read on at %d with %d records, error %v", f.Next(), len(got.Records), err)
	}
	t.Log(err)
	if want := (source.RecreatedError{Topic: "events", Was: was, Is: is}); *e != want {
		t.Errorf("%+v, want %+v", *e, want)
	}
	if strings.Contains(err.Error(), "offsets") {
		t.Errorf("a reader without positions says what to do about them: %v", err)
	}
	if source.Passing(err) {
		t.Error("a caller would try again")
	}
}

// A topic that is deleted and created again under its name is not read, however many records it has: neither by
// a reader that was at work, nor by one that comes with an offset of the old topic and its id.
func TestRecreatedTopicIsNotRead(t *testing.T) {
	kafkatest.Each(t, testRecreated)
	t.Run("the oldest", func(t *testing.T) {
		b := kafkatest.Shared(t, kafkatest.Older(kafkatest.Kafka38))
		if b.Kind == kafkatest.Kafka38 {
			testRecreated(t, b)
		}
		t.Run("an open transaction", func(t *testing.T) { testOpenTransaction(t, b) })
	})
}

func testRecreated(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "events", 1, nil)
	fill(t, producer(t, b.Addrs()), "events", "old", 5)
	was := idOf(t, b, "events")
	config := source.FetcherConfig{Cluster: open(t, b.Addrs()...), Partition: source.Partition{Topic: "events"}, MaxWait: 50 * time.Millisecond}
	reading := source.NewFetcher(config)
	follow(t, reading, 5)
	config.TopicID, config.Offset = was, 5
	begun := source.NewFetcher(config)
	follow(t, begun, 5)

	again(t, b, "events", 20)
	is := idOf(t, b, "events")
	recreated(t, reading, was, is)
	recreated(t, begun, was, is)
	recreated(t, source.NewFetcher(config), was, is)

	k, err := source.OpenKafka(within(t), source.KafkaConfig{
		Cluster: config.Cluster, Start: source.Offsets{config.Partition: 5}, TopicIDs: map[string]string{"events": was},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	if batch, err := k.Read(within(t)); !errors.As(err, new(*source.RecreatedError)) || !strings.Contains(err.Error(), "lca-stream offsets reset") {
		t.Errorf("%d messages of the new topic, error %v", len(batch.Messages), err)
	}
	config.TopicID, config.Offset = "", 0
	follow(t, source.NewFetcher(config), 20) // a reader that begins with it reads it
}

// Brokers that do not know fetches by id are asked by name, in the newest version that they have.
func TestOldBrokersAreAskedByName(t *testing.T) {
	for _, c := range []struct {
		broker  *kversion.Versions
		version int16
	}{{kversion.V3_1_0(), 13}, {kversion.V3_0_0(), 12}, {kversion.V2_8_0(), 12}, {kversion.V2_6_0(), 11}, {kversion.V2_5_0(), 11}} {
		b := fake(t, kfake.MaxVersions(c.broker))
		write(t, producer(t, b.ListenAddrs()), record("t", 0, "", "one"), record("t", 0, "", "two"))
		cl := open(t, b.ListenAddrs()...)
		topic, err := source.LookUp(within(t), cl, "t")
		if err != nil {
			t.Fatal(err)
		}
		asked := int16(-1)
		b.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			asked = r.GetVersion()
			return nil, nil, false
		})
		f := source.NewFetcher(source.FetcherConfig{Cluster: cl, Partition: source.Partition{Topic: "t"}, TopicID: topic.ID})
		if values, _ := fetchEnd(t, f); !slices.Equal(values, []string{"one", "two"}) || asked != c.version {
			t.Errorf("read %v by Fetch v%d, want both records by v%d", values, asked, c.version)
		}
	}
}

// A topic that is deleted and does not come back is missing, as ever.
func TestDeletedTopicIsMissing(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		t.Parallel() // each waits for the time that brokers are given to find the topic again
		b.CreateTopic(t, "deleted", 1, nil)
		fill(t, producer(t, b.Addrs()), "deleted", "old", 5)
		f := source.NewFetcher(source.FetcherConfig{Cluster: open(t, b.Addrs()...), Partition: source.Partition{Topic: "deleted"}, MaxWait: 50 * time.Millisecond})
		follow(t, f, 5)
		b.DeleteTopic(t, "deleted")
		if _, err := f.Fetch(within(t)); !errors.Is(err, source.ErrNoTopic) {
			t.Errorf("error %v", err)
		}
	})
}

// A broker whose metadata are behind may not know a topic's id yet, or still have the id of a former topic: that
// passes, and nothing is read twice or left out.
func TestStaleTopicIDsPass(t *testing.T) {
	for _, c := range []struct {
		name  string
		stale func(t *testing.T, b *kfake.Cluster)
	}{
		{"the leader does not know the id", faults(kmsg.Fetch, kerr.UnknownTopicID)},
		{"the leader's log has another id", faults(kmsg.Fetch, kerr.InconsistentTopicID)},
		{"metadata have another id", func(t *testing.T, b *kfake.Cluster) {
			faults(kmsg.Fetch, kerr.UnknownTopicID)(t, b)
			staleMetadata(t, b, 2)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := fake(t)
			p := producer(t, b.ListenAddrs())
			cl := open(t, b.ListenAddrs()...)
			topic, err := source.LookUp(within(t), cl, "t")
			if err != nil {
				t.Fatal(err)
			}
			f := source.NewFetcher(source.FetcherConfig{Cluster: cl, Partition: source.Partition{Topic: "t"}, TopicID: topic.ID, MaxWait: 50 * time.Millisecond})
			write(t, p, record("t", 0, "", "one"))
			follow(t, f, 1)
			write(t, p, record("t", 0, "", "two"))
			p.Close() // it would see the metadata
			c.stale(t, b)
			if values, _ := fetchEnd(t, f); !slices.Equal(values, []string{"two"}) {
				t.Errorf("read %v, want the second record", values)
			}
		})
	}
}

// staleMetadata lets it answer that number of questions for the topic with another id.
func staleMetadata(t *testing.T, b *kfake.Cluster, times int) {
	asked := times
	b.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		request := r.(*kmsg.MetadataRequest)
		if request.Version < 10 { // of the transport, which has no use for ids
			b.KeepControl()
			return nil, nil, false
		}
		if asked--; asked > 0 {
			b.KeepControl()
		}
		response := request.ResponseKind().(*kmsg.MetadataResponse)
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.TopicID = kmsg.StringPtr("t"), [16]byte{1}
		response.Topics = append(response.Topics, topic)
		return response, nil, true
	})
	t.Cleanup(func() {
		if asked > 0 {
			t.Errorf("%d of %d answers were not asked for", asked, times)
		}
	})
}
