package online

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

const (
	refitRows    = 1000 // rows of the pool that a refit uses, unless refitColumns asks for more
	refitColumns = 20   // rows of the pool that a refit uses, per column
	refitSteps   = 200  // most EM steps of each of its runs
	refitHoldOut = 5    // one in this many of its rows is held out, to choose among the candidates of the search
	refitJudge   = 1000 // newest rows of the stream that choose between the candidate and the current metric
	refitApart   = 32   // rows between refits in the long run, in pool sizes
	refitSurely  = 2    // standard errors by which the candidate must be better
)

// refit is LCA-Gauss-Red on a stream. EM hardly ever moves a direction from one part to the other
// (section 4, "Escaping local optima"), and a stream is no better at it. So from time to time the
// search of a batch fit runs over rows of the pool, in the background. It starts when N, 2N, 4N … rows
// have been learnt, and then every 32N. Its candidate takes effect N/2 rows later if it explains the newest 1000 of
// them better than the current metric by two standard errors; otherwise it is dropped. Learn waits at that row for a
// search that has not ended, and so does a checkpoint. So what is learnt depends on the rows alone, and not on how
// fast the search was.
//
// C_L from n rows is wider than from the N of the pool by (N/n)^(2/(d_P+4)), which is corrected. A drift alarm
// drops the search, because its rows are from before the change.
type refit struct {
	began uint64 // counts.Since at the start; 0 = no search is running
	rows  batch  // the newest rows since, at most refitJudge
	*search
}

// search is a search in the background, and its outcome.
type search struct {
	found  candidate
	done   chan struct{} // closed when found is set; nil when it was restored
	cancel context.CancelFunc
}

// candidate is the outcome of a search.
type candidate struct {
	parzen int       // d_P; 0 = nothing to offer
	cl     []float64 // C_L without ν, dim×dim, for the whole pool
}

// Close ends a search in the background, and waits for its end. Only a learner of lca.KindLCAGaussRed has one. The
// learner must not be used afterwards.
func (l *Learner) Close() { l.refit.drop() }

// drop cancels the search and waits for its end.
func (r *refit) drop() {
	if r.search != nil && r.cancel != nil {
		r.cancel()
		<-r.done
	}
	*r = refit{}
}

// wait returns the search's outcome.
func (s *search) wait() candidate {
	if s.done != nil {
		<-s.done
	}
	return s.found
}

// stepRefit starts a search and ends it, each at its place; rows are those just learnt.
func (l *Learner) stepRefit(b batch, before uint64, s *Step) (err error) {
	if l.cfg.Kind != lca.KindLCAGaussRed || !l.family.unconfined() || l.cfg.InnerSteps != lca.Auto {
		return nil
	}
	pool := uint64(l.cfg.Neighbours)
	if r := &l.refit; r.began > 0 {
		if r.keep(b, l.cfg.Dim); l.counts.Since < r.began+pool/2 {
			return nil
		}
		if s.Refitted, err = l.endRefit(); err != nil {
			return err
		}
		s.Gaussian, s.Parzen = len(l.metric.Active)-l.metric.parzen, l.metric.parzen
	}
	if l.pool.len() == l.cfg.Neighbours && refitDue(before, l.counts.Since, pool) {
		l.startRefit()
	}
	return nil
}

// refitDue says whether the rows learnt have just passed N·2^k, or a multiple of 32N.
func refitDue(before, now, pool uint64) bool {
	for k := uint64(1); k < refitApart; k *= 2 {
		if before < k*pool && k*pool <= now {
			return true
		}
	}
	return before/(refitApart*pool) < now/(refitApart*pool)
}

// keep appends rows and forgets the oldest.
func (r *refit) keep(b batch, dim int) {
	r.rows.append(b)
	r.rows.forget(max(0, r.rows.len()-refitJudge), dim)
}

