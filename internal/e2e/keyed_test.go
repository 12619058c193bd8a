//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A model for each key, learnt by two processes and whitened by two, of which one each is killed: each message is whitened once, with
// the model of its own key, whose versions only grow, and every row of a key is learnt once.
func TestModelForEachKey(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	const machines, rows = 12, 700
	s := newStream(t, b, "fleet", settings{
		partitions: 4, features: "[a, b]",
		more: "model: {by: key, memory: 1MiB}\nminibatch: {rows: 50}\n",
	})
	produceFleet(t, s, machines, rows/2, 1)
	learn := append([]string{"learn", "--set", "lca.neighbours=60"}, rowModel...)
	learners := []*program{s.program(learn...), s.program(learn...)}
	transforms := []*program{s.program("transform"), s.program("transform")}
	s.await("fleet.learn", machines*rows/20, learners...)
	learners[0].Kill()
	transforms[1].Kill()
	produceFleet(t, s, machines, rows-rows/2, 2)
	learners[0].start()
	transforms[1].start()
	s.await("fleet.learn", machines*rows, learners...)
	s.await("fleet", machines*rows, transforms...)
	for _, p := range append(learners, transforms...) {
		p.stop()
	}
	s.checkFleetOutput(machines * rows)
	s.checkFleetModels(machines, rows)
}

// produceFleet writes messages of one row each, of machines in random order.
func produceFleet(t *testing.T, s *stream, machines, rows int, seed uint64) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DefaultProduceTopic(s.topic("in")))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	random := rand.New(rand.NewPCG(seed, 9))
	left := map[int]int{}
	for m := range machines {
		left[m] = rows
	}
	var records []*kgo.Record
	for len(left) > 0 {
		m := random.IntN(machines)
		if left[m] == 0 {
			delete(left, m)
			continue
		}
		left[m]--
		value := fmt.Sprintf(`{"a": %g, "b": %g}`, random.NormFloat64()+5*float64(random.IntN(2)), float64(1+m)*random.NormFloat64())
		records = append(records, &kgo.Record{Key: fmt.Appendf(nil, "machine %d", m), Value: []byte(value)})
	}
	if err := cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// checkFleetOutput checks that each input message has one output, that names the model of its key.
func (s *stream) checkFleetOutput(messages int) {
	s.t.Helper()
	seen, newest, whitened := map[string]bool{}, map[string]uint64{}, 0
	for _, r := range s.ReadCommitted(s.t, s.topic("out")) {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		at := headers["lca-source-partition"] + "/" + headers["lca-source-offset"]
		if seen[at] {
			s.t.Fatalf("%s was whitened twice", at)
		}
		seen[at] = true
		var row struct {
			LCA []float64 `json:"lca"`
		}
		if err := json.Unmarshal(r.Value, &row); err != nil {
			s.t.Fatalf("%s: %v", at, err)
		}
		id, want := headers["lca-model-id"], fmt.Sprintf("default/%d/machine%%20%s", r.Partition, r.Key[len("machine "):])
		version, err := strconv.ParseUint(headers["lca-model-version"], 10, 64)
		switch {
		case id != want || err != nil:
			s.t.Fatalf("%s of key %s: model %q, version %q, want model %q", at, r.Key, id, headers["lca-model-version"], want)
		case version < newest[id]:
			s.t.Fatalf("%s: version %d of model %s after %d", at, version, id, newest[id])
		case (version > 0) != (len(row.LCA) == 2):
			s.t.Fatalf("%s: version %d, and lca is %v", at, version, row.LCA)
		}
		newest[id] = version
		if version > 0 {
			whitened++
		}
	}
	if len(seen) != messages || whitened < messages/10 {
		s.t.Errorf("%d messages of %d have an output, %d with a model", len(seen), messages, whitened)
	}
}

// checkFleetModels checks that every row of each machine was learnt once, by what its newest checkpoint and snapshots say.
func (s *stream) checkFleetModels(machines, rows int) {
	s.t.Helper()
	learnt, published := map[string]uint64{}, map[string]uint64{}
	newest := func(topic string, of map[string]uint64) {
		for _, r := range s.ReadCommitted(s.t, topic) {
			var id string
			var version uint64
			for _, h := range r.Headers {
				switch h.Key {
				case "lca-model-id":
					id = string(h.Value)
				case "lca-model-version":
					version, _ = strconv.ParseUint(string(h.Value), 10, 64)
				}
			}
			if id == "" || r.Value == nil {
				continue
			}
			if version < of[id] {
				s.t.Errorf("%s: version %d of %s after %d", topic, version, id, of[id])
			}
			of[id] = version
		}
	}
	newest(s.topic("check"), learnt)
	newest(s.topic("snap"), published)
	if len(learnt) != machines || len(published) != machines {
		s.t.Errorf("%d models have checkpoints and %d snapshots, want %d", len(learnt), len(published), machines)
	}
	for id, version := range learnt {
		if version != uint64(rows) {
			s.t.Errorf("%s has learnt %d rows, want %d", id, version, rows)
		}
		if published[id] != uint64(rows) {
			s.t.Errorf("the newest snapshot of %s is of %d rows, want %d", id, published[id], rows)
		}
	}
}
