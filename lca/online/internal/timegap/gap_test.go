package timegap

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// TestGap holds that a gap is three times the lag at which the autocorrelation φ^lag is 1/e, that there is none where rows are independent, where a finite set
// is sorted into levels, and that rows of partitions in turn are those of each.
func TestGap(t *testing.T) {
	draw := func(phi float64, sorted bool, partitions int) pool.Batch {
		r := rand.New(rand.NewPCG(1, 2))
		last := make([]float64, partitions)
		var b pool.Batch
		for i := range 20_000 {
			p := i % partitions
			last[p] = phi*last[p] + math.Sqrt(1-phi*phi)*r.NormFloat64()
			x := last[p]
			if sorted {
				x += 100 * float64(i/1000)
			}
			b.X, b.Places = append(b.X, x), append(b.Places, pool.Place{Partition: int32(p), At: uint64(i / partitions)})
		}
		return b
	}
	for _, c := range []struct {
		name        string
		gap         Gap
		rows        pool.Batch
		least, most uint64
	}{
		{"independent", New(3000, false), draw(0, false, 1), 0, 0},
		{"φ = 0.9", New(3000, false), draw(.9, false, 1), 20, 40},
		{"φ = 0.99", New(3000, false), draw(.99, false, 1), 150, 600},
		{"φ = 0.99, few neighbours", New(100, false), draw(.99, false, 1), 100, 100},
		{"φ = 0.9, in partitions", New(3000, false), draw(.9, false, 4), 20, 40},
		{"levels, a stream", New(3000, false), draw(0, true, 1), 1000, 3000},
		{"levels, a finite set", New(3000, true), draw(0, true, 1), 0, 0},
	} {
		c.gap.Learn(c.rows, 1)
		c.gap.Revise()
		if c.gap.Rows < c.least || c.gap.Rows > c.most {
			t.Errorf("%s: a gap of %d rows, want %d to %d", c.name, c.gap.Rows, c.least, c.most)
		}
	}
}
