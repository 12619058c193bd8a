package online

import (
	"fmt"

	"github.com/lca-stream/lca-stream/lca"
)

// The part of the state that says what the data have chosen; state.go has the layout.

func (c *choice) write(w *writer) {
	w.u64(c.began)
	if c.began == 0 {
		return
	}
	found := c.wait()
	c.rows.write(w)
	writeChoice(w, found.Choice)
	if found.Taken != 0 {
		found.best.recipe.write(w)
		w.count(found.best.parzen)
		w.floats(found.best.cl)
	}
}

func (c *choice) read(r *reader, dim int) {
	if c.began = r.u64(); c.began == 0 {
		return
	}
	c.rows = readBatch(r)
	if r.err == nil && !c.rows.valid(dim) {
		r.err = fmt.Errorf("a comparison with %d numbers for %d rows", len(c.rows.x), c.rows.len())
	}
	if r.first { // a comparison for LCA-Gauss-Red, which is dropped: the next comes
		r.u64()
		r.floats()
		*c = choice{}
		return
	}
	found := outcome{Choice: readChoice(r)}
	if found.Taken != 0 {
		found.best = candidate{readRecipe(r), int(r.u64()), r.floats()}
		if n, parzen := len(found.best.cl), found.best.parzen; r.err == nil && (n != dim*dim || parzen < 0 || parzen > dim) {
			r.err = fmt.Errorf("a comparison that offers d_P = %d and %d numbers for %d columns", parzen, n, dim)
		}
	}
	c.comparison = &comparison{found: found}
}

func writeChoice(w *writer, c lca.Choice) {
	w.u64(c.Rows)
	w.count(c.Taken)
	w.count(len(c.Candidates))
	for _, t := range c.Candidates {
		w.text(t.Name)
		w.count(t.Parzen)
		w.f64(t.Nu)
		w.u64(uint64(t.NuUnit))
		w.u64(uint64(t.Kernel))
		w.f64(t.NLL)
	}
}

func readChoice(r *reader) lca.Choice {
	const least = 48 // bytes of a candidate without a name
	c := lca.Choice{Rows: r.u64(), Taken: int(r.u64())}
	for range r.count(least) {
		c.Candidates = append(c.Candidates, lca.Trial{
			Name: r.text(), Parzen: int(r.u64()), Nu: r.f64(), NuUnit: lca.Unit(r.u64()), Kernel: lca.Kernel(r.u64()), NLL: r.f64(),
		})
	}
	if r.err == nil && (c.Taken < 0 || c.Taken >= max(1, len(c.Candidates))) {
		r.err = fmt.Errorf("candidate %d of %d", c.Taken, len(c.Candidates))
	}
	return c
}
