package learn

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
)

// ofNewerFormat is a chunk of a snapshot as a later release would write it.
func ofNewerFormat(t *testing.T, m sink.Message) sink.Message {
	t.Helper()
	if m.Value == nil {
		return m
	}
	in, err := ipc.NewReader(bytes.NewReader(m.Value))
	if err != nil {
		t.Fatal(err)
	}
	old := in.Schema().Metadata()
	text := slices.Clone(old.Values())
	text[old.FindKey("lca.format")] = "99"
	metadata := arrow.NewMetadata(old.Keys(), text)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(arrow.NewSchema(in.Schema().Fields(), &metadata)))
	for in.Next() {
		if err := w.Write(in.Record()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(in.Err(), w.Close()); err != nil {
		t.Fatal(err)
	}
	m.Value = out.Bytes()
	sum := fmt.Append(nil, crc32.Checksum(m.Value, crc32.MakeTable(crc32.Castagnoli)))
	m.Headers = slices.Clone(m.Headers)
	for i := range m.Headers {
		if m.Headers[i].Key == "lca-crc32c" {
			m.Headers[i].Value = sum
		}
	}
	return m
}

// TestNewerSnapshots: a transform that begins where a newer release has published ends, because rows would go back with an older
// version; one that runs keeps its model and says so; a pinned version that it can read is used.
func TestNewerSnapshots(t *testing.T) {
	from := learntSnapshots(t)
	log := from.topics[snapshotLog]
	newest := fixtures.Header(log[len(log)-1], "lca-model-version")
	mixed := func() *world {
		w := newWorld()
		for _, m := range log {
			if fixtures.Header(m, "lca-model-version") == newest {
				m = ofNewerFormat(t, m)
			}
			w.put(m)
		}
		return w
	}
	t.Run("at the start", func(t *testing.T) {
		fixtures.WantStop(t, follow(t, mixed().follow(new(int))), "version "+newest+`: `, "written by a newer release", "format 99", "use that release")
	})
	t.Run("pinned before it", func(t *testing.T) {
		f := mixed().follow(new(int))
		f.Pin = 300
		if err := follow(t, f); err != nil || f.Current() == nil || f.Current().Version != 300 {
			t.Errorf("%v, %+v", err, f.Current())
		}
	})
	t.Run("while it runs", func(t *testing.T) {
		w := newWorld()
		f := w.follow(new(int))
		f.Stats.SetReady(stats.Readiness{Ready: true})
		var older []sink.Message
		for _, m := range log {
			if fixtures.Header(m, "lca-model-version") != newest {
				older = append(older, m)
			}
		}
		w.put(older...)
		if err := follow(t, f); err != nil {
			t.Fatal(err)
		}
		was := f.Current().Version
		w.put(mixed().topics[snapshotLog][len(older):]...)
		if err := follow(t, f); err != nil {
			t.Fatal(err)
		}
		if r := f.Stats.Ready(); !r.Ready || !strings.Contains(r.Reason, "a model of a newer release is passed over") || f.Current().Version != was {
			t.Errorf("%+v with version %d, which was %d", r, f.Current().Version, was)
		}
	})
}
