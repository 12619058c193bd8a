package timegap

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// TestGap holds that a gap is three times the lag at which the autocorrelation φ^lag is 1/e, that there is none where rows are independent, where a finite set
// is sorted into levels, that a pool which is full tells the same, and that rows of partitions in turn are those of each.
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
	pooled := func(of pool.Batch, rows int) pool.Batch {
		p := pool.New(rows, 1)
		for i, v := range of.X {
			if slot := p.Offer(uint64(i)); slot >= 0 {
				p.Put(slot, uint64(i), of.Places[i], []float64{v})
			}
		}
		return p.Batch()
	}
	for _, c := range []struct {
		name        string
		neighbours  int
		finite      bool
		rows        pool.Batch
		least, most uint64
	}{
		{"independent", 3000, false, draw(0, false, 1), 0, 0},
		{"φ = 0.9", 3000, false, draw(.9, false, 1), 20, 40},
		{"φ = 0.99", 3000, false, draw(.99, false, 1), 150, 600},
		{"φ = 0.99, few neighbours", 100, false, draw(.99, false, 1), 100, 100},
		{"φ = 0.9, in partitions", 3000, false, draw(.9, false, 4), 20, 40},
		{"φ = 0.9, a pool of them", 3000, false, pooled(draw(.9, false, 1), 3000), 20, 40},
		{"φ = 0.99, a pool of them", 3000, false, pooled(draw(.99, false, 1), 3000), 150, 600},
		{"φ = 0.9, a small pool", 300, false, pooled(draw(.9, false, 1), 300), 10, 60},
		{"independent, a pool of them", 3000, false, pooled(draw(0, false, 1), 3000), 0, 0},
		{"independent, a small pool", 300, false, pooled(draw(0, false, 1), 300), 0, 0},
		{"levels, a stream", 3000, false, draw(0, true, 1), 1000, 3000},
		{"levels, a finite set", 3000, true, draw(0, true, 1), 0, 0},
	} {
		var a Autocorrelation
		a.Measure(c.rows, 1)
		if gap := a.Gap(0, c.neighbours, c.finite); gap < c.least || gap > c.most {
			t.Errorf("%s: a gap of %d rows, want %d to %d", c.name, gap, c.least, c.most)
		}
	}
}
