package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// machine draws rows of d autoregressive sensors of order one, mixed, and feeds them to a learner.
type machine struct {
	t       *testing.T
	l       *Learner
	r       *rand.Rand
	phi     float64
	mixing  [][]float64
	state   []float64
	parts   int
	waiting [][]float64 // rows of a minibatch that is not full
	rows    int
}

func newMachine(t *testing.T, seed uint64, d int, phi float64, change func(*Config)) *machine {
	t.Helper()
	c := DefaultConfig(d)
	c.Preset = lca.PresetDensity
	change(&c)
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, l: l, r: rand.New(rand.NewPCG(seed, 4242)), phi: phi, state: make([]float64, d), parts: 1}
	for i := range d {
		row := make([]float64, d)
		for k := range row {
			row[k] = 0.4 * m.r.NormFloat64()
		}
		row[i]++
		m.mixing = append(m.mixing, row)
	}
	return m
}

// next draws the next row.
func (m *machine) next() []float64 {
	for k := range m.state {
		m.state[k] = m.phi*m.state[k] + math.Sqrt(1-m.phi*m.phi)*m.r.NormFloat64()
	}
	x := make([]float64, len(m.state))
	for i := range x {
		for k, z := range m.state {
			x[i] += m.mixing[i][k] * z
		}
	}
	return x
}

// at returns a function that draws rows around one, with that standard deviation in each column.
func (m *machine) at(x []float64, deviation float64) func() []float64 {
	return func() []float64 {
		row := slices.Clone(x)
		for k := range row {
			row[k] += deviation * m.r.NormFloat64()
		}
		return row
	}
}

// learn feeds rows, and returns how many of the minibatches that they fill were learnt, and the alarms.
func (m *machine) learn(rows int, draw func() []float64) (learnt int, alarms []Alarm) {
	m.t.Helper()
	b, before := m.l.cfg.Minibatch, m.l.counts.Learnt
	for range rows {
		m.rows++
		if m.waiting = append(m.waiting, draw()); len(m.waiting) < b {
			continue
		}
		x, partitions := mat.NewDense(b, len(m.state), nil), make([]int32, b)
		for i, row := range m.waiting {
			x.SetRow(i, row)
			partitions[i] = int32((m.rows + i) % m.parts)
		}
		m.waiting = nil
		s, err := m.l.Learn(x, sequence(m.rows-b, b), partitions)
		if err != nil {
			m.t.Fatal(err)
		}
		if s.Alarm != AlarmNone {
			alarms = append(alarms, s.Alarm)
		}
	}
	return int(m.l.counts.Learnt - before), alarms
}

// fill feeds rows until a minibatch is full.
func (m *machine) fill(draw func() []float64) {
	for len(m.waiting) > 0 {
		m.learn(1, draw)
	}
}
