package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

func arrowMessage(t *testing.T, columns ...fixtures.Column) []byte {
	t.Helper()
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.Name, Type: c.Kind, Nullable: true}
	}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i, c := range columns {
		for _, v := range c.Values {
			switch f := b.Field(i).(type) {
			case *array.Float32Builder:
				f.Append(float32(v))
			case *array.Float64Builder:
				f.Append(v)
			case *array.Int16Builder:
				f.Append(int16(v))
			case *array.StringBuilder:
				f.Append(strconv.FormatFloat(v, 'g', -1, 64))
			case *array.FixedSizeListBuilder: // three numbers per row
				f.Append(true)
				for j := range 3 {
					f.ValueBuilder().(*array.Float32Builder).Append(float32(v) + float32(j))
				}
			default:
				t.Fatalf("no values for %v", c.Kind)
			}
		}
	}
	return fixtures.StreamOf(t, b)
}

// state is what a learner's last checkpoint says of the model; offsets and counters left out.
func state(t *testing.T, w *world) []byte {
	t.Helper()
	c, err := (&checkpoint.Checkpoints{ReadBack: w.readBackOf("checkpoints"), ModelID: "m"}).Load(context.Background())
	if err != nil || c == nil {
		t.Fatalf("no checkpoint: %v", err)
	}
	return append(c.Learner, c.Batcher...)
}

// A storm of rows that hold a NaN, an Inf or a null teaches nothing: the learner's state is the same
// bytes as without it.
func TestStormOfNaNTeachesNothing(t *testing.T) {
	calm, stormy := newWorld(), newWorld()
	for _, w := range []*world{calm, stormy} {
		w.events(t, 1, 14, 30)
	}
	var all []sink.Message
	for i, m := range stormy.topics[fixtures.Events] {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			values := []float64{1, bad, 2, bad, bad}
			fine := []float64{bad, 1, bad, 2, 3}
			all = append(all, sink.Message{Topic: "events", Value: arrowMessage(t,
				fixtures.Column{Name: "a", Kind: arrow.PrimitiveTypes.Float32, Values: values}, fixtures.Column{Name: "b", Kind: arrow.PrimitiveTypes.Float64, Values: fine}, fixtures.Column{Name: "c", Kind: arrow.PrimitiveTypes.Float32, Values: values})})
		}
		if i == 0 { // the first rows decide what the features are, so the storm comes after them
			all = all[:0]
		}
		all = append(all, m)
	}
	stormy.topics[fixtures.Events] = all
	for _, w := range []*world{calm, stormy} {
		loop, _ := w.learnLoop(t, 2)
		if err := loop.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	// Identities of rows follow from offsets, and those have moved: the pool keeps them. Without them
	// both states must agree, so the storm is compared with a calm stream that has harmless messages
	// at the same offsets.
	padded := newWorld()
	for i := range all {
		if i == 0 || (i-1)%4 == 3 {
			padded.topics[fixtures.Events] = append(padded.topics[fixtures.Events], all[i])
			continue
		}
		padded.topics[fixtures.Events] = append(padded.topics[fixtures.Events], sink.Message{Topic: "events", Value: arrowMessage(t, fixtures.Column{Name: "a", Kind: arrow.PrimitiveTypes.Float32, Values: nil},
			fixtures.Column{Name: "b", Kind: arrow.PrimitiveTypes.Float32, Values: nil}, fixtures.Column{Name: "c", Kind: arrow.PrimitiveTypes.Float32, Values: nil})})
	}
	loop, _ := padded.learnLoop(t, 2)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(state(t, padded), state(t, stormy)) {
		t.Error("the storm has changed the learner's state")
	}
	if len(state(t, calm)) < 1000 {
		t.Error("the state is too small to prove anything")
	}
}

