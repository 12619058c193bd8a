package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// tune chooses ν and ν_g by rows that are held out, and puts them into the configuration.
func (r *replay) tune(ctx context.Context) error {
	start := time.Now()
	rows, err := r.sample(ctx)
	if err != nil {
		return err
	}
	r.warnUnusable(rows.unusable)
	learner, err := r.config.Learner(len(rows.features))
	if err != nil {
		return err
	}
	h, err := r.holdOut(rows)
	if err != nil {
		return err
	}
	c, err := r.fitConfig(len(rows.features))
	if err != nil {
		return err
	}
	c.Nu, c.NuGaussian, c.NuUnit = c.Preset.Resolve(c.Nu, c.NuGaussian, c.NuUnit)
	train, fresh := rowsOf(rows.x, h.train), rowsOf(rows.x, h.fresh)
	grid, score := tuneGrid(), r.scoreBatch(train, fresh)
	if r.flags.algorithm == stochastic {
		c.Kind = learner.Kind
		score = r.scoreOnline(learner, train, fresh, partitionsOf(rows.partitions, h.train))
	}
	if c.Kind == lca.KindLCA {
		grid.NuGaussian = nil // it has no Gaussian part
	}
	best, tried, err := lca.TuneBy(ctx, c, grid, score)
	if err != nil {
		return err
	}
	r.config.LCA.Nu, r.config.LCA.NuUnit = [2]float64{best.Nu, best.NuGaussian}, best.NuUnit
	r.tuning = &Tuning{
		Rows: rows.seen, Train: len(h.train), Fresh: len(h.fresh), Blocks: h.blocks(), Margin: h.margin, Copies: h.copies,
		Candidates: r.candidates(tried, h), NuGaussian: best.NuGaussian, NuUnit: best.NuUnit.String(), Seconds: time.Since(start).Seconds(),
	}
	r.tuning.conclude(best)
	r.tuning.Note = r.note(best, grid)
	return nil
}

func (r *replay) holdOut(rows *sampled) (*holdOut, error) {
	n, _ := rows.x.Dims()
	gap := likeness(rows.x, rows.partitions)
	h, err := newHoldOut(n, gap)
	if err != nil {
		return nil, err
	}
	if h.margin < gap {
		r.log.Warn("rows are alike for longer than blocks can be kept apart: the differences between candidates may be too good for a small ν",
			"alike_rows", gap, "margin_rows", h.margin)
	}
	h.dropCopies(rows.x)
	if len(h.fresh) == 0 {
		return nil, errors.New("all rows that were held out are copies of others")
	}
	return h, nil
}

// scoreBatch fits a batch algorithm.
func (r *replay) scoreBatch(train, fresh *mat.Dense) func(context.Context, lca.Config) ([]float64, error) {
	return func(ctx context.Context, c lca.Config) ([]float64, error) {
		c.Trace = r.progress.iteration
		if r.flags.algorithm == local && c.Kind == lca.KindLCA {
			l := lca.LocalConfig{Smoothing: r.flags.batch.smoothing, Shared: c, MaxIter: c.MaxIter, Tol: c.Tol}
			l.Shared.MaxIter = 0
			m, err := lca.FitLocal(ctx, train, l)
			if err != nil {
				return nil, err
			}
			return negative(m.LogDensity(nil, fresh)), nil
		}
		m, err := lca.Fit(ctx, train, c)
		if err != nil {
			return nil, err
		}
		return negative(m.LogDensity(nil, fresh)), nil
	}
}

// scoreOnline runs the learner of the stream over the rows, for each pass. The single Gaussian, by which ν_g is chosen, is fitted.
func (r *replay) scoreOnline(base online.Config, train, fresh *mat.Dense, partitions []int32) func(context.Context, lca.Config) ([]float64, error) {
	n, d := train.Dims()
	base.Finite, base.PassRowsCap = true, n
	gaussian := r.scoreBatch(train, fresh)
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = uint64(i)
	}
	return func(ctx context.Context, c lca.Config) ([]float64, error) {
		if c.Kind == lca.KindGaussian {
			return gaussian(ctx, c)
		}
		base := base
		base.Nu, base.NuGaussian, base.NuUnit = c.Nu, c.NuGaussian, c.NuUnit
		learner, err := online.NewLearner(base)
		if err != nil {
			return nil, err
		}
		for pass := range max(r.flags.passes, 1) {
			if pass > 0 {
				learner.NextPass()
			}
			for from := 0; from < n; from += base.Minibatch {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				to := min(from+base.Minibatch, n)
				if _, err := learner.Learn(train.Slice(from, to, 0, d).(*mat.Dense), ids[from:to], partitions[from:to]); err != nil {
					return nil, err
				}
			}
		}
		m, err := learner.Model()
		if errors.Is(err, online.ErrWarmup) {
			if _, err = learner.EndOfSet(); err == nil {
				m, err = learner.Model()
			}
		}
		if errors.Is(err, online.ErrWarmup) {
			return nil, fmt.Errorf("%d rows are too few for the learner's first model: raise --sample: %w", n, err)
		}
		if err != nil {
			return nil, err
		}
		return negative(m.LogDensity(nil, fresh)), nil
	}
}

