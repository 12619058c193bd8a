package streams

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// pair is two regimes that take turns.
type pair struct {
	name string
	laws func(r *rand.Rand) (a, b law)
	phi  float64 // what a row keeps of the one before
}

func pairs() []pair {
	of := func(first func(*rand.Rand) law, a *mat.Dense, b []float64) func(*rand.Rand) (law, law) {
		return func(r *rand.Rand) (law, law) {
			l := first(r)
			return l, l.mixed(a, b)
		}
	}
	still, shift := make([]float64, columns), append([]float64{9, -9, 9}, make([]float64, columns-3)...)
	half := math.Sqrt(0.5)
	turn := diagonal(columns, half, 0, 1)
	turn.Set(0, 1, -half)
	turn.Set(1, 0, half)
	every := make([]int, columns)
	for k := range every {
		every[k] = k
	}
	return []pair{
		{name: "another mixing", laws: func(r *rand.Rand) (law, law) { return mixedFive(r), mixedFive(r) }},
		{name: "mean moved", laws: of(mixedFive, diagonal(columns, 1), shift)},
		{name: "turned", laws: of(mixedFive, turn, still)},
		{name: "wider", laws: of(mixedFive, diagonal(columns, 4, every...), still)},
		{name: "one column narrower", laws: of(plainFive, diagonal(columns, 0.1, 4), still)},
		{name: "no clusters, mean moved", laws: of(func(*rand.Rand) law { return normal(columns) }, diagonal(columns, 1), shift)},
		{name: "slow", phi: 0.95, laws: func(r *rand.Rand) (law, law) { return mixedNormal(r), mixedNormal(r) }},
	}
}

// trial is A, B, A, B, … of that number of turns.
func (p pair) trial(seed uint64, rows, turns int) Trial {
	r := rand.New(rand.NewPCG(seed, 18))
	a, b := p.laws(r)
	x := mat.NewDense(rows*turns, columns, nil)
	for t := range turns {
		part := x.Slice(t*rows, (t+1)*rows, 0, columns).(*mat.Dense)
		now := []law{a, b}[t%2]
		if p.phi > 0 {
			autoregressive(p.phi)(r, now, part)
			continue
		}
		part.Copy(now.rows(r, rows))
	}
	t := Trial{Rows: x, Fresh: a.rows(r, freshRows), Every: rows}
	t.Truth = a.mean(t.Fresh)
	return t
}

// TestReturns holds that a regime that returns is known after 200 rows, whatever the difference between the two is.
func TestReturns(t *testing.T) {
	for i, p := range pairs() {
		for _, preset := range presetsOf(i) {
			t.Run(p.name+" "+preset.String(), func(t *testing.T) {
				c := online.DefaultConfig(columns)
				c.AcceptRows = 1000 // a week, which is the default of density, is no stream
				c.Preset, c.Neighbours = preset, 3000
				if preset == lca.PresetMetric {
					c.Neighbours = 256
				}
				r, err := Measure(c, p.trial(1, regimeRows, 5))
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%.0f rows, %.0f restarts, %.0f returns, %.2f nats above the truth", r.Recovery, r.Alarms, r.Returns, r.Excess)
				if !(r.Recovery <= 200) || r.Alarms != 1 || r.Returns != 3 {
					t.Errorf("%.0f rows, %.0f restarts and %.0f returns, want at most 200, 1 and 3", r.Recovery, r.Alarms, r.Returns)
				}
			})
		}
	}
}