// The schema changes in mid-stream. What has the features is taken by name, whatever the order and the
// types; what lacks one, or has it of another kind, is set aside. Never are columns mixed up.
func TestSchemaChangesInMidStream(t *testing.T) {
	f4, f8, i2, text := arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Int16, arrow.BinaryTypes.String
	a, b, c := []float64{1, -3, 2}, []float64{-1, 0, 4}, []float64{100, -50, 7}
	for _, tt := range []struct {
		name    string
		columns []fixtures.Column
		code    string // "": whitened, to the same bits as the first
	}{
		{"as before", []fixtures.Column{{Name: "a", Kind: f4, Values: a}, {Name: "b", Kind: f4, Values: b}, {Name: "c", Kind: f4, Values: c}}, ""},
		{"reordered", []fixtures.Column{{Name: "c", Kind: f4, Values: c}, {Name: "a", Kind: f4, Values: a}, {Name: "b", Kind: f4, Values: b}}, ""},
		{"wider numbers", []fixtures.Column{{Name: "a", Kind: f8, Values: a}, {Name: "b", Kind: f8, Values: b}, {Name: "c", Kind: f8, Values: c}}, ""},
		{"whole numbers", []fixtures.Column{{Name: "a", Kind: i2, Values: a}, {Name: "b", Kind: f4, Values: b}, {Name: "c", Kind: i2, Values: c}}, ""},
		{"more columns, in front and behind", []fixtures.Column{{Name: "id", Kind: i2, Values: c}, {Name: "a", Kind: f4, Values: a}, {Name: "note", Kind: text, Values: a}, {Name: "b", Kind: f4, Values: b}, {Name: "c", Kind: f4, Values: c}, {Name: "d", Kind: f8, Values: a}}, ""},
		{"one is missing", []fixtures.Column{{Name: "a", Kind: f4, Values: a}, {Name: "b", Kind: f4, Values: b}}, "feature_missing"},
		{"one is renamed", []fixtures.Column{{Name: "a", Kind: f4, Values: a}, {Name: "B", Kind: f4, Values: b}, {Name: "c", Kind: f4, Values: c}}, "feature_missing"},
		{"one is text", []fixtures.Column{{Name: "a", Kind: f4, Values: a}, {Name: "b", Kind: text, Values: b}, {Name: "c", Kind: f4, Values: c}}, "feature_type"},
		{"a list instead of columns", []fixtures.Column{{Name: "x", Kind: arrow.FixedSizeListOf(3, f4), Values: a}}, "feature_missing"},
		{"a name that is there twice", []fixtures.Column{{Name: "a", Kind: f4, Values: a}, {Name: "a", Kind: f4, Values: b}, {Name: "b", Kind: f4, Values: b}, {Name: "c", Kind: f4, Values: c}}, "feature_ambiguous"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := learnt(t)
			w.topics[fixtures.Events] = []sink.Message{
				{Topic: "events", Value: arrowMessage(t, fixtures.Column{Name: "a", Kind: f4, Values: a}, fixtures.Column{Name: "b", Kind: f4, Values: b}, fixtures.Column{Name: "c", Kind: f4, Values: c})},
				{Topic: "events", Value: arrowMessage(t, tt.columns...)},
			}
			if err := w.transformLoop(t, fixtures.Events, 1).Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if tt.code != "" {
				if len(w.topics[fixtures.Dead]) != 1 || !strings.HasPrefix(fixtures.Header(w.topics[fixtures.Dead][0], "lca-error-code"), tt.code) {
					t.Fatalf("dead letters: %d, code %q, want %q", len(w.topics[fixtures.Dead]), fixtures.Header(w.topics[fixtures.Dead][0], "lca-error-code"), tt.code)
				}
				return
			}
			if len(w.topics[fixtures.Out]) != 2 {
				t.Fatalf("%d outputs; dead letters: %v", len(w.topics[fixtures.Out]), w.topics[fixtures.Dead])
			}
			if want, got := whitened(t, w.topics[fixtures.Out][0]), whitened(t, w.topics[fixtures.Out][1]); want != got {
				t.Errorf("whitened to %s, the same numbers before to %s", got, want)
			}
		})
	}
}

// whitened prints the columns lca and lca_score of an output.
func whitened(t *testing.T, m sink.Message) string {
	t.Helper()
	rec, err := fixtures.NewDecoder(t, format.Config{}).Decode(t.Context(), m.Value, "")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	text := ""
	for _, name := range []string{"lca", "lca_score"} {
		at := rec.Schema().FieldIndices(name)
		if len(at) != 1 {
			t.Fatalf("column %s is there %d times", name, len(at))
		}
		text += fmt.Sprint(rec.Column(at[0]))
	}
	return text
}

