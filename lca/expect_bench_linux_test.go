package lca_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"golang.org/x/sys/unix"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// BenchmarkExpect compares `lca-stream em expect` over an Arrow file of 64 columns of float32, the reading included, with the kernels alone over
// rows that are in memory: projection and E-step in the same precision, under the same model. They alternate, and the ratio is that of the medians of
// processor time per row, that of the file system included.
//
//	GOMAXPROCS=1 go test ./lca -run '^$' -bench Expect -benchtime 1x -timeout 1h
func BenchmarkExpect(b *testing.B) {
	const rows, d, rounds, parts = 1 << 20, 64, 5, 4 // the same rows in each part, so that the start hardly counts
	program := filepath.Join(b.TempDir(), "lca-stream")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/lca-stream").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	r := rand.New(rand.NewPCG(3, 1))
	x := clustered(r, rows, d)
	file := filepath.Join(b.TempDir(), "rows.arrow")
	if err := writeColumns(file, x, d); err != nil {
		b.Fatal(err)
	}
	var inputs []string
	for i := range parts {
		link := fmt.Sprintf("%s.%d.arrow", file, i)
		if err := os.Link(file, link); err != nil {
			b.Fatal(err)
		}
		inputs = append(inputs, "--input", link)
	}
	for _, n := range []int{256, 3000} {
		c := lca.DefaultConfig()
		c.MaxIter = 3
		m, err := lca.Fit(context.Background(), mat.NewDense(n, d, x[:n*d]), c)
		if err != nil {
			b.Fatal(err)
		}
		model := filepath.Join(b.TempDir(), "model.arrows")
		if err := writeModel(model, m); err != nil {
			b.Fatal(err)
		}
		for _, precision := range []lca.Precision{lca.Float64, lca.Float32} {
			b.Run(caseName("N=", n, "/", precision), func(b *testing.B) {
				run, some := bareIn(precision, m), 1<<17
				var ours, kernels []float64
				for range rounds {
					ours = append(ours, expectSeconds(b, program, model, inputs, precision)/(parts*rows))
					began := processSeconds(b)
					run(x[:some*d], some)
					kernels = append(kernels, (processSeconds(b)-began)/float64(some))
				}
				slices.Sort(ours)
				slices.Sort(kernels)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(m.Parzen()), "d_P")
				b.ReportMetric(ours[rounds/2]*1e9, "cpu-ns/row")
				b.ReportMetric(kernels[rounds/2]*1e9, "kernels-cpu-ns/row")
				b.ReportMetric(kernels[rounds/2]/ours[rounds/2], "of-kernels")
			})
		}
	}
}

// clustered are rows of which half of the columns have clusters, rounded to float32.
func clustered(r *rand.Rand, rows, d int) []float64 {
	x := make([]float64, rows*d)
	for i := range x {
		v := r.NormFloat64()
		if i%d < d/2 {
			v = .2*v + 3*math.Round(r.NormFloat64())
		}
		x[i] = float64(float32(v))
	}
	return x
}

// writeColumns writes rows as an Arrow file of float32 columns, in batches of 65 536.
func writeColumns(path string, x []float64, d int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	fields := make([]arrow.Field, d)
	for k := range fields {
		fields[k] = arrow.Field{Name: fmt.Sprint("f", k), Type: arrow.PrimitiveTypes.Float32}
	}
	schema := arrow.NewSchema(fields, nil)
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(schema))
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(x, d<<16) {
		builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i, v := range batch {
			builder.Field(i % d).(*array.Float32Builder).Append(float32(v))
		}
		if err := w.Write(builder.NewRecord()); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), f.Close())
}

func writeModel(path string, m *lca.Model) error {
	s := &snapshot.Snapshot{Model: m, ModelID: "m", Version: 1}
	for k := range m.Dim {
		s.Features = append(s.Features, fmt.Sprint("f", k))
	}
	var b bytes.Buffer
	if err := snapshot.WriteFile(&b, s); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func expectSeconds(b *testing.B, program, model string, inputs []string, precision lca.Precision) float64 {
	b.Helper()
	args := append([]string{"em", "expect", "--model", model, "--precision", precision.String(), "-o", filepath.Join(b.TempDir(), "sums.arrows")}, inputs...)
	cmd := exec.Command(program, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// processSeconds is the processor time that this process has taken.
func processSeconds(b *testing.B) float64 {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano()).Seconds()
}
