package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// load is what a transform has to do: messages at an even pace, or a backlog.
type load struct {
	name                              string
	dim, rows, partitions, neighbours int
	perSecond                         int // 0: a backlog; halfLoad: half of what that gave
	messages                          int
}

const halfLoad = -1

func loads() []load {
	return []load{
		{"backlog", 64, 10, 2, 3000, 0, 60_000},
		{"half of that rate", 64, 10, 2, 3000, halfLoad, 0},
		{"200 messages/s", 64, 10, 2, 3000, 200, 2000},
		{"100 partitions, each 100 messages/s of one row", 16, 1, 100, 256, 10_000, 100_000},
	}
}

// BenchmarkLatencyLoad is the latency of a transform under several loads, and what it and the broker take for it. Of a backlog only the throughput is of interest.
//
//	go test ./internal/bench -run '^$' -bench LatencyLoad -benchtime 1x
//
// ROUNDS is how often each runs (3), and CELLS a pattern of the loads.
func BenchmarkLatencyLoad(b *testing.B) {
	h, chosen := newHall(b), regexp.MustCompile(os.Getenv("CELLS"))
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	var order []string
	found := map[string][]loadResult{}
	for range h.rounds {
		most := 0
		for _, l := range loads() {
			if !chosen.MatchString(l.name) {
				continue
			}
			if l.perSecond == halfLoad {
				l.perSecond, l.messages = most/2, 5*most
			}
			result := l.run(b, h)
			if l.perSecond == 0 {
				most = max(most, int(result.perSecond))
			}
			if found[l.name] == nil {
				order = append(order, l.name)
			}
			found[l.name] = append(found[l.name], result)
		}
	}
	b.ReportMetric(0, "ns/op")
	var lines []string
	for _, name := range order {
		lines = append(lines, "| "+name+" |"+loadColumns(found[name])+"\n")
	}
	table(b, "load", "| load | p50, ms | p99, ms | messages/s |\n|---|---|---|---|\n", lines)
}

// loadResult is what one round of a load gave: how long messages took, sorted (nil for a backlog), and how many there were.
type loadResult struct {
	took      []time.Duration
	perSecond float64
}

// loadColumns are p50, p99 and the messages per second of several rounds, the lowest and the highest of each.
func loadColumns(rounds []loadResult) (s string) {
	var rates []float64
	for _, r := range rounds {
		rates = append(rates, r.perSecond)
	}
	for _, share := range []float64{.5, .99} {
		var of []float64
		for _, r := range rounds {
			if r.took != nil {
				of = append(of, quantile(r.took, share))
			}
		}
		if of == nil {
			s += " – |"
			continue
		}
		s += fmt.Sprintf(" %.0f – %.0f |", slices.Min(of), slices.Max(of))
	}
	return s + fmt.Sprintf(" %.0f – %.0f |", slices.Min(rates), slices.Max(rates))
}

// run puts the load on a transform; what it and the broker take for it is logged.
func (l load) run(b *testing.B, h *hall) loadResult {
	b.Helper()
	id := fmt.Sprintf("load-%d", time.Now().UnixNano())
	s := &stream{id: id, model: id, dim: l.dim, rows: l.rows, messages: 3000 / l.rows, partitions: l.partitions, broker: h.broker, binary: h.binary, neighbours: l.neighbours}
	if l.perSecond == 0 {
		s.messages = l.messages
	}
	s.create(b)
	s.learnModel(b)
	out := s.topic(b, id+"-out", l.partitions, nil)
	before := take(b, nil)
	p := start(b, s.binary, []string{"transform", "-c", s.config(b, id+"-ours", out, true)})
	defer p.kill()
	p.awaitCount(b, "lca_transform_rows_total", s.messages*s.rows)
	if l.perSecond == 0 {
		b.Log(l.name, before.until(take(b, p), s.messages))
		return loadResult{perSecond: float64(s.messages) / time.Since(before.at).Seconds()}
	}
	before = take(b, p)
	all := s.measure(b, out, l.messages, l.perSecond)
	after := take(b, p)
	b.Log(l.name, quantiles(all), before.until(after, l.messages))
	return loadResult{all, float64(l.messages) / after.at.Sub(before.at).Seconds()}
}

// taken is what a process and the broker have done so far.
type taken struct {
	at           time.Time
	transactions float64
	cpu, broker  float64 // seconds of processor time
}

// take looks at a process; nil: it is not there yet.
func take(b *testing.B, p *process) taken {
	b.Helper()
	t := taken{at: time.Now(), broker: brokerCPU(b)}
	if p != nil {
		t.transactions, t.cpu = p.value(b, "lca_transaction_duration_seconds_count"), cpuOf(b, p.cmd.Process.Pid)
	}
	return t
}

// until says what happened per second until later: messages, transactions, and seconds of processor time of the process and the broker.
func (t taken) until(later taken, messages int) string {
	seconds := later.at.Sub(t.at).Seconds()
	return fmt.Sprintf(" %.0f | %.0f | %.2f | %.2f |", float64(messages)/seconds, (later.transactions-t.transactions)/seconds,
		(later.cpu-t.cpu)/seconds, (later.broker-t.broker)/seconds)
}

// brokerCPU is the processor time of the Java processes of this test, in seconds.
func brokerCPU(b *testing.B) (sum float64) {
	b.Helper()
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range children {
		pids, _ := os.ReadFile(path) // a thread that has ended has no children
		for _, pid := range strings.Fields(string(pids)) {
			if name, _ := os.ReadFile("/proc/" + pid + "/comm"); string(name) == "java\n" {
				id, _ := strconv.Atoi(pid)
				sum += cpuOf(b, id)
			}
		}
	}
	return sum
}
