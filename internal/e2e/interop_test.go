//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// What pyarrow, pandas and polars write is whitened, with every other column passed through equal; and
// pyarrow, polars, DuckDB and ClickHouse read the output and the snapshots.
func TestOtherProgramsReadAndWrite(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Embedded)
	s := newStream(t, b, "interop", settings{partitions: 1, why: 2, features: "[f_int8, f_int16, f_int32, f_int64, f_uint8, f_uint16, f_uint32, f_uint64, f_float16, f_float32, f_float64]"})
	dir := t.TempDir()
	testtools.RunPython(t, "testdata/interop_write.py", dir, "../../pipeline/encode/testdata/passthrough.arrows")
	files, err := filepath.Glob(filepath.Join(dir, "*.arrows"))
	if err != nil {
		t.Fatal(err)
	}
	var values [][]byte
	for _, f := range files { // in the order of their names
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, data)
	}
	s.produce(values)
	run := s.program("run")
	s.await(s.name, int64(len(values)), run)
	run.stop()

	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	outputs := b.ReadCommitted(t, s.topic("out"))
	for _, r := range outputs {
		at := sourceOffset(t, r.Headers)
		write(fmt.Sprintf("%03d.out", at), r.Value)
		write(fmt.Sprintf("%03d.version", at), []byte(recordHeader(r, "lca-model-version")))
	}
	if dead := b.ReadCommitted(t, s.topic("dead")); len(outputs) != len(values) || len(dead) > 0 {
		for _, r := range dead {
			t.Errorf("dead letter of %s: %s", files[sourceOffset(t, r.Headers)], recordHeader(r, "lca-error"))
		}
		t.Fatalf("%d outputs of %d inputs", len(outputs), len(values))
	}
	for _, r := range b.ReadCommitted(t, s.topic("snap")) {
		key := strings.Split(string(r.Key), "/") // MODEL_ID/SLOT/PART/CHUNK
		write(fmt.Sprintf("snapshot-%s-%s-%s.arrows", recordHeader(r, "lca-model-version"), key[2], key[3]), r.Value)
	}
	t.Log(testtools.RunPython(t, "testdata/interop_read.py", dir))
}

func recordHeader(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
