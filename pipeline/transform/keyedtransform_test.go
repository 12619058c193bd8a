package transform

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Whatever the order of messages, the memory and the format, and however often snapshots come, are compacted, and models are put out
// of memory or are retired and come back: a message becomes what a transform with its model alone makes of it, and that is the newest model of its key.
func TestKeyedRowsAreThoseOfTheirModel(t *testing.T) {
	models, retired, back := modelsOf(t, 24), 0, 0
	formats := []encode.Format{encode.FormatInput, encode.FormatArrow}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			topic := newKeyedTopic(t, 1+r.IntN(3))
			topic.most = r.IntN(8)
			memory := []int{1, 40 << 10, 100 << 10, 1 << 20}[r.IntN(4)]
			config := keyedConfig(encode.OutputConfig{Format: formats[r.IntN(2)], Passthrough: true, Score: true, P: true, Why: r.IntN(3), Layout: encode.Layout(r.IntN(2))},
				[]reject.OnInvalid{reject.NullRow, reject.RejectRow, reject.ImputeRow}[r.IntN(3)], []UntilModel{PassThrough, Drop}[r.IntN(2)])
			config.Output.Imputed = config.OnInvalid == reject.ImputeRow
			by := []modelkey.By{{Place: modelkey.Key}, {Place: modelkey.Header, Name: "machine"}}[r.IntN(2)]
			fleet := keyedModels(t, topic, by, memory)
			stage := keyedStage(fleet, config)
			newest, last := map[string]*snapshot.Snapshot{}, map[string]uint64{}
			for offset := int64(0); offset < 200; {
				for range r.IntN(6) {
					key := fmt.Sprintf("k%d", r.IntN(12))
					if newest[key] != nil && r.IntN(6) == 0 {
						topic.retire(newest[key].ModelID)
						delete(newest, key)
						retired++
						continue
					}
					if newest[key] == nil && last[key] > 0 {
						back++
					}
					last[key] += 1 + r.Uint64N(3)
					s := snapshotOf(models[r.IntN(len(models))], key, last[key])
					topic.publish(s)
					newest[key] = s
				}
				if r.IntN(2) == 0 {
					topic.compact()
				}
				if r.IntN(4) == 0 { // the partition has been elsewhere, or the process was started again
					fleet.Keep(nil)
				}
				if err := fleet.CatchUp(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				var b source.Batch
				key := ""
				for range r.IntN(30) {
					if r.IntN(3) > 0 {
						key = fmt.Sprintf("k%d", r.IntN(14)) // two of them have no model
					}
					m := source.Message{Partition: fixtures.Events, Offset: offset, Key: []byte(key), Time: time.Unix(1000+offset, 0)}
					m.Headers = []source.Header{reject.Text("machine", key), reject.Text("own", "x")}
					if r.IntN(20) == 0 {
						m.Key, m.Headers = nil, nil
					}
					switch r.IntN(12) {
					case 0:
					case 1:
						m.Value = []byte("garbage")
					default:
						m.Value = jsonRows(r, r.IntN(4), r.IntN(8) == 0)
					}
					b.Messages = append(b.Messages, decodedAs(t, m))
					offset++
				}
				work, err := stage.Do(context.Background(), b)
				if err != nil {
					t.Fatal(err)
				}
				checkKeyed(t, config, by, newest, b.Messages, work)
				stage.Kept()
				if used := fleet.Cache.Used; used > max(memory, 1) && fleet.Stats.ModelCounts("transform").Memory.Load() > 1 {
					t.Fatalf("%d models take %d bytes of memory, more than %d", fleet.Stats.ModelCounts("transform").Memory.Load(), used, memory)
				}
			}
			_, total := fleet.Stats.Models.List(0, 0, "id", false)
			if total != len(newest) {
				t.Errorf("the table has %d models, and there are %d", total, len(newest))
			}
		})
	}
	if retired < 20 || back < 10 {
		t.Errorf("%d models were retired, and %d came back: that proves too little", retired, back)
	}
}

// decodedAs decodes the value of a message.
func decodedAs(t testing.TB, m source.Message) source.Message {
	t.Helper()
	if m.Value == nil {
		return m
	}
	var err error
	m.Record, m.Format, err = fixtures.NewDecoder(t, format.Config{}).DecodeIn(t.Context(), nil, m.Value, "")
	if err != nil {
		m.Err = &source.RecordError{Partition: m.Partition, Offset: m.Offset, Code: format.CodeFormatUnknown, Err: err}
	}
	return m
}

// checkKeyed compares what became of messages with what each becomes alone.
func checkKeyed(t *testing.T, c TransformConfig, by modelkey.By, newest map[string]*snapshot.Snapshot, all []source.Message, work pipeline.Work) {
	t.Helper()
	var want []sink.Message
	for _, m := range all {
		value, ok := by.OfMessage(&m)
		id, one := "m", c
		var s *snapshot.Snapshot
		if ok {
			id, s = modelkey.ID("m", m.Partition.ID, value), newest[string(value)]
		} else if one.UntilModel = PassThrough; c.OnInvalid == reject.RejectRow && hasRows(&m) {
			m.Err = &source.RecordError{Partition: m.Partition, Offset: m.Offset, Code: "no_key", Err: errors.New("x")}
		}
		done, err := transformAlone(one, s, id).Do(context.Background(), source.Batch{Messages: []source.Message{m}})
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range done.Messages {
			want = append(want, fixtures.Stored(out))
		}
	}
	if len(want) != len(work.Messages) {
		t.Fatalf("%d messages became %d, want %d", len(all), len(work.Messages), len(want))
	}
	for i, out := range work.Messages {
		got := fixtures.Stored(out)
		if source.LastHeader(got.Headers, "lca-error-code") == "no_key" { // the text of the error is its own
			got.Headers, want[i].Headers = nil, nil
		}
		if !fixtures.Same(want[i], got) {
			t.Fatalf("message %d of offset %s: to %s, %d bytes, %s; want to %s, %d bytes, %s", i, source.LastHeader(out.Headers, "lca-source-offset"),
				got.Topic, len(got.Value), got.Headers, want[i].Topic, len(want[i].Value), want[i].Headers)
		}
	}
}
