package online

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestFreeze makes models on other goroutines while the learner goes on: each must be the one that the learner would
// have returned then, and the learner must not notice.
func TestFreeze(t *testing.T) {
	const dim, rows, minibatches = 5, 50, 60
	for _, metric := range []lca.Metric{lca.MetricFull, lca.MetricDiagonal} {
		t.Run(metric.String(), func(t *testing.T) {
			c := DefaultConfig(dim)
			c.Neighbours, c.Minibatch, c.Metric = 300, rows, metric
			x, _ := clusters(rows*minibatches, dim)
			for i := dim; i < len(x); i++ { // rows that are near in time are no neighbours
				x[i] += 0.8 * x[i-dim]
			}
			run := func(each func(*Learner)) []byte {
				l, err := NewLearner(c)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				for i := range minibatches {
					if _, err := l.Learn(mat.NewDense(rows, dim, x[i*rows*dim:][:rows*dim]), nil, nil); err != nil {
						t.Fatal(err)
					}
					each(l)
				}
				if l.gap == 0 {
					t.Error("no row is near another in time: not the case that is meant")
				}
				state, err := l.AppendBinary(nil)
				if err != nil {
					t.Fatal(err)
				}
				return state
			}
			var want []*lca.Model
			plain := run(func(*Learner) {})
			run(func(l *Learner) {
				if m, err := l.Model(); err == nil {
					want = append(want, m)
				}
			})
			var later []chan *lca.Model
			state := run(func(l *Learner) {
				f, err := l.Freeze()
				if err != nil {
					return
				}
				made := make(chan *lca.Model, 1)
				later = append(later, made)
				go func() {
					m, err := f.Model()
					if err != nil {
						t.Error(err)
					}
					made <- m
				}()
			})
			if !bytes.Equal(state, plain) {
				t.Error("the learner is another one")
			}
			if len(later) != len(want) || len(want) < minibatches/2 {
				t.Fatalf("%d models, want %d", len(later), len(want))
			}
			for i, made := range later {
				if d := cmp.Diff(want[i], <-made, cmpopts.EquateNaNs(), cmp.Exporter(func(reflect.Type) bool { return true })); d != "" {
					t.Fatalf("model %d: %s", i, d)
				}
			}
		})
	}
}
