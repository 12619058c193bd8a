package topics

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/cluster"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

func configured(name string) *config.Config {
	c := config.Default()
	c.Source.Topic, c.Transform.Topic, c.DeadLetter.Topic = name+"-in", name+"-out", name+"-dead"
	c.Snapshot.Topic, c.Checkpoint.Topic = name+"-snapshots", name+"-checkpoints"
	return c
}

func TestInitThenCheck(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		cl, err := cluster.Open(cluster.Config{Brokers: b.Addrs(), ClientID: "topics"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)

		t.Run("missing", func(t *testing.T) {
			wants := Wanted(configured("missing"))
			findings, err := Check(t.Context(), cl, wants)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if f.OK() || f.Faults[0] != "is missing" {
					t.Errorf("%v", f)
				}
			}
			if len(findings) != 5 {
				t.Errorf("%d findings", len(findings))
			}
		})
		t.Run("init creates once", func(t *testing.T) { initOnce(t, cl) })
		t.Run("the source exists", func(t *testing.T) {
			b.CreateTopic(t, "given-in", 2, map[string]string{"max.message.bytes": "3000000"})
			findings, err := Init(t.Context(), cl, Wanted(configured("given")), Creation{Partitions: 7})
			if err != nil {
				t.Fatal(err)
			}
			out := findings[1]
			if findings[0].Created || out.Partitions != 2 || out.MessageBytes != 2*3000000+headers || !out.OK() {
				t.Errorf("%v", findings)
			}
		})
		t.Run("wrong topics", func(t *testing.T) { wrongTopics(t, b, cl) })
	})
}

func initOnce(t *testing.T, cl *cluster.Cluster) {
	wants := Wanted(configured("new"))
	findings, err := Init(t.Context(), cl, wants, Creation{Partitions: 3, Replication: 1})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		got = append(got, fmt.Sprintf("%v %v %s %d %s", f.OK(), f.Created, f.Topic, f.Partitions, f.Policy))
	}
	want := []string{"true true new-in 3 delete", "true true new-out 3 delete", "true true new-snapshots 1 compact", "true true new-checkpoints 1 compact", "true true new-dead 3 delete"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, findings)
	}
	again, err := Init(t.Context(), cl, wants, Creation{Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range again {
		if f.Created || !f.OK() {
			t.Errorf("second init: %v", f)
		}
	}
}

// Each of these would lose models or messages, silently.
func wrongTopics(t *testing.T, b *kafkatest.Broker, cl *cluster.Cluster) {
	b.CreateTopic(t, "wrong-in", 3, nil)
	b.CreateTopic(t, "wrong-out", 2, nil)
	b.CreateTopic(t, "wrong-snapshots", 2, nil)
	b.CreateTopic(t, "wrong-checkpoints", 1, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "500000"})
	b.CreateTopic(t, "wrong-dead", 3, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "9000000"})
	findings, err := Check(t.Context(), cl, Wanted(configured("wrong")))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{
		nil,
		{"has 2 partitions, the source has 3", "has max.message.bytes", "--partitions 3"},
		{"has 2 partitions, must have 1", "has cleanup.policy delete, must be compact"},
		{"has max.message.bytes 500000, must be at least 1000000", "--add-config max.message.bytes=1000000"},
		{"has cleanup.policy compact: messages of one key would replace each other"},
	} {
		got := findings[i].String()
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s\ndoes not say %q", got, part)
			}
		}
		if findings[i].OK() != (want == nil) {
			t.Errorf("%v", got)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	cl, err := cluster.Open(cluster.Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	_, err = Check(context.Background(), cl, Wanted(config.Default()))
	if err == nil || !strings.Contains(err.Error(), "kafka.brokers") {
		t.Errorf("got %v, want a hint at kafka.brokers", err)
	}
}
