//go:build unix

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// keyedReplay is a source of three partitions whose records are replayed, and the machines whose rows are replayed alone, too.
type keyedReplay struct {
	*stream
	columns bool // model.by is a column: a message has rows of several machines, and a machine's come in all partitions
	flags   []string
}

const (
	replayPartitions = 3
	replayMachines   = 9
	replayRows       = 600 // of each machine
)

// A replay by key of three partitions gives each model the bytes that the rows of its partition and value alone give, whether the value is the
// message's key or a column. Published, they are where transforms look for them, and learners go on from them. A reset has all rows of some
// partitions learnt again, of all models, also of those that have learnt beyond the committed offset.
func TestReplayForEachKey(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for name, columns := range map[string]bool{"bykey": false, "bycolumn": true} {
		if columns && testing.Short() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			by := "key"
			if columns {
				by = "column:machine"
			}
			r := &keyedReplay{columns: columns, flags: []string{"replay", "--set", "lca.neighbours=60"}}
			r.stream = newStream(t, b, name, settings{
				partitions: replayPartitions, features: "[a, b]", more: "model: {by: '" + by + "', memory: 1MiB}\nminibatch: {rows: 50}\n",
			})
			r.fill("in", func(int32, int) bool { return true })
			rows := r.files("all")
			if len(rows) < replayMachines {
				t.Fatalf("%d models of %d machines: %v", len(rows), replayMachines, rows)
			}
			for p := range int32(replayPartitions) { // one model of each partition, next to one of the same topic with its rows alone
				id := anyOf(t, rows, p)
				r.alone(id)
			}
			r.published(rows)
			if !columns {
				r.reset(rows)
			}
		})
	}
}

