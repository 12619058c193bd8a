package online

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// Learners that work in turn with one Scratch learn the same bits as with memory of their own: of several shapes, through
// warm-up, choices, a change of the stream and models that are published.
func TestLearnersThatShareScratchLearnTheSame(t *testing.T) {
	var configs []Config
	for _, dim := range []int{3, 8} {
		for _, preset := range []lca.Preset{lca.PresetMetric, lca.PresetDensity} {
			c := DefaultConfig(dim)
			c.Preset, c.Neighbours, c.Minibatch = preset, 120, 50
			configs = append(configs, c)
			c.Precision = lca.Float64
			configs = append(configs, c)
		}
	}
	var shared Scratch
	var alone, together []*Learner
	for _, c := range append(configs, configs...) {
		alone, together = append(alone, newOne(t, c)), append(together, newOne(t, c))
	}
	random := rand.New(rand.NewPCG(7, 11))
	for turn := range 60 {
		for i, l := range alone {
			x := minibatchOf(random, l.cfg.Dim, 50, turn >= 40)
			first, err := l.Learn(x, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			other := together[i]
			other.Borrow(&shared)
			second, err := other.Learn(x, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if first.Parzen != second.Parzen || first.Alarm != second.Alarm {
				t.Fatalf("learner %d, minibatch %d: %+v alone, %+v together", i, turn, first, second)
			}
			if turn%7 == 6 {
				_, err = other.Model()
				if _, want := l.Model(); (err == nil) != (want == nil) {
					t.Fatalf("learner %d, minibatch %d: %v alone, %v together", i, turn, want, err)
				}
			}
			other.Return(&shared)
			got, gotWaits := other.Waiting() // of one that was given back
			if want, waits := l.Waiting(); got != want || gotWaits != waits {
				t.Fatalf("learner %d, minibatch %d: it waits for %+v, %v alone, %+v, %v together", i, turn, want, waits, got, gotWaits)
			}
		}
	}
	for i, l := range alone {
		together[i].Borrow(&shared)
		if !bytes.Equal(stateOf(t, l), stateOf(t, together[i])) {
			t.Errorf("learner %d: the states differ", i)
		}
		together[i].Return(&shared)
	}
}

func newOne(t *testing.T, c Config) *Learner {
	t.Helper()
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// minibatchOf is rows of three clusters, which are elsewhere after a change.
func minibatchOf(random *rand.Rand, dim, rows int, changed bool) *mat.Dense {
	x := mat.NewDense(rows, dim, nil)
	for i := range rows {
		cluster := float64(random.IntN(3))
		for j := range dim {
			v := random.NormFloat64()
			if j < 2 {
				v = .3*v + 3*cluster
			}
			if changed {
				v = 20 - 2*v
			}
			x.Set(i, j, v)
		}
	}
	return x
}