// tuneGrid is what --tune tries. 0 is not among it: a column of few values then has a density without bound on each of them, in rows
// that were held out too.
func tuneGrid() lca.TuneGrid {
	return lca.TuneGrid{
		Nu:         []float64{3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1},
		NuGaussian: []float64{1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2},
	}
}

func negative(logs []float64) []float64 {
	for i := range logs {
		logs[i] = -logs[i]
	}
	return logs
}

func rowsOf(x *mat.Dense, rows []int) *mat.Dense {
	_, d := x.Dims()
	out := mat.NewDense(len(rows), d, nil)
	for i, row := range rows {
		out.SetRow(i, x.RawRowView(row))
	}
	return out
}

func partitionsOf(all []int32, rows []int) []int32 {
	out := make([]int32, len(rows))
	for i, row := range rows {
		out[i] = all[row]
	}
	return out
}

// tuned is tune with its report. What it has read is read again for a snapshot.
func (r *replay) tuned(ctx context.Context, stdout io.Writer) error {
	if err := errors.Join(r.tune(ctx), ctx.Err()); err != nil {
		return err
	}
	if r.flags.output == "" {
		r.progress.end()
		if r.flags.json {
			return json.NewEncoder(stdout).Encode(r.tuning)
		}
		return r.tuning.write(stdout)
	}
	if !r.flags.json {
		if err := r.tuning.write(stdout); err != nil {
			return err
		}
	}
	return r.source.Seek(ctx, r.start)
}

// Tuning is what --tune has found.
type Tuning struct {
	Rows       uint64      `json:"rows"`        // usable rows of the range
	Train      int         `json:"train_rows"`  // rows that the candidates were fitted to
	Fresh      int         `json:"fresh_rows"`  // rows that judged them
	Blocks     int         `json:"blocks"`      // of fresh rows
	Margin     int         `json:"margin_rows"` // left out on either side of a block
	Copies     int         `json:"copies"`      // fresh rows left out as near copies of rows that candidates were fitted to
	Candidates []candidate `json:"candidates"`
	Nu         *float64    `json:"nu"` // null for the single Gaussian, which has none
	NuGaussian float64     `json:"nu_gaussian"`
	NuUnit     string      `json:"nu_unit"`
	NLL        *float64    `json:"nll"` // of the best candidate
	YAML       string      `json:"yaml"`
	Note       string      `json:"note,omitempty"` // what the figures do not say
	Seconds    float64     `json:"seconds"`
}

// candidate is a pair of ν and ν_g. Errors are standard errors, from the differences between blocks.
type candidate struct {
	Algorithm       string   `json:"algorithm"` // gaussian while ν_g is chosen
	Nu              *float64 `json:"nu"`        // null for the single Gaussian
	NuGaussian      float64  `json:"nu_gaussian"`
	NLL             *float64 `json:"nll"` // null where the fit collapsed
	Error           *float64 `json:"standard_error"`
	Difference      *float64 `json:"difference"` // from the best of the same algorithm
	DifferenceError *float64 `json:"difference_error"`
	Best            bool     `json:"best"`
}

// candidates compares each candidate with the best of its kind.
func (r *replay) candidates(tried []lca.Tuning, h *holdOut) []candidate {
	best := map[lca.Kind]lca.Tuning{}
	for _, t := range tried {
		if b, ok := best[t.Kind]; !ok || t.NLL < b.NLL {
			best[t.Kind] = t
		}
	}
	var all []candidate
	for _, t := range tried {
		b := best[t.Kind]
		c := candidate{Algorithm: r.flags.algorithm, NuGaussian: t.NuGaussian, NLL: app.Finite(t.NLL), Best: t.Nu == b.Nu && t.NuGaussian == b.NuGaussian}
		if t.Kind == lca.KindGaussian {
			c.Algorithm = algorithmOf(t.Kind)
		} else {
			c.Nu = &t.Nu
		}
		if t.Fresh != nil {
			_, c.Error = h.mean(t.Fresh)
			difference := make([]float64, len(t.Fresh))
			for i, v := range t.Fresh {
				difference[i] = v - b.Fresh[i]
			}
			c.Difference, c.DifferenceError = h.mean(difference)
		}
		all = append(all, c)
	}
	return all
}

