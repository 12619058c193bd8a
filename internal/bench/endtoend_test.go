package bench

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// BenchmarkEndToEnd runs lca-stream against Apache Kafka 4.1.0, and on the same topics, in turn, a
// Python program that does the same and is written for speed (testdata/rival.py), and a pass-through
// that copies bytes. All work exactly once; the topic is full before a program starts. The figures
// are rows per second of a program's processor time, of all its threads, and of wall time.
//
//	go test ./internal/bench -run '^$' -bench EndToEnd -benchtime 1x -timeout 2h
//
// ROUNDS is how often each runs (3), CELLS a pattern of the cells to run such as whiten/d=64, TABLES a
// directory to leave the table in, and PROFILE_DIR one for CPU profiles of lca-stream.
func BenchmarkEndToEnd(b *testing.B) {
	h, chosen := newHall(b), regexp.MustCompile(os.Getenv("CELLS"))
	for _, c := range cells() {
		if !chosen.MatchString(c.name()) {
			continue
		}
		b.Run(c.name(), func(b *testing.B) {
			h.broker = kafkatest.Start(b, kafkatest.Kafka41) // its own, because its topics take gigabytes
			for range b.N {
				h.compete(b, c)
			}
		})
	}
	table(b, "bounds", "| d | rows per message | ours | pass-through, as many bytes | ours / that | pass-through at least once | Python at least once | ours / that |\n|---|---|---|---|---|---|---|---|\n", h.bounds)
	table(b, "endtoend", "| work | d | rows per message | ours: rows/cpu-s | Python's | pass-through's | ours / Python's | ours / pass-through's | rows/s of wall: ours, Python's, pass-through's | MiB: ours, Python's |\n|---|---|---|---|---|---|---|---|---|---|\n", h.rows)
}

// cell is one comparison.
type cell struct {
	work      string // whiten: y alone; score: y and −log p over 3000 neighbours; learn
	dim, rows int
	messages  int
}

func (c cell) name() string { return fmt.Sprintf("%s/d=%d/rows=%d", c.work, c.dim, c.rows) }

// cells have about 200 MB of input, or what takes a few seconds; those that learn four times as much, because a stream
// is young once.
func cells() (all []cell) {
	for _, work := range []string{"whiten", "score", "learn"} {
		for _, dim := range []int{16, 64, 256} {
			for _, rows := range []int{1, 100, 1000} {
				most := min(100_000*rows, 51_200_000/dim)
				switch work {
				case "score":
					most = min(most, 300_000)
				case "learn":
					most *= 4
				}
				all = append(all, cell{work, dim, rows, most / rows})
			}
		}
	}
	return all
}

// hall is where contestants meet: a broker, which a benchmark sets, and the program.
type hall struct {
	broker *kafkatest.Broker
	binary string
	rounds int

	rows, bounds []string // of the tables
}

func newHall(b *testing.B) *hall {
	b.Helper()
	h := &hall{binary: filepath.Join(b.TempDir(), "lca-stream"), rounds: 3}
	if n, err := strconv.Atoi(os.Getenv("ROUNDS")); err == nil {
		h.rounds = n
	}
	if other := os.Getenv("BINARY"); other != "" { // to measure another program than this one
		h.binary = other
	} else if out, err := exec.Command("go", "build", "-o", h.binary, "../../cmd/lca-stream").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	testtools.BenchPython(b)
	return h
}

