package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/replay"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// With --every, a long range is read in stretches and a short one whole. Either gives a model of one row in as many, which is as
// good as that of all, and the same one each time.
func TestReplayOfAPart(t *testing.T) {
	const partitions, messages = 2, 4000 // one row each
	h := &history{Broker: kafkatest.Start(t, kafkatest.Embedded), config: filepath.Join(t.TempDir(), "stream.yaml")}
	if err := os.WriteFile(h.config, fmt.Appendf(nil, "kafka: {brokers: [%q]}\nlca: {neighbours: 300}\nhttp: {listen: \"\"}\n", h.Addrs()[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	h.CreateTopic(t, "events", partitions, nil)
	for _, topic := range []string{"lca-snapshots", "lca-checkpoints"} {
		h.CreateTopic(t, topic, 1, map[string]string{"cleanup.policy": "compact"})
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(h.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	began := time.Now() // what is older than the topic's retention goes
	records := make([]*kgo.Record, partitions*messages)
	for i := range records {
		side := float64(6*rng.IntN(2) - 3)
		records[i] = &kgo.Record{
			Topic: "events", Partition: int32(i % partitions), Timestamp: began.Add(time.Duration(i) * time.Millisecond),
			Value: fmt.Appendf(nil, `{"a": %v, "b": %v, "c": %v}`, side+rng.NormFloat64(), rng.NormFloat64(), 100*rng.NormFloat64()),
		}
	}
	if err := c.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	replayed := func(args ...string) replay.Result {
		return h.replay(t, append(args, "-o", filepath.Join(t.TempDir(), "m.arrows"))...)
	}
	all := replayed()
	for _, c := range []struct {
		every, passes string
		read, learnt  float64 // share of the rows
	}{{"2", "1", 1. / 2, 1. / 2}, {"3", "2", 1. / 3, 2. / 3}, {"4", "1", 1, 1. / 4}} {
		args := []string{"--every", c.every, "--passes", c.passes}
		got := replayed(args...)
		if again := replayed(args...); again.Fingerprint != got.Fingerprint {
			t.Errorf("%v gives %s and then %s", args, got.Fingerprint, again.Fingerprint)
		}
		n := float64(all.Rows)
		if math.Abs(float64(got.Rows)/n-c.read) > .02 || math.Abs(float64(got.LearntRows)/n-c.learnt) > .02 || math.Abs(*got.NLL-*all.NLL) > .25 { // of all 8000 some that are high are held, and have none
			t.Errorf("%v: %d rows read, %d learnt, NLL %v; of all %d it is %v", args, got.Rows, got.LearntRows, *got.NLL, all.Rows, *all.NLL)
		}
		said, err := exec.Command("lca-stream", append([]string{"replay", "-c", h.config, "--dry-run"}, args...)...).CombinedOutput()
		if part := strings.Contains(string(said), "one in "+c.every+" of them is read, in stretches"); err != nil || part != (c.read < 1) {
			t.Errorf("%v: %v %s", args, err, said)
		}
	}
}
