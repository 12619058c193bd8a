package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// heldTopics is a broker whose snapshot and checkpoint topics hold a record of a value's model in their second partition, and behind it some of other pipelines' models.
func heldTopics(t *testing.T, others int) *history {
	t.Helper()
	h := &history{Broker: kafkatest.Start(t, kafkatest.Embedded), config: filepath.Join(t.TempDir(), "stream.yaml")}
	text := fmt.Sprintf("kafka: {brokers: [%q]}\nmodel: {by: key}\nhttp: {listen: \"\"}\n", h.Addrs()[0])
	if err := os.WriteFile(h.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	h.CreateTopic(t, "events", 2, nil)
	h.CreateTopic(t, "whitened", 2, nil)
	h.CreateTopic(t, "whitened-state", 2, map[string]string{"cleanup.policy": "compact"})
	var msgs []sink.Message
	for _, topic := range []string{"lca-snapshots", "lca-checkpoints"} {
		h.CreateTopic(t, topic, 2, map[string]string{"cleanup.policy": "compact"})
		msgs = append(msgs, heldRecord(topic, "default/1/press"))
		for i := range others {
			msgs = append(msgs, heldRecord(topic, fmt.Sprintf("other/1/press%d", i)))
		}
	}
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: h.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(t.Context(), sink.KafkaConfig{Cluster: c, TransactionalID: "held"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	if err := k.Put(t.Context(), msgs, source.Claim{}); err != nil {
		t.Fatal(err)
	}
	h.settle(t, "lca-snapshots")
	h.settle(t, "lca-checkpoints")
	return h
}

func heldRecord(topic, id string) sink.Message {
	return sink.Message{
		Topic: topic, Partition: 1, Key: []byte(id + "/0/0"), Value: []byte("x"), Headers: []source.Header{{Key: "lca-model-id", Value: []byte(id)}},
	}
}

// Topics hold models of values however many records of others are behind them: more here than a search that gives up looks at.
func TestKindOfModelsBehindOthers(t *testing.T) {
	h := heldTopics(t, 1<<13+100)
	out, err := exec.Command("lca-stream", "topics", "check", "-c", h.config, "--set", "model.by=none").CombinedOutput()
	if err == nil {
		t.Error("topics with models of values are those of a model for all rows")
	}
	for _, topic := range []string{"lca-snapshots (snapshot.topic)", "lca-checkpoints (checkpoint.topic)"} {
		if !strings.Contains(string(out), topic+`: holds model "default/1/press", which is that of one value`) {
			t.Errorf("of %s it does not say which model is there:\n%s", topic, out)
		}
	}
}

// Without the right to read snapshots no process knows whose the models are. Those that publish or follow them end, and name the right.
func TestRightToReadSnapshotsByKey(t *testing.T) {
	h := heldTopics(t, 0)
	denySnapshots(h)
	for _, command := range []string{"learn", "run", "transform", "replay", "doctor"} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		cmd := exec.CommandContext(ctx, "lca-stream", command, "-c", h.config)
		out, err := cmd.CombinedOutput()
		cancel()
		if err == nil || cmd.ProcessState.ExitCode() != app.ExitFailed {
			t.Errorf("%s: %v, want exit code %d", command, err, app.ExitFailed)
		}
		if command == "doctor" {
			continue // it says so of each right that it tries
		}
		if !strings.Contains(string(out), "the user needs READ on topic lca-snapshots") {
			t.Errorf("%s does not name the right:\n%s", command, out)
		}
	}
}

// denySnapshots takes the right to read the snapshot topic away.
func denySnapshots(h *history) {
	b := h.Embedded().Cluster()
	denied := b.TopicInfo("lca-snapshots").TopicID
	b.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		asked := r.(*kmsg.FetchRequest).Topics
		if len(asked) != 1 || asked[0].TopicID != denied {
			return nil, nil, false
		}
		part := kmsg.NewFetchResponseTopicPartition()
		part.Partition, part.ErrorCode = asked[0].Partitions[0].Partition, kerr.TopicAuthorizationFailed.Code
		res := r.ResponseKind().(*kmsg.FetchResponse)
		res.Topics = []kmsg.FetchResponseTopic{{TopicID: denied, Partitions: []kmsg.FetchResponseTopicPartition{part}}}
		return res, nil, true
	})
}
