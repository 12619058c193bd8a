package online

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
)

const (
	gapLags   = 3 // a gap is this multiple of the lag at which the autocorrelation has fallen to 1/e
	gapLevels = 13
	gapTracks = 8 // partitions whose autocorrelation is followed, so that their number does not set the memory

	// The autocorrelation at lag 2^j is a mean over this number of pairs 2^j rows apart: gapMemory rows, and at least gapPairs.
	gapMemory = 16384
	gapPairs  = 64
	gapFewest = 4 // pairs without which a lag is not judged

	// After this number of pairs of a lag, a new pair begins at one row in gapStride only: adjacent pairs say nearly the
	// same, and taking all of them in cost a fifth of the time to learn with small pools.
	gapDense  = 512
	gapStride = 8

	// While few rows have come, at least three quarters of them stay admissible for a row at either end.
	gapShare = 4
	// The gap is computed again after this number of minibatches, and taken when it differs by more than a fifth.
	gapEvery  = 16
	gapMargin = 0.2
)

// timeGap is the number of rows within which two rows of the same partition are no neighbours. A sensor that moves
// slowly has near copies of each row just before and after it: with these as neighbours the kernel fits the movement of
// a second, and each later row is far from all before it. In such a stream rows in a row are hardly more than one, so
// the warm-up (warmUp), the growth of n (growth.go) and the patience with a change (restart.go) count rows/gap.
//
// Unless Config.TimeGap is a number, the gap is three times the lag at which the median column's autocorrelation falls
// below 1/e, and 0 where that of adjacent rows is below it already, as in a stream whose rows are independent. A finite
// set has no gap, because its order need not be that of time: it may be sorted, or read several times.
//
// The autocorrelation is estimated at lags 1, 2, 4, …, each from rows that are one lag apart: for a lag of 2^j one row
// of a partition is kept until another comes 2^j rows later. That takes a row per lag and partition, however
// long the lag.
type timeGap struct {
	fixed bool   // Config.TimeGap is a number, or the rows are a finite set
	rows  uint64 // the gap; 0 = none
	most  uint64 // largest gap

	seen   uint64    // rows that the estimate has taken in
	centre []float64 // the first row, from which the others are measured
	tracks []track
	levels []lagMoments
	each   []float64 // scratch
}

// track is the last row of a partition for each lag.
type track struct {
	partition int32
	at        [gapLevels]uint64 // the row's place, plus 1; 0 = none yet
	rows      []float64         // gapLevels × dim
}

// lagMoments are running moments of pairs of rows 2^j apart, for each column.
type lagMoments struct {
	pairs, lag           float64 // number of pairs, at most the memory; their mean lag
	sum, square, product []float64
}

func newTimeGap(c Config) timeGap {
	g := timeGap{most: uint64(c.Neighbours)}
	switch {
	case c.TimeGap != lca.Auto:
		g.fixed, g.rows = true, uint64(c.TimeGap)
	case c.Finite:
		g.fixed = true
	}
	return g
}

// interrupted returns the gap of a regime that is left: rows that come when it returns make no pairs with those before.
func (g *timeGap) interrupted() timeGap {
	now := *g
	now.tracks, now.each = nil, nil
	return now
}

// reviseGap takes the rows of a minibatch in, and from time to time computes the gap again.
func (l *Learner) reviseGap(b batch) {
	l.gap.learn(b, l.cfg.Dim)
	if l.counts.Minibatches%gapEvery == 0 {
		l.gap.revise()
	}
}

// stretched returns how many rows stand for the given number of independent ones: at most the pool's size, because a
// stream must not wait without end.
func (g *timeGap) stretched(rows, neighbours int) int {
	if g.rows <= 1 {
		return rows
	}
	return min(rows*int(g.rows), max(rows, neighbours))
}

