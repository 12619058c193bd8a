package kernel_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// alternations is how often both sides run, one after the other. Their medians are compared.
const alternations = 15

// BenchmarkTwin compares one EM step with a tuned numpy and scipy, one thread each, alternating in
// one run on the same input: the whole M-step and E-step, with a tenth of an eigendecomposition. It reports
// no ratio unless both results agree with a plain float64 computation: to 1e-3 of Ĉ_L's norm, and to
// 5e-3 in the worst direction of C_L, which is what TestPrecision allows.
//
//	go test ./lca/internal/kernel -run '^$' -bench Twin -benchtime 1x -timeout 1h
//
// If TABLES names a directory, the table is written there.
func BenchmarkTwin(b *testing.B) {
	locked(b)
	peer := startTwin(b, 1)
	var rows []string
	for _, dim := range []int{16, 64, 256, 1024} {
		for _, batch := range []int{100, 1000} {
			for _, kind := range []string{"aniso", "mix"} {
				b.Run(fmt.Sprintf("d=%d/B=%d/%s", dim, batch, kind), func(b *testing.B) {
					for range b.N {
						rows = append(rows, compare(b, peer, kind, batch, 3000, dim))
					}
				})
			}
		}
	}
	table(b, "update", "| d | B | data | numpy, ms | ours, ms | ratio of medians (lowest – highest pair) | Ĉ_L off by, theirs / ours |\n|---|---|---|---|---|---|---|\n", rows)
}

// pair is the processor time of both sides in one alternation, in seconds.
type pair struct{ theirs, ours float64 }

func compare(b *testing.B, peer *twin, kind string, batch, n, dim int) string {
	p := newProblem(b, kind, batch, n, dim)
	s := newStepper(p, 1)
	peer.ask(b, "load", &p)
	s.run(b)
	var pairs []pair
	peak, off := 0.0, pair{}
	for i := range alternations {
		eigen := pair{peer.ask(b, "eigen", &p).CPU, eigenSeconds(b, &p)}
		theirs := peer.ask(b, "step", &p).CPU
		began := cpuSeconds(b)
		s.run(b)
		ours := cpuSeconds(b) - began
		pairs = append(pairs, pair{theirs + eigen.theirs/eigenEvery, ours + eigen.ours/eigenEvery})
		peak = max(peak, peakFlops[float32](b))
		if i == 0 {
			off = pair{agree(b, &p, "numpy", p.read(b, "python")), agree(b, &p, "ours", s.c)}
		}
	}
	theirs, ours, low, high := summary(pairs)
	b.ReportMetric(theirs/ours, "ratio")
	b.ReportMetric(ours*1e3, "ms")
	b.ReportMetric(peak/1e9, "peak-GF/s")
	b.ReportMetric(0, "ns/op")
	return fmt.Sprintf("| %d | %d | %s | %.2f | %.2f | **%.1f** (%.1f – %.1f) | %.0e / %.0e |\n", dim, batch, kind, theirs*1e3, ours*1e3, theirs/ours, low, high, off.theirs, off.ours)
}

func summary(pairs []pair) (theirs, ours, low, high float64) {
	var t, o, ratios []float64
	for _, p := range pairs {
		t, o, ratios = append(t, p.theirs), append(o, p.ours), append(ratios, p.theirs/p.ours)
	}
	slices.Sort(t)
	slices.Sort(o)
	return t[len(t)/2], o[len(o)/2], slices.Min(ratios), slices.Max(ratios)
}

// agree returns the distance of Ĉ_L of c from that of the plain computation, relative to its norm. It fails the
// benchmark if that is too large.
func agree(b *testing.B, p *problem, who string, c []float64) float64 {
	b.Helper()
	want := p.read(b, "textbook")
	var off, size float64
	for k, v := range want { // of Ĉ_L alone: what C_L kept is the same on both sides
		local := (v - keep*p.c[k]) / (1 - keep)
		size += local * local
		off += (c[k] - v) * (c[k] - v) / ((1 - keep) * (1 - keep))
	}
	off = math.Sqrt(off / size)
	if !(off < 1e-3) {
		b.Fatalf("%s: Ĉ_L is off by %.2g of its norm: no ratio is worth giving", who, off)
	}
	low := append([]float64(nil), want...)
	if err := new(linalg.Workspace).CholeskyLower(low, p.dim); err != nil {
		b.Fatal(err)
	}
	invertLower(low, p.dim)
	values, _, err := linalg.EigenSym(sandwich(low, c, p.dim), p.dim)
	if err != nil {
		b.Fatal(err)
	}
	if e := max(math.Abs(values[0]-1), math.Abs(values[p.dim-1]-1)); !(e < 5e-3) {
		b.Fatalf("%s: the worst direction of C_L is off by %.2g: no ratio is worth giving", who, e)
	}
	return off
}

func eigenSeconds(b *testing.B, p *problem) float64 {
	began := cpuSeconds(b)
	if _, _, err := linalg.EigenSym(p.c, p.dim); err != nil {
		b.Fatal(err)
	}
	return cpuSeconds(b) - began
}

// peakFlops returns the most flops per second that one thread reaches in a few short runs.
func peakFlops[T kernel.Float](b *testing.B) float64 {
	var operands kernel.PeakOperands[T]
	best := 0.0
	for range 20 {
		began := cpuSeconds(b)
		flops := kernel.PeakFlops(&operands)
		best = max(best, flops/(cpuSeconds(b)-began))
	}
	return best
}

