package online

import (
	"bytes"
	"fmt"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestSteadyLearnAllocatesNothing holds that Learn, splits and the reference's moves included, allocates
// nothing once its buffers have grown, except the evaluators that it gives out every 1000 rows; so none of it waits for the collector, however long the stream is.
func TestSteadyLearnAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		dim, neighbours, rows int
		precision             lca.Precision
	}{{12, 200, 100, lca.Float32}, {40, 300, 100, lca.Float32}, {12, 200, 100, lca.Float64}} {
		t.Run(fmt.Sprintf("d=%d/%v", c.dim, c.precision), func(t *testing.T) {
			config := DefaultConfig(c.dim)
			config.Kind = lca.KindLCAGauss // nothing is compared in the background
			config.Neighbours, config.Minibatch, config.Precision = c.neighbours, c.rows, c.precision
			l, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			x, _ := clusters(40*c.rows, c.dim)
			ids, next, splits := make([]uint64, c.rows), 0, 0
			var minibatches []*mat.Dense
			for ; len(x) > 0; x = x[c.rows*c.dim:] {
				minibatches = append(minibatches, mat.NewDense(c.rows, c.dim, x[:c.rows*c.dim]))
			}
			learn := func() {
				for i := range ids {
					ids[i] = uint64(next*c.rows + i)
				}
				s, err := l.Learn(minibatches[next%len(minibatches)], ids, nil)
				if err != nil {
					t.Fatal(err)
				}
				if s.Eigen {
					splits++
				}
				next++
			}
			for range 3000 / c.rows * 20 { // until n is at its cap, and the reference has moved
				learn()
			}
			splits = 0
			// One run is many minibatches, for AllocsPerRun rounds down.
			if n := testing.AllocsPerRun(2, func() {
				for range 2 * alignEvery {
					learn()
				}
			}); n > float64(18*(2*alignEvery*c.rows/1000+1)) {
				t.Errorf("%v allocations in %d minibatches", n, 2*alignEvery)
			}
			if splits == 0 {
				t.Error("no split was found: the test does not see what it is for")
			}
		})
	}
}

// TestRestoredBetweenSplits holds that a learner goes on bit for bit from a state written after any of its
// minibatches, at a split or between two.
func TestRestoredBetweenSplits(t *testing.T) {
	const dim, rows, minibatches = 6, 20, 40
	c := DefaultConfig(dim)
	c.Neighbours, c.Minibatch = 60, rows
	x, _ := clusters(rows*(minibatches+1), dim)
	state := func(l *Learner) []byte {
		b, err := l.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	learn := func(l *Learner, i int) Step {
		s, err := l.Learn(mat.NewDense(rows, dim, x[i*rows*dim:(i+1)*rows*dim]), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	between := 0
	for i := range minibatches {
		learn(l, i)
		restored, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := restored.UnmarshalBinary(state(l)); err != nil {
			t.Fatal(err)
		}
		if l.metric != nil && l.metric.minibatches > 0 {
			between++
		}
		ahead, err := NewLearner(c) // the one that goes on is not to be the one that was read
		if err != nil {
			t.Fatal(err)
		}
		for k := range i + 1 {
			learn(ahead, k)
		}
		learn(ahead, i+1)
		learn(restored, i+1)
		if !bytes.Equal(state(ahead), state(restored)) {
			t.Fatalf("after minibatch %d a restored learner goes on differently", i)
		}
	}
	if between == 0 {
		t.Error("no state was written between two splits")
	}
}