// learn adds rows to the estimate.
func (g *timeGap) learn(b batch, d int) {
	if g.fixed {
		return
	}
	for i, p := range b.places {
		t := g.track(p.partition, d)
		if t == nil {
			continue
		}
		row := b.x[i*d : (i+1)*d]
		if g.seen++; g.centre == nil {
			g.centre = slices.Clone(row)
		}
		begin := beginsPair(p.at)
		for j := range gapLevels {
			before := t.rows[j*d : (j+1)*d]
			if at := t.at[j]; at > 0 {
				lag := p.at + 1 - at
				if lag < 1<<j {
					continue
				}
				g.levels[j].add(before, row, g.centre, float64(lag), j)
				t.at[j] = 0
			}
			if begin || g.levels[j].pairs < gapDense {
				t.at[j] = p.at + 1
				copy(before, row)
			}
		}
	}
}

// beginsPair chooses one place in gapStride by its hash, because a stream may be read in steps: every eighth row of
// a partition would be all or none of what is learnt of it.
func beginsPair(at uint64) bool {
	const golden = 0x9E3779B97F4A7C15 // Fibonacci hashing: 2^64 over the golden ratio
	return at*golden < math.MaxUint64/gapStride
}

// track returns the partition's, or nil where others are followed.
func (g *timeGap) track(partition int32, d int) *track {
	for i := range g.tracks {
		if g.tracks[i].partition == partition {
			return &g.tracks[i]
		}
	}
	if len(g.tracks) == gapTracks || partition == noPartition {
		return nil
	}
	for len(g.levels) < gapLevels {
		g.levels = append(g.levels, lagMoments{sum: make([]float64, d), square: make([]float64, d), product: make([]float64, d)})
	}
	g.tracks = append(g.tracks, track{partition: partition, rows: make([]float64, gapLevels*d)})
	return &g.tracks[len(g.tracks)-1]
}

func (m *lagMoments) add(before, row, centre []float64, lag float64, level int) {
	m.pairs = min(m.pairs+1, float64(max(gapPairs, gapMemory/max(gapStride, 1<<level))))
	w := 1 / m.pairs
	m.lag += float64(w * (lag - m.lag))
	for k, c := range centre {
		a, b := before[k]-c, row[k]-c
		m.sum[k] += float64(w * (0.5*(a+b) - m.sum[k]))
		m.square[k] += float64(w * (0.5*(float64(a*a)+float64(b*b)) - m.square[k]))
		m.product[k] += float64(w * (float64(a*b) - m.product[k]))
	}
}

// correlation returns the median over the columns that vary of the autocorrelation, and whether there are any. It uses
// the given memory.
func (m *lagMoments) correlation(each []float64) (rho float64, ok bool) {
	each = each[:0]
	for k, v := range m.sum {
		if variance := m.square[k] - float64(v*v); variance > constantVariance*m.square[k] {
			each = append(each, (m.product[k]-float64(v*v))/variance)
		}
	}
	if len(each) == 0 {
		return 0, false
	}
	slices.Sort(each)
	return each[len(each)/2], true
}

// revise computes the gap again.
func (g *timeGap) revise() {
	if g.fixed {
		return
	}
	rows := min(uint64(math.Ceil(gapLags*g.lag())), g.most, g.seen/gapShare)
	if math.Abs(float64(rows)-float64(g.rows)) > gapMargin*float64(g.rows) {
		g.rows = rows
	}
}

// lag returns where the autocorrelation falls below 1/e, on a logarithmic scale between two of the lags; 0 where that
// of adjacent rows is below it, or not surely above.
func (g *timeGap) lag() float64 {
	last, lag := math.NaN(), 0.0
	g.each = slices.Grow(g.each[:0], len(g.centre))
	for j := range g.levels {
		m := &g.levels[j]
		rho, ok := m.correlation(g.each)
		if !ok || m.pairs < gapFewest {
			break
		}
		limit := 1 / math.E
		if j == 0 {
			limit += 2 / math.Sqrt(m.pairs)
		}
		if rho < limit {
			if j == 0 {
				return 0
			}
			return lag * math.Pow(m.lag/lag, (last-1/math.E)/(last-rho))
		}
		last, lag = rho, m.lag
	}
	return lag
}

