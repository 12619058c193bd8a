package timegap

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

const (
	gapLevels = 13
	gapTracks = 8 // partitions whose autocorrelation is followed, so that their number does not set the memory

	// The autocorrelation at lag 2^j is a mean over this number of rows, and over at least gapPairs pairs 2^j rows apart.
	gapMemory = 16384
	gapPairs  = 64
	gapFewest = 4 // pairs without which a lag is not judged

	// After this number of pairs of a lag, a new pair begins at one row in gapStride only: adjacent pairs say nearly the
	// same, and taking all of them in cost a fifth of the time to learn with small pools.
	gapDense  = 512
	gapStride = 32

	// Adjacent rows are compared with rows 2^nearbyLevel apart, or fewer while those make less than nearbyPairs pairs.
	nearbyLevel = 6
	nearbyLeast = 2
	nearbyPairs = 12
	// A squared difference counts as no more than this multiple of what that of adjacent rows is on average.
	nearbyMost = 6
)

// autocorrelation estimates the time over which rows depend on each other, at lags 1, 2, 4, …, each from rows that are one
// lag apart: for a lag of 2^j one row of a partition is kept until another comes 2^j rows later. That takes a row per
// lag and partition, however long the lag. A pair counts as the rows from one pair to the next.
//
// A column takes part from the first pair on of which both rows differ from the first row of the stream: the step from
// a constant to something that varies is no movement.
//
// A stream that stays at a level for long and then jumps to another has the autocorrelation of a slow one. But its
// adjacent rows are no copies of each other. They differ as much as rows 64 apart, except for the few pairs with a jump in
// between, which count as no more than nearbyMost. So surelyMoves compares the mean squared differences at these two lags.
type autocorrelation struct {
	seen   uint64    // rows taken in
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
	due       uint64            // place, plus 1, before which no pair is complete; it follows from at
}

// lagMoments are running moments of pairs of rows 2^j apart, for each column.
type lagMoments struct {
	taken, lag float64   // rows that the pairs stand for, at most the memory; their mean lag
	rows       []float64 // the same of each column
	full       bool      // every column has pairs for the whole memory; it follows from rows, and stays so

	kernel.PairMoments // half the squared differences are bounded
}

// rowsOf returns how many rows that number of pairs of a level takes.
func rowsOf(pairs uint64, level int) float64 { return float64(pairs << level) }

// learn adds rows.
func (a *autocorrelation) learn(b pool.Batch, d int) {
	for i, p := range b.Places {
		t := a.track(p.Partition, d)
		if t == nil {
			continue
		}
		row := b.X[i*d : (i+1)*d]
		if a.seen++; a.centre == nil {
			a.centre = slices.Clone(row)
		}
		if begin := beginsPair(p.At); begin || p.At+1 >= t.due {
			a.take(t, p.At+1, row, begin)
		}
	}
}