// BenchmarkTwinEigen compares the symmetric eigendecomposition with LAPACK's dsyevd.
func BenchmarkTwinEigen(b *testing.B) {
	locked(b)
	peer := startTwin(b, 1)
	var rows []string
	for _, dim := range []int{64, 256, 1024} {
		b.Run(fmt.Sprintf("d=%d", dim), func(b *testing.B) {
			p := newProblem(b, "aniso", 100, 3000, dim)
			var pairs []pair
			for range alternations {
				pairs = append(pairs, pair{peer.ask(b, "eigen", &p).CPU, eigenSeconds(b, &p)})
			}
			theirs, ours, low, high := summary(pairs)
			b.ReportMetric(theirs/ours, "ratio")
			rows = append(rows, fmt.Sprintf("| %d | %.2f | %.2f | **%.2f** (%.2f – %.2f) |\n", dim, theirs*1e3, ours*1e3, theirs/ours, low, high))
		})
	}
	table(b, "eigen", "| d | dsyevd, ms | ours, ms | ratio of medians (lowest – highest pair) |\n|---|---|---|---|\n", rows)
}

// BenchmarkGonum compares the E-step and M-step with the same steps written with gonum alone.
func BenchmarkGonum(b *testing.B) {
	locked(b)
	var rows []string
	for _, batch := range []int{100, 1000} {
		p := newProblem(b, "aniso", batch, 3000, 256)
		s := newStepper(p, 1)
		s.run(b)
		var pairs []pair
		for range 5 {
			began := processSeconds(b)
			want := byGonum(b, &p)
			between := processSeconds(b)
			s.run(b)
			pairs = append(pairs, pair{between - began, processSeconds(b) - between})
			near(b, s.c, want)
		}
		theirs, ours, low, high := summary(pairs)
		b.ReportMetric(theirs/ours, fmt.Sprintf("ratio-B=%d", batch))
		rows = append(rows, fmt.Sprintf("| 256 | %d | %.0f | %.1f | **%.1f** (%.1f – %.1f) |\n", batch, theirs*1e3, ours*1e3, theirs/ours, low, high))
	}
	table(b, "gonum", "| d | B | gonum, float64, ms | ours, ms | ratio of medians (lowest – highest pair) |\n|---|---|---|---|---|\n", rows)
}

func near(b *testing.B, got, want []float64) {
	b.Helper()
	top := slices.Max(want)
	for k, v := range want {
		if math.Abs(got[k]-v) > 1e-4*top {
			b.Fatalf("gonum's C_L[%d] is %v, ours %v", k, v, got[k])
		}
	}
}

// byGonum is the step written with gonum. Its products start goroutines, so the time is that of the process.
func byGonum(b *testing.B, p *problem) []float64 {
	var chol mat.Cholesky
	if !chol.Factorize(mat.NewSymDense(p.dim, p.c)) {
		b.Fatal("not positive definite")
	}
	var low mat.TriDense
	chol.LTo(&low)
	mean := meanOf(p.z, p.n, p.dim)
	whiten := func(x []float64, rows int) *mat.Dense {
		centred := mat.NewDense(rows, p.dim, nil)
		for i := range rows {
			for k := range p.dim {
				centred.Set(i, k, x[i*p.dim+k]-mean[k])
			}
		}
		var out, t mat.Dense
		if err := t.Solve(&low, centred.T()); err != nil {
			b.Fatal(err)
		}
		out.CloneFrom(t.T())
		return &out
	}
	q, z := whiten(p.q, p.rows), whiten(p.z, p.n)
	var s mat.Dense
	s.Mul(q, z.T())
	weight := softmaxRows(&s, z)
	var m, zs, cov, w, out mat.Dense
	m.Mul(&s, z)
	q.Sub(q, &m)
	zs.CloneFrom(z)
	zs.Apply(func(i, _ int, v float64) float64 { return v * weight[i] }, &zs)
	cov.Mul(z.T(), &zs)
	w.Mul(q.T(), q)
	cov.Add(&cov, &w)
	w.Mul(m.T(), &m)
	cov.Sub(&cov, &w)
	w.Mul(&low, &cov)
	out.Mul(&w, low.T())
	c := make([]float64, len(p.c))
	for k, v := range out.RawMatrix().Data {
		c[k] = keep*p.c[k] + (1-keep)/float64(p.rows)*v
	}
	return c
}

// softmaxRows turns logits into weights and returns their sums by column.
func softmaxRows(s, z *mat.Dense) []float64 {
	rows, n := s.Dims()
	bias, weight := make([]float64, n), make([]float64, n)
	for j := range n {
		v := z.RawRowView(j)
		bias[j] = -0.5 * mat.Dot(mat.NewVecDense(len(v), v), mat.NewVecDense(len(v), v))
	}
	for i := range rows {
		row := s.RawRowView(i)
		top, sum := math.Inf(-1), 0.0
		for j := range row {
			row[j] += bias[j]
			top = max(top, row[j])
		}
		for j := range row {
			row[j] = math.Exp(row[j] - top)
			sum += row[j]
		}
		for j := range row {
			row[j] /= sum
			weight[j] += row[j]
		}
	}
	return weight
}

// table writes a table to the directory that TABLES names, unless the table is empty.
func table(b *testing.B, name, head string, rows []string) {
	b.Helper()
	dir := os.Getenv("TABLES")
	if dir == "" || len(rows) == 0 {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(head+strings.Join(rows, "")), 0o644); err != nil {
		b.Fatal(err)
	}
}
