package transform

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// Partitions that share engines write what each writes with an engine of its own, and what is kept for them has a bound.
func TestPartitionsShareEngines(t *testing.T) {
	const partitions, most = 12, 1 << 20
	shared := NewEngines(2, most)
	var all sync.WaitGroup
	for i := range partitions {
		values := companyValues(t, rand.New(rand.NewPCG(9, uint64(i))), 20)
		own, one := listTransform(t, reject.NullRow, fixtures.ListDim), listTransform(t, reject.NullRow, fixtures.ListDim)
		own.DeadLetter.MaxRejects, one.DeadLetter.MaxRejects = reject.Window, reject.Window
		one.Follow, one.Engines = own.Follow, shared
		all.Go(func() {
			want, counted := outputsOf(t, own, values, 7)
			got, counts := outputsOf(t, one, values, 7)
			if len(want) != len(got) || counts != counted {
				t.Errorf("partition %d: %d messages, counted %s; %d and %s with engines of its own", i, len(got), counts, len(want), counted)
				return
			}
			for k := range want {
				if !fixtures.Same(want[k], got[k]) {
					t.Errorf("partition %d: message %d is another with shared engines", i, k)
				}
			}
		})
	}
	all.Wait()
	kept := 0
	for _, d := range shared.spare {
		kept += d.bytes()
	}
	if kept != shared.bytes || kept > most || len(shared.free) != 2 {
		t.Errorf("%d bytes are kept, %d counted, at most %d; %d engines are free", kept, shared.bytes, most, len(shared.free))
	}
}

// A batch that waits for an engine is given up when its partition is lost.
func TestWaitForAnEngineEnds(t *testing.T) {
	tr := listTransform(t, reject.NullRow, fixtures.ListDim)
	tr.Engines = NewEngines(1, 0)
	busy, err := tr.Engines.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := source.Batch{Messages: batchOfAny([][]byte{fixtures.ListValue(t, rand.New(rand.NewPCG(3, 4)), 1, 0)})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.Do(ctx, b); !errors.Is(err, context.Canceled) {
		t.Errorf("with no engine free: %v", err)
	}
	tr.Engines.give(busy)
	if _, err := tr.Do(t.Context(), b); err != nil {
		t.Error(err)
	}
}