// fill writes messages, of those rows alone that are chosen. A topic with fewer rows has the same ones in the same partitions.
func (r *keyedReplay) fill(suffix string, chosen func(partition int32, machine int) bool) {
	r.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.Addrs()...), kgo.DefaultProduceTopic(r.topic(suffix)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	random := rand.New(rand.NewPCG(7, 7))
	var records []*kgo.Record
	for range replayRows {
		rows := make([][]string, replayPartitions)
		for m := range replayMachines {
			p := int32(m % replayPartitions)
			if r.columns && random.IntN(2) == 0 { // of these machines there are two models
				p = int32((m + 1) % replayPartitions)
			}
			row := fmt.Sprintf(`{"machine": "m%d", "a": %g, "b": %g}`, m, random.NormFloat64()+5*float64(random.IntN(2)), float64(1+m)*random.NormFloat64())
			switch {
			case !chosen(p, m):
			case r.columns:
				rows[p] = append(rows[p], row)
			default:
				records = append(records, &kgo.Record{Partition: p, Key: fmt.Appendf(nil, "m%d", m), Value: []byte(row)})
			}
		}
		for p, of := range rows {
			if len(of) > 0 {
				records = append(records, &kgo.Record{Partition: int32(p), Value: []byte("[" + strings.Join(of, ", ") + "]")})
			}
		}
	}
	if err := cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// files replays a topic into files, and returns the rows of each model.
func (r *keyedReplay) files(dir string, more ...string) map[string]uint64 {
	r.t.Helper()
	flags := append(append(r.flags, "--output", filepath.Join(r.dir, dir), "--force", "--json"), more...)
	return r.models(r.command(flags...))
}

// models reads what a replay says.
func (r *keyedReplay) models(out string) map[string]uint64 {
	r.t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var said struct {
		Models []struct {
			ID      string `json:"id"`
			Rows    uint64 `json:"rows"`
			Version uint64 `json:"model_version"`
			Fault   string `json:"fault"`
		} `json:"models"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &said); err != nil {
		r.t.Fatalf("%v:\n%s", err, out)
	}
	rows := map[string]uint64{}
	for _, m := range said.Models {
		if m.Fault != "" || m.Version != m.Rows {
			r.t.Errorf("%+v", m)
		}
		rows[m.ID] = m.Rows
	}
	return rows
}

// anyOf returns a model of a partition.
func anyOf(t *testing.T, rows map[string]uint64, p int32) string {
	t.Helper()
	for id := range rows {
		if strings.HasPrefix(id, fmt.Sprintf("default/%d/", p)) {
			return id
		}
	}
	t.Fatalf("partition %d has no model among %v", p, rows)
	return ""
}

// alone replays the rows of one model from a topic of their own.
func (r *keyedReplay) alone(id string) {
	r.t.Helper()
	parts := strings.Split(id, "/")
	partition, machine := parts[1], parts[2]
	suffix := "alone" + partition
	r.CreateTopic(r.t, r.topic(suffix), replayPartitions, nil)
	r.fill(suffix, func(p int32, m int) bool {
		return strconv.Itoa(int(p)) == partition && fmt.Sprintf("m%d", m) == machine
	})
	r.files(suffix, "--set", "source.topic="+r.topic(suffix), "--set", "source.group=alone")
	file := filepath.Join(partition, machine+".arrows")
	if got, want := r.modelOf("all", file), r.modelOf(suffix, file); !bytes.Equal(got, want) {
		r.t.Errorf("%s has other bytes than the model of its rows alone", id)
	}
}

// modelOf returns the bytes of a model without what names the topic around it.
func (r *keyedReplay) modelOf(dir, file string) []byte {
	r.t.Helper()
	f, err := os.Open(filepath.Join(r.dir, dir, file))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	s, err := snapshot.ReadFile(f)
	if err != nil {
		r.t.Fatal(err)
	}
	s.Offsets = nil
	var b bytes.Buffer
	if err := snapshot.WriteFile(&b, s); err != nil {
		r.t.Fatal(err)
	}
	return b.Bytes()
}

// published replays to the topic, has a transform whiten with what it finds there, and a learner go on from it.
func (r *keyedReplay) published(rows map[string]uint64) {
	r.t.Helper()
	r.models(r.command(append(r.flags, "--json")...))
	for id, version := range r.newest("snap") {
		if version != rows[id] {
			r.t.Errorf("version %d of %s is on the topic, want %d", version, id, rows[id])
		}
	}
	transform := r.program("transform")
	r.await(r.name, r.messages(), transform)
	transform.stop()
	for _, rec := range r.ReadCommitted(r.t, r.topic("out")) {
		if strings.Contains(string(rec.Value), `"lca":null`) || strings.Contains(string(rec.Value), `"lca": null`) {
			r.t.Fatalf("a row has no model: %s", rec.Value)
		}
	}
	learn := r.program("learn", "--set", "lca.neighbours=60")
	r.await(r.name+".learn", r.messages(), learn)
	learn.stop()
	r.learnt(rows, func(string) uint64 { return 2 }) // its group had learnt nothing: the rows of the replay come again
}

// learnt checks that each model has learnt its rows so many times. The replay has learnt all of them, a learner whole minibatches.
func (r *keyedReplay) learnt(rows map[string]uint64, times func(id string) uint64) {
	r.t.Helper()
	learnt := r.newest("check")
	for id, n := range rows {
		if want := n + (times(id)-1)*(n/50*50); learnt[id] != want {
			r.t.Errorf("%s has learnt %d rows, want %d: %d times %d", id, learnt[id], want, times(id), n)
		}
	}
}

// reset has the learner read partitions 0 and 1 again, first with a dry run, while one is at work, and then in earnest.
func (r *keyedReplay) reset(rows map[string]uint64) {
	r.t.Helper()
	to := []string{"offsets", "reset", "--stage", "learn", "--to", "0=0,1=0"}
	if said := r.command(append(to, "--dry-run")...); strings.Count(said, "offsets will be learnt again") != 2 {
		r.t.Errorf("a dry run says\n%s", said)
	}
	learn := r.program("learn", "--set", "lca.neighbours=60")
	r.until(func() bool { return strings.Contains(r.command("offsets", "show"), "learnt by 1 member") })
	refused := r.program(to...)
	refused.endsWith(2)
	refused.says("has 1 member")
	learn.stop()
	if said := r.command(to...); strings.Count(said, "offsets will be learnt again") != 2 {
		r.t.Errorf("a reset says\n%s", said)
	}
	learn.start()
	r.await(r.name+".learn", r.messages(), learn)
	learn.stop()
	r.learnt(rows, func(id string) uint64 {
		if strings.HasPrefix(id, "default/2/") {
			return 2
		}
		return 3
	})
	r.command("offsets", "reset", "--stage", "transform", "--to", "1=0")
	if at := r.GroupOffsets(r.t, r.name)[r.topic("in")+"/1"]; at != 0 { // the brokers show it a moment after they have answered
		r.t.Errorf("the transform goes on at %d of partition 1", at)
	}
	transform := r.program("transform")
	r.await(r.name, r.messages(), transform)
	transform.stop()
	var shown struct {
		Learners   int `json:"learners"`
		Partitions []struct {
			Learn, Transform struct{ Offset, Checkpoint, Marker *int64 }
		} `json:"partitions"`
	}
	out := r.command("offsets", "show", "--json")
	if err := json.Unmarshal([]byte(out[strings.IndexByte(out, '{'):]), &shown); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	for p, of := range shown.Partitions {
		if of.Learn.Checkpoint == nil || *of.Learn.Checkpoint != *of.Learn.Offset || of.Learn.Marker == nil || of.Transform.Marker == nil {
			r.t.Errorf("partition %d: %s", p, out)
		}
	}
}

// messages is the number of messages of the input.
func (r *keyedReplay) messages() (n int64) {
	for _, end := range r.ListOffsets(r.t, r.topic("in"), -1, 0) {
		n += end
	}
	return n
}

// newest returns the newest version of each model on one of our topics.
func (r *keyedReplay) newest(suffix string) map[string]uint64 {
	r.t.Helper()
	of := map[string]uint64{}
	for _, rec := range r.ReadCommitted(r.t, r.topic(suffix)) {
		headers := map[string]string{}
		for _, h := range rec.Headers {
			headers[h.Key] = string(h.Value)
		}
		if id := headers["lca-model-id"]; id != "" && rec.Value != nil {
			if partition := strings.Split(id, "/")[1]; partition != strconv.Itoa(int(rec.Partition)) {
				r.t.Fatalf("%s is in partition %d of %s", id, rec.Partition, suffix)
			}
			version, _ := strconv.ParseUint(headers["lca-model-version"], 10, 64)
			of[id] = max(of[id], version)
		}
	}
	return of
}
