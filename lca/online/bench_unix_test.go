//go:build unix

package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
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
			l.free = freedom{} // the data choose nothing: that is BenchmarkChoice
			x, _ := clusters(rows*40, dim)
			learn := func(i int) {
				at := i % 40 * rows
				if _, err := l.Learn(mat.NewDense(rows, dim, x[at*dim:(at+rows)*dim]), nil, nil); err != nil {
					b.Fatal(err)
				}
			}
			for i := range 100 {
				learn(i)
			}
			b.ReportAllocs()
			began := testtools.ProcessorTime(b)
			b.ResetTimer()
			for i := range b.N {
				learn(i)
			}
			b.ReportMetric(float64(rows*b.N)/(testtools.ProcessorTime(b)-began).Seconds(), "rows/cpu-s")
		})
	}
}

// BenchmarkChoice is what it costs to let the data choose: CPU seconds of one comparison. There is one when the pool is full
// and one at each doubling of the rows, so that it is no part of what a row of a long stream costs (BenchmarkLearn).
func BenchmarkChoice(b *testing.B) {
	for _, preset := range []lca.Preset{lca.PresetMetric, lca.PresetDensity} {
		for _, s := range [][2]int{{8, 250}, {16, 256}, {64, 256}, {256, 256}, {16, 3000}, {64, 3000}, {256, 3000}} {
			dim, neighbours := s[0], s[1]
			b.Run(fmt.Sprintf("%v/d=%d/N=%d", preset, dim, neighbours), func(b *testing.B) {
				c := DefaultConfig(dim)
				c.Preset, c.Neighbours = preset, neighbours
				l, err := NewLearner(c)
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				x, _ := clusters(2*max(neighbours, 8*dim), dim) // the warm-up has 8 rows per column
				if _, err := l.Learn(mat.NewDense(len(x)/dim, dim, x), nil, nil); err != nil {
					b.Fatal(err)
				}
				began := testtools.ProcessorTime(b)
				for b.Loop() {
					newContest(&l.choices).run(b.Context())
				}
				b.ReportMetric((testtools.ProcessorTime(b)-began).Seconds()/float64(b.N), "cpu-s/choice")
			})
		}
	}
}

