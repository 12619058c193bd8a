package recent

import (
	"cmp"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

const (
	runStart   = 0.95 // quantile of scores above which a run of rows is one
	runEnds    = 30   // rows below it after which the run is over
	mostPeaks  = 60   // that the tail is of: the highest
	keptPeaks  = 512
	peaksReach = 140_000 // rows: older peaks are forgotten
	fewPeaks   = 10
	censored   = 0.25 // of the peaks, the highest, count as if they were all as high as the least of them

	heldShare = 0.125 // of the peaks: the highest may be none that the stream makes by itself
	leftShare = 0.01  // … whose rows are not learnt, once settled, near as they may be: with however little weight, enough of them are

	// Far rows of a run of more than heldFrom rows, and near ones of such a high one, are none that the stream makes by itself, until it has gone on for heldReach rows.
	heldFrom  = 60
	heldReach = peaksReach
)

// Tail is what is known of the peaks of scores: how high the runs of high scores go that a stream makes by itself.
//
// Two laws are held possible. Where the excesses of scores over u are exponential, the distances T² have a Pareto tail; where those of exp(score) are,
// that of Gaussian rows. How far beyond u the next peak is, is averaged over both by how well they explain the peaks.
type Tail struct {
	Above float64 // u
	Peaks float64 // c, runs whose peaks are above it
	Rows  float64 // n, in which they came
	Heavy float64 // mean excess of scores
	Light float64 // mean excess of exp(score)
	Share float64 // probability of the light tail
	Most  float64 // of the highest peak over u; 0: too few rows are known to tell
}

// Level returns the score that runs pass at the given rate per row, and whether the rows are too few to tell it well: the h with
//
//	β n / c = share (1 + (exp(h)−exp(u))/(m light))^−m + (1−share) (1 + (h−u)/(m heavy))^−m
//
// as the mean of each law is known from m peaks alone. Fewer than fewPeaks tell so little of their mean that nothing would pass: then the level is at most
// the larger of u + τ log(c/(β n)) and τ above the highest peak, with τ = heavy (1 + 1/√m). Where rows alone are known, τ is heavy, and c = n/31: as many
// runs as there is room for. It is +Inf where nothing is known.
func (t Tail) Level(rate float64) (level float64, young bool) {
	wanted := rate * t.Rows
	young = wanted < 10
	if t.Peaks == 0 {
		return math.Inf(1), true
	}
	low, high := t.Above, t.Above+64
	for range 50 {
		middle := (low + high) / 2
		if t.beyond(middle)*t.Peaks > wanted {
			low = middle
		} else {
			high = middle
		}
	}
	if t.Most > 0 && t.Peaks < fewPeaks {
		runs, mean := t.Peaks, t.Heavy*(1+1/math.Sqrt(max(t.known(), 1)))
		if runs < 2 { // they are not known, but rows: at most as many runs as there is room for
			runs, mean = max(1, t.Rows/(runEnds+1)), t.Heavy
		}
		high = min(high, t.Above+max(t.Most+mean, mean*math.Log(runs/wanted)))
	}
	return high, young
}

// beyond is the probability that a peak above u is above h, too.
func (t Tail) beyond(h float64) float64 {
	m := max(t.known(), 1)
	over := math.Exp(t.Above) * math.Expm1(h-t.Above)
	return t.Share*math.Pow(1+over/(m*t.Light), -m) + (1-t.Share)*math.Pow(1+(h-t.Above)/(m*t.Heavy), -m)
}

// reachedBy is the peak that the share of the runs gets to that the stream makes by itself. Where rows alone are known, it is where levels are at least: what
// opens an episode is held.
func (t Tail) reachedBy(share float64) float64 {
	switch {
	case t.Most == 0:
		return math.Inf(1)
	case t.Peaks < 2:
		return t.Above + t.Most + t.Heavy
	}
	level, _ := t.Level(share * t.Peaks / t.Rows)
	return level
}

// numbers are the fields, in their order.
func (t *Tail) numbers() [7]*float64 {
	return [7]*float64{&t.Above, &t.Peaks, &t.Rows, &t.Heavy, &t.Light, &t.Share, &t.Most}
}

// known is the number of peaks that the means are known from.
func (t Tail) known() float64 { return t.Peaks - math.Floor(censored*t.Peaks) }

// run is a run of high scores in a series.
type run struct {
	peak  float64 // 0: there is none; scores are counted from leastScore
	quiet int     // rows below the start since the last above it
	rows  uint32  // since it began
	at    uint64  // its place among the peaks; 0: it is not among them
}

// held reports whether the run is none that the stream makes by itself; learnt are all rows of the stream, with its own: what has lasted for three times as
// long as all before is what the stream is.
func (r *run) held(learnt uint64) bool {
	return r.rows > heldFrom && r.rows <= heldReach && uint64(r.rows) <= learnt-learnt/4
}

// peak is that of a run.
type peak struct {
	score float64
	start float64 // of runs at its time: see height
	at    uint64  // rows judged until it was counted
}

// height is what a peak counts for levels, where runs now begin above start. Scores of young evaluators are higher, and their peaks by as much. Where
// the start has risen since, the peak stays as it was.
func (p peak) height(start float64) float64 { return p.score - max(0, p.start-start) }

// peaks are those of the runs of all series.
type peaks struct {
	kept   []peak
	judged uint64 // rows
	since  uint64 // rows judged before the first of kept could be

	heights []float64 // memory
}

// follow moves the run of a series on by a score. Its peak counts from its first row on, as high as it is so far: of n rows, these are the runs that got as high in them. If only
// those that are over counted, many series that begin together would have short ones alone at first.
//
// One that was withdrawn counts when it is over, at most as high as held, from where on it was none that the stream makes by itself: faults that come back
// must not hide the next one, and what comes again and again is what the stream is.
func (p *peaks) follow(r *run, score, start, held float64) {
	p.judged++
	if r.peak > 0 {
		r.rows = min(r.rows, math.MaxUint32-1) + 1
	}
	switch height := score - leastScore; {
	case score > start:
		p.raise(r, height, start)
		r.quiet = 0
	case r.peak > 0:
		if r.quiet++; r.quiet >= runEnds {
			if r.at == 0 {
				r.peak = min(r.peak, max(held, start)-leastScore)
				p.add(r, start)
			}
			*r = run{}
		}
	}
}

// raise notes a score of a run that is high.
func (p *peaks) raise(r *run, height, start float64) {
	if height <= r.peak {
		return
	}
	began, i := r.peak == 0, p.find(r)
	switch r.peak = height; {
	case i >= 0:
		p.kept[i].score = r.peak + leastScore
	case began || r.at > 0: // it is no longer among them, and has got higher lately
		p.add(r, start)
	}
}

// withdraw takes a row of a run that was followed last off the peaks, and the run until it is over: it is none that the stream makes by itself.
func (p *peaks) withdraw(r *run) {
	if i := p.find(r); i >= 0 {
		p.kept = slices.Delete(p.kept, i, i+1)
	}
	r.at = 0
	p.judged-- // nor is its row one that the others came in: they must not be forgotten while it lasts
}

// find returns where the peak of a run is; -1: it is not there, or of another run that was counted by another learner.
func (p *peaks) find(r *run) int {
	if r.at == 0 {
		return -1
	}
	i, ok := slices.BinarySearchFunc(p.kept, r.at, func(one peak, at uint64) int { return cmp.Compare(one.at, at) })
	if !ok || p.kept[i].score != r.peak+leastScore {
		return -1
	}
	return i
}

// reach is the number of rows in which peaks count: the scores of young evaluators are higher.
func (p *peaks) reach() uint64 { return min(p.judged-p.judged/3, peaksReach) }

func (p *peaks) add(r *run, start float64) {
	r.at = p.judged
	p.kept = append(p.kept, peak{r.peak + leastScore, start, r.at})
	drop := max(0, len(p.kept)-keptPeaks)
	for p.judged-p.kept[drop].at > p.reach() {
		drop++
	}
	if drop > 0 {
		p.since = p.kept[drop-1].at
		p.kept = slices.Delete(p.kept, 0, drop)
	}
}

// tail returns what the peaks say, each by its height. Runs began above the start, as many of the rows as h knows.
func (p *peaks) tail(start float64, h *Distribution, height func(peak) float64) Tail {
	since := max(p.since, p.judged-p.reach())
	t := Tail{Above: start, Rows: float64(p.judged - since)}
	heights := p.heights[:0]
	for _, one := range p.kept {
		if one.at >= since {
			heights = append(heights, height(one))
		}
	}
	p.heights = heights
	slices.Sort(heights)
	if n := len(heights); n > mostPeaks {
		t.Above, heights = heights[n-mostPeaks-1], heights[n-mostPeaks:]
	}
	heights = slices.DeleteFunc(heights, func(h float64) bool { return h <= t.Above })
	if t.Peaks = float64(len(heights)); t.Peaks < 2 {
		return t.ofRows(h)
	}
	t.fit(heights)
	t.Most = heights[len(heights)-1] - t.Above
	return t
}

// ofRows is a tail by rows, where no runs are over: as if those that are high were one.
func (t Tail) ofRows(h *Distribution) Tail {
	if h.Sum < 1 {
		return t
	}
	u, _, mean := h.tail()
	most := h.Quantile(1-0.5/h.Sum) - u // half a row is above it
	return Tail{Above: u, Peaks: 1, Rows: h.Sum, Heavy: mean, Light: math.Exp(u) * math.Expm1(mean), Most: max(most, 0)}
}

// fit sets both laws by the peaks above u, in order.
func (t *Tail) fit(heights []float64) {
	known := int(t.known())
	limit, u := heights[known-1], math.Exp(t.Above)
	jacobian := 0. // Σ log d exp(s)/ds
	for i, h := range heights {
		over := min(h, limit)
		t.Heavy += over - t.Above
		t.Light += u * math.Expm1(over-t.Above)
		if i < known {
			jacobian += h
		}
	}
	t.Heavy, t.Light = t.Heavy/float64(known), t.Light/float64(known)
	odds := jacobian - float64(known)*(math.Log(t.Light)-math.Log(t.Heavy))
	t.Share = 1 / (1 + math.Exp(-odds))
}

// peaks are some of which the tail is, as far as the heavy law tells.
func (t Tail) peaks() peaks {
	p := peaks{judged: uint64(t.Rows)}
	if t.Peaks == 0 {
		return p
	}
	p.kept = append(p.kept, peak{score: t.Above, start: math.Inf(-1), at: p.judged})
	for i := range int(t.Peaks) {
		p.kept = append(p.kept, peak{score: t.Above - t.Heavy*math.Log((float64(i)+0.5)/t.Peaks), start: math.Inf(-1), at: p.judged})
	}
	return p
}

func (p *peaks) write(w *state.Writer) {
	w.U64(p.judged)
	w.U64(p.since)
	w.Count(len(p.kept))
	for _, one := range p.kept {
		w.F64(one.score)
		w.F64(one.start)
		w.U64(one.at)
	}
}

func (p *peaks) read(r *state.Reader) {
	p.judged, p.since = r.U64(), r.U64()
	p.kept = make([]peak, r.Count(24))
	for i := range p.kept {
		p.kept[i] = peak{r.F64(), r.F64(), r.U64()}
	}
}