// note says what the figures do not.
func (r *replay) note(best lca.Config, grid lca.TuneGrid) string {
	var notes []string
	if v := grid.Nu; best.Kind != lca.KindGaussian && (best.Nu == v[0] || best.Nu == v[len(v)-1]) {
		notes = append(notes, fmt.Sprintf("ν = %s is at the end of what was tried: one beyond it may be better", plain(best.Nu)))
	}
	if r.config.LCA.Preset == lca.PresetMetric {
		notes = append(notes, "the NLL says which ν is best for scores; for clusters and neighbours, which preset: metric is for, it is no guide")
	}
	return strings.Join(notes, "; ")
}

// conclude says what was best.
func (t *Tuning) conclude(best lca.Config) {
	nu := "auto"
	if best.Kind != lca.KindGaussian {
		t.Nu, nu = &best.Nu, plain(best.Nu)
	}
	if best.Kind != lca.KindLCA {
		nu = fmt.Sprintf("[%s, %s]", nu, plain(best.NuGaussian))
	}
	t.YAML = fmt.Sprintf("lca: {nu: %s, nu_unit: %v}", nu, best.NuUnit)
	for _, c := range t.Candidates {
		if c.Best {
			t.NLL = c.NLL // the last is of the algorithm itself
		}
	}
}

// write prints what was tried, for people.
func (t *Tuning) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d rows: candidates fitted to %d, judged by %d others in %d blocks (%d rows left out on either side of a block, %d copies)\n",
		t.Rows, t.Train, t.Fresh, t.Blocks, t.Margin, t.Copies)
	algorithm := ""
	for _, c := range t.Candidates {
		if err != nil {
			return err
		}
		if c.Algorithm != algorithm {
			algorithm = c.Algorithm
			if _, err = fmt.Fprintf(w, "\n%s\n  %8s  %8s  %20s  %s\n", algorithm, "ν", "ν_g", "NLL, nats/row", "above the best"); err != nil {
				return err
			}
		}
		mark := " "
		if c.Best {
			mark = "*"
		}
		nu := "–"
		if c.Nu != nil {
			nu = plain(*c.Nu)
		}
		nll, above := "collapsed", ""
		if c.NLL != nil {
			nll, above = fmt.Sprintf("%s ± %s", short(c.NLL), short(c.Error)), fmt.Sprintf("%s ± %s", short(c.Difference), short(c.DifferenceError))
		}
		_, err = fmt.Fprintf(w, "%s %8s  %8s  %20s  %s\n", mark, nu, plain(c.NuGaussian), nll, above)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "\nbest, to paste into the configuration:\n%s\n", t.YAML)
	}
	if err == nil && t.Note != "" {
		_, err = fmt.Fprintf(w, "note: %s\n", t.Note)
	}
	return err
}

// plain is a number without an exponent, which some readers of YAML take for text.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func short(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.4f", *v)
}

// holdOut divides rows in the order of time into those that candidates are fitted to and those that judge them. Whole blocks are held
// out, with a margin of rows between that are left out: rows near in time are alike, and a candidate that is judged by rows like
// those it was fitted to need only remember them.
type holdOut struct {
	train, fresh []int // indices of rows
	block        []int // of each fresh row, from 0
	margin       int   // rows left out on either side of a block
	copies       int   // rows of the blocks left out because they are copies of rows to be fitted
}

const (
	mostBlocks  = 40
	leastBlocks = 20
	heldOneIn   = 4  // blocks
	blockRows   = 10 // at least
)

// newHoldOut divides n rows whose likeness lasts for the given number of rows.
func newHoldOut(n, gap int) (*holdOut, error) {
	if n < leastBlocks*blockRows {
		return nil, fmt.Errorf("%d usable rows are too few to hold blocks of them back; want at least %d", n, leastBlocks*blockRows)
	}
	blocks := min(mostBlocks, max(leastBlocks, n/max(blockRows, 4*gap)))
	h := &holdOut{margin: min(gap, n/blocks/4)}
	for i := range n {
		b := i * blocks / n
		switch {
		case b%heldOneIn == heldOneIn/2:
			h.fresh, h.block = append(h.fresh, i), append(h.block, b/heldOneIn)
		case !held(i-h.margin, n, blocks) && !held(i+h.margin, n, blocks):
			h.train = append(h.train, i)
		}
	}
	return h, nil
}

func held(row, n, blocks int) bool {
	return row >= 0 && row < n && row*blocks/n%heldOneIn == heldOneIn/2
}

// mean returns the mean over the fresh rows and its standard error, with blocks and not rows as what is drawn; nil where they are not
// finite.
func (h *holdOut) mean(values []float64) (average, standardError *float64) {
	mean := 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	sums := map[int]float64{}
	for i, v := range values {
		sums[h.block[i]] += v - mean
	}
	square, blocks := 0.0, float64(h.blocks())
	for block := range h.block[len(h.block)-1] + 1 {
		square += sums[block] * sums[block]
	}
	return app.Finite(mean), app.Finite(math.Sqrt(square*blocks/(blocks-1)) / float64(len(values)))
}

