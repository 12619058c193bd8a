package online

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestFaultsOfAKnownMachine holds that with the settings of docs/quality/machine.yaml no row of a fault is learnt, however long it lasts and whether it is in
// a direction with clusters or without, nor where there is no Parzen direction. Without holds one alarm says so.
func TestFaultsOfAKnownMachine(t *testing.T) {
	const d, b, good, fault = 8, 100, 4000, 5000
	for _, c := range []struct {
		law          string
		column       int
		by, clusters float64
	}{
		{"no clusters", 2, 10, 0}, {"clusters, fault in another column", 5, 10, 8}, {"clusters, fault in a column of theirs", 0, 30, 8},
	} {
		for at := range some(2, 0, 1, 2, 3, 4, 5) {
			seed, holds := at/2, at%2 > 0
			t.Run(fmt.Sprintf("%s, %d, %v", c.law, seed, holds), func(t *testing.T) {
				config := DefaultConfig(d)
				config.Preset, config.WarmupRows, config.OutlierGate, config.Drift, config.Minibatch, config.Recent = lca.PresetDensity, 400, 20, false, b, holds
				l, err := NewLearner(config)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				r := rand.New(rand.NewPCG(uint64(seed), 31))
				var alarms []Alarm
				for first := 0; first < good+fault; first += b {
					x := mat.NewDense(b, d, nil)
					for i := range b {
						for k := range d {
							x.Set(i, k, r.NormFloat64())
							if k < 2 {
								x.Set(i, k, x.At(i, k)+c.clusters*float64(r.IntN(2)))
							}
						}
						if first >= good {
							x.Set(i, c.column, x.At(i, c.column)+c.by)
						}
					}
					s, err := l.Learn(x, sequence(first, b), nil)
					if err != nil {
						t.Fatal(err)
					}
					if s.Alarm != AlarmNone {
						alarms = append(alarms, s.Alarm)
					}
					if refused := s.Gated + s.Held; first >= good && refused < b || first < good && s.Gated > b/20 {
						t.Fatalf("%d of %d rows refused, %d of them held, from row %d on", refused, b, s.Held, first)
					}
				}
				if want := []Alarm{AlarmRefused}; !holds && !slices.Equal(alarms, want) || holds && len(alarms) > 0 {
					t.Errorf("alarms %v, want %v without holds, none with them", alarms, want)
				}
			})
		}
	}
}

// TestWideGateIsObeyed holds that rows within a gate in kernel widths are learnt, although they are far from all neighbours, and that those beyond one are not.
func TestWideGateIsObeyed(t *testing.T) {
	const d, b = 6, 50
	for gate, learnt := range map[float64]int{60: b - 1, 2000: b} {
		config := DefaultConfig(d)
		config.Kind, config.Preset, config.WarmupRows, config.OutlierGate, config.Drift, config.Minibatch, config.Recent = lca.KindLCA, lca.PresetDensity, 400, gate, false, b, false
		l, err := NewLearner(config)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(5, 31))
		feed(t, l, five(r, 3000, d-2), b)
		x := five(r, b, d-2)
		x.Set(7, 5, x.At(7, 5)+12)
		s, err := l.Learn(x, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Learnt != learnt || s.Gated != b-learnt {
			t.Errorf("gate %v: %d of %d rows learnt and %d refused, want %d learnt", gate, s.Learnt, b, s.Gated, learnt)
		}
		l.Close()
	}
}