// inTime finds the neighbours that are near in time.
type inTime struct {
	order  []int32    // slots, by partition and time
	window [][2]int32 // of each row, where its own are in order
	spans  []span     // by partition
}

// span is the time that a partition's rows take up.
type span struct {
	partition int32
	from, to  uint64
}

// windows returns the slots that are nearer in time than gap to some row, and for each row which of them are.
func (t *inTime) windows(slots, rows []place, gap uint64) (order []int32, window [][2]int32) {
	if gap == 0 {
		return nil, nil
	}
	t.span(rows)
	t.order, t.window = t.order[:0], t.window[:0]
	for s, p := range slots {
		i, found := t.find(p.partition)
		if found && p.at+gap > t.spans[i].from && p.at < t.spans[i].to+gap {
			t.order = append(t.order, int32(s))
		}
	}
	slices.SortFunc(t.order, func(a, b int32) int {
		p, q := slots[a], slots[b]
		return cmp.Or(cmp.Compare(p.partition, q.partition), cmp.Compare(p.at, q.at))
	})
	for _, p := range rows {
		from := place{p.partition, p.at - min(p.at, gap-1)}
		to := place{p.partition, p.at + gap}
		t.window = append(t.window, [2]int32{t.first(slots, from), t.first(slots, to)})
	}
	return t.order, t.window
}

// first returns how many of the slots in order come before p.
func (t *inTime) first(slots []place, p place) int32 {
	at, _ := slices.BinarySearchFunc(t.order, p, func(s int32, p place) int {
		return cmp.Or(cmp.Compare(slots[s].partition, p.partition), cmp.Compare(slots[s].at, p.at))
	})
	return int32(at)
}

// span sets the time that the rows of each partition take up. Rows of no known partition are near to none.
func (t *inTime) span(rows []place) {
	t.spans = t.spans[:0]
	for _, p := range rows {
		if p.partition == noPartition {
			continue
		}
		i, found := t.find(p.partition)
		if !found {
			t.spans = slices.Insert(t.spans, i, span{p.partition, p.at, p.at})
		}
		t.spans[i].from, t.spans[i].to = min(t.spans[i].from, p.at), max(t.spans[i].to, p.at)
	}
}

func (t *inTime) find(partition int32) (int, bool) {
	return slices.BinarySearchFunc(t.spans, partition, func(s span, p int32) int { return cmp.Compare(s.partition, p) })
}

func (g *timeGap) write(w *writer) {
	w.u64(g.rows)
	w.u64(g.seen)
	w.floats(g.centre)
	w.count(len(g.tracks))
	for i := range g.tracks {
		t := &g.tracks[i]
		w.u64(uint64(uint32(t.partition)))
		w.words(t.at[:])
		w.floats(t.rows)
	}
	w.count(len(g.levels))
	for i := range g.levels {
		m := &g.levels[i]
		w.f64(m.pairs)
		w.f64(m.lag)
		w.floats(m.sum)
		w.floats(m.square)
		w.floats(m.product)
	}
}

// read reads a gap, which a configuration with a number replaces.
func (g *timeGap) read(r *reader, dim int) {
	was := timeGap{fixed: g.fixed, most: g.most, rows: r.u64(), seen: r.u64(), centre: r.floats()}
	was.tracks = make([]track, r.count(8*gapLevels))
	for i := range was.tracks {
		t := &was.tracks[i]
		t.partition = int32(uint32(r.u64()))
		copy(t.at[:], r.words())
		t.rows = r.sized("rows of a partition", gapLevels*dim)
	}
	was.levels = make([]lagMoments, r.count(16))
	for i := range was.levels {
		was.levels[i] = lagMoments{r.f64(), r.f64(), r.sized("sums of a lag", dim), r.sized("squares of a lag", dim), r.sized("products of a lag", dim)}
	}
	if r.err == nil && len(was.tracks) > 0 && (len(was.levels) != gapLevels || len(was.centre) != dim) {
		r.err = fmt.Errorf("autocorrelations at %d lags around %d numbers", len(was.levels), len(was.centre))
	}
	if !g.fixed {
		*g = was
	}
}