// BenchmarkFreeze is what a published model costs, in ms of processor time: the part that the learner waits for, and the
// rest, which may run next to it.
func BenchmarkFreeze(b *testing.B) {
	for _, s := range [][2]int{{64, 256}, {256, 256}, {64, 3000}} {
		dim, neighbours := s[0], s[1]
		b.Run(fmt.Sprintf("d=%d/N=%d", dim, neighbours), func(b *testing.B) {
			c := DefaultConfig(dim)
			c.Neighbours, c.Minibatch = neighbours, 256
			l, err := NewLearner(c)
			if err != nil {
				b.Fatal(err)
			}
			l.free = freedom{}
			x, _ := clusters(256*20, dim)
			for i := range 20 {
				if _, err := l.Learn(mat.NewDense(256, dim, x[i*256*dim:][:256*dim]), nil, nil); err != nil {
					b.Fatal(err)
				}
			}
			var freeze, rest time.Duration
			for range b.N {
				began := testtools.ProcessorTime(b)
				f, err := l.Freeze()
				if err != nil {
					b.Fatal(err)
				}
				frozen := testtools.ProcessorTime(b)
				if _, err := f.Model(); err != nil {
					b.Fatal(err)
				}
				freeze, rest = freeze+frozen-began, rest+testtools.ProcessorTime(b)-frozen
			}
			b.ReportMetric(freeze.Seconds()*1e3/float64(b.N), "freeze-ms")
			b.ReportMetric(rest.Seconds()*1e3/float64(b.N), "model-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkWide is what a row and a version cost where a single Gaussian of wide rows is all there is.
func BenchmarkWide(b *testing.B) {
	for _, dim := range []int{384, 768} {
		b.Run(fmt.Sprintf("d=%d", dim), func(b *testing.B) {
			c := DefaultConfig(dim)
			c.Preset = lca.PresetDensity
			l, err := NewLearner(c)
			if err != nil {
				b.Fatal(err)
			}
			x, _ := clusters(100*20, dim)
			learn := func(i int) {
				if _, err := l.Learn(mat.NewDense(100, dim, x[i%20*100*dim:][:100*dim]), nil, nil); err != nil {
					b.Fatal(err)
				}
			}
			for i := range 20 {
				learn(i)
			}
			var rows, version time.Duration
			for i := range b.N {
				began := testtools.ProcessorTime(b)
				learn(i)
				learnt := testtools.ProcessorTime(b)
				if _, err := l.Model(); err != nil {
					b.Fatal(err)
				}
				rows, version = rows+learnt-began, version+testtools.ProcessorTime(b)-learnt
			}
			b.ReportMetric(float64(100*b.N)/rows.Seconds(), "rows/cpu-s")
			b.ReportMetric(version.Seconds()*1e3/float64(b.N), "version-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkGrowth shows what a row costs when the stream has been long, and how the cost of a minibatch
// grows with each of its sizes: t ∝ size^e between the smallest and the largest, others fixed.
func BenchmarkGrowth(b *testing.B) {
	var lines []string
	cost := func(dim, neighbours, rows, before, minibatches int) time.Duration {
		c := DefaultConfig(dim)
		c.Neighbours, c.Minibatch = neighbours, rows
		l, err := NewLearner(c)
		if err != nil {
			b.Fatal(err)
		}
		x, _ := clusters(max(rows, 8000/rows*rows), dim)
		blocks := len(x) / dim / rows
		var began time.Duration
		for i := range before/rows + minibatches {
			if i == before/rows {
				began = testtools.ProcessorTime(b)
			}
			at := i % blocks * rows * dim
			if _, err := l.Learn(mat.NewDense(rows, dim, x[at:at+rows*dim]), nil, nil); err != nil {
				b.Fatal(err)
			}
		}
		return (testtools.ProcessorTime(b) - began) / time.Duration(minibatches)
	}
	for _, before := range []int{100_000, 1_000_000, 5_000_000} {
		t := cost(16, 256, 256, before, 400)
		lines = append(lines, fmt.Sprintf("| after %d rows: d = 16, N = 256, B = 256 | %.2f | |\n", before, t.Seconds()*1e3))
	}
	for _, g := range []struct {
		name     string
		from, to [3]int // d, N, B
	}{
		{"N", [3]int{64, 3000, 100}, [3]int{64, 24000, 100}},
		{"B", [3]int{64, 3000, 100}, [3]int{64, 3000, 800}},
		{"d", [3]int{32, 3000, 100}, [3]int{256, 3000, 100}},
	} {
		times := [2]time.Duration{}
		for i, v := range [][3]int{g.from, g.to} {
			times[i] = cost(v[0], v[1], v[2], max(30_000, 2*v[1]), 30)
			lines = append(lines, fmt.Sprintf("| d = %d, N = %d, B = %d | %.2f | |\n", v[0], v[1], v[2], times[i].Seconds()*1e3))
		}
		e := math.Log(times[1].Seconds()/times[0].Seconds()) / math.Log(8)
		b.ReportMetric(e, "exponent-"+g.name)
		lines = append(lines, fmt.Sprintf("| … exponent in %s | | %.2f |\n", g.name, e))
	}
	b.ReportMetric(0, "ns/op")
	if dir := os.Getenv("TABLES"); dir != "" {
		head := "| | ms per minibatch | exponent |\n|---|---|---|\n"
		if err := os.WriteFile(filepath.Join(dir, "growth.md"), []byte(head+strings.Join(lines, "")), 0o644); err != nil {
			b.Fatal(err)
		}
	}
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
