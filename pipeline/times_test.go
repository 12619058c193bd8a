package pipeline

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
)

// Partitions with any timestamps are merged into an order that the records alone decide, and nothing is left out.
func TestMergeOfAnyTimes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var parts [2][]int64
	for p := range parts {
		parts[p] = slices.Clone(fixtures.WildStamps)
		random.Shuffle(len(parts[p]), func(i, j int) { parts[p][i], parts[p][j] = parts[p][j], parts[p][i] })
	}
	merge := func(step int) []string {
		m, sources := merged(step, 1, make([]int, len(fixtures.WildStamps)), make([]int, len(fixtures.WildStamps)))
		for p, s := range sources {
			for i := range s.all {
				s.all[i].Time = time.UnixMilli(parts[p][i])
			}
		}
		order, _ := drain(t, m)
		return order
	}
	want := merge(1)
	if len(want) != 2*len(fixtures.WildStamps) {
		t.Errorf("%d of %d messages", len(want), 2*len(fixtures.WildStamps))
	}
	if got := merge(4); !slices.Equal(got, want) {
		t.Errorf("in batches of 4: %v, want %v", got, want)
	}
}
