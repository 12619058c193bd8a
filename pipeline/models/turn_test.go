package models

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// along is a model whose directions are all Parzen, of which the first looks at angle a in the plane
// of the first two columns.
func along(a float64, ratio ...float64) *stats.PublishedModel {
	d := len(ratio)
	one, b := mat.NewSymDense(d, nil), mat.NewDense(d, d, nil)
	for i := range d {
		one.SetSym(i, i, 1)
		b.Set(i, i, 1)
	}
	sin, cos := math.Sincos(a)
	b.Set(0, 0, cos)
	b.Set(1, 0, sin)
	b.Set(0, 1, -sin)
	b.Set(1, 1, cos)
	return &stats.PublishedModel{Snapshot: &snapshot.Snapshot{Features: make([]string, d), Model: &lca.Model{Dim: d, CG: one, BL: b, BG: &mat.Dense{}, Ratio: ratio}}}
}

func TestTurned(t *testing.T) {
	for name, c := range map[string]struct {
		before, now *stats.PublishedModel
		want        []float64
	}{
		"the first model":               {nil, along(0, 0.1, 0.5, 0.6), nil},
		"one direction turns":           {along(0, 0.1, 0.5, 0.6), along(0.3, 0.1, 0.5, 0.6), []float64{0.3}},
		"it turns beyond a right angle": {along(0, 0.1, 0.5, 0.6), along(math.Pi-0.2, 0.1, 0.5, 0.6), []float64{0.2}},
		"a plane turns in itself":       {along(0, 0.1, 0.1, 0.6), along(0.3, 0.1, 0.1, 0.6), []float64{0, 0}},
		"another width":                 {along(0, 0.1, 0.5, 0.6), along(0.3, 0.1, 0.5), nil},
		"no gap":                        {along(0, 0.5, 0.5, 0.5), along(0.3, 0.5, 0.5, 0.5), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := turned(c.before, c.now)
			if len(got) != len(c.want) {
				t.Fatalf("%v, want %v", got, c.want)
			}
			for i := range got {
				if math.Abs(got[i]-c.want[i]) > 1e-9 { // an arc cosine away from 1
					t.Errorf("%v, want %v", got, c.want)
				}
			}
		})
	}
}
