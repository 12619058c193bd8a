//go:build unix

package bench

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// BenchmarkFleetShared is the processor time per row that two processes of learners take together, next to one process that learns all of
// the topic: KEYS, MESSAGES, SET and PROFILE_DIR are those of BenchmarkFleetLearners. The second process joins while the first begins, or with LATE
// when that has read a third: all models are then saved and read again, and that is in the figure.
//
//	go test ./internal/bench -run '^$' -bench FleetShared -benchtime 1x -timeout 2h
func BenchmarkFleetShared(b *testing.B) {
	f := newLearntFleet(b)
	c := fleetCell{"all in memory, uniform", "uniform", "key", "2GiB"}
	var one, two, ratio, shares []float64
	for range f.rounds {
		alone, _ := f.shared(b, c, 1)
		both, share := f.shared(b, c, 2)
		one, two = append(one, alone), append(two, both)
		ratio, shares = append(ratio, alone/both), append(shares, share)
		b.Logf("one process %.2f µs a row, two %.2f together, of which the second one read %.0f %%: %.2f", alone, both, 100*share, alone/both)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ratio), "efficiency")
	table(b, "fleetshared", "| one process: µs of CPU a row | two processes | rows that the second one read | rows per CPU second of two, of those of one |\n|---|---|---|---|\n",
		[]string{fmt.Sprintf("| %.2f | %.2f | %.0f %% | **%.2f** |\n", median(one), median(two), 100*median(shares), median(ratio))})
}

// shared learns a topic with some processes, and returns their processor time in µs a row, and the last one's share of what was read.
func (f *learntFleet) shared(b *testing.B, c fleetCell, processes int) (cpu, last float64) {
	b.Helper()
	_, args := f.learner(b, c)
	var all []*process
	for i := range processes {
		if i > 0 && os.Getenv("LATE") != "" {
			all[0].awaitCount(b, "lca_source_rows_total", f.messages/3)
		}
		all = append(all, start(b, f.stream.binary, args))
	}
	if dir := os.Getenv("PROFILE_DIR"); dir != "" {
		go all[0].profile(b, filepath.Join(dir, fmt.Sprintf("shared%d.pprof", processes)))
	}
	var read []float64
	began := time.Now()
	for deadline := time.Now().Add(30 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		lag, rows := 0.0, 0.0
		read = read[:0]
		for _, p := range all {
			read = append(read, p.sum(b, "lca_source_rows_total"))
			lag, rows = lag+p.sum(b, "lca_source_lag_records"), rows+read[len(read)-1]
		}
		if rows >= float64(f.messages) && lag == 0 {
			last = read[processes-1] / rows
			break
		}
		if time.Now().After(deadline) {
			b.Fatalf("%v of %d rows were read, and %v are left", read, f.messages, lag)
		}
	}
	took := time.Since(began)
	for i, p := range all {
		one := p.stop(b).CPU
		b.Logf("process %d of %d read %.0f rows in %.1f s of processor time, of %.1f s", i+1, processes, read[i], one, took.Seconds())
		cpu += one
	}
	return cpu / float64(f.messages) * 1e6, last
}

// sum is a metric as it is now, over all its labels.
func (p *process) sum(b *testing.B, metric string) (sum float64) {
	b.Helper()
	resp, err := plain().Get(p.url + "metrics")
	if err != nil {
		b.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^`+metric+`(?:\{.*\})? (\S+)$`).FindAllSubmatch(body, -1) {
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += v
	}
	return sum
}
