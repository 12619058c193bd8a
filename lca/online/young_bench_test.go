//go:build unix

package online

import (
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
)

// BenchmarkYoung is what a learner of a small pool costs in its first 2000 rows, without what it chooses by the data, in a process that has many
// of them: µs of the first fit, of a minibatch afterwards, of a model that is published, and of a state that is saved.
func BenchmarkYoung(b *testing.B) {
	const dim, rows, minibatch = 8, 2000, 100
	c := DefaultConfig(dim)
	c.Neighbours, c.Minibatch, c.Kind = 250, minibatch, lca.KindLCAGauss
	x, _ := clusters(rows, dim)
	var shared Scratch
	var fit, later, published, saved time.Duration
	for b.Loop() {
		l, err := NewLearner(c)
		if err != nil {
			b.Fatal(err)
		}
		l.Return(&shared)
		for i := 0; i < rows; i += minibatch {
			began := testtools.ProcessorTime(b)
			l.Borrow(&shared)
			if _, err := l.Learn(mat.NewDense(minibatch, dim, x[i*dim:(i+minibatch)*dim]), sequence(i, minibatch), nil); err != nil {
				b.Fatal(err)
			}
			l.Return(&shared)
			if took := testtools.ProcessorTime(b) - began; i < 200 {
				fit += took
			} else {
				later += took
			}
		}
		l.Borrow(&shared)
		began := testtools.ProcessorTime(b)
		if _, err := l.Model(); err != nil {
			b.Fatal(err)
		}
		published += testtools.ProcessorTime(b) - began
		began = testtools.ProcessorTime(b)
		if _, err := l.AppendBinary(nil); err != nil {
			b.Fatal(err)
		}
		saved += testtools.ProcessorTime(b) - began
		l.Return(&shared)
	}
	each := func(d time.Duration, times int) float64 { return d.Seconds() * 1e6 / float64(b.N*times) }
	b.ReportMetric(each(fit, 1), "fit-cpu-µs")
	b.ReportMetric(each(later, (rows-200)/minibatch), "minibatch-cpu-µs")
	b.ReportMetric(each(published, 1), "model-cpu-µs")
	b.ReportMetric(each(saved, 1), "state-cpu-µs")
}
