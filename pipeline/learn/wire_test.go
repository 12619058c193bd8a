package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

var update = flag.Bool("update", false, "write the golden messages of the current wire format")

// There is a golden file of what each release wrote, and one of what is written today. A new one is added when that changes;
// of a release none is ever changed or taken away.
const (
	firstFormat  = 1 // of the first edition
	secondFormat = 7 // of the second
	wireFormat   = 8
)

// wireMessage is one line of a golden file.
type wireMessage struct {
	Topic     string      `json:"topic"`
	Partition int32       `json:"partition"`
	Key       []byte      `json:"key"`
	Headers   [][2][]byte `json:"headers"`
	Value     []byte      `json:"value"` // null: a tombstone
	Time      int64       `json:"time_ms"`
}

// wireOutput is what outputs held when the format was new.
func wireOutput(format int) encode.OutputConfig {
	c := encode.OutputConfig{Column: "lca", Score: true, Passthrough: true}
	if format != firstFormat {
		c.P, c.Why = true, 2
	}
	return c
}

func wireFile(format int) string {
	return filepath.Join("testdata", fmt.Sprintf("wire%d.jsonl", format))
}

// wireWorld is a small run from end to end, with every kind of message in it.
func wireWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	w.output = wireOutput(wireFormat)
	w.events(t, 1, 14, 30)
	w.topics[fixtures.Events][4].Value = lacking(t)
	w.topics[fixtures.Events][5].Value = []byte(`[{"a": 1, "b": null, "c": 3}, {"a": 4, "b": 5, "c": 60}]`)
	learn, _ := w.learnLoop(t, 2)
	if err := learn.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := w.transformLoop(t, fixtures.Events, 3).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return w
}

func writeWire(t *testing.T, w *world) {
	t.Helper()
	var b bytes.Buffer
	for _, topic := range []string{"events", "snapshots", "checkpoints", "out", "dead"} {
		for _, m := range w.topics[source.Partition{Topic: topic}] {
			line := wireMessage{Topic: m.Topic, Partition: m.Partition, Key: m.Key, Value: m.Value, Time: m.Time.UnixMilli()}
			for _, h := range m.Headers {
				line.Headers = append(line.Headers, [2][]byte{[]byte(h.Key), h.Value})
			}
			if err := json.NewEncoder(&b).Encode(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(wireFile(wireFormat), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readWire(t *testing.T, format int) *world {
	t.Helper()
	data, err := os.ReadFile(wireFile(format))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	w.output = wireOutput(format)
	for d := json.NewDecoder(bytes.NewReader(data)); d.More(); {
		var line wireMessage
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		m := sink.Message{Topic: line.Topic, Partition: line.Partition, Key: line.Key, Value: line.Value, Time: time.UnixMilli(line.Time)}
		for _, h := range line.Headers {
			m.Headers = append(m.Headers, source.Header{Key: string(h[0]), Value: h[1]})
		}
		if m.Topic == "events" && string(m.Value) == `{"x": 1}` { // the first edition set JSON aside for it too
			m.Value = lacking(t)
		}
		p := source.Partition{Topic: m.Topic, ID: m.Partition}
		w.topics[p] = append(w.topics[p], m)
	}
	return w
}

// lacking returns a message that is set aside because it has none of the features.
func lacking(t *testing.T) []byte {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil))
	b.Field(0).(*array.Int64Builder).Append(1)
	return fixtures.StreamOf(t, b)
}

// Messages of every release and of today are read as they were meant: snapshots whiten to the output that
// was written with them, checkpoints are found, and what is written today has the same keys and headers.
func TestWireFormatsOfOld(t *testing.T) {
	now := wireWorld(t)
	if *update {
		writeWire(t, now)
	}
	for _, f := range []int{firstFormat, secondFormat, wireFormat} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			then := readWire(t, f)
			for _, topic := range []string{"snapshots", "checkpoints", "out", "dead"} {
				if len(then.topics[source.Partition{Topic: topic}]) == 0 {
					t.Fatalf("no message of topic %s", topic)
				}
			}
			again := readWire(t, f)
			again.topics[fixtures.Out], again.topics[fixtures.Dead] = nil, nil
			if err := again.transformLoop(t, fixtures.Events, 3).Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			outputs, letters := again.topics[fixtures.Out], again.topics[fixtures.Dead]
			if f == firstFormat { // neither named the group
				outputs, letters = unnamed(reject.HeaderGroup, outputs), unnamed(reject.HeaderGroup, letters)
			}
			sameOutput(t, then.topics[fixtures.Out], outputs)
			sameEnvelope(t, then.topics[fixtures.Dead], letters)
			format := restores(t, then)
			if f == wireFormat {
				if format != checkpoint.CheckpointFormat {
					t.Errorf("its checkpoint has format %d, and format %d is written now: raise wireFormat, and add a golden file with -update", format, checkpoint.CheckpointFormat)
				}
				sameEnvelope(t, then.topics[source.Partition{Topic: "snapshots"}], now.topics[source.Partition{Topic: "snapshots"}])
				sameEnvelope(t, then.topics[fixtures.Out], now.topics[fixtures.Out])
				sameBytes(t, then)
			}
		})
	}
}