// take ends the pairs that a row completes, and begins those that are to begin with it.
func (a *autocorrelation) take(t *track, at uint64, row []float64, begin bool) {
	d := len(row)
	t.due = math.MaxUint64
	for j := range a.levels {
		m, before := &a.levels[j], t.rows[j*d:(j+1)*d]
		dense := m.taken < rowsOf(gapDense, j)
		if began := t.at[j]; began > 0 && at-began >= 1<<j {
			a.add(j, before, row, float64(at-began), dense)
			t.at[j] = 0
		}
		if t.at[j] == 0 && (begin || dense) {
			t.at[j] = at
			copy(before, row)
		}
		if t.at[j] > 0 {
			t.due = min(t.due, t.at[j]+1<<j)
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
func (a *autocorrelation) track(partition int32, d int) *track {
	for i := range a.tracks {
		if a.tracks[i].partition == partition {
			return &a.tracks[i]
		}
	}
	if len(a.tracks) == gapTracks || partition == pool.NoPartition {
		return nil
	}
	for len(a.levels) < gapLevels {
		m := lagMoments{}
		for _, v := range m.columns() {
			*v = make([]float64, d)
		}
		a.levels = append(a.levels, m)
	}
	a.tracks = append(a.tracks, track{partition: partition, rows: make([]float64, gapLevels*d)})
	return &a.tracks[len(a.tracks)-1]
}

// add takes in a pair of level j.
func (a *autocorrelation) add(j int, before, row []float64, lag float64, dense bool) {
	rows := lag
	if !dense {
		rows += gapStride
	}
	m, memory, adjacent := &a.levels[j], max(gapMemory, rowsOf(gapPairs, j)), a.levels[0].Apart
	if !a.begun(m, before, row) {
		return
	}
	m.taken = min(m.taken+rows, memory)
	m.lag += float64(rows / m.taken * (lag - m.lag))
	if m.full = m.full || !slices.ContainsFunc(m.rows, func(v float64) bool { return v != memory }); m.full {
		most := float64(nearbyMost)
		if j == 0 {
			most = math.Inf(1)
		}
		m.Add(before, row, a.centre, adjacent, most, rows/memory)
		return
	}
	w, of := rows/m.taken, m.taken
	for k, c := range a.centre {
		x, y := before[k]-c, row[k]-c
		if m.rows[k] == 0 && (x == 0 || y == 0) {
			continue
		}
		half := 0.5 * (x - y) * (x - y)
		if j > 0 && adjacent[k] > 0 {
			half = min(half, nearbyMost*adjacent[k])
		}
		if m.rows[k] = min(m.rows[k]+rows, memory); m.rows[k] != of { // nearly always equal, and divisions are slow
			of = m.rows[k]
			w = rows / of
		}
		m.Sum[k] += float64(w * (0.5*(x+y) - m.Sum[k]))
		m.Square[k] += float64(w * (0.5*(float64(x*x)+float64(y*y)) - m.Square[k]))
		m.Product[k] += float64(w * (float64(x*y) - m.Product[k]))
		m.Apart[k] += float64(w * (half - m.Apart[k]))
	}
}

// begun reports whether a column takes part in a pair.
func (a *autocorrelation) begun(m *lagMoments, before, row []float64) bool {
	for k, c := range a.centre {
		if m.rows[k] > 0 || before[k] != c && row[k] != c {
			return true
		}
	}
	return false
}

// lag returns where the median column's autocorrelation falls below 1/e.
func (a *autocorrelation) lag() float64 { return a.falls(a.correlation) }

// LongestLag returns where that of the slowest column falls below 1/e.
func (a *autocorrelation) LongestLag() (longest float64) {
	for k := range a.centre {
		longest = max(longest, a.falls(func(j int) (rho, pairs float64) {
			m := &a.levels[j]
			if rho, varies := m.correlation(k); varies {
				return rho, m.rows[k] / rowsOf(1, j)
			}
			return 0, 0
		}))
	}
	return longest
}

// falls returns the lag at which an autocorrelation, known at each level, falls below 1/e, on a logarithmic scale between
// two of the lags; 0 where that of adjacent rows is below it, or not surely above.
func (a *autocorrelation) falls(at func(level int) (rho, pairs float64)) float64 {
	last, lag := math.NaN(), 0.0
	for j := range a.levels {
		rho, pairs := at(j)
		if pairs < gapFewest {
			break
		}
		limit := 1 / math.E
		if j == 0 {
			if rho < limit+2/math.Sqrt(min(pairs, gapDense)) {
				return 0
			}
		} else if rho < limit {
			return lag * math.Pow(a.levels[j].lag/lag, (last-limit)/(last-rho))
		}
		last, lag = rho, a.levels[j].lag
	}
	return lag
}

// correlation returns the median over the columns that vary of the autocorrelation of a level, and the number of pairs.
func (a *autocorrelation) correlation(j int) (rho, pairs float64) {
	return a.median(j, gapFewest, a.levels[j].correlation)
}

// surelyMoves reports whether adjacent rows are nearer to each other than rows some time apart by two standard errors more.
func (a *autocorrelation) surelyMoves() bool {
	rho, pairs := a.movement()
	return pairs > 0 && rho-2*(1-rho)*math.Sqrt(2/pairs) > 1/math.E
}

// movement returns what remains of the autocorrelation of adjacent rows when the stream's level is left out, and from how many
// pairs that is known; none if there are too few rows.
func (a *autocorrelation) movement() (rho, pairs float64) {
	for j := min(nearbyLevel, len(a.levels)-1); j >= nearbyLeast; j-- {
		adjacent, apart := a.levels[0].Apart, a.levels[j].Apart
		rho, pairs = a.median(j, nearbyPairs, func(k int) (float64, bool) {
			return 1 - adjacent[k]/apart[k], adjacent[k] > 0 && apart[k] > 0
		})
		if pairs > 0 {
			return rho, pairs
		}
	}
	return 0, 0
}

// median returns the median of a figure over the columns that have it and at least fewest pairs of a level, and the most
// pairs that one of them has.
func (a *autocorrelation) median(j, fewest int, figure func(column int) (v float64, ok bool)) (median, pairs float64) {
	a.each = slices.Grow(a.each[:0], len(a.centre))
	for k, rows := range a.levels[j].rows {
		if n := rows / rowsOf(1, j); n >= float64(fewest) {
			if v, ok := figure(k); ok {
				a.each, pairs = append(a.each, v), max(pairs, n)
			}
		}
	}
	if len(a.each) == 0 {
		return 0, 0
	}
	slices.Sort(a.each)
	return a.each[len(a.each)/2], pairs
}

// columns are the moments of each column, in the order of the state.
func (m *lagMoments) columns() []*[]float64 {
	return []*[]float64{&m.rows, &m.Sum, &m.Square, &m.Product, &m.Apart}
}

// correlation returns the autocorrelation of a column, and false if it does not vary.
func (m *lagMoments) correlation(k int) (rho float64, varies bool) {
	v := m.Sum[k]
	variance := m.Square[k] - float64(v*v)
	return (m.Product[k] - float64(v*v)) / variance, prop1.Varies(variance, v, prop1.RunningRounding)
}

func (a *autocorrelation) fields(f *state.Fields, dim int) {
	f.U64(&a.seen)
	f.Floats(&a.centre)
	state.List(f, &a.tracks, 8*gapLevels, func(t *track) {
		state.Numbers(f, &t.partition)
		at := t.at[:]
		f.Words(&at)
		copy(t.at[:], at)
		f.Sized("rows of a partition", &t.rows, gapLevels*dim)
	})
	state.List(f, &a.levels, 16, func(m *lagMoments) {
		f.F64(&m.taken, &m.lag)
		for _, v := range m.columns() {
			f.Sized("moments of a lag", v, dim)
		}
	})
	f.Check(len(a.tracks) == 0 || len(a.levels) == gapLevels && len(a.centre) == dim,
		"autocorrelations at %d lags around %d numbers", len(a.levels), len(a.centre))
}
