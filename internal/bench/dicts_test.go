package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// BenchmarkDicts runs `lca-stream run` with a model for each key, and in turn what users write today: a dict of models behind a consumer in
// Python (testdata/dicts.py). Both learn, whiten and score messages of one row, exactly once. The figures are rows per second of processor
// time, memory for a model, and how many rows the models lack that were read before a kill -9 halfway.
//
//	go test ./internal/bench -run '^$' -bench Dicts -benchtime 1x -timeout 1h
//
// ROUNDS is how often each runs (3), KEYS how many there are (500), of 2000 rows each, TABLES a directory for
// the table, and PROFILE_DIR one for CPU profiles of lca-stream.
func BenchmarkDicts(b *testing.B) {
	h := newHall(b)
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	f := &dicts{hall: h, keys: 500, rows: 2000, dim: 8, python: testtools.Python(b)}
	if n, err := strconv.Atoi(os.Getenv("KEYS")); err == nil {
		f.keys = n
	}
	for range b.N {
		f.compete(b)
	}
	table(b, "dicts", "| | rows/cpu-s | ours / that (lowest – highest) | KiB a model | rows that a crash loses, of "+thousands(float64(f.messages()))+" |\n|---|---|---|---|---|\n", h.rows)
}

// dicts is a stream of keys.
type dicts struct {
	hall            *hall
	keys, rows, dim int
	python          string
	stream          *stream
}

// dictResult is what dicts.py says in addition.
type dictResult struct {
	result
	Learnt   int
	ModelKiB float64
}

func (f *dicts) messages() int { return f.keys * f.rows }

func (f *dicts) compete(b *testing.B) {
	id := fmt.Sprintf("dicts-%d", time.Now().UnixNano())
	s := &stream{id: id, model: id, dim: f.dim, rows: 1, messages: f.messages(), partitions: 2, broker: f.hall.broker, binary: f.hall.binary}
	f.stream = s
	s.topic(b, id+"-in", s.partitions, nil)
	f.fill(b)
	rivals := []string{"numpy", "scikit-learn", "kernels"}
	var ours []dictResult
	theirs := map[string][]dictResult{}
	for i := range f.hall.rounds {
		ours = append(ours, f.ours(b, fmt.Sprintf("%s-ours-%d", id, i), false))
		for _, kind := range rivals {
			group := fmt.Sprintf("%s-%s-%d", id, kind, i)
			s.topic(b, group+"-out", s.partitions, nil)
			theirs[kind] = append(theirs[kind], f.rival(b, kind, group, f.messages(), 0, 0, ""))
		}
	}
	crashed := f.ours(b, id+"-crash", true)
	rate := func(r dictResult) float64 { return float64(f.messages()) / r.CPU }
	var mine []float64
	for _, r := range ours {
		mine = append(mine, rate(r))
	}
	a := median(mine)
	f.hall.rows = append(f.hall.rows, fmt.Sprintf("| lca-stream | %s | – | %.0f | %d |\n", thousands(a), ours[0].ModelKiB, f.messages()-crashed.Learnt))
	for _, kind := range rivals {
		var rates, memory []float64
		var pairs []pairOfRates
		for i, r := range theirs[kind] {
			rates, memory = append(rates, rate(r)), append(memory, r.ModelKiB)
			pairs = append(pairs, pairOfRates{rate(ours[i]), rate(r)})
		}
		low, high := bounds(pairs)
		never, sometimes := f.lost(b, kind, 0), f.lost(b, kind, f.messages()/10)
		f.hall.rows = append(f.hall.rows, fmt.Sprintf("| dict of %s | %s | **%.1f** (%.1f – %.1f) | %.0f | %d; %d with a pickle every tenth of the stream |\n", kind,
			thousands(median(rates)), a/median(rates), low, high, median(memory), never, sometimes))
		b.ReportMetric(a/median(rates), "x-"+kind)
	}
	b.ReportMetric(a, "rows/cpu-s")
	b.ReportMetric(0, "ns/op")
}

// fill writes the rows of all keys in turn: each key has two clusters of its own.
func (f *dicts) fill(b *testing.B) {
	b.Helper()
	s := f.stream
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: s.broker.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: c, TransactionalID: s.id + "-fill"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	var msgs []sink.Message
	for i := range f.messages() {
		key := i % f.keys
		row := map[string]float64{}
		for d := range f.dim {
			row[fmt.Sprintf("s%d", d)] = rand.NormFloat64() * float64(1+(key+d)%5)
		}
		row["s0"] += float64(20*rand.IntN(2) + key)
		value, err := json.Marshal(row)
		if err != nil {
			b.Fatal(err)
		}
		msgs = append(msgs, sink.Message{Topic: s.id + "-in", Partition: int32(key % s.partitions), Key: fmt.Append(nil, "machine-", key), Value: value})
		if len(msgs) == 20_000 || i == f.messages()-1 {
			if err := k.Put(context.Background(), msgs, source.Claim{}); err != nil {
				b.Fatal(err)
			}
			msgs = msgs[:0]
		}
	}
}