// blocks is how many blocks have fresh rows.
func (h *holdOut) blocks() int {
	n := 0
	for i, b := range h.block {
		if i == 0 || b != h.block[i-1] {
			n++
		}
	}
	return n
}

// dropCopies leaves out the fresh rows that are near copies of rows to be fitted, by the distance at which the learner takes rows for
// copies: a thousandth of a standard deviation per column, as a mean of squares.
func (h *holdOut) dropCopies(x *mat.Dense) {
	const near = 1e-3
	d := x.RawMatrix().Cols
	scale := deviations(x)
	within := near * near * float64(d)
	// Rows that are near have near sums, of which their difference is at most √d times their distance.
	sum := func(row int) (total float64) {
		for k, v := range x.RawRowView(row) {
			total += v * scale[k]
		}
		return total
	}
	type keyed struct {
		sum float64
		row int
	}
	train := make([]keyed, len(h.train))
	for i, row := range h.train {
		train[i] = keyed{sum(row), row}
	}
	slices.SortFunc(train, func(a, b keyed) int { return cmp.Compare(a.sum, b.sum) })
	isCopy := func(row int) bool {
		at, reach := sum(row), near*float64(d)
		from, _ := slices.BinarySearchFunc(train, at-reach, func(k keyed, v float64) int { return cmp.Compare(k.sum, v) })
		for _, k := range train[from:] {
			if k.sum > at+reach {
				return false
			}
			if distance(x.RawRowView(row), x.RawRowView(k.row), scale, within) <= within {
				return true
			}
		}
		return false
	}
	var fresh, block []int
	for i, row := range h.fresh {
		if isCopy(row) {
			h.copies++
			continue
		}
		fresh, block = append(fresh, row), append(block, h.block[i])
	}
	h.fresh, h.block = fresh, block
}

// distance is squared; beyond the limit it may be any number that is larger.
func distance(a, b, scale []float64, limit float64) float64 {
	sum := 0.0
	for k, v := range a {
		e := (v - b[k]) * scale[k]
		if sum += e * e; sum > limit {
			break
		}
	}
	return sum
}

// deviations returns the inverse standard deviation of each column; 0 for one that is constant.
func deviations(x *mat.Dense) []float64 {
	n, d := x.Dims()
	scale := make([]float64, d)
	for k := range d {
		mean, square := 0.0, 0.0
		for i := range n {
			mean += x.At(i, k) / float64(n)
		}
		for i := range n {
			e := x.At(i, k) - mean
			square += e * e / float64(n)
		}
		if square > 0 {
			scale[k] = 1 / math.Sqrt(square)
		}
	}
	return scale
}

// likeness returns for how many rows, of all partitions, rows of the same partition are alike: three times the lag at which the
// autocorrelation of the median column has fallen below 1/e, in the partition with the most rows; 0 where it has at lag 1.
func likeness(x *mat.Dense, partitions []int32) int {
	rows := map[int32][]int{}
	for i, p := range partitions {
		rows[p] = append(rows[p], i)
	}
	var longest []int
	for _, p := range partitions { // in the order of rows, so that the same rows give the same
		if len(rows[p]) > len(longest) {
			longest = rows[p]
		}
	}
	n, d := x.Dims()
	series := mat.NewDense(len(longest), d, nil)
	for i, row := range longest {
		series.SetRow(i, x.RawRowView(row))
	}
	alike := func(lag int) bool { return correlationAt(series, lag) >= 1/math.E }
	if len(longest) < 2 || !alike(1) {
		return 0
	}
	from, to := 1, 2
	for to < len(longest)/4 && alike(to) {
		from, to = to, 2*to
	}
	// The first lag beyond from at which they are not alike, as if they never were again.
	lag := from + 1 + sort.Search(to-from-1, func(i int) bool { return !alike(from + 1 + i) })
	return 3 * lag * n / len(longest)
}

// correlationAt returns the median over the columns of the autocorrelation at a lag; constant columns do not count.
func correlationAt(x *mat.Dense, lag int) float64 {
	n, d := x.Dims()
	var all []float64
	for k := range d {
		mean, variance, covariance := 0.0, 0.0, 0.0
		for i := range n {
			mean += x.At(i, k) / float64(n)
		}
		for i := range n {
			e := x.At(i, k) - mean
			variance += e * e / float64(n)
			if i+lag < n {
				covariance += e * (x.At(i+lag, k) - mean) / float64(n-lag)
			}
		}
		if variance > 0 {
			all = append(all, covariance/variance)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
