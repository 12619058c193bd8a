//go:build unix

package lca

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"
)

// BenchmarkLearn is one minibatch of a stream that has been learnt for a while: two clusters along one
// axis, noise in all others.
func BenchmarkLearn(b *testing.B) {
	for _, s := range [][3]int{{16, 256, 256}, {64, 256, 256}, {256, 256, 256}, {16, 3000, 100}, {64, 3000, 100}, {256, 3000, 100}} {
		dim, neighbours, rows := s[0], s[1], s[2]
		b.Run(fmt.Sprintf("d=%d/N=%d/B=%d", dim, neighbours, rows), func(b *testing.B) {
			c := DefaultConfig(dim)
			c.Neighbours, c.Minibatch = neighbours, rows
			l, err := NewLearner(c)
			if err != nil {
				b.Fatal(err)
			}
			x, _ := clusters(rows*40, dim)
			learn := func(i int) {
				at := i % 40 * rows
				if _, err := l.Learn(mat.NewDense(rows, dim, x[at*dim:(at+rows)*dim]), nil); err != nil {
					b.Fatal(err)
				}
			}
			for i := range 100 {
				learn(i)
			}
			b.ReportAllocs()
			began := processTime(b)
			b.ResetTimer()
			for i := range b.N {
				learn(i)
			}
			b.ReportMetric(float64(rows*b.N)/(processTime(b)-began).Seconds(), "rows/cpu-s")
		})
	}
}

// processTime is the processor time of the process, the collector's included: wall time says little on
// a machine that others use too.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func clusters(rows, dim int) (x []float64, side []int) {
	r := rand.New(rand.NewPCG(1, 2))
	x, side = make([]float64, rows*dim), make([]int, rows)
	for i := range rows {
		side[i] = r.IntN(2)
		for k := range dim {
			x[i*dim+k] = r.NormFloat64()
		}
		x[i*dim] += float64(6*side[i] - 3)
	}
	return x, side
}