// ours runs lca-stream over the stream; crash: it is killed halfway, and started again.
func (f *dicts) ours(b *testing.B, group string, crash bool) dictResult {
	b.Helper()
	s := *f.stream
	s.model = group
	compact := map[string]string{"cleanup.policy": "compact"}
	s.topic(b, group+"-snapshots", s.partitions, compact)
	s.topic(b, group+"-checkpoints", s.partitions, compact)
	path := f.config(b, group, s.topic(b, group+"-out", s.partitions, nil))
	began := time.Now()
	p := start(b, s.binary, []string{"run", "-c", path})
	heap := p.value(b, "go_memstats_heap_alloc_bytes")
	if dir := os.Getenv("PROFILE_DIR"); dir != "" && !crash {
		go p.profile(b, filepath.Join(dir, group+".pprof"))
	}
	if crash {
		p.awaitCount(b, "lca_learnt_rows_total", f.messages()/2)
		p.kill()
		p = start(b, s.binary, []string{"run", "-c", path})
	}
	r := dictResult{Learnt: f.await(b, p, crash)}
	r.ModelKiB = (p.value(b, "go_memstats_heap_alloc_bytes") - heap) / 1024 / float64(f.keys)
	wall := time.Since(began).Seconds()
	r.result = p.stop(b)
	r.Wall = wall
	return r
}

// await waits until the models have learnt all rows, or no more for a while, and all rows are written, and returns how many were learnt. After a
// crash what is written is counted from the start again.
func (f *dicts) await(b *testing.B, p *process, crash bool) (learnt int) {
	b.Helper()
	done := func() bool {
		written := p.value(b, "lca_transform_rows_total") + p.value(b, `lca_records_passed_total\{reason="no_model"\}`)
		return learnt == f.messages() && (crash || int(written) == f.messages())
	}
	for moved := time.Now(); !done() && time.Since(moved) < time.Minute; time.Sleep(500 * time.Millisecond) {
		if now := f.learnt(b, p); now > learnt {
			learnt, moved = now, time.Now()
		}
	}
	return learnt
}

// learnt adds up the rows of all models.
func (f *dicts) learnt(b *testing.B, p *process) (rows int) {
	b.Helper()
	for offset, total := 0, 1; offset < total; offset += 1000 {
		resp, err := plain().Get(fmt.Sprintf("%sapi/v1/models?limit=1000&offset=%d", p.url, offset))
		if err != nil {
			b.Fatal(err)
		}
		var page struct {
			Total  int
			Models []struct {
				Rows int `json:"rows_learnt"`
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&page)
		_ = resp.Body.Close()
		if err != nil {
			b.Fatal(err)
		}
		total = page.Total
		for _, m := range page.Models {
			rows += m.Rows
		}
	}
	return rows
}

func (f *dicts) config(b *testing.B, group, output string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "dicts.yaml")
	text := fmt.Sprintf(`
kafka: {brokers: [%q]}
source: {topic: %s-in, group: %s, features: [s0, s1, s2, s3, s4, s5, s6, s7]}
model: {by: key, memory: 2GiB}
lca: {skip_when_behind: false, neighbours: 250}
snapshot: {topic: %s-snapshots}
checkpoint: {topic: %s-checkpoints}
transform: {topic: %s} # with the probability, which the rivals do not know
http: {listen: "127.0.0.1:0", debug_endpoints: true}
`, f.stream.broker.Addrs()[0], f.stream.id, group, group, group, output)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// rival runs dicts.py over a number of messages of the stream; with crash it kills itself once it has read that many.
func (f *dicts) rival(b *testing.B, kind, group string, messages, crash, save int, state string) (r dictResult) {
	b.Helper()
	line, err := json.Marshal(map[string]any{"brokers": f.stream.broker.Addrs()[0], "input": f.stream.id + "-in", "output": group + "-out", "group": group,
		"dim": f.dim, "messages": messages, "crash": crash, "save": save, "file": state})
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(f.python, "testdata/dicts.py", kind, string(line))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if wrong := json.Unmarshal(out, &r); wrong != nil || err != nil && crash == 0 {
		b.Fatalf("%v: %s", err, out)
	}
	return r
}

// lost returns how many rows the rival's models lack that it has read: it is killed halfway, and started again. save is how many messages are
// between two pickles of all models; 0: there are none.
func (f *dicts) lost(b *testing.B, kind string, save int) int {
	b.Helper()
	group := fmt.Sprintf("%s-%s-lost-%d", f.stream.id, kind, save)
	state := filepath.Join(b.TempDir(), "models")
	f.stream.topic(b, group+"-out", f.stream.partitions, nil)
	read := f.rival(b, kind, group, f.messages(), f.messages()/2, save, state).Messages
	return f.messages() - f.rival(b, kind, group, f.messages()-read, 0, save, state).Learnt
}
