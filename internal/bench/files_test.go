package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// BenchmarkFiles whitens rows of 64 columns of a topic and, by the same model and in turn, of an Arrow file: into a pipe, as into a broker's
// socket, and into a file, by lca-stream and by a Python program that does the same (testdata/rival.py). Figures are rows per second of
// processor time, that of the file system included.
//
//	go test ./internal/bench -run '^$' -bench Files -benchtime 1x -timeout 1h
func BenchmarkFiles(b *testing.B) {
	const d, rows, total = 64, 1000, 1_000_000
	h := newHall(b)
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	file := rowsFile(b, d, total)
	var lines []string
	for _, work := range []string{"whiten", "score"} {
		b.Run(work, func(b *testing.B) {
			id := fmt.Sprintf("files-%s-%d", work, time.Now().UnixNano())
			s := &stream{id: id, model: id, dim: d, rows: rows, messages: total / rows, partitions: 1, broker: h.broker, binary: h.binary, neighbours: 3000}
			s.create(b)
			s.learnModel(b)
			var topic, piped, ours, python []float64
			for i := range max(h.rounds, 1) {
				topic = append(topic, total/s.ours(b, work, i).CPU)
				piped = append(piped, total/s.whitensFile(b, work, file, "-").CPU)
				ours = append(ours, total/s.whitensFile(b, work, file, filepath.Join(b.TempDir(), "ours.arrow")).CPU)
				python = append(python, total/rival(b, "file", map[string]any{
					"brokers": s.broker.Addrs()[0], "snapshots": s.id + "-snapshots", "column": "x", "score": work == "score",
					"file": file, "output": filepath.Join(b.TempDir(), "python.arrow"),
				}).CPU)
			}
			t, pipe, o, p := median(topic), median(piped), median(ours), median(python)
			lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s | **%.1f** | **%.1f** |\n", work, thousands(t), thousands(pipe), thousands(o), thousands(p), pipe/t, o/p))
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(o, "rows/cpu-s")
			b.ReportMetric(pipe/t, "piped-x-topic")
			b.ReportMetric(o/t, "x-topic")
			b.ReportMetric(o/p, "x-python")
		})
	}
	table(b, "files", "| work | topic to topic: rows/cpu-s | file to pipe | file to file | Python, file to file | file to pipe / topic | file to file / Python |\n|---|---|---|---|---|---|---|\n", lines)
}

// whitensFile runs `lca-stream transform --input`.
func (s *stream) whitensFile(b *testing.B, work, file, output string) result {
	b.Helper()
	cmd := exec.Command(s.binary, "transform", "-c", s.config(b, s.id, s.id+"-none", work == "score"), "--input", file, "-o", output)
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+threads())
	cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr // a pipe, which this process reads
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	return result{CPU: spent(cmd)}
}

// rowsFile writes an Arrow file of rows like those of a topic, in batches of 65 536.
func rowsFile(b *testing.B, d, rows int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "rows.arrow")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.FixedSizeListOf(int32(d), arrow.PrimitiveTypes.Float32)}}, nil)
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(schema))
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; rows > 0; rows -= n {
		n = min(rows, 1<<16)
		builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		list := builder.Field(0).(*array.FixedSizeListBuilder)
		for range n {
			list.Append(true)
		}
		list.ValueBuilder().(*array.Float32Builder).AppendValues(clusters(n, d), nil)
		if err := w.Write(builder.NewRecord()); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		b.Fatal(err)
	}
	return path
}
