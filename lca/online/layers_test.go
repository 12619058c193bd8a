package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// squares draws rows of two columns around a centre, each with a value of its own.
func squares(r *rand.Rand, rows int, x, y, spread float64) pool.Batch {
	b := pool.Batch{}
	for range rows {
		b.X = append(b.X, x+spread*r.NormFloat64(), y+spread*r.NormFloat64())
		b.IDs = append(b.IDs, r.Uint64())
		b.Places = append(b.Places, pool.Place{Partition: pool.NoPartition})
	}
	return b
}

// planeModel is a model of two columns that has seen nothing.
func planeModel(t *testing.T) model {
	t.Helper()
	m, err := newModel(DefaultConfig(2))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRowGateAlone has a row gate of a model of 1,000 rows judge ten rows, without a learner.
func TestRowGateAlone(t *testing.T) {
	m := planeModel(t)
	g, r := rowGate{model: m}, rand.New(rand.NewPCG(1, 46))
	if _, _, err := g.fitInside(squares(r, 1000, 0, 0, 1), new(Step)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x, y   float64
		learnt bool
	}{
		{0, 0, true}, {1, 1, true}, {-2, 0, true}, {0, 2, true}, {2, -1.5, true},
		{9, 0, false}, {0, -9, false}, {7, 7, false}, {1e6, 0, false}, {-1e12, 1e12, false},
	} {
		b := squares(r, 100, 0, 0, 0.5) // with others: to a minibatch of far rows alone a young gate opens
		copy(b.X, []float64{c.x, c.y})
		g.estimator.load(g.pool, g.metric, g.work)
		j := g.judge(b, new(Step))
		if kept, _ := g.dropGated(j.inside, j.moments); slices.Contains(kept.IDs, b.IDs[0]) != c.learnt || kept.Len() < 99 {
			t.Errorf("row (%g, %g): learnt %v, want %v", c.x, c.y, !c.learnt, c.learnt)
		}
	}
}

// TestHeldOfAGrowingPool holds that rows that were refused join a pool that is not full, of rows that depend on each other in time: those of the minibatch
// that have just entered it are not loaded yet.
func TestHeldOfAGrowingPool(t *testing.T) {
	m := planeModel(t)
	g, r := rowGate{model: m}, rand.New(rand.NewPCG(5, 46))
	var at uint64
	inTime := func(rows int, x, spread float64) pool.Batch {
		b := squares(r, rows, x, 0, spread)
		for i := range b.Places {
			b.Places[i], at = pool.Place{At: at}, at+1
		}
		return b
	}
	if _, _, err := g.fitInside(inTime(1000, 0, 1), new(Step)); err != nil {
		t.Fatal(err)
	}
	g.gap = 50
	g.estimator.load(g.pool, g.metric, g.work)
	g.held = inTime(300, 8, 0.3)
	b := inTime(100, 0, 1)
	g.again(b)
	before := g.pool.Len()
	g.offerToPool(b, g.kept)
	grown := g.pool.Len()
	if entered := g.admitHeld(); grown <= before || entered == 0 {
		t.Errorf("the pool has grown from %d to %d, and %d of the rows that were held have entered it", before, grown, entered)
	}
}

// TestChangeWatchAlone has the watch judge minibatches after 40 normal ones.
func TestChangeWatchAlone(t *testing.T) {
	m := planeModel(t)
	r := rand.New(rand.NewPCG(2, 46))
	w := changeWatch{}
	w.model = m
	normal := func(rows int) pool.Batch { return squares(r, rows, 0, 0, 1) }
	if _, _, err := w.fitInside(normal(2000), new(Step)); err != nil {
		t.Fatal(err)
	}
	judge := func(b pool.Batch) (judgement, bool, *Step) {
		s := new(Step)
		w.estimator.load(w.pool, w.metric, w.work)
		j := w.judge(b, s)
		return j, w.isAnomalous(j, s), s
	}
	for range 40 {
		j, anomalous, s := judge(normal(100))
		if w.rests.pass(j.all, anomalous, w.longest, 2); anomalous {
			t.Fatal("a normal minibatch is anomalous")
		}
		w.acceptNormal(j, s)
	}
	few := normal(100)
	copy(few.X, squares(r, 5, 20, 20, 1).X)
	still := normal(100)
	for i := range still.IDs {
		still.X[2*i+1] = 0.5
	}
	for _, c := range []struct {
		name      string
		b         pool.Batch
		anomalous bool
	}{
		{"like those before", normal(100), false},
		{"five far rows", few, false},
		{"all far", squares(r, 100, 20, 20, 1), true},
		{"four times as wide", squares(r, 100, 0, 0, 4), true},
		{"a tenth as wide", squares(r, 100, 0, 0, 0.1), true},
		{"a column that stands still", still, true},
	} {
		if _, anomalous, _ := judge(c.b); anomalous != c.anomalous {
			t.Errorf("%s: anomalous %v, want %v", c.name, anomalous, c.anomalous)
		}
	}
}

// TestRegimesAlone asks a bank of two regimes which of them explains rows.
func TestRegimesAlone(t *testing.T) {
	m := planeModel(t)
	r := rand.New(rand.NewPCG(3, 46))
	bank := regimes{}
	bank.model = m
	learn := func(x float64) {
		if _, _, err := bank.fitInside(squares(r, 2000, x, 0, 1), new(Step)); err != nil {
			t.Fatal(err)
		}
		bank.split = true
		for range 40 {
			s := new(Step)
			bank.estimator.load(bank.pool, bank.metric, bank.work)
			j := bank.judge(squares(r, 100, x, 0, 1), s)
			bank.rests.pass(j.all, bank.isAnomalous(j, s), bank.longest, 2)
			bank.acceptNormal(j, s)
		}
	}
	learn(-30)
	bank.keepFormer()
	bank.setRegime(emptyRegime(bank.cfg))
	learn(30)
	for _, c := range []struct {
		name    string
		x       float64
		returns bool
	}{
		{"rows of neither", 0, false},
		{"rows of the former", -30, true},
		{"rows of the one before that", 30, true},
		{"rows beyond both", 90, false},
	} {
		before := bank.moments.mean[0]
		if got := bank.regimeReturns(squares(r, 100, c.x, 0, 1), true, math.Inf(1)); got != c.returns {
			t.Errorf("%s: returns %v, want %v", c.name, got, c.returns)
		}
		if now := bank.moments.mean[0]; c.returns == (now == before) || c.returns && math.Abs(now-c.x) > 1 {
			t.Errorf("%s: the current regime is around %.1f, was %.1f", c.name, now, before)
		}
	}
}

// TestChoicesAlone says when a comparison is due, by the rows learnt and those that the pool held before.
func TestChoicesAlone(t *testing.T) {
	m := planeModel(t)
	full, r := m.cfg.Neighbours, rand.New(rand.NewPCG(4, 46))
	for _, one := range []struct {
		name            string
		pool            int
		before, since   uint64
		held            int
		compared, isDue bool
	}{
		{"a young pool", 200, 100, 200, 100, false, false},
		{"an eighth of a full pool", full / 8, 300, uint64(full) / 8, full/8 - 100, false, true},
		{"a little more, after the first", full/8 + 100, uint64(full) / 8, uint64(full)/8 + 100, full / 8, true, false},
		{"a quarter", full / 4, uint64(full)/4 - 100, uint64(full) / 4, full/4 - 100, true, true},
		{"the pool is just full", full, uint64(full) - 100, uint64(full), full - 100, true, true},
		{"after that", full, uint64(full), uint64(full) + 100, full, true, false},
		{"twice as many rows", full, 2*uint64(full) - 100, 2 * uint64(full), full, true, true},
		{"three times", full, 3*uint64(full) - 100, 3 * uint64(full), full, true, false},
		{"four times", full, 4*uint64(full) - 100, 4 * uint64(full), full, true, true},
	} {
		l := choices{rowGate: rowGate{model: m}}
		l.pool = pool.New(full, 2)
		l.offerToPool(squares(r, one.pool, 0, 0, 1), nil)
		if l.since = one.since; one.compared {
			l.chosen = lca.Choice{Rows: 100, Candidates: []lca.Trial{{Name: "current"}, {Name: "gaussian"}}}
		}
		if got := l.choiceDue(one.before, one.held); l.pool.Len() != one.pool || got != one.isDue {
			t.Errorf("%s: due %v, want %v (%d rows in the pool)", one.name, got, one.isDue, l.pool.Len())
		}
	}
}
