package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// oracle is what no schedule may change: the world that an undisturbed run of one partition leaves,
// and the output of each message under each version, from whichever run came to it first.
type oracle struct {
	world *world

	mu     sync.Mutex
	output map[string][]byte // "offset@version"
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	o := &oracle{output: map[string][]byte{}}
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 4) // one partition, no clock
		s.faults = 0
		s.run()
		o.world = s.world
	})
	if n := len(o.world.topics[source.Partition{Topic: "snapshots"}]); n < 3 {
		t.Fatalf("%d snapshot messages: the run is too small to prove anything", n)
	}
	return o
}

func (s *sim) check(t *testing.T, calm *oracle) {
	for _, p := range s.inputs {
		s.checkPartition(p, calm)
	}
	last := uint64(0)
	for _, m := range s.topics[source.Partition{Topic: "snapshots"}] {
		if v := s.number(m, "lca-model-version"); len(m.Value) > 0 && v < last {
			s.fault("version %d was published after %d", v, last)
		} else {
			last = max(v, last)
		}
	}
	if s.partitionsOf() > 1 || s.byClock() {
		return
	}
	snapshots := source.Partition{Topic: "snapshots"}
	want, got := calm.world.topics[snapshots], s.topics[snapshots]
	if len(want) != len(got) {
		s.fault("%d snapshot messages, undisturbed %d", len(got), len(want))
		return
	}
	for i := range want {
		if !same(want[i], got[i]) {
			s.fault("snapshot message %d differs from the undisturbed run's", i)
			return
		}
	}
	if !bytes.Equal(newest(t, calm.world), newest(t, s.world)) {
		s.fault("the newest checkpoint differs from the undisturbed run's")
	}
}

// checkPartition wants every message of the input once, in order, in the output or the dead letters.
func (s *sim) checkPartition(p source.Partition, calm *oracle) {
	next, version := int64(0), uint64(0)
	place := map[int64]string{}
	for _, m := range s.topics[source.Partition{Topic: "dead"}] {
		if int32(s.number(m, "lca-source-partition")) == p.ID {
			s.place(place, int64(s.number(m, "lca-source-offset")), "dead letters")
		}
	}
	for _, m := range s.topics[source.Partition{Topic: "out", ID: p.ID}] {
		offset, v := int64(s.number(m, "lca-source-offset")), s.number(m, "lca-model-version")
		s.place(place, offset, "output")
		if offset < next {
			s.fault("%v@%d comes after %d", p, offset, next-1)
		}
		next = offset + 1
		if v < version || v == 0 {
			s.fault("%v@%d: version %d after %d", p, offset, v, version)
		}
		version = v
		if s.partitionsOf() == 1 { // the model of a version depends on the data alone
			calm.compare(s, fmt.Sprintf("%d@%d", offset, v), m)
		}
	}
	for offset := range s.topics[p] {
		want := "output"
		if !bytes.HasPrefix(s.topics[p][offset].Value, []byte{0xff, 0xff, 0xff, 0xff}) {
			want = "dead letters"
		}
		if got := place[int64(offset)]; got != want {
			s.fault("%v@%d is in %q, want %q", p, offset, got, want)
		}
	}
}

func (s *sim) place(place map[int64]string, offset int64, where string) {
	if at := place[offset]; at != "" {
		s.fault("offset %d is in %s and again in %s", offset, at, where)
	}
	place[offset] = where
}

func (o *oracle) compare(s *sim, key string, m sink.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if want, ok := o.output[key]; ok && !bytes.Equal(want, m.Value) {
		s.fault("the output of %s differs from another run's", key)
	}
	o.output[key] = m.Value
}

func (s *sim) number(m sink.Message, header string) uint64 {
	for _, h := range m.Headers {
		if h.Key == header {
			n, err := strconv.ParseUint(string(h.Value), 10, 64)
			if err != nil {
				s.fault("%v", err)
			}
			return n
		}
	}
	if len(m.Value) > 0 {
		s.fault("key %q has no header %s", m.Key, header)
	}
	return 0
}

// newest is the newest checkpoint without its sequence number, which counts attempts.
func newest(t *testing.T, w *world) []byte {
	c, err := (&Checkpoints{Topic: "checkpoints", ModelID: "m", Open: w.log("checkpoints"), End: w.end("checkpoints")}).Load(context.Background())
	if err != nil || c == nil {
		t.Fatalf("no checkpoint: %v", err)
	}
	c.Sequence = 0
	b, err := c.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
