package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// BenchmarkFormats runs transform over messages of one row of numbers and a text, in each format that names a schema in a registry and in
// JSON, and in turn two consumers in Python with the deserializers of confluent-kafka: one that only reads them into numpy, and one
// that whitens and writes them too (testdata/formats.py). The figures are rows per second of processor time.
//
//	go test ./internal/bench -run '^$' -bench Formats -benchtime 1x -timeout 1h
//
// ROUNDS is how often each runs (3), CELLS a pattern of the cells such as avro/d=64, TABLES a directory for the
// table, and PROFILE_DIR one for CPU profiles of lca-stream.
func BenchmarkFormats(b *testing.B) {
	h, chosen := newHall(b), regexp.MustCompile(os.Getenv("CELLS"))
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	registry := kafkatest.StartRegistry(b)
	for _, dim := range []int{12, 64} {
		for _, format := range []string{"json", "avro", "json_schema", "protobuf"} {
			f := formatCell{hall: h, registry: registry.URL, format: format, dim: dim, messages: 100_000}
			if !chosen.MatchString(f.name()) {
				continue
			}
			b.Run(f.name(), func(b *testing.B) {
				for range b.N {
					f.compete(b)
				}
			})
		}
	}
	table(b, "formats", "| format | numbers | ours: rows/cpu-s | Python reads | Python whitens | ours / reads (lowest – highest) | ours / whitens | MiB: ours, Python |\n|---|---|---|---|---|---|---|---|\n", h.rows)
}

// formatCell is one comparison.
type formatCell struct {
	hall     *hall
	registry string
	format   string
	dim      int
	messages int
}

func (f *formatCell) name() string { return fmt.Sprintf("%s/d=%d", f.format, f.dim) }

func (f *formatCell) compete(b *testing.B) {
	id := fmt.Sprintf("formats-%s-%d-%d", f.format, f.dim, time.Now().UnixNano())
	s := &stream{id: id, model: id, dim: f.dim, rows: 1, messages: f.messages, partitions: 2, broker: f.hall.broker, binary: f.hall.binary}
	s.topic(b, id+"-in", s.partitions, nil)
	s.topics(b)
	f.python(b, s, "write", "")
	learner := start(b, s.binary, []string{"learn", "-c", f.config(b, s, id+"-model", id+"-none")})
	learner.await(b, `^lca_snapshots_total [1-9]`)
	learner.stop(b)
	var ours, reads, whitens []result
	for i := range f.hall.rounds {
		group := fmt.Sprintf("%s-ours-%d", id, i)
		p := start(b, s.binary, []string{"transform", "-c", f.config(b, s, group, s.topic(b, group, s.partitions, nil))})
		if dir := os.Getenv("PROFILE_DIR"); dir != "" && i == 0 {
			go p.profile(b, filepath.Join(dir, id+".pprof"))
		}
		p.awaitCount(b, "lca_transform_rows_total", s.messages)
		ours = append(ours, p.stop(b))
		reads = append(reads, f.python(b, s, "read", fmt.Sprintf("%s-reads-%d", id, i)))
		whitens = append(whitens, f.python(b, s, "whiten", fmt.Sprintf("%s-whitens-%d", id, i)))
	}
	rates := func(of []result) (all []float64) {
		for _, r := range of {
			all = append(all, float64(s.messages)/r.CPU)
		}
		return all
	}
	var pairs []pairOfRates
	for i, r := range rates(ours) {
		pairs = append(pairs, pairOfRates{r, rates(reads)[i]})
	}
	a, r, w := median(rates(ours)), median(rates(reads)), median(rates(whitens))
	low, high := bounds(pairs)
	b.ReportMetric(a, "rows/cpu-s")
	b.ReportMetric(a/r, "x-reads")
	b.ReportMetric(a/w, "x-whitens")
	b.ReportMetric(0, "ns/op")
	f.hall.rows = append(f.hall.rows, fmt.Sprintf("| %s | %d | %s | %s | %s | **%.1f** (%.1f – %.1f) | **%.1f** | %.0f, %.0f |\n", f.format, f.dim,
		thousands(a), thousands(r), thousands(w), a/r, low, high, a/w, ours[0].RSS, whitens[0].RSS))
}

// pairOfRates is ours and theirs of one round.
type pairOfRates struct{ ours, theirs float64 }

func bounds(pairs []pairOfRates) (low, high float64) {
	for i, p := range pairs {
		ratio := p.ours / p.theirs
		if i == 0 || ratio < low {
			low = ratio
		}
		high = max(high, ratio)
	}
	return low, high
}

// config writes a configuration; Protobuf comes out as JSON, because it cannot come out as it came.
func (f *formatCell) config(b *testing.B, s *stream, group, output string) string {
	b.Helper()
	var names []string
	for k := range f.dim {
		names = append(names, fmt.Sprintf("f%d", k))
	}
	format := "input"
	if f.format == "protobuf" {
		format = "json"
	}
	path := filepath.Join(b.TempDir(), "formats.yaml")
	text := fmt.Sprintf(`
kafka: {brokers: [%q]}
source: {topic: %s-in, group: %s, features: [%s], registry: {url: %q}}
snapshot: {topic: %s-snapshots}
checkpoint: {topic: %s-checkpoints}
transform: {topic: %s, format: %s, score: false, p_value: false}
http: {listen: "127.0.0.1:0", debug_endpoints: true}
`, s.broker.Addrs()[0], s.id, group, strings.Join(names, ", "), f.registry, s.model, s.model, output, format)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// python runs testdata/formats.py to its end.
func (f *formatCell) python(b *testing.B, s *stream, what, group string) result {
	b.Helper()
	job := map[string]any{"format": f.format, "dim": f.dim, "messages": s.messages, "partitions": s.partitions, "brokers": s.broker.Addrs()[0],
		"registry": f.registry, "input": s.id + "-in", "output": "", "group": group}
	if what == "whiten" {
		job["output"] = s.topic(b, group, s.partitions, nil)
	}
	line, err := json.Marshal(job)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(testtools.Python(b), "testdata/formats.py", what, string(line))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	if what == "write" {
		if out, err := cmd.Output(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return result{}
	}
	return lastLine(b, cmd)
}
