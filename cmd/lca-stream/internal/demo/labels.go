package demo

import (
	"math"
	"math/rand/v2"
	"sync"
)

const (
	knownRows = 100_000 // far more than the learner keeps as neighbours
	labelGrid = 1e-3    // far more than a row moves by rounding on its way through the learner
)

// labelBook knows the true labels of the newest rows, so that the page can colour them. A row comes back from the
// learner with rounding errors, so rows are found by the place of two random projections on a grid.
type labelBook struct {
	weights [2][]float64

	mu     sync.Mutex // guards the fields below; never held while waiting
	labels map[[2]int64]int
	places [][2]int64 // a ring, so that the oldest can be forgotten
	next   int
}

func newLabelBook(dim int) *labelBook {
	b := &labelBook{labels: map[[2]int64]int{}}
	rng := rand.New(rand.NewPCG(1, uint64(dim)))
	for i := range b.weights {
		for range dim {
			b.weights[i] = append(b.weights[i], rng.NormFloat64())
		}
	}
	return b
}

// add remembers rows as they are sent: in float32.
func (b *labelBook) add(x []float64, labels []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := len(b.weights[0])
	for i, label := range labels {
		at := b.place(x[i*d : (i+1)*d])
		if _, known := b.labels[at]; !known {
			b.remember(at)
		}
		b.labels[at] = label
	}
}

func (b *labelBook) remember(at [2]int64) {
	if len(b.places) < knownRows {
		b.places = append(b.places, at)
		return
	}
	delete(b.labels, b.places[b.next])
	b.places[b.next] = at
	b.next = (b.next + 1) % knownRows
}

func (b *labelBook) place(row []float64) (at [2]int64) {
	for i, weights := range b.weights {
		sum := 0.0
		for j, w := range weights {
			sum += w * float64(float32(row[j]))
		}
		at[i] = int64(math.Round(sum / labelGrid))
	}
	return at
}

// label returns the label of a row that was sent.
func (b *labelBook) label(row []float64) (label int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.place(row)
	for _, di := range []int64{0, -1, 1} {
		for _, dj := range []int64{0, -1, 1} {
			if label, ok := b.labels[[2]int64{at[0] + di, at[1] + dj}]; ok {
				return label, true
			}
		}
	}
	return 0, false
}