// One message in a hundred, or every second one, is poison: each is a dead letter with its bytes, and
// each other one is whitened, once and in order.
func TestPoison(t *testing.T) {
	for _, every := range []int{100, 2} {
		t.Run(fmt.Sprintf("1 in %d", every), func(t *testing.T) {
			w := learnt(t)
			good := w.topics[fixtures.Events][3].Value
			w.topics[fixtures.Events] = nil
			for i := range 400 {
				value := good
				if i%every == every-1 {
					value = [][]byte{good[:len(good)*2/3], []byte("\x01garbage"), {}, lacking(t), bytes.Repeat([]byte{0xff}, 300)}[i%5]
				}
				w.topics[fixtures.Events] = append(w.topics[fixtures.Events], sink.Message{Topic: "events", Key: fmt.Append(nil, i), Value: value})
			}
			loop := w.transformLoop(t, fixtures.Events, 7)
			loop.Stage.(*transform.Transform).DeadLetter.MaxRejects = reject.Window // go on however many there are
			if err := loop.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if n := len(w.topics[fixtures.Dead]); n != 400/every {
				t.Fatalf("%d dead letters, want %d", n, 400/every)
			}
			next := map[bool]int{}
			for i, m := range w.topics[fixtures.Events] {
				bad := i%every == every-1
				topic := fixtures.Out
				if bad {
					topic = fixtures.Dead
				}
				got := w.topics[topic][next[bad]]
				next[bad]++
				if string(got.Key) != strconv.Itoa(i) || bad && !bytes.Equal(got.Value, m.Value) {
					t.Fatalf("message %d: next in %s is that of %s", i, topic.Topic, got.Key)
				}
			}
			if next[false] != len(w.topics[fixtures.Out]) {
				t.Errorf("%d outputs, want %d", len(w.topics[fixtures.Out]), next[false])
			}
		})
	}
}

// Numbers at the ends of what a float64 can be: a learner takes them or says why not, and what it then
// publishes is finite.
func TestHostileValues(t *testing.T) {
	row := func(i int) float64 { return math.Sin(float64(i)) + float64(i%7) }
	for _, tt := range []struct {
		name     string
		a, b     func(i int) float64
		hopeless bool // their squares are not numbers
	}{
		{name: "the largest numbers", a: func(i int) float64 { return 1e308 * math.Sin(float64(i)) }, b: row, hopeless: true},
		{name: "large numbers", a: func(i int) float64 { return 1e140 * math.Sin(float64(i)) }, b: row},
		{name: "subnormal numbers", a: func(i int) float64 { return 5e-324 * float64(i) }, b: row},
		{name: "zeros of both signs", a: func(i int) float64 { return math.Copysign(0, float64(i%2)-0.5) }, b: row},
		{name: "a constant", a: func(int) float64 { return 42 }, b: row},
		{name: "nothing but constants", a: func(int) float64 { return 42 }, b: func(int) float64 { return -1 }},
		{name: "one distinct row", a: func(int) float64 { return math.Pi }, b: func(int) float64 { return math.E }},
		{name: "two equal columns", a: row, b: row},
		{name: "a far mean", a: func(i int) float64 { return 1e9 + 1e-3*row(i) }, b: row},
		{name: "one row far away", a: func(i int) float64 {
			if i == 300 {
				return 1e150
			}
			return row(i)
		}, b: row},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			for m := range 14 {
				a, b, c := make([]float64, 30), make([]float64, 30), make([]float64, 30)
				for i := range a {
					a[i], b[i], c[i] = tt.a(30*m+i), tt.b(30*m+i), math.Cos(float64(17*m+3*i))
				}
				f8 := arrow.PrimitiveTypes.Float64
				w.topics[fixtures.Events] = append(w.topics[fixtures.Events], sink.Message{Topic: "events", Value: arrowMessage(t, fixtures.Column{Name: "a", Kind: f8, Values: a}, fixtures.Column{Name: "b", Kind: f8, Values: b}, fixtures.Column{Name: "c", Kind: f8, Values: c})})
			}
			loop, _ := w.learnLoop(t, 2)
			if err := loop.Run(context.Background()); err != nil {
				if err.Error() == "" || errors.Is(err, online.ErrWarmup) {
					t.Fatalf("refused without a reason: %v", err)
				}
				t.Logf("refused: %v", err)
				return
			}
			if len(w.topics[source.Partition{Topic: "snapshots"}]) == 0 {
				t.Log("no model is published") // and the transform, which waits for one, is not ready
				if !tt.hopeless {
					t.Error("with these values there is one")
				}
				return
			}
			if err := w.transformLoop(t, fixtures.Events, 3).Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			for i, m := range w.topics[fixtures.Out] {
				if text := whitened(t, m); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
					t.Fatalf("output %d is not finite: %s", i, text)
				}
			}
			if len(w.topics[fixtures.Out])+len(w.topics[fixtures.Dead]) != 14 {
				t.Errorf("%d outputs and %d dead letters of 14", len(w.topics[fixtures.Out]), len(w.topics[fixtures.Dead]))
			}
		})
	}
}
