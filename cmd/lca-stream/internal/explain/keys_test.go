package explain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
)

// A model for each key is proposed where keys explain the rows, in whatever direction that is, and not where they happen to have drifted apart.
func TestKeysExplain(t *testing.T) {
	const keys, d = 20, 8
	for name, c := range map[string]struct {
		row   func(rnd *rand.Rand, key, i int, x []float64, drift float64)
		rows  int
		wants string
	}{
		"levels": {rows: 30, wants: "% of the variance of s", row: func(rnd *rand.Rand, key, i int, x []float64, _ float64) {
			for k := range x {
				x[k] = 10*math.Sin(float64(1+key*(k+1))) + rnd.NormFloat64()
			}
		}},
		// The load hides what keys are in each column by itself.
		"relations": {rows: 30, wants: "% of the variance of s", row: func(rnd *rand.Rand, key, i int, x []float64, _ float64) {
			load := 20 * rnd.NormFloat64()
			for k := range x {
				x[k] = load + 5*math.Sin(float64(1+key*(k+1))) + rnd.NormFloat64()
			}
		}},
		"alike": {rows: 30, row: func(rnd *rand.Rand, _, _ int, x []float64, _ float64) {
			for k := range x {
				x[k] = rnd.NormFloat64()
			}
		}},
		"drift": {rows: 30, row: func(rnd *rand.Rand, _, _ int, x []float64, drift float64) {
			for k := range x {
				x[k] = drift + 0.1*rnd.NormFloat64()
			}
		}},
		"one column": {rows: 30, row: func(rnd *rand.Rand, key, _ int, x []float64, _ float64) {
			for k := range x {
				x[k] = rnd.NormFloat64()
			}
			x[3] = float64(key)
		}},
		"few rows": {rows: 9, row: func(rnd *rand.Rand, key, _ int, x []float64, _ float64) {
			for k := range x {
				x[k] = float64(key*(k+1)) + 0.1*rnd.NormFloat64()
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			b := Of(modelkey.By{Place: modelkey.Key}, &minibatch.Features{})
			for k := range d {
				b.features.Names = append(b.features.Names, fmt.Sprintf("s%d", k))
			}
			for key := range keys {
				x, drift := make([]float64, d), 0.
				for i := range c.rows {
					if i%10 == 0 { // the beginning, the middle and the end of a topic are far apart
						drift = 3 * rnd.NormFloat64()
					}
					c.row(rnd, key, i, x, drift)
					b.row(fmt.Sprint(key), x)
				}
			}
			if why := b.Why(); (why != "") != (c.wants != "") || !strings.Contains(why, c.wants) {
				t.Errorf("it says %q", why)
			}
		})
	}
}