// volatile headers depend on the last bits of what was learnt, or are words for people.
var volatile = []string{"lca-crc32c", "lca-error"}

// unnamed leaves out a header that messages of the first edition do not have.
func unnamed(name string, all []sink.Message) []sink.Message {
	all = slices.Clone(all)
	for i := range all {
		all[i].Headers = slices.DeleteFunc(slices.Clone(all[i].Headers), func(h source.Header) bool { return h.Key == name })
	}
	return all
}

func sameEnvelope(t *testing.T, want, got []sink.Message) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d messages, want %d", len(got), len(want))
	}
	for i := range want {
		a, b := want[i], got[i]
		if !bytes.Equal(a.Key, b.Key) || a.Partition != b.Partition || (a.Value == nil) != (b.Value == nil) || len(a.Headers) != len(b.Headers) {
			t.Errorf("message %d is %s in partition %d with %d headers, was %s in %d with %d", i, b.Key, b.Partition, len(b.Headers), a.Key, a.Partition, len(a.Headers))
			continue
		}
		for j, h := range a.Headers {
			if b.Headers[j].Key != h.Key || (!slices.Contains(volatile, h.Key) && !bytes.Equal(b.Headers[j].Value, h.Value)) {
				t.Errorf("message %d has header %s: %s, was %s: %s", i, b.Headers[j].Key, b.Headers[j].Value, h.Key, h.Value)
			}
		}
	}
}

// sameOutput compares values too: those of the input exactly, ours to the rounding of float32.
func sameOutput(t *testing.T, want, got []sink.Message) {
	t.Helper()
	sameEnvelope(t, want, got)
	for i := range want {
		a, b := fixtures.ReadStream(t, want[i].Value), fixtures.ReadStream(t, got[i].Value)
		if !a.Schema().Equal(b.Schema()) {
			t.Fatalf("output %d has the schema %v, had %v", i, b.Schema(), a.Schema())
		}
		for c := range int(a.NumCols()) {
			if !array.ApproxEqual(a.Column(c), b.Column(c), array.WithAbsTolerance(1e-4)) {
				t.Errorf("output %d, column %s: %v, was %v", i, a.ColumnName(c), b.Column(c), a.Column(c))
			}
		}
	}
}

// restores checks that a checkpoint is found and taken apart, and that the snapshots are whole. It returns the format of
// the checkpoint. The learner's state within it has a layout and a version of its own, see lca/online/state.go.
func restores(t *testing.T, w *world) (saved int) {
	t.Helper()
	c, err := (&checkpoint.Checkpoints{ReadBack: w.readBackOf("checkpoints"), ModelID: "m"}).Load(context.Background())
	if err != nil || c == nil {
		t.Fatalf("no checkpoint: %v", err)
	}
	if c.ModelID != "m" || c.Offsets[fixtures.Events] == 0 || !slices.Equal(c.Features, []string{"a", "b", "c"}) {
		t.Errorf("the checkpoint is of model %q, features %v, at %v", c.ModelID, c.Features, c.Offsets)
	}
	a := assembled(t, w)
	s, ok := a.Newest("m")
	if !ok || len(a.List("m")) != 3 {
		t.Fatalf("%d versions on the topic, want the 3 that are kept", len(a.List("m")))
	}
	if s.Model.Dim != 3 || len(s.Model.Neighbours) != 3*60 || s.Offsets[fixtures.Events] == 0 {
		t.Errorf("the newest snapshot has %d columns, %d neighbours, offsets %v", s.Model.Dim, len(s.Model.Neighbours)/3, s.Offsets)
	}
	b, err := minibatch.NewBatcher(3, 20), error(nil)
	if err = b.UnmarshalBinary(c.Batcher); err != nil {
		t.Error(err)
	}
	return c.Format
}

