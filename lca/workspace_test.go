package lca_test

import (
	"context"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
)

// Scorers of several models and sizes that share a Workspace return the bits that they return each with its own, and so does one that is
// renewed for each model.
func TestScorersShareAWorkspace(t *testing.T) {
	const rows = 70
	shared := new(lca.Workspace)
	type pair struct {
		own, other *lca.Scorer
		model      *lca.Model
	}
	var renewed *lca.Scorer
	var all []pair
	var dims []int
	for i, d := range []int{3, 7, 5, 2} {
		x, _ := toy("five", 150+100*i, d-2, uint64(i))
		c := lca.DefaultConfig()
		c.Preset, c.MaxIter = lca.PresetDensity, 3
		if i%2 == 1 {
			c.Kernel = lca.KernelStudent
		}
		m, err := lca.Fit(context.Background(), x, c)
		if err != nil {
			t.Fatal(err)
		}
		p := pair{m.NewScorer(), m.NewScorer(), m}
		p.other.Use(shared)
		all, dims = append(all, p), append(dims, d)
	}
	for round := range 3 {
		for i, p := range all {
			d := dims[i]
			q, _ := toy("five", rows, d-2, uint64(10+round))
			x := q.RawMatrix().Data
			one, two := results(t, p.own, x, rows, d), results(t, p.other, x, rows, d)
			if !slices.Equal(one, two) {
				t.Errorf("model %d, round %d: other numbers with a shared workspace", i, round)
			}
			if renewed == nil {
				renewed = p.model.NewScorerIn(shared)
			}
			renewed.Renew(p.model)
			if three := results(t, renewed, x, rows, d); !slices.Equal(one, three) {
				t.Errorf("model %d, round %d: other numbers of a renewed scorer", i, round)
			}
		}
	}
}

// results are what a Scorer says of rows, the first of which lacks a number.
func results(t *testing.T, s *lca.Scorer, x []float64, rows, d int) (all []float64) {
	t.Helper()
	y, score, gains := make([]float32, rows*d), make([]float32, rows), make([]lca.Gain, 2*rows)
	x = slices.Clone(x)
	s.Score(y, score, x, rows)
	s.Why(gains, x, rows)
	x[0] = math.NaN()
	if err := s.Impute(context.Background(), x, rows); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		all = append(all, float64(score[i]), gains[2*i].Nats, float64(gains[2*i].Column))
	}
	for _, v := range y {
		all = append(all, float64(v))
	}
	return append(all, x[:d]...)
}

// What a Scorer says it takes is what it takes: caches of Scorers are bounded by it.
func TestBytesOfAScorer(t *testing.T) {
	const d, n, many = 8, 250, 100
	x, _ := toy("five", n, d-2, 1)
	c := lca.DefaultConfig()
	c.MaxIter = 2
	m, err := lca.Fit(context.Background(), x, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, why := range []bool{false, true} {
		shared, all := new(lca.Workspace), make([]*lca.Scorer, many)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC() // memory of the fit, which is kept for others, outlives one
		runtime.ReadMemStats(&before)
		for i := range all {
			one := *m // a scorer's model is its own
			one.Neighbours = slices.Clone(m.Neighbours)
			all[i] = one.NewScorer()
			all[i].Use(shared)
			all[i].Prepare(why)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		// The workspace, and what else the test allocates, is little next to 100 of them.
		takes, says := float64(after.HeapAlloc-before.HeapAlloc)/many, float64(all[0].Bytes())
		if says < takes || says > 1.5*takes {
			t.Errorf("why %v: it takes %.0f bytes and says %.0f", why, takes, says)
		}
		runtime.KeepAlive(all)
	}
}
