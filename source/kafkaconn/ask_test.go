package kafkaconn_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// What kafka-go cannot ask for arrives from brokers of all kinds: ids of topics, epochs of leaders, stable
// offsets, finalized features.
func TestAsk(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		b.CreateTopic(t, "asked", 2, nil)
		cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs(), ClientID: "ask"})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		topics, err := cl.Metadata(within(t), "asked")
		if err != nil {
			t.Fatal(err)
		}
		got := topics["asked"]
		if got.ID == [16]byte{} || got.Partitions[1].Epoch < 0 || got.Partitions[1].Replicas != 1 {
			t.Errorf("metadata %+v", got)
		}
		if all, err := cl.Metadata(within(t)); err != nil || len(all["asked"].Partitions) != 2 {
			t.Errorf("all topics: %v, %v", all, err)
		}
		level := askedFeature(t, cl)
		if b.Kind == kafkatest.Kafka41 && level < 2 || b.Kind == kafkatest.Kafka39 && level != 0 {
			t.Errorf("transaction.version is %d", level)
		}
		if again, err := cl.Finalized(within(t), "transaction.version"); err != nil || again != level {
			t.Errorf("transaction.version is finalized at %d, %v, want %d", again, err, level)
		}
	})
}

func askedFeature(t *testing.T, cl *kafkaconn.Cluster) (level int16) {
	t.Helper()
	for range 2 { // the second time from what is remembered
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorKeys = []string{"group"}
		m, err := cl.Ask(within(t), kafkaconn.Question{Request: r, Least: 4, Choose: func(o kafkaconn.Offer) int16 {
			level = o.Feature("transaction.version")
			return 4
		}})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(m.(*kmsg.FindCoordinatorResponse).Coordinators); n != 1 {
			t.Errorf("%d coordinators", n)
		}
	}
	_, err := cl.Ask(within(t), kafkaconn.Question{Request: kmsg.NewPtrMetadataRequest(), Least: 99})
	if !errors.Is(err, kafka.UnsupportedVersion) {
		t.Errorf("a version of the future: %v", err)
	}
	return level
}

// A request whose caller has gone leaves nothing behind that the next one could take for its answer.
func TestAskGivesUp(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cl.Ask(ended, kafkaconn.Question{Request: kmsg.NewPtrMetadataRequest()}); err == nil {
		t.Error("an answer that was not asked for")
	}
	if _, err := cl.Metadata(within(t)); err != nil {
		t.Error(err)
	}
}

// Brokers from before Kafka 2.4 do not know the version in which they are asked what they offer.
func TestAskAnOldBroker(t *testing.T) {
	for _, versions := range []*kversion.Versions{kversion.V2_1_0(), kversion.V2_3_0(), kversion.V2_5_0()} {
		b, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "old"), kfake.MaxVersions(versions))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.ListenAddrs()})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if topics, err := cl.Metadata(within(t), "old"); err != nil || len(topics["old"].Partitions) != 2 {
			t.Errorf("%s: %+v, %v", versions.VersionGuess(), topics["old"], err)
		}
	}
}

// The port of a controller speaks the protocol too, and is not what kafka.brokers should name.
func TestAskNoBroker(t *testing.T) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Metadata), -1)
	c, err := kfake.NewCluster(kfake.MaxVersions(versions), kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: c.ListenAddrs(), ClientID: "controller"})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err = cl.Ping(within(t)); !strings.Contains(cl.Explain(err).Error(), "controller") || !strings.Contains(err.Error(), "no broker listens there") {
		t.Errorf("%v", cl.Explain(err))
	}
}
