package recent

import (
	"fmt"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

// The bytes of a Learner and of a Series, little-endian: numbers and flags of 8 bytes, and before each list the number of its elements. A matrix
// is its lower triangle.
//
//	series    rows, short, long, deviation (halves), rows with steps, last and mean step (halves) and slow mean (all three are empty where causes are not told); a learner's also has the peak of its run, and in one number the rows since it was high and, from bit 32 on, since it began, and its place among the peaks; 1 and its hold, or 0, whether it has joined, and weights of others
//	hold      score up to which rows are usual, usual rows since the last other one, four words of which of the last 200 rows were, the next of them
//	learner   learnt, settled, moments of z, moments of x′, distribution of scores, of first scores, peaks, turn, series that have joined, weights of others, acceptances, 1, the newest evaluator, from where on runs are held and not learnt, and up to where held rows are usual, or 0
//	acceptances  their number, and of each series, turn, time of its last row, and number of the reason
//	peaks     rows judged, rows before the first peak, and of each peak its score, the start of runs and the rows judged until then
//	moments   rows that they stand for, rows that came, mean, covariance
//	distribution  first bin, weights, their sum
//	evaluator learnt, settled, centre, scale, constant, means and factors (float32) of z, v and x′, both distributions, the seven numbers of the tail, turn, acceptances

// StateBytes is about how many bytes a Learner with one Series takes, in memory and as AppendBinary writes it.
func StateBytes(dim int) int {
	if dim > MostColumns {
		return 0
	}
	const matrices, lists, histograms, tail = 8*(9+1)/2 + 4*(9+1+1)/2, 8 * 14, 8 * 2 * 2 * 200, 24 * keptPeaks
	return matrices*dim*dim + lists*dim + histograms + tail
}

// EvaluatorBytes is about how many bytes an evaluator takes.
func EvaluatorBytes(dim int) int {
	if dim > MostColumns {
		return 0
	}
	const matrices, lists, histograms = 4 * (9 + 1 + 1) / 2, 8 * 8, 8 * 2 * 200
	return matrices*dim*dim + lists*dim + histograms
}

// AppendBinary appends the series.
func (s *Series) AppendBinary(b []byte) ([]byte, error) {
	w := state.Writer{B: b}
	w.U64(uint64(s.Rows))
	w.Floats(s.Short)
	w.Floats(s.Long)
	w.Halves(s.Deviation)
	w.U64(uint64(s.steps.rows))
	w.Halves(s.steps.last)
	w.Halves(s.steps.mean)
	w.Floats(s.steps.slow)
	return w.B, nil
}

// ReadSeries reads what AppendBinary wrote, and returns what follows it.
func ReadSeries(b []byte) (s *Series, rest []byte, err error) {
	r := &state.Reader{B: b}
	s = &Series{Rows: uint32(r.U64()), Short: r.Floats()}
	d := len(s.Short)
	s.Long, s.Deviation = r.Sized("the long mean", d), r.Halves()
	s.steps = steps{uint32(r.U64()), r.Halves(), r.Halves(), r.Floats()}
	if n := len(s.steps.last); len(s.Deviation) != d || len(s.steps.mean) != n || len(s.steps.slow) != n || n != 0 && n != d {
		r.Fail(fmt.Errorf("%d deviations and %d steps of %d columns", len(s.Deviation), n, d))
	}
	return s, r.B, failed(r, "series")
}

// AppendLearnt appends a series of a learner.
func (s *Series) AppendLearnt(b []byte) ([]byte, error) {
	b, err := s.AppendBinary(b)
	w := state.Writer{B: b}
	w.F64(s.run.peak)
	w.U64(uint64(s.run.rows)<<32 | uint64(s.run.quiet))
	w.U64(s.run.at)
	flag(&w, s.hold.Open)
	if s.hold.Open {
		s.hold.write(&w)
	}
	flag(&w, s.joined)
	w.F64(s.others)
	return w.B, err
}

// ReadLearnt reads what AppendLearnt wrote, and returns what follows it.
func ReadLearnt(b []byte) (s *Series, rest []byte, err error) {
	if s, rest, err = ReadSeries(b); err != nil {
		return nil, nil, err
	}
	r := &state.Reader{B: rest}
	peak, rows, at := r.F64(), r.U64(), r.U64()
	s.run = run{peak, int(uint32(rows)), uint32(rows >> 32), at}
	if r.U64() == 1 {
		s.hold.read(r)
	}
	s.joined, s.others = r.U64() == 1, r.F64()
	return s, r.B, failed(r, "series")
}

// AppendBinary appends all that the learner knows.
func (l *Learner) AppendBinary(b []byte) ([]byte, error) {
	w := &state.Writer{B: b}
	w.U64(l.learnt)
	flag(w, l.settled)
	l.charts.write(w)
	l.rows.write(w)
	l.scores.write(w)
	l.first.write(w)
	l.peaks.write(w)
	w.U64(l.turn)
	w.U64(l.joined)
	w.F64(l.others)
	writeAccepted(w, l.accepted)
	flag(w, l.newest != nil)
	if l.newest != nil {
		l.newest.write(w)
		w.F64(l.held)
		w.F64(l.left)
		w.F64(l.usual)
	}
	return w.B, nil
}

// ReadLearner reads what AppendBinary wrote for rows with dim columns, and returns what follows it. The learner goes on as the one that was written.
func ReadLearner(b []byte, dim int) (l *Learner, rest []byte, err error) {
	r := &state.Reader{B: b}
	l = &Learner{dim: dim, learnt: r.U64(), settled: r.U64() == 1}
	l.charts.read(r, 3*dim)
	l.rows.read(r, dim)
	l.scores.read(r)
	l.first.read(r)
	l.peaks.read(r)
	l.turn, l.joined, l.others = r.U64(), r.U64(), r.F64()
	l.accepted = readAccepted(r)
	if r.U64() == 1 {
		l.use(readEvaluator(r, dim))
		l.held, l.left, l.usual = r.F64(), r.F64(), r.F64()
	}
	return l, r.B, failed(r, "recent score")
}

func (m *moments) write(w *state.Writer) {
	w.F64(m.count)
	w.F64(m.total)
	w.Floats(m.mean)
	p := len(m.mean)
	w.U64(uint64(p * (p + 1) / 2))
	for i := range p {
		for _, v := range m.cov[i*p:][:i+1] {
			w.F64(v)
		}
	}
}

func (m *moments) read(r *state.Reader, p int) {
	m.count, m.total, m.mean = r.F64(), r.F64(), r.Sized("a mean", p)
	lower := r.Sized("a covariance", p*(p+1)/2)
	m.cov = make([]float64, p*p)
	for i := 0; i < p && r.Err == nil; i++ {
		copy(m.cov[i*p:], lower[:i+1])
		lower = lower[i+1:]
	}
}

func (h *Distribution) write(w *state.Writer) {
	w.U64(uint64(h.Low))
	w.Floats(h.Weights)
	w.F64(h.Sum)
}

func (h *Distribution) read(r *state.Reader) {
	h.Low, h.Weights, h.Sum = int(r.U64()), r.Floats(), r.F64()
	if h.Low < 0 || h.Low > MostBins-len(h.Weights) {
		r.Fail(fmt.Errorf("a histogram of %d bins from %d on", len(h.Weights), h.Low))
	}
}

func (e *Evaluator) write(w *state.Writer) {
	w.U64(e.Learnt)
	flag(w, e.Settled)
	w.Floats(e.Centre)
	w.Floats(e.Scale)
	for _, c := range e.Constant {
		flag(w, c)
	}
	for _, g := range []*Gaussian{&e.Charts, &e.Deviations, &e.Row} {
		w.Floats(g.Mean)
		w.Floats32(g.Factor)
	}
	e.Scores.write(w)
	e.First.write(w)
	for _, v := range e.Tail.numbers() {
		w.F64(*v)
	}
	w.U64(e.Turn)
	writeAccepted(w, e.Accepted)
}

func readEvaluator(r *state.Reader, dim int) *Evaluator {
	e := &Evaluator{Dim: dim, Learnt: r.U64(), Settled: r.U64() == 1, Centre: r.Sized("the centre", dim), Scale: r.Sized("the scales", dim)}
	for range dim {
		e.Constant = append(e.Constant, r.U64() == 1)
	}
	for _, g := range []struct {
		of *Gaussian
		p  int
	}{{&e.Charts, 3 * dim}, {&e.Deviations, dim}, {&e.Row, dim}} {
		g.of.Mean = r.Sized("a mean", g.p)
		if g.of.Factor = r.Floats32(); len(g.of.Factor) != g.p*(g.p+1)/2 {
			r.Fail(fmt.Errorf("%d numbers of a factor of %d columns", len(g.of.Factor), g.p))
		}
	}
	e.Scores.read(r)
	e.First.read(r)
	for _, v := range e.Tail.numbers() {
		*v = r.F64()
	}
	e.Turn = r.U64()
	e.Accepted = readAccepted(r)
	return e
}

func (h *hold) write(w *state.Writer) {
	w.F64(h.usual)
	w.Count(h.Quiet)
	for _, word := range h.Last {
		w.U64(word)
	}
	w.Count(h.At)
}

func (h *hold) read(r *state.Reader) {
	h.Open, h.usual, h.Quiet = true, r.F64(), int(r.U64())
	for i := range h.Last {
		h.Last[i] = r.U64()
	}
	if h.At = int(r.U64()); h.At < 0 || h.At >= windowRows {
		r.Fail(fmt.Errorf("row %d of the last %d", h.At, windowRows))
		h.At = 0
	}
}

// AppendBinary appends the evaluator.
func (e *Evaluator) AppendBinary(b []byte) ([]byte, error) {
	w := state.Writer{B: b}
	e.write(&w)
	return w.B, nil
}

// ReadEvaluator reads what AppendBinary wrote for rows with dim columns, and returns what follows it.
func ReadEvaluator(b []byte, dim int) (e *Evaluator, rest []byte, err error) {
	r := &state.Reader{B: b}
	e = readEvaluator(r, dim)
	return e, r.B, failed(r, "evaluator")
}

func flag(w *state.Writer, v bool) {
	if v {
		w.U64(1)
	} else {
		w.U64(0)
	}
}

func failed(r *state.Reader, what string) error {
	if r.Err != nil {
		return fmt.Errorf("lca: state of the %s: %w", what, r.Err)
	}
	return nil
}