// compete lets all contestants of a cell run in turn, and adds its row to the table. Whitening has a
// row of bounds, too: a pass-through that writes as many bytes as we do, and what others have to do for
// less, which is at least once; lca-stream itself has no such mode.
func (h *hall) compete(b *testing.B, c cell) {
	id := fmt.Sprintf("%s-%d-%d-%d", c.work, c.dim, c.rows, time.Now().UnixNano())
	s := &stream{id: id, model: id, dim: c.dim, rows: c.rows, messages: c.messages, partitions: 2, broker: h.broker, binary: h.binary, neighbours: 3000}
	if c.work == "learn" {
		s.neighbours, s.minibatchRows = 256, 256
	}
	s.create(b)
	if c.work != "learn" {
		s.learnModel(b)
	}
	var ours, python, pass, twice, passLess, pythonLess []result
	for i := range h.rounds {
		ours = append(ours, s.ours(b, c.work, i))
		python = append(python, s.python(b, c.work, fmt.Sprint(i), nil))
		pass = append(pass, s.pass(b, fmt.Sprintf("pass-%d", i), passConfig{}))
		if c.work == "whiten" {
			twice = append(twice, s.pass(b, fmt.Sprintf("twice-%d", i), passConfig{Twice: true}))
			passLess = append(passLess, s.pass(b, fmt.Sprintf("pass-less-%d", i), passConfig{AtLeastOnce: true}))
			pythonLess = append(pythonLess, s.python(b, c.work, fmt.Sprintf("less-%d", i), map[string]any{"at_least_once": true}))
		}
		if i == 0 && c.work != "learn" {
			s.compare(b)
		}
	}
	rate := func(of []result, seconds func(result) float64) float64 {
		var rates []float64
		for _, r := range of {
			rates = append(rates, float64(c.messages*c.rows)/seconds(r))
		}
		return median(rates)
	}
	cpu, wall := func(r result) float64 { return r.CPU }, func(r result) float64 { return r.Wall }
	a, p, t := rate(ours, cpu), rate(python, cpu), rate(pass, cpu)
	b.ReportMetric(a, "rows/cpu-s")
	b.ReportMetric(ours[0].CPU, "cpu-s")
	b.ReportMetric(a/p, "x-python")
	b.ReportMetric(a/t, "x-pass")
	b.ReportMetric(0, "ns/op")
	if c.work == "whiten" {
		w, l, m := rate(twice, cpu), rate(passLess, cpu), rate(pythonLess, cpu)
		b.ReportMetric(a/w, "x-twice")
		h.bounds = append(h.bounds, fmt.Sprintf("| %d | %d | %s | %s | %.0f %% | %s | %s | %.1f |\n", c.dim, c.rows, thousands(a), thousands(w), 100*a/w, thousands(l), thousands(m), a/m))
	}
	h.rows = append(h.rows, fmt.Sprintf("| %s | %d | %d | %s | %s | %s | **%.1f** | %.0f %% | %s, %s, %s | %.0f, %.0f |\n", c.work, c.dim, c.rows,
		thousands(a), thousands(p), thousands(t), a/p, 100*a/t,
		thousands(rate(ours, wall)), thousands(rate(python, wall)), thousands(rate(pass, wall)), ours[0].RSS, python[0].RSS))
}

// median returns the upper median of v, which it sorts.
func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func thousands(v float64) string {
	digits := math.Pow(10, math.Floor(math.Log10(v))-2)
	s := strconv.Itoa(int(math.Round(v/digits) * digits))
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + " " + s[at:]
	}
	return s
}

// ours runs lca-stream over the whole stream.
func (s *stream) ours(b *testing.B, work string, round int) result {
	b.Helper()
	group := fmt.Sprintf("%s-ours-%d", s.id, round)
	command, counter, least, own := "transform", "lca_transform_rows_total", s.messages*s.rows, *s
	if work == "learn" {
		command, counter = "learn", "lca_learnt_rows_total"
		least -= 2*s.minibatchRows + max(4*s.dim, 200) // what is left of minibatches, and of the rows before the first metric
		own.model = group                              // or it would find what the round before has learnt
		own.topics(b)
	}
	path := own.config(b, group, s.topic(b, group+"-out", s.partitions, nil), work == "score")
	began := time.Now()
	p := start(b, s.binary, []string{command, "-c", path})
	if dir := os.Getenv("PROFILE_DIR"); dir != "" && round == 0 {
		go p.profile(b, filepath.Join(dir, s.id+".pprof"))
	}
	p.awaitCount(b, counter, least)
	wall := time.Since(began).Seconds()
	r := p.stop(b)
	r.Wall = wall
	return r
}

// pass runs a pass-through over the whole stream.
func (s *stream) pass(b *testing.B, name string, c passConfig) result {
	b.Helper()
	c.Brokers, c.Input, c.Messages = s.broker.Addrs()[0], s.id+"-in", s.messages
	c.Output = s.topic(b, s.id+"-"+name, s.partitions, nil)
	c.Group = c.Output
	return passThrough(b, c)
}

// python runs the rival over the whole stream, guarded and exactly once unless it is otherwise.
func (s *stream) python(b *testing.B, work, round string, otherwise map[string]any) result {
	b.Helper()
	group := fmt.Sprintf("%s-python-%s", s.id, round)
	out := s.topic(b, group+"-out", s.partitions, nil)
	what := "transform"
	if work == "learn" {
		what = "learn"
	}
	config := map[string]any{
		"brokers": s.broker.Addrs()[0], "input": s.id + "-in", "output": out, "versions": out, "snapshots": s.id + "-snapshots", "group": group,
		"column": "x", "messages": s.messages, "score": work == "score", "rows": s.minibatchRows, "neighbours": s.neighbours,
		"at_least_once": false, "guarded": true,
	}
	maps.Copy(config, otherwise)
	return rival(b, what, config)
}

// compare ends the benchmark unless both wrote the same numbers.
func (s *stream) compare(b *testing.B) {
	b.Helper()
	rival(b, "compare", map[string]any{
		"brokers": s.broker.Addrs()[0], "a": s.id + "-ours-0-out", "b": s.id + "-python-0-out", "most": 300, "least": min(50, s.messages/2),
	})
}

// table leaves a table where TABLES says, unless no row of it was asked for.
func table(b *testing.B, name, head string, rows []string) {
	b.Helper()
	if dir := os.Getenv("TABLES"); dir != "" && len(rows) > 0 {
		if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(head+strings.Join(rows, "")), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}
