//go:build unix

package e2e_test

import (
	"bytes"
	"context"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// One damaged checkpoint stops a learner by key with a remedy for that model alone: a replay of it puts another in its place, whose versions go on
// behind the last one, and all others stay as they are.
func TestDamagedCheckpointOfOneKey(t *testing.T) {
	t.Parallel()
	r := &keyedReplay{flags: []string{"replay", "--set", "lca.neighbours=60"}}
	r.stream = newStream(t, kafkatest.Shared(t, kafkatest.Kafka41), "damaged", settings{
		partitions: replayPartitions, features: "[a, b]", more: "model: {by: key, memory: 1MiB}\nminibatch: {rows: 50}\n",
	})
	r.fill("in", func(int32, int) bool { return true })
	learn := r.program("learn", "--set", "lca.neighbours=60")
	r.await("damaged.learn", r.messages(), learn)
	learn.stop()
	before := r.newest("check")

	r.damage("default/1/m4/0/0")
	r.fill("in", func(int32, int) bool { return true })
	learn.start()
	learn.endsWith(2)
	learn.says("`lca-stream replay --model-id 'default/1/m4'` learns this model alone again")
	r.command(append(r.flags, "--model-id", "default/1/m4")...)
	learn.start()
	r.await("damaged.learn", r.messages(), learn)
	learn.stop()
	for id, version := range r.newest("check") {
		want := uint64(2 * replayRows)
		if id == "default/1/m4" {
			want += before[id]
		}
		if version < want || id != "default/1/m4" && version > want {
			t.Errorf("%s has version %d, want %d", id, version, want)
		}
	}
	if rows := uint64(replayRows); len(before) != replayMachines || before["default/1/m4"] != rows {
		t.Errorf("before there were %v", before)
	}
}

// Settings with which the models of one partition cannot go on are refused before those of the others begin with them. Then no setting would be right
// for all: here the former ones are, and nothing was written meanwhile. The broker is of the oldest version.
func TestSettingsOfOtherPartitions(t *testing.T) {
	t.Parallel()
	r := &keyedReplay{}
	r.stream = newStream(t, kafkatest.Shared(t, kafkatest.Older(kafkatest.Kafka38)), "settings", settings{
		partitions: replayPartitions, features: "[a, b]", more: "model: {by: key, memory: 1MiB}\nminibatch: {rows: 50}\n",
	})
	r.fill("in", func(p int32, _ int) bool { return p == 0 })
	learn := r.program("learn", "--set", "lca.neighbours=60")
	r.await("settings.learn", r.messages(), learn)
	learn.stop()
	before := r.newest("check")

	r.fill("in", func(int32, int) bool { return true })
	for _, command := range []string{"learn", "run"} {
		other := r.program(command, "--set", "lca.neighbours=80")
		other.endsWith(2)
		other.says("is of another configuration: lca.neighbours was 60 and is now 80")
		if now := r.newest("check"); len(before) == 0 || !maps.Equal(now, before) {
			t.Fatalf("%s has saved models with settings that it refused: %v, before %v", command, now, before)
		}
	}
	learn.start()
	r.await("settings.learn", r.messages(), learn)
	learn.stop()
	if now := r.newest("check"); len(now) != replayMachines {
		t.Errorf("there are %v", now)
	}
}

// damage writes the newest checkpoint of that key again, with one bit that is another one.
func (r *keyedReplay) damage(key string) {
	r.t.Helper()
	var newest *kgo.Record
	for _, rec := range r.ReadCommitted(r.t, r.topic("check")) {
		if string(rec.Key) == key && rec.Value != nil {
			newest = &kgo.Record{Topic: r.topic("check"), Partition: int32(rec.Partition), Key: rec.Key, Value: bytes.Clone(rec.Value)}
			for _, h := range rec.Headers {
				newest.Headers = append(newest.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
		}
	}
	if newest == nil {
		r.t.Fatalf("there is no checkpoint %s", key)
	}
	newest.Value[len(newest.Value)/2] ^= 1
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(context.Background(), newest).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}
