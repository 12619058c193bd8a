package recent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The bytes of a Learner and of a Series, little-endian: numbers of 8 bytes, and before each list the number of its elements. A matrix
// is its lower triangle.
//
//	series    rows, short, long, deviation
//	learner   learnt, settled, moments of z, moments of x′, distribution of scores, of first scores, 1 and the newest evaluator, or 0
//	moments   rows that they stand for, rows that came, mean, covariance
//	distribution  first bin, weights, their sum
//	evaluator learnt, settled, centre, scale, constant, means and factors (float32) of z, v and x′, both distributions

// StateBytes is about how many bytes a Learner with one Series takes, in memory and as AppendBinary writes it.
func StateBytes(dim int) int {
	if dim > MostColumns {
		return 0
	}
	const matrices, lists, histograms = 8*(9+1)/2 + 4*(9+1+1)/2, 8 * 14, 8 * 2 * 2 * 200
	return matrices*dim*dim + lists*dim + histograms
}

// AppendBinary appends the series.
func (s *Series) AppendBinary(b []byte) ([]byte, error) {
	w := writer{b}
	w.u64(uint64(s.Rows))
	w.floats(s.Short)
	w.floats(s.Long)
	w.floats(s.Deviation)
	return w.b, nil
}

// ReadSeries reads what AppendBinary wrote, and returns what follows it.
func ReadSeries(b []byte) (s *Series, rest []byte, err error) {
	r := reader{b: b}
	s = &Series{Rows: uint32(r.u64()), Short: r.floats(-1)}
	d := len(s.Short)
	s.Long, s.Deviation = r.floats(d), r.floats(d)
	return s, r.b, r.failed("series")
}

// AppendBinary appends all that the learner knows.
func (l *Learner) AppendBinary(b []byte) ([]byte, error) {
	w := writer{b}
	w.u64(l.learnt)
	w.flag(l.settled)
	l.charts.write(&w)
	l.rows.write(&w)
	l.scores.write(&w)
	l.first.write(&w)
	w.flag(l.newest != nil)
	if l.newest != nil {
		l.newest.write(&w)
	}
	return w.b, nil
}

// ReadLearner reads what AppendBinary wrote for rows with dim columns, and returns what follows it. The learner goes on as the one that was written.
func ReadLearner(b []byte, dim int) (l *Learner, rest []byte, err error) {
	r := reader{b: b}
	l = &Learner{dim: dim, learnt: r.u64(), settled: r.flag()}
	l.charts.read(&r, 3*dim)
	l.rows.read(&r, dim)
	l.scores.read(&r)
	l.first.read(&r)
	if r.flag() {
		l.newest = r.evaluator(dim)
	}
	return l, r.b, r.failed("recent score")
}

func (m *moments) write(w *writer) {
	w.f64(m.count)
	w.f64(m.total)
	w.floats(m.mean)
	p := len(m.mean)
	w.u64(uint64(p * (p + 1) / 2))
	for i := range p {
		for _, v := range m.cov[i*p:][:i+1] {
			w.f64(v)
		}
	}
}

func (m *moments) read(r *reader, p int) {
	m.count, m.total, m.mean = r.f64(), r.f64(), r.floats(p)
	lower := r.floats(p * (p + 1) / 2)
	m.cov = make([]float64, p*p)
	for i := 0; i < p && r.err == nil; i++ {
		copy(m.cov[i*p:], lower[:i+1])
		lower = lower[i+1:]
	}
}

func (h *Distribution) write(w *writer) {
	w.u64(uint64(h.Low))
	w.floats(h.Weights)
	w.f64(h.Sum)
}

func (h *Distribution) read(r *reader) {
	h.Low, h.Weights, h.Sum = int(r.u64()), r.floats(-1), r.f64()
	if h.Low < 0 || h.Low+len(h.Weights) > MostBins {
		r.fail(fmt.Errorf("a histogram of %d bins from %d on", len(h.Weights), h.Low))
	}
}

func (e *Evaluator) write(w *writer) {
	w.u64(e.Learnt)
	w.flag(e.Settled)
	w.floats(e.Centre)
	w.floats(e.Scale)
	for _, c := range e.Constant {
		w.flag(c)
	}
	for _, g := range []*Gaussian{&e.Charts, &e.Deviations, &e.Row} {
		w.floats(g.Mean)
		w.u64(uint64(len(g.Factor)))
		for _, f := range g.Factor {
			w.b = binary.LittleEndian.AppendUint32(w.b, math.Float32bits(f))
		}
	}
	e.Scores.write(w)
	e.First.write(w)
}

func (r *reader) evaluator(dim int) *Evaluator {
	e := &Evaluator{Dim: dim, Learnt: r.u64(), Settled: r.flag(), Centre: r.floats(dim), Scale: r.floats(dim)}
	for range dim {
		e.Constant = append(e.Constant, r.flag())
	}
	for _, g := range []struct {
		of *Gaussian
		p  int
	}{{&e.Charts, 3 * dim}, {&e.Deviations, dim}, {&e.Row, dim}} {
		g.of.Mean = r.floats(g.p)
		for range r.length(g.p*(g.p+1)/2, 4) {
			g.of.Factor = append(g.of.Factor, math.Float32frombits(binary.LittleEndian.Uint32(r.take(4))))
		}
	}
	e.Scores.read(r)
	e.First.read(r)
	return e
}

type writer struct{ b []byte }

func (w *writer) u64(v uint64)  { w.b = binary.LittleEndian.AppendUint64(w.b, v) }
func (w *writer) f64(v float64) { w.u64(math.Float64bits(v)) }

func (w *writer) flag(v bool) {
	if v {
		w.u64(1)
	} else {
		w.u64(0)
	}
}

func (w *writer) floats(v []float64) {
	w.u64(uint64(len(v)))
	for _, f := range v {
		w.f64(f)
	}
}

// reader reads what a writer wrote. After the first error all it reads is 0.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err, r.b = err, nil
	}
}

func (r *reader) failed(what string) error {
	if r.err != nil {
		return fmt.Errorf("lca: state of the %s: %w", what, r.err)
	}
	return nil
}

func (r *reader) take(n int) []byte {
	if r.err != nil || len(r.b) < n {
		r.fail(errors.New("it was cut"))
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) u64() uint64  { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reader) f64() float64 { return math.Float64frombits(r.u64()) }
func (r *reader) flag() bool   { return r.u64() == 1 }

// length reads a number of elements, which must be the one that is wanted unless that is −1, and be there in the size given.
func (r *reader) length(want, size int) int {
	n := r.u64()
	switch {
	case r.err != nil:
		return 0
	case want >= 0 && n != uint64(want):
		r.fail(fmt.Errorf("%d numbers, want %d", n, want))
	case n > uint64(len(r.b)/size):
		r.fail(fmt.Errorf("%d numbers in %d bytes", n, len(r.b)))
	default:
		return int(n)
	}
	return 0
}

// floats reads a list; with as many elements as wanted, which is any number where that is −1, even after an error.
func (r *reader) floats(want int) []float64 {
	n := r.length(want, 8)
	v := make([]float64, max(n, want))
	for k := range n {
		v[k] = r.f64()
	}
	return v
}