func assembled(t *testing.T, w *world) *snapshot.Assembler {
	t.Helper()
	a := &snapshot.Assembler{}
	for _, m := range w.topics[source.Partition{Topic: "snapshots"}] {
		if err := a.Add(m.Key, m.Value, m.Headers, m.Time); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// sameBytes: the encoder gives the golden bytes for the golden numbers.
func sameBytes(t *testing.T, w *world) {
	t.Helper()
	o := encode.NewOutput(w.output)
	for i, m := range w.topics[fixtures.Out] {
		in := w.topics[fixtures.Events][sourceOffset(t, m)]
		rec, err := fixtures.NewDecoder(t, format.Config{}).Decode(t.Context(), in.Value, "")
		if err != nil {
			t.Fatal(err)
		}
		was := fixtures.ReadStream(t, m.Value)
		got, err := o.Append(nil, rec, ours(was))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, m.Value) {
			t.Errorf("output %d has other bytes than it had: add a golden file, and say in docs/wire-format.md what has changed", i)
		}
	}
}

// ours is what the last columns of an output hold.
func ours(rec arrow.Record) *encode.Whitened {
	n, first := int(rec.NumRows()), int(rec.NumCols())-4
	list, why := rec.Column(first).(*array.FixedSizeList), rec.Column(first+3).(*array.List)
	items := why.ListValues().(*array.Struct)
	w := &encode.Whitened{
		K: 3, Features: []string{"a", "b", "c"}, Invalid: make([]minibatch.Reason, n), Why: make([]lca.Gain, 2*n),
		Y:     slices.Clone(list.ListValues().(*array.Float32).Float32Values()),
		Score: slices.Clone(rec.Column(first + 1).(*array.Float32).Float32Values()),
		P:     slices.Clone(rec.Column(first + 2).(*array.Float32).Float32Values()),
	}
	for i := range n {
		if list.IsNull(i) {
			w.Invalid[i] = minibatch.ReasonNull
			continue
		}
		from, to := why.ValueOffsets(i)
		for j := range to - from {
			at := int(from + j)
			feature := slices.Index(w.Features, items.Field(0).(*array.String).Value(at))
			w.Why[2*i+int(j)] = lca.Gain{Column: feature, Nats: float64(items.Field(1).(*array.Float32).Value(at))}
		}
	}
	return w
}

func sourceOffset(t *testing.T, m sink.Message) (at int) {
	t.Helper()
	if _, err := fmt.Sscan(fixtures.Header(m, "lca-source-offset"), &at); err != nil {
		t.Fatal(err)
	}
	return at
}

// docs/wire-format.md names every header and every metadata key that there is, and no other.
func TestWireFormatPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/wire-format.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{reject.HeaderCut: true, reject.HeaderOriginalSize: true, reject.HeaderOriginalCRC: true} // no topic of that run is too small
	there[transform.HeaderFeatures], there[transform.HeaderStateFormat] = true, true                                  // it has no states of series
	for p, log := range readWire(t, wireFormat).topics {
		for _, m := range log {
			for _, h := range m.Headers {
				if strings.HasPrefix(h.Key, "lca-") {
					there[h.Key] = true
				}
			}
			if p.Topic != "snapshots" || m.Value == nil {
				continue
			}
			r, err := ipc.NewReader(bytes.NewReader(m.Value))
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range r.Schema().Metadata().Keys() {
				there[k] = true
			}
			r.Release()
		}
	}
	for _, h := range (reject.DeadLetter{}).Headers(&source.Message{Err: &source.RecordError{Offsets: 2}}, "", "") { // of a whole batch
		there[h.Key] = true
	}
	states := &KeyedStates{ReadBack: checkpoint.ReadBack{Topic: "checkpoints"}}
	byKey, err := states.messages(&checkpoint.Checkpoint{ModelID: "m/0/a"}, &checkpoint.Checkpoints{ReadBack: checkpoint.ReadBack{Topic: "checkpoints"}, ModelID: "m/0/a", OneSlot: true}, &keyedState{waits: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	byKey = append(byKey, states.retirement("m/0/a", &keyedState{}, 1, nil)...)
	for _, h := range slices.Concat(byKey[0].Headers, byKey[len(byKey)-1].Headers, states.floorMessage(7).Headers, states.comparedMessage("id").Headers) {
		there[h.Key] = true
	}
	for _, k := range slices.Concat(localKeys(t), keysOfFewModels(t), keysOfYoung(t)) {
		there[k] = true
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(lca[-.][a-z0-9_-]+)`").FindAllStringSubmatch(string(page), -1) {
		named[m[1]] = true
	}
	delete(named, "lca-stream")
	for k := range there {
		if !named[k] {
			t.Errorf("the page does not say what `%s` is", k)
		}
	}
	for k := range named {
		if !there[k] {
			t.Errorf("the page has `%s`, which is nowhere", k)
		}
	}
	if !strings.Contains(string(page), fmt.Sprintf("%d kB", snapshot.MaxChunk/1000)) {
		t.Errorf("the page does not give the size of a chunk, %d kB", snapshot.MaxChunk/1000)
	}
}

// keysOfYoung are the metadata and the headers of a young snapshot.
func keysOfYoung(t *testing.T) (keys []string) {
	t.Helper()
	data, err := os.ReadFile("../../sink/snapshot/testdata/format3.arrows")
	if err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.ReadFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	messages, _, err := snapshot.Messages(s, "snapshots", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range messages[0].Headers {
		if h.Key != reject.ContentType {
			keys = append(keys, h.Key)
		}
	}
	return slices.AppendSeq(keys, maps.Keys(s.Metadata()))
}

// localKeys are the metadata of a file of points with their covariances.
func localKeys(t *testing.T) []string {
	t.Helper()
	x := mat.NewDense(20, 2, nil)
	for i := range 20 {
		x.SetRow(i, []float64{math.Sin(float64(i)), math.Cos(2 * float64(i))})
	}
	m, err := lca.FitLocal(t.Context(), x, lca.LocalConfig{Smoothing: lca.Auto, Shared: lca.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := snapshot.WriteLocal(&b, &snapshot.Local{Model: m, Rows: x, Features: []string{"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	return keysOf(t, &b)
}

// keysOfFewModels returns the metadata keys of a snapshot that has those which most have not, and of statistics under it.
func keysOfFewModels(t *testing.T) []string {
	t.Helper()
	x := mat.NewDense(30, 3, nil)
	for i := range 30 {
		x.SetRow(i, []float64{math.Sin(float64(i)), math.Cos(2 * float64(i)), float64(max(0, i%10-8))})
	}
	c := lca.DefaultConfig()
	c.Metric, c.Rank = lca.MetricLowRank, 1
	m, err := lca.Fit(t.Context(), x, c)
	if err != nil {
		t.Fatal(err)
	}
	m.Info.Wanted = 60
	s := &snapshot.Snapshot{Model: m, ModelID: "m", Version: 30, Features: []string{"a", "b", "c"}}
	var model, sums bytes.Buffer
	statistics, err := snapshot.StatisticsOf(s, "")
	if err := errors.Join(err, snapshot.WriteFile(&model, s), snapshot.WriteStatistics(&sums, statistics)); err != nil {
		t.Fatal(err)
	}
	return append(keysOf(t, &model), keysOf(t, &sums)...)
}

// keysOf returns the metadata keys of the first stream.
func keysOf(t *testing.T, r io.Reader) []string {
	t.Helper()
	stream, err := ipc.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Release()
	return stream.Schema().Metadata().Keys()
}
