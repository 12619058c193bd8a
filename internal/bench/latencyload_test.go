package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// BenchmarkLatencyLoad is the latency of a transform under several loads, with max_delay 100ms and auto in turn, and
// what it and the broker take for it. Of a backlog only the throughput is of interest.
//
//	go test ./internal/bench -run '^$' -bench LatencyLoad -benchtime 1x
//
// ROUNDS is how often each runs (3), and CELLS a pattern of the loads.
func BenchmarkLatencyLoad(b *testing.B) {
	h, chosen := newHall(b), regexp.MustCompile(os.Getenv("CELLS"))
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	var lines []string
	for range h.rounds {
		most := 0
		for _, l := range loads() {
			if !chosen.MatchString(l.name) {
				continue
			}
			if l.perSecond == halfLoad {
				l.perSecond, l.messages = most/2, 5*most
			}
			for _, delay := range []string{"100ms", "auto"} {
				line, rate := l.run(b, h, delay)
				most = max(most, rate)
				b.Log(line)
				lines = append(lines, line)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	table(b, "load", "| load | `max_delay` | p50, ms | p90 | p99 | most | messages/s | transactions/s | cores taken | by the broker |\n|---|---|---|---|---|---|---|---|---|---|\n", lines)
}

// run puts the load on a transform and returns the row of the table; rate is that of a backlog, messages per second.
func (l load) run(b *testing.B, h *hall, delay string) (line string, rate int) {
	id := fmt.Sprintf("load-%d", time.Now().UnixNano())
	s := &stream{id: id, model: id, dim: l.dim, rows: l.rows, messages: 3000 / l.rows, partitions: l.partitions, broker: h.broker, binary: h.binary, neighbours: l.neighbours}
	if l.perSecond == 0 {
		s.messages = l.messages
	}
	s.create(b)
	s.learnModel(b)
	out := s.topic(b, id+"-out", l.partitions, nil)
	before := take(b, nil)
	p := start(b, s.binary, []string{"transform", "-c", s.config(b, id+"-ours", out, true), "--set", "transform.max_delay=" + delay})
	defer p.kill()
	p.awaitCount(b, "lca_transform_rows_total", s.messages*s.rows)
	line = fmt.Sprintf("| %s | %s", l.name, delay)
	if l.perSecond == 0 {
		line += " | – | – | – | – |"
		rate = int(float64(s.messages) / time.Since(before.at).Seconds())
		return line + before.until(take(b, p), s.messages), rate
	}
	before = take(b, p)
	line += quantiles(s.measure(b, out, l.messages, l.perSecond))
	return line + before.until(take(b, p), l.messages), 0
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

// until is the end of a row: what happened per second until later.
func (t taken) until(later taken, messages int) string {
	seconds := later.at.Sub(t.at).Seconds()
	return fmt.Sprintf(" %.0f | %.0f | %.2f | %.2f |\n", float64(messages)/seconds, (later.transactions-t.transactions)/seconds,
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
