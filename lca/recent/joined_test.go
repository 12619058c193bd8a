package recent

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// machines are series in turn, of columns that follow a common one.
type machines struct {
	dim   int
	l     *Learner
	r     *rand.Rand
	all   []Series
	state [][]float64 // of each, of the columns and of the common one
	moved []float64   // of each, a column
	rows  int
}

func newMachines(n, dim int, seed uint64) *machines {
	m := &machines{dim: dim, l: NewLearner(dim), r: rand.New(rand.NewPCG(seed, 20)), all: make([]Series, n), moved: make([]float64, n)}
	for range n {
		m.state = append(m.state, make([]float64, dim+1))
	}
	return m
}

// learn learns rows of each, and returns how many of each were held, and the rows of the first that are still held.
func (m *machines) learn(rows int) (held []int, kept []float64) {
	const b = 100
	held = make([]int, len(m.all))
	for range rows * len(m.all) / b {
		x, turns := make([]float64, b*m.dim), make([]*Series, b)
		for i := range b {
			who := (m.rows + i) % len(m.all)
			s := m.state[who]
			for k := range s {
				s[k] = 0.9*s[k] + 0.43589*m.r.NormFloat64()
			}
			for k := range m.dim {
				x[i*m.dim+k] = s[m.dim] + 0.3*s[k]
			}
			x[i*m.dim+1+who%2] += m.moved[who]
			turns[i] = &m.all[who]
		}
		m.l.Learn(x, turns)
		for i, h := range m.l.Held() {
			who := (m.rows + i) % len(m.all)
			if h {
				held[who]++
			}
			switch {
			case who > 0:
			case h:
				kept = append(kept, x[i*m.dim:][:m.dim]...)
			default:
				kept = nil
			}
		}
		m.rows += b
	}
	return held, kept
}

// TestAcceptedStaysKnown holds that one of twenty machines that was accepted is as usual as the others from then on, also where few of its rows were,
// and that nothing else becomes usual.
func TestAcceptedStaysKnown(t *testing.T) {
	for _, dim := range []int{3, 8, 24} {
		for _, rows := range []int{75, 200, 1000} {
			t.Run(fmt.Sprintf("%d columns, %d rows", dim, rows), func(t *testing.T) {
				t.Parallel()
				m := newMachines(20, dim, uint64(dim*rows))
				m.learn(1000)
				m.moved[0] = 20
				held, kept := m.learn(rows)
				if held[0] < rows/2 {
					t.Fatalf("%d of %d rows of what has changed were held", held[0], rows)
				}
				m.l.Accept([]Stretch{{State: &m.all[0], Rows: kept}}, Accepted, false)
				for _, more := range []int{1000, 5000} {
					held, _ := m.learn(more)
					others := 0
					for _, n := range held[1:] {
						others += n
					}
					if held[0] > more*6/100 || others > 19*more*4/100 {
						t.Errorf("of the next %d rows of each %d of the machine and %d of 19 others were held", more, held[0], others)
					}
				}
				m.moved[1] = 6
				if held, _ := m.learn(200); held[1] < 150 {
					t.Errorf("%d of 200 rows of another machine with a fault were held", held[1])
				}
			})
		}
	}
}

// TestJoinedForgetNothing holds that what is known of others has the same half-life, however many machines were accepted among them.
func TestJoinedForgetNothing(t *testing.T) {
	m := newMachines(20, 3, 4)
	m.learn(700)
	m.l.Settle()
	m.moved[0] = 20
	_, kept := m.learn(100)
	for i := 0; i < 8; i += 2 { // of machines that are moved in the same column
		m.moved[i] = 20
		m.l.Accept([]Stretch{{State: &m.all[i], Rows: kept}}, Accepted, false)
	}
	m.learn(500)
	forgotten := 0.
	for range 20 {
		m.learn(5)
		sum := 0.
		for _, w := range m.l.weights {
			sum += w
		}
		forgotten += sum / m.l.charts.count
	}
	if most := 1.2 * 2000 / memory; forgotten > most {
		t.Errorf("of what was known %.3g is forgotten in 2000 rows, and at most %.3g should be", forgotten, most)
	}
}

// TestAcceptedWholeIsANewStream holds that what a whole stream was accepted to be is known no worse than a stream that begins with as many rows. Both are
// young: of few rows that follow each other slowly up to one level in four is too low.
func TestAcceptedWholeIsANewStream(t *testing.T) {
	const seeds = 40
	for _, rows := range []int{300, 600, 1000} {
		worse := [2]int{}
		for seed := range uint64(2 * seeds) {
			m := newMachines(1, 3, 1000*seed+uint64(3*rows))
			if accepted := seed%2 == 0; accepted {
				m.learn(3000)
				m.moved[0] = 20
				if held, kept := m.learn(rows); held[0] < rows*9/10 {
					t.Fatalf("%d of %d rows of what has changed were held", held[0], rows)
				} else {
					m.l.Accept([]Stretch{{State: &m.all[0], Rows: kept}}, Accepted, true)
				}
			} else {
				m.learn(rows)
			}
			first, _ := m.learn(1000)
			later, _ := m.learn(5000)
			if first[0] > 60 || later[0] > 300 {
				worse[seed%2]++
			}
		}
		t.Logf("%d rows: more than 6 %% of the rows that followed were held in %d of %d streams that were accepted, and %d that began", rows, worse[0], seeds, worse[1])
		if worse[0] > worse[1]+seeds/5 {
			t.Errorf("after %d rows %d of %d streams that were accepted hold too much, and %d that begin", rows, worse[0], seeds, worse[1])
		}
	}
}
