//go:build unix

package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/twmb/franz-go/pkg/kgo"
)

// whitensFiles holds that the rows of the input topic, as a file, become those of the output topic, to the bit.
func (s *stream) whitensFiles(t *testing.T) {
	t.Helper()
	rows, want := s.asStream(t, s.topic("in")), s.asStream(t, "whitened")
	path := filepath.Join(s.dir, "rows.arrows")
	if err := os.WriteFile(path, rows, 0o600); err != nil {
		t.Fatal(err)
	}
	s.command("transform", "--input", path, "-o", filepath.Join(s.dir, "whitened.arrows"))
	got, err := os.ReadFile(filepath.Join(s.dir, "whitened.arrows"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := whole(t, want), whole(t, got)
	if a.NumRows() != whitenedRows || !a.Schema().Equal(b.Schema()) {
		t.Fatalf("%d rows of %v, want %v", b.NumRows(), b.Schema(), a.Schema())
	}
	for i, column := range a.Columns() {
		if !array.ApproxEqual(column, b.Column(i), array.WithNaNsEqual(true), array.WithAbsTolerance(0)) {
			t.Errorf("column %s differs from the topic's", a.ColumnName(i))
		}
	}
}

// asStream joins the Arrow messages of a topic of one partition to one stream.
func (s *stream) asStream(t *testing.T, topic string) []byte {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out bytes.Buffer
	var w *ipc.Writer
	for rows := int64(0); rows < whitenedRows; {
		fetches := c.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			rec := whole(t, r.Value)
			if w == nil {
				w = ipc.NewWriter(&out, ipc.WithSchema(rec.Schema()))
			}
			if err := w.Write(rec); err != nil {
				t.Fatal(err)
			}
			rows += rec.NumRows()
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// whole reads all batches of an Arrow stream as one.
func whole(t *testing.T, data []byte) arrow.Record {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	parts := make([][]arrow.Array, len(r.Schema().Fields()))
	rows := int64(0)
	for r.Next() {
		rec := r.Record()
		rec.Retain()
		for i, column := range rec.Columns() {
			parts[i] = append(parts[i], column)
		}
		rows += rec.NumRows()
	}
	columns := make([]arrow.Array, len(parts))
	for i := range parts {
		if columns[i], err = array.Concatenate(parts[i], memory.DefaultAllocator); err != nil {
			t.Fatal(err)
		}
	}
	return array.NewRecord(r.Schema(), columns, rows)
}
