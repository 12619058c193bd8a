package learn

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// A checkpoint of one model whose bytes or headers are damaged stops its learner with the remedy for this model alone, or for the topic where another
// program has written to it. None makes it wait for chunks that never come, or take memory for as many as a header says.
func TestDamagedCheckpointsOfAModel(t *testing.T) {
	header := func(key, value string) func(m *sink.Message) {
		return func(m *sink.Message) {
			m.Headers = slices.Clone(m.Headers)
			for i := range m.Headers {
				if m.Headers[i].Key == key {
					m.Headers[i].Value = []byte(value)
				}
			}
		}
	}
	const alone, others = "--model-id 'fleet/a/3/pump'", "another program writes to this topic"
	for name, c := range map[string]struct {
		damage func(m *sink.Message)
		says   string
	}{
		"a bit":              {func(m *sink.Message) { m.Value = bytes.Clone(m.Value); m.Value[len(m.Value)/2] ^= 1 }, alone},
		"cut":                {func(m *sink.Message) { m.Value = m.Value[:len(m.Value)/2] }, alone},
		"empty":              {func(m *sink.Message) { m.Value = []byte{} }, alone},
		"one chunk too many": {header("lca-chunk", "0/2"), alone},
		"many chunks":        {header("lca-chunk", "0/60000"), alone},
		"countless chunks":   {header("lca-chunk", "0/1000000000"), others},
		"no chunks":          {header("lca-chunk", "0/0"), others},
		"a negative offset":  {header(reject.HeaderLearnt, "-5"), others},
		"a negative version": {header(reject.HeaderVersion, "-5"), others},
		"no headers":         {func(m *sink.Message) { m.Headers = nil }, others},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			checkpoints := source.Partition{Topic: "checkpoints", ID: w.fleet.ID}
			r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, clock: func() time.Time { return time.UnixMilli(0) }}
			var rows []keyedRow
			for i := range 60 {
				rows = append(rows, keyedRow{key: "pump", a: float64(i % 7), b: float64(i % 5)})
			}
			w.fleetMessages(r.by, rows)
			w.learnFleet(t, r)
			newest := -1
			for i, m := range w.topics[checkpoints] {
				if string(m.Key) == "fleet/a/3/pump/0/0" && m.Value != nil {
					newest = i
				}
			}
			m := w.topics[checkpoints][newest]
			c.damage(&m)
			w.topics[checkpoints] = append(w.topics[checkpoints], m)

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			states := w.keyedStage(r).States
			err := states.Read(ctx)
			if err == nil {
				_, err = states.Load(ctx, "pump")
			}
			var stop *reject.Stop
			if !errors.As(err, &stop) || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrDamaged) != (c.says == alone) {
				t.Fatalf("got %v, want a stop that says %q", err, c.says)
			}
			if c.says != alone {
				return
			}
			// A look before the start may see it while the transaction that replaces it is not complete: the start itself waits, and refuses it.
			if err := w.keyedStage(r).Check(ctx); err != nil {
				t.Errorf("the look before the start refuses it: %v", err)
			}
			if _, err := w.keyedStage(r).Rewind(ctx); name == "a bit" && !errors.Is(err, ErrDamaged) {
				t.Errorf("the start does not refuse it: %v", err)
			}
			if o := states.Outline("pump", []string{"a", "b"}); o.Published == 0 || o.Offsets[w.fleet] == 0 || o.ModelID != "fleet/a/3/pump" {
				t.Errorf("what the headers say: %+v", o)
			}
		})
	}
}
