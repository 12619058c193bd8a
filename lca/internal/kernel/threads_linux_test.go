package kernel_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// BenchmarkThreads compares two threads with one by the wall clock, in turn within one run: for the E-step alone, and
// for the whole step of BenchmarkTwin, whose work on C_L has one thread. The result means something only if both
// threads had a core, so the number of cores they had and the load average are printed with it.
//
//	go test ./lca/internal/kernel -run '^$' -bench Threads -benchtime 1x
//
// If TABLES names a directory, the table is written there.
func BenchmarkThreads(b *testing.B) {
	var rows []string
	for _, dim := range []int{16, 64, 256} {
		b.Run(fmt.Sprintf("d=%d", dim), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // here, because each b.Run sets it again
			p := newProblem(b, "aniso", 1000, 3000, dim)
			s := newStepper(p, 1)
			s.run(b)
			for range b.N {
				update := s.faster(b, "E-step", func() {
					kernel.Update(&s.moments, &s.scratch, s.qw, s.rows, &s.pool, kernel.Exclusion{NearCopy: 1e-6 * float64(dim)})
				})
				step := s.faster(b, "step", func() { s.run(b) })
				rows = append(rows, fmt.Sprintf("| %d %s %s | %s |\n", dim, update, step, loadAverage(b)))
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	table(b, "threads", "| d | E-step with one thread, ms | with two | ratio of medians (lowest – highest pair) | cores had | step with one thread, ms | with two | ratio | cores had | load average |\n|---|---|---|---|---|---|---|---|---|---|\n", rows)
}

// faster times f with one thread and with two, in turn, and returns four columns. A turn is the fastest of a few
// runs, because other programs interrupt one of two threads more often than a single one.
func (s *stepper) faster(b *testing.B, what string, f func()) string {
	const turns, runs = 15, 9
	turn := func(threads int) (seconds, cores float64) {
		s.share(threads)
		seconds = math.Inf(1)
		for range runs {
			began, used := time.Now(), processSeconds(b)
			f()
			if took := time.Since(began).Seconds(); took < seconds {
				seconds, cores = took, (processSeconds(b)-used)/took
			}
		}
		return seconds, cores
	}
	var pairs []pair
	var had []float64
	for range turns {
		one, _ := turn(1)
		two, cores := turn(2)
		pairs, had = append(pairs, pair{one, two}), append(had, cores)
	}
	slices.Sort(had)
	one, two, low, high := summary(pairs)
	b.ReportMetric(one/two, what+"-ratio")
	b.ReportMetric(had[turns/2], what+"-cores")
	return fmt.Sprintf("| %.2f | %.2f | **%.2f** (%.2f – %.2f) | %.2f", one*1e3, two*1e3, one/two, low, high, had[turns/2])
}

func loadAverage(b *testing.B) string {
	b.Helper()
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		b.Fatal(err)
	}
	return strings.Fields(string(raw))[0]
}
