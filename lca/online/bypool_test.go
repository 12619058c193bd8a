package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestNoFalseAlarms holds that no minibatch of i.i.d. rows is set aside, however heavy their tails, however many columns have
// one value nearly always, and while the metric still improves.
func TestNoFalseAlarms(t *testing.T) {
	laws := map[string]func(r *rand.Rand, row []float64){
		"normal": func(r *rand.Rand, row []float64) {
			for k := range row {
				row[k] = r.NormFloat64()
			}
		},
		"t, 3 degrees": func(r *rand.Rand, row []float64) {
			for k := range row {
				row[k] = r.NormFloat64() / deviation3(r)
			}
		},
		"elliptical t": func(r *rand.Rand, row []float64) {
			s := deviation3(r)
			for k := range row {
				row[k] = r.NormFloat64() / s
			}
		},
		"mostly zeros": func(r *rand.Rand, row []float64) {
			for k := range row {
				if row[k] = 0; r.Float64() < 0.3*float64(k+1)/float64(len(row)) {
					row[k] = r.NormFloat64()
				}
			}
		},
		"clusters": func(r *rand.Rand, row []float64) {
			c := r.IntN(10)
			for k := range row {
				row[k] = r.NormFloat64() + 2*math.Sin(float64(1+c*len(row)+k))
			}
		},
	}
	for _, c := range some(4, []struct {
		law                        string
		dim, neighbours, minibatch int
		rows                       int
		preset                     lca.Preset
		kernel                     lca.Kernel
	}{
		{"normal", 8, 256, 50, 6000, lca.PresetDensity, lca.KernelAuto},
		{"t, 3 degrees", 4, 256, 50, 6000, lca.PresetMetric, lca.KernelStudent},
		{"elliptical t", 16, 256, 50, 6000, lca.PresetMetric, lca.KernelAuto},
		{"mostly zeros", 4, 256, 50, 6000, lca.PresetDensity, lca.KernelAuto},
		{"t, 3 degrees", 4, 256, 100, 12000, lca.PresetMetric, lca.KernelAuto},
		{"t, 3 degrees", 4, 1000, 50, 6000, lca.PresetDensity, lca.KernelGaussian},
		{"mostly zeros", 4, 256, 100, 6000, lca.PresetMetric, lca.KernelAuto},
		{"mostly zeros", 32, 256, 50, 3000, lca.PresetMetric, lca.KernelStudent},
		{"mostly zeros", 64, 256, 100, 3000, lca.PresetMetric, lca.KernelAuto},
		{"mostly zeros", 256, 256, 50, 2000, lca.PresetMetric, lca.KernelAuto},
		{"clusters", 256, 256, 100, 2000, lca.PresetMetric, lca.KernelAuto},
	}...) {
		t.Run(fmt.Sprintf("%s, %d columns, %d neighbours, %v %v, %d rows", c.law, c.dim, c.neighbours, c.preset, c.kernel, c.minibatch), func(t *testing.T) {
			config := DefaultConfig(c.dim)
			config.Neighbours, config.Minibatch, config.Preset, config.Kernel = c.neighbours, c.minibatch, c.preset, c.kernel
			l, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			r, x := rand.New(rand.NewPCG(7, 20)), mat.NewDense(c.minibatch, c.dim, nil)
			for at := 0; at < c.rows; at += c.minibatch {
				for i := range c.minibatch {
					laws[c.law](r, x.RawRowView(i))
				}
				s, err := l.Learn(x, sequence(at, c.minibatch), nil)
				if err != nil {
					t.Fatal(err)
				}
				if s.Quarantined > 0 || s.Alarm != AlarmNone {
					t.Errorf("row %d: %d rows set aside, alarm: %v, z = %.1f", at, s.Quarantined, s.Alarm, s.Z)
				}
			}
		})
	}
}

// deviation3 draws the root of the mean of three squared normal numbers, by which a normal number is divided for a t.
func deviation3(r *rand.Rand) float64 {
	return math.Sqrt((square(r.NormFloat64()) + square(r.NormFloat64()) + square(r.NormFloat64())) / 3)
}

func square(v float64) float64 { return v * v }
