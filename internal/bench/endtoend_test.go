package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/cluster"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// BenchmarkEndToEnd runs the program against Apache Kafka 4.1.0 and reports rows per second of wall
// time, and per second of the process's CPU time. The topic is full before the program starts.
//
//	go test ./internal/bench -run '^$' -bench EndToEnd -benchtime 1x
//
// With PROFILE_DIR set, a CPU profile of each program is left there.
func BenchmarkEndToEnd(b *testing.B) {
	const rows = 100
	binary := filepath.Join(b.TempDir(), "lca-stream")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/lca-stream").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	broker := kafkatest.Start(b, kafkatest.Kafka41)
	for _, d := range []int{16, 64} {
		for _, command := range []string{"learn", "transform"} {
			b.Run(fmt.Sprintf("%s/d=%d/rows=%d", command, d, rows), func(b *testing.B) {
				for range b.N {
					run(b, binary, broker, command, d, rows)
				}
			})
		}
	}
}

func run(b *testing.B, binary string, broker *kafkatest.Broker, command string, d, rows int) {
	b.StopTimer()
	id := fmt.Sprintf("%s-%d-%d", command, d, time.Now().UnixNano())
	messages := 160000 / d * 4
	if command == "learn" {
		messages = 6000 / d * 8
	}
	fill(b, broker, id, messages, d, rows)
	args := []string{"-c", config(b, broker, id)}
	if command == "transform" { // it needs a model: learn one from the first rows
		counter := `lca_snapshots_total [1-9]`
		learner := start(b, binary, append([]string{"learn"}, args...))
		learner.await(b, counter)
		learner.stop(b)
	}
	b.StartTimer()
	began := time.Now()
	p := start(b, binary, append([]string{command}, args...))
	if dir := os.Getenv("PROFILE_DIR"); dir != "" {
		go p.profile(b, filepath.Join(dir, id+".pprof"))
	}
	name := map[string]string{"learn": "lca_learnt_rows_total", "transform": "lca_transform_rows_total"}[command]
	p.await(b, fmt.Sprintf(`(?m)^%s %s`, name, number(messages*rows, command)))
	wall := time.Since(began)
	cpu := p.stop(b)
	b.ReportMetric(float64(messages*rows)/wall.Seconds(), "rows/s")
	b.ReportMetric(float64(messages*rows)/cpu.Seconds(), "rows/cpu-s")
	b.ReportMetric(0, "ns/op")
}

// number matches a count; the learner keeps the rows of an unfinished minibatch.
func number(rows int, command string) string {
	text := strconv.FormatFloat(float64(rows), 'g', -1, 64)
	return regexp.QuoteMeta(text) + "$"
}

func config(b *testing.B, broker *kafkatest.Broker, id string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "bench.yaml")
	text := fmt.Sprintf(`
kafka: {brokers: [%q]}
source: {topic: %s-in, group: %s, features: [x]}
lca: {skip_when_behind: false}
snapshot: {topic: %s-snapshots}
checkpoint: {topic: %s-checkpoints}
transform: {topic: %s-out}
http: {listen: "127.0.0.1:0", debug_endpoints: true}
`, broker.Addrs()[0], id, id, id, id, id)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

func fill(b *testing.B, broker *kafkatest.Broker, id string, messages, d, rows int) {
	b.Helper()
	compact := map[string]string{"cleanup.policy": "compact"}
	broker.CreateTopic(b, id+"-in", 2, nil)
	broker.CreateTopic(b, id+"-out", 2, nil)
	broker.CreateTopic(b, id+"-snapshots", 1, compact)
	broker.CreateTopic(b, id+"-checkpoints", 1, compact)
	c, err := cluster.Open(cluster.Config{Brokers: broker.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: c, TransactionalID: id + "-fill"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	var msgs []sink.Message
	value := messageOf(b, d, rows)
	for i := range messages {
		if i%64 == 0 { // fresh rows now and then: a learner must not see one record again and again
			value = messageOf(b, d, rows)
		}
		msgs = append(msgs, sink.Message{Topic: id + "-in", Partition: int32(i % 2), Value: value})
		if len(msgs) == 100 || i == messages-1 {
			if err := k.Put(context.Background(), msgs, source.Claim{}); err != nil {
				b.Fatal(err)
			}
			msgs = msgs[:0]
		}
	}
}

func messageOf(b *testing.B, d, rows int) []byte {
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.FixedSizeListOf(int32(d), arrow.PrimitiveTypes.Float32)}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	list := builder.Field(0).(*array.FixedSizeListBuilder)
	for range rows {
		list.Append(true)
		side := float64(6*rand.IntN(2) - 3)
		for j := range d {
			list.ValueBuilder().(*array.Float32Builder).Append(float32(rand.NormFloat64() + side*float64(1-min(j, 1))))
		}
	}
	rec := builder.NewRecord()
	defer rec.Release()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		b.Fatal(err)
	}
	return buf.Bytes()
}

// process is the program under measurement.
type process struct {
	cmd *exec.Cmd
	url string
}

func start(b *testing.B, binary string, args []string) *process {
	b.Helper()
	cmd := exec.Command(binary, append(args, "--set", "logger.format=json")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		var log strings.Builder
		chunk := make([]byte, 4096)
		for {
			n, err := stderr.Read(chunk)
			log.Write(chunk[:n])
			if m := regexp.MustCompile(`"url":"([^"]+)"`).FindStringSubmatch(log.String()); m != nil {
				select {
				case found <- m[1]:
				default:
				}
			}
			if err != nil {
				if !strings.Contains(log.String(), "url") {
					found <- "process ended: " + log.String()
				}
				return
			}
		}
	}()
	p := &process{cmd: cmd, url: <-found}
	if !strings.HasPrefix(p.url, "http") {
		b.Fatal(p.url)
	}
	return p
}

// await polls the metrics until one line matches.
func (p *process) await(b *testing.B, pattern string) {
	b.Helper()
	want := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(p.url + "metrics")
		if err != nil {
			b.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want.Match(body) {
			return
		}
	}
	b.Fatalf("%s never came", pattern)
}

// profile writes the process's CPU profile of two seconds.
func (p *process) profile(b *testing.B, path string) {
	resp, err := http.Get(p.url + "debug/pprof/profile?seconds=2")
	if err != nil {
		b.Log(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	f, err := os.Create(path)
	if err == nil {
		_, err = io.Copy(f, resp.Body)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		b.Log(err)
	}
}

// stop ends the process in order and returns its CPU time.
func (p *process) stop(b *testing.B) time.Duration {
	b.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}