// startRefit starts one over rows of the pool, evenly taken; every fifth of them judges.
func (l *Learner) startRefit() {
	d, pool := l.cfg.Dim, l.pool.len()
	n := min(pool, max(refitRows, refitColumns*d))
	var train, fresh []float64
	for i := range n {
		if row := l.pool.row(i * pool / n); i%refitHoldOut == 0 {
			fresh = append(fresh, row...)
		} else {
			train = append(train, row...)
		}
	}
	c := l.cfg.Fit()
	c.Precision, c.MaxIter, c.Tol, c.Seed = l.cfg.Precision, refitSteps, replayGain, mix(l.cfg.Seed^l.counts.Rows)
	ctx, cancel := context.WithCancel(context.Background())
	s := &search{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.done)
		s.found = runSearch(ctx, mat.NewDense(len(train)/d, d, train), mat.NewDense(len(fresh)/d, d, fresh), c, pool)
	}()
	l.refit = refit{began: l.counts.Since, search: s}
}

// runSearch is the search itself. One that collapses offers nothing.
func runSearch(ctx context.Context, train, fresh *mat.Dense, c lca.Config, pool int) candidate {
	m, _, err := lca.Search(ctx, train, fresh, c)
	if err != nil || m.Parzen() == 0 {
		return candidate{}
	}
	n, _ := train.Dims()
	cl, _ := withoutNu(m)
	factor := prop1.WidthFactor(n, pool, m.Parzen())
	for k := range cl {
		cl[k] *= factor
	}
	return candidate{parzen: m.Parzen(), cl: cl}
}

// endRefit ends a search: what it found comes into force if the newest rows say so.
func (l *Learner) endRefit() (adopted bool, err error) {
	r := l.refit
	found := r.wait()
	l.refit.drop()
	if found.parzen == 0 {
		return false, nil
	}
	metric, cl := l.metric, l.cl
	was := append([]float64(nil), l.score(r.rows)...)
	l.cl = append([]float64(nil), found.cl...)
	enter(l.cl, l.cfg.Dim, varying(l.cl, l.cfg.Dim), metric.Active, l.moments.cov)
	l.metric = &metricState{ColumnScale: metric.ColumnScale, gaussian: metric.gaussian, ridged: metric.ridged}
	m2 := l.addNu(nil, &l.metric.ColumnScale, l.cl, l.cfg.Nu)
	if err = l.metric.proposition1(l.cfg.Kind, m2, found.parzen, 1, &l.work); err == nil {
		if l.metric.startSpan(l); surelyLower(l.score(r.rows), was) {
			return true, nil
		}
	}
	l.metric, l.cl = metric, cl
	if err != nil {
		return false, fmt.Errorf("lca: refit: %w", err)
	}
	return false, nil
}

// score returns −log p of rows under the current metric, NaN for one without a neighbour.
func (l *Learner) score(b batch) []float64 {
	l.estimator.load(l.pool, l.metric, &l.work)
	l.estimator.project(b.x, l.moments.mean)
	return l.densities(l.estimator.update(l.exclusion(b)))
}

// surelyLower says whether a is below b by two standard errors of their difference, row by row.
func surelyLower(a, b []float64) bool {
	var n, sum, squares float64
	for i := range a {
		if d := a[i] - b[i]; !math.IsNaN(d) {
			n, sum, squares = n+1, sum+d, squares+float64(d*d)
		}
	}
	mean := sum / n
	return n > 1 && mean < -refitSurely*math.Sqrt((squares/n-float64(mean*mean))/(n-1))
}

func (r *refit) write(w *writer) {
	w.u64(r.began)
	if r.began == 0 {
		return
	}
	found := r.wait()
	r.rows.write(w)
	w.count(found.parzen)
	w.floats(found.cl)
}

func (r *refit) read(from *reader, dim int) {
	if r.began = from.u64(); r.began == 0 {
		return
	}
	r.rows = readBatch(from)
	r.search = &search{found: candidate{parzen: int(from.u64()), cl: from.floats()}}
	if n := len(r.found.cl); from.err == nil && (!r.rows.valid(dim) || (r.found.parzen != 0 && n != dim*dim) || r.found.parzen < 0 || r.found.parzen > dim) {
		from.err = fmt.Errorf("a search with %d numbers for %d rows that offers d_P = %d and %d numbers", len(r.rows.x), r.rows.len(), r.found.parzen, n)
	}
}
