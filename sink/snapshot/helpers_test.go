package snapshot

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// example is a snapshot with every field set. Its numbers mean nothing: the codec must not care.
func example(d, parzen, neighbours int, version uint64) *Snapshot {
	r := rand.New(rand.NewPCG(version, uint64(d)))
	numbers := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(int64(r.Uint64())) * 0x1p-50 // all 53 bits
		}
		return v
	}
	m := &lca.Model{
		Dim: d, Mean: numbers(d), CG: mat.NewSymDense(d, numbers(d*d)), CL: mat.NewSymDense(d, numbers(d*d)),
		BG: new(mat.Dense), BL: new(mat.Dense), Ratio: numbers(d), W: mat.NewDense(d, d, numbers(d*d)),
		Kind: lca.KindLCAGauss, Metric: lca.MetricFull, Kernel: lca.KernelGaussian, Coordinates: lca.CoordinatesAligned, Components: lca.ComponentsAll,
		Info: lca.Info{
			Rows: version + 11, Learnt: version, NLL: -1.25, GaussianNLL: math.NaN(), Gamma: 0.6, Nu: 1, NuGaussian: 1e-3,
			NuUnit: lca.UnitRelative, Minibatch: 100, PassRows: 1234.5, Alarms: 1, Gated: 2, Copies: 3,
			Constant: []int{0, 2}, Effective: 17.25, Drift: 0.1,
		},
	}
	if parzen > 0 {
		m.BL = mat.NewDense(d, parzen, numbers(d*parzen))
	}
	if parzen < d {
		m.BG = mat.NewDense(d, d-parzen, numbers(d*(d-parzen)))
	}
	for range neighbours * d {
		m.Neighbours = append(m.Neighbours, float32(r.NormFloat64()))
	}
	m.Scores = &lca.Scores{Sorted: []float64{-1.5, 0x1.23456789abcdep0, 3, 3}, Tail: lca.Tail{U: 3, Xi: -0.3, Beta: 1e-7}}
	s := &Snapshot{
		Model: m, ModelID: "default", Version: version, Number: version / 100, Parent: version / 2, Producer: "lca-stream test",
		Offsets: source.Offsets{{Topic: "events", ID: 0}: 12, {Topic: "events", ID: 10}: 1 << 60, {Topic: "späti", ID: 1}: 0},
	}
	for j := range d {
		s.Features = append(s.Features, fmt.Sprintf("column <%d>", j))
	}
	return s
}

func diff(want, got *Snapshot) string {
	exact := cmp.Comparer(func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y })
	dense := cmp.Comparer(func(x, y *mat.Dense) bool { return rowsOf(x) == rowsOf(y) && (rowsOf(x) == 0 || mat.Equal(x, y)) })
	symmetric := cmp.Comparer(func(x, y *mat.SymDense) bool { return x == y || x != nil && y != nil && mat.Equal(x, y) })
	neighbours := cmp.Comparer(func(x, y []float32) bool { return slices.Equal(x, y) }) // there may be millions
	return cmp.Diff(want, got, neighbours, exact, dense, symmetric)
}

func mustMessages(t testing.TB, s *Snapshot, keep int, before Slots) ([]sink.Message, Slots) {
	t.Helper()
	messages, after, err := Messages(s, "snapshots", keep, before)
	if err != nil {
		t.Fatal(err)
	}
	return messages, after
}

func header(m sink.Message, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// add feeds messages that no test expects to fail.
func add(t testing.TB, a *Assembler, at time.Time, messages ...sink.Message) {
	t.Helper()
	for _, m := range messages {
		if err := a.Add(m.Key, m.Value, m.Headers, at); err != nil {
			t.Fatal(err)
		}
	}
}
