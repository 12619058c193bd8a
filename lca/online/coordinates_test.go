package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// What a program sees that clusters the whitened rows as they come and knows nothing of snapshots: an
// online k-means (MacQueen 1967) over 50 of them. A flip is a fixed row whose label changes from one
// snapshot to the next. Some labels flip because the centres still move: so they do under one model that
// never changes. Aligned and symmetric coordinates add next to nothing to that; with the columns of B as
// coordinates many more flip, each time that two eigenvalues change places or a direction its sign.
func TestLabelsStayWithAlignment(t *testing.T) {
	const snapshots, between, k = 50, 4, 5
	rng := rand.New(rand.NewPCG(5, 1))
	c := DefaultConfig(12)
	c.Neighbours = 800
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	id := uint64(0)
	learn := func() *mat.Dense {
		x, ids := five(rng, c.Minibatch, 10), make([]uint64, c.Minibatch)
		for i := range ids {
			id++
			ids[i] = id
		}
		if _, err := l.Learn(x, ids, nil); err != nil {
			t.Fatal(err)
		}
		return x
	}
	for range 10 {
		learn()
	}
	probe := five(rng, 400, 10)
	const frozen, aligned, symmetric, components = 0, 1, 2, 3
	views := []lca.Coordinates{lca.CoordinatesAligned, lca.CoordinatesAligned, lca.CoordinatesSymmetric, lca.CoordinatesComponents}
	var first *lca.Model
	consumers := make([]consumer, len(views))
	for range snapshots {
		var rows []*mat.Dense
		for range between {
			rows = append(rows, learn())
		}
		m, err := l.Model()
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = m
		}
		for v, coords := range views {
			view, err := m.View(coords, lca.ComponentsAll)
			if err != nil {
				t.Fatal(err)
			}
			if v == frozen {
				view = first
			}
			sameMetric(t, view)
			consumers[v].see(view, rows, probe, k)
		}
	}
	r, _ := probe.Dims()
	share := make([]float64, len(views)) // of labels, from one snapshot to the next
	for v := range views {
		share[v] = float64(consumers[v].flips) / float64((snapshots-1)*r)
	}
	t.Logf("labels that flip: one model %.2f %%, aligned %.2f %%, symmetric %.2f %%, components %.2f %%",
		100*share[frozen], 100*share[aligned], 100*share[symmetric], 100*share[components])
	// Seen over ten seeds: 0.2 to 1.5 % under one model, at most 0.2 points more when aligned or symmetric, and
	// 5 to 15 % by components.
	for _, v := range []int{aligned, symmetric} {
		if share[v] > share[frozen]+0.01 {
			t.Errorf("%v: %.2f %% of the labels flip, under one model %.2f %%", views[v], 100*share[v], 100*share[frozen])
		}
	}
	if share[components] < 3*share[aligned] {
		t.Errorf("components: %.2f %% of the labels flip, aligned %.2f %%: the case does not show what alignment is for", 100*share[components], 100*share[aligned])
	}
}

// consumer clusters what comes, and counts the fixed rows whose label changes.
type consumer struct {
	means  *onlineKMeans
	labels []int
	flips  int
}

func (c *consumer) see(view *lca.Model, rows []*mat.Dense, probe *mat.Dense, k int) {
	var y, p mat.Dense
	view.Whiten(&p, probe)
	if c.means == nil {
		c.means = newOnlineKMeans(&p, k)
	}
	for _, x := range rows {
		view.Whiten(&y, x)
		c.means.learn(&y)
	}
	now := c.means.labels(&p)
	for i := range c.labels {
		if c.labels[i] != now[i] {
			c.flips++
		}
	}
	c.labels = now
}

// sameMetric fails unless WᵀW = B Bᵀ.
func sameMetric(t *testing.T, m *lca.Model) {
	t.Helper()
	b := prop1.Parts{BL: m.BL, BG: m.BG}.Joined()
	var metric, of mat.Dense
	metric.Mul(m.W.T(), m.W)
	of.Mul(b, b.T())
	if off := maxDifference(&metric, &of); off > 1e-10*mat.Max(&of) { // rounding of products of 12×12 matrices
		t.Fatalf("%v: the metric has changed by %g", m.Coordinates, off)
	}
}

// onlineKMeans moves the nearest centre towards each row by one over the number of rows it has won, at
// least a hundredth.
type onlineKMeans struct {
	centres *mat.Dense
	won     []float64
}

// newOnlineKMeans takes as centres the rows that lie furthest apart.
func newOnlineKMeans(x *mat.Dense, k int) *onlineKMeans {
	n, d := x.Dims()
	o := &onlineKMeans{centres: mat.NewDense(k, d, nil), won: make([]float64, k)}
	o.centres.SetRow(0, x.RawRowView(0))
	for j := 1; j < k; j++ {
		best, at := -1.0, 0
		for i := range n {
			if _, far := o.nearest(x.RawRowView(i), j); far > best {
				best, at = far, i
			}
		}
		o.centres.SetRow(j, x.RawRowView(at))
	}
	return o
}

func (o *onlineKMeans) nearest(row []float64, k int) (at int, least float64) {
	least = math.Inf(1)
	for j := range k {
		sum := 0.0
		for i, v := range o.centres.RawRowView(j) {
			sum += (row[i] - v) * (row[i] - v)
		}
		if sum < least {
			at, least = j, sum
		}
	}
	return at, least
}

func (o *onlineKMeans) learn(x *mat.Dense) {
	n, _ := x.Dims()
	for i := range n {
		row := x.RawRowView(i)
		at, _ := o.nearest(row, len(o.won))
		o.won[at]++
		rate := max(1/o.won[at], 0.01)
		for j, v := range row {
			c := o.centres.At(at, j)
			o.centres.Set(at, j, c+rate*(v-c))
		}
	}
}

func (o *onlineKMeans) labels(x *mat.Dense) []int {
	n, _ := x.Dims()
	all := make([]int, n)
	for i := range all {
		all[i], _ = o.nearest(x.RawRowView(i), len(o.won))
	}
	return all
}
