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

// BenchmarkFormats runs two jobs over messages of one row of numbers and a text, in each format that names a schema in a registry, in JSON and in
// Arrow, and in turn with consumers in Python that have the deserializers of confluent-kafka (testdata/formats.py). One job only
// reads the numbers (testdata/reads), the other whitens them and writes each message again, exactly once (transform). The figures are
// rows per second of processor time.
//
//	go test ./internal/bench -run '^$' -bench Formats -benchtime 1x -timeout 1h
//
// ROUNDS is how often each runs (3), CELLS a pattern of the cells such as avro/d=64, TABLES a directory for the
// table, and PROFILE_DIR one for CPU profiles of lca-stream.
func BenchmarkFormats(b *testing.B) {
	h, chosen := newHall(b), regexp.MustCompile(os.Getenv("CELLS"))
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	registry, reader := kafkatest.StartRegistry(b), filepath.Join(b.TempDir(), "reads")
	if out, err := exec.Command("go", "build", "-o", reader, "./testdata/reads").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, dim := range []int{12, 64} {
		for _, format := range []string{"arrow", "json", "avro", "json_schema", "protobuf"} {
			f := formatCell{hall: h, registry: registry.URL, reader: reader, format: format, dim: dim, messages: 100_000}
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
	table(b, "formats", "| format | numbers | reading: ours, Python's | ratio (lowest – highest) | whitening: ours, Python's | ratio (lowest – highest) |\n|---|---|---|---|---|---|\n", h.rows)
}

// formatCell is one comparison.
type formatCell struct {
	hall     *hall
	registry string
	reader   string // the program of testdata/reads
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
	var ours, theirs versus
	for i := range f.hall.rounds {
		group := fmt.Sprintf("%s-ours-%d", id, i)
		p := start(b, s.binary, []string{"transform", "-c", f.config(b, s, group, s.topic(b, group, s.partitions, nil))})
		if dir := os.Getenv("PROFILE_DIR"); dir != "" && i == 0 {
			go p.profile(b, filepath.Join(dir, id+".pprof"))
		}
		p.awaitCount(b, "lca_transform_rows_total", s.messages)
		ours.add(f.reads(b, s), p.stop(b))
		theirs.add(f.python(b, s, "read", fmt.Sprintf("%s-reads-%d", id, i)), f.python(b, s, "whiten", fmt.Sprintf("%s-whitens-%d", id, i)))
	}
	f.report(b, &ours, &theirs)
}

// versus is what one side did, by round.
type versus struct{ reads, whitens []result }

func (v *versus) add(reads, whitens result) {
	v.reads, v.whitens = append(v.reads, reads), append(v.whitens, whitens)
}

func (f *formatCell) report(b *testing.B, ours, theirs *versus) {
	rates := func(of []result) (all []float64) {
		for _, r := range of {
			all = append(all, float64(f.messages)/r.CPU)
		}
		return all
	}
	compare := func(ours, theirs []result) (a, t float64, text string) {
		var pairs []pairOfRates
		for i, r := range rates(ours) {
			pairs = append(pairs, pairOfRates{r, rates(theirs)[i]})
		}
		a, t = median(rates(ours)), median(rates(theirs))
		low, high := bounds(pairs)
		return a, t, fmt.Sprintf("%s, %s | **%.1f** (%.1f – %.1f)", thousands(a), thousands(t), a/t, low, high)
	}
	r, theirR, reading := compare(ours.reads, theirs.reads)
	w, theirW, whitening := compare(ours.whitens, theirs.whitens)
	b.ReportMetric(r, "reads/cpu-s")
	b.ReportMetric(w, "rows/cpu-s")
	b.ReportMetric(r/theirR, "x-reads")
	b.ReportMetric(w/theirW, "x-whitens")
	b.ReportMetric(0, "ns/op")
	f.hall.rows = append(f.hall.rows, fmt.Sprintf("| %s | %d | %s | %s |\n", f.format, f.dim, reading, whitening))
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

// features are the names of the columns: in Arrow a list, as its producers send vectors.
func (f *formatCell) features() (names []string) {
	if f.format == "arrow" {
		return []string{"x"}
	}
	for k := range f.dim {
		names = append(names, fmt.Sprintf("f%d", k))
	}
	return names
}

// config writes a configuration; Protobuf comes out as JSON, because it cannot come out as it came.
func (f *formatCell) config(b *testing.B, s *stream, group, output string) string {
	b.Helper()
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
transform: {topic: %s, format: %s, score: false}
http: {listen: "127.0.0.1:0", debug_endpoints: true}
`, s.broker.Addrs()[0], s.id, group, strings.Join(f.features(), ", "), f.registry, s.model, s.model, output, format)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// reads runs testdata/reads to its end.
func (f *formatCell) reads(b *testing.B, s *stream) result {
	b.Helper()
	cmd := exec.Command(f.reader, f.job(b, s, "", ""))
	cmd.Stderr = os.Stderr
	return lastLine(b, cmd)
}

// job is the argument of testdata/reads and testdata/formats.py.
func (f *formatCell) job(b *testing.B, s *stream, group, output string) string {
	b.Helper()
	line, err := json.Marshal(map[string]any{"format": f.format, "dim": f.dim, "features": f.features(), "messages": s.messages, "partitions": s.partitions, "brokers": s.broker.Addrs()[0],
		"registry": f.registry, "input": s.id + "-in", "output": output, "group": group})
	if err != nil {
		b.Fatal(err)
	}
	return string(line)
}

// python runs testdata/formats.py to its end.
func (f *formatCell) python(b *testing.B, s *stream, what, group string) result {
	b.Helper()
	output := ""
	if what == "whiten" {
		output = s.topic(b, group, s.partitions, nil)
	}
	cmd := exec.Command(testtools.Python(b), "testdata/formats.py", what, f.job(b, s, group, output))
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
