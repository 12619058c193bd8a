package encode

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source/format"
)

func jsonRecord(t *testing.T, typ arrow.DataType, name, values string) arrow.Record {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, typ, strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	return array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: name, Type: typ, Nullable: true}}, nil), []arrow.Array{a}, int64(a.Len()))
}

func TestOutputLayouts(t *testing.T) {
	const good, null = minibatch.ReasonNone, minibatch.ReasonNull
	nan := float32(math.NaN())
	both := []minibatch.Reason{good, good}
	why := []lca.Gain{{Column: 1, Nats: 4}, {Column: 0, Nats: .5}, {Column: 0, Nats: 2}, {Column: 1, Nats: 1e300}}
	for _, c := range []struct {
		name   string
		config OutputConfig
		w      Whitened
		want   string // the columns as JSON, in order
		fields []string
	}{
		{"vector and score", OutputConfig{Score: true, Passthrough: true}, Whitened{Y: []float32{1, 2, 3, 4}, Score: []float32{.5, 7}, Invalid: both},
			`["x","y"] [[1,2],[3,4]] [0.5,7]`, []string{"s", "lca", "lca_score"}},
		{"a bad row is null", OutputConfig{Score: true, Passthrough: true}, Whitened{Y: []float32{1, 2, nan, nan}, Score: []float32{.5, nan}, Invalid: []minibatch.Reason{good, null}},
			`["x","y"] [[1,2],null] [0.5,null]`, []string{"s", "lca", "lca_score"}},
		{"columns", OutputConfig{Layout: LayoutColumns, Score: true, Passthrough: true}, Whitened{Y: []float32{1, 2, 3, 4}, Score: []float32{.5, 7}, Invalid: []minibatch.Reason{null, good}},
			`["x","y"] [null,3] [null,4] [null,7]`, []string{"s", "lca_0", "lca_1", "lca_score"}},
		{"no passthrough, no score", OutputConfig{}, Whitened{Y: []float32{1, 2, 3, 4}, Invalid: both}, `[[1,2],[3,4]]`, []string{"lca"}},
		{"another name", OutputConfig{Column: "w", Score: true, P: true, Why: 1}, Whitened{Y: []float32{1, 2, 3, 4}, Score: []float32{1, 2}, P: []float32{.5, .25}, Why: why[:2], Invalid: both},
			`[[1,2],[3,4]] [1,2] [0.5,0.25] [[{"feature":"b","nats":4}],[{"feature":"a","nats":0.5}]]`, []string{"w", "w_score", "w_p", "w_why"}},
		{"no model yet", OutputConfig{Score: true, P: true, Why: 2, Passthrough: true}, Whitened{}, `["x","y"] [null,null] [null,null] [null,null] [null,null]`, []string{"s", "lca", "lca_score", "lca_p", "lca_why"}},
		{"no model yet, columns", OutputConfig{Layout: LayoutColumns, P: true}, Whitened{}, `[null,null] [null,null] [null,null]`, []string{"lca_0", "lca_1", "lca_p"}},
		{"probability without score", OutputConfig{P: true}, Whitened{Y: []float32{1, 2, 3, 4}, P: []float32{.5, .25}, Invalid: []minibatch.Reason{good, null}},
			`[[1,2],null] [0.5,null]`, []string{"lca", "lca_p"}},
		{"a model without probabilities", OutputConfig{Score: true, P: true}, Whitened{Y: []float32{1, 2, 3, 4}, Score: []float32{1, 2}, Invalid: both},
			`[[1,2],[3,4]] [1,2] [null,null]`, []string{"lca", "lca_score", "lca_p"}},
		{"a score of the last rows, with a probability that is not known, and none", OutputConfig{Recent: true}, Whitened{Y: []float32{1, 2, 3, 4}, Recent: []float32{1, 0}, RecentP: []float32{nan, 0}, NoRecent: []bool{false, true}, Invalid: both},
			`[[1,2],[3,4]] [1,null] [null,null]`, []string{"lca", "lca_recent_score", "lca_recent_p"}},
		{"scores of the last rows, and a bad row", OutputConfig{Recent: true}, Whitened{Y: []float32{1, 2, 3, 4}, Recent: []float32{1, 0}, RecentP: []float32{.5, 0}, Invalid: []minibatch.Reason{good, null}},
			`[[1,2],null] [1,null] [0.5,null]`, []string{"lca", "lca_recent_score", "lca_recent_p"}},
		{"two features named, as far as float32 goes", OutputConfig{Why: 5}, Whitened{Y: []float32{1, 2, 3, 4}, Why: why, Invalid: both},
			`[[1,2],[3,4]] [[{"feature":"b","nats":4},{"feature":"a","nats":0.5}],[{"feature":"a","nats":2},{"feature":"b","nats":3.4028235e+38}]]`, []string{"lca", "lca_why"}},
		{"a bad row names nothing", OutputConfig{Layout: LayoutColumns, Why: 2}, Whitened{Y: []float32{1, 2, 3, 4}, Why: why, Invalid: []minibatch.Reason{null, good}},
			`[null,3] [null,4] [null,[{"feature":"a","nats":2},{"feature":"b","nats":3.4028235e+38}]]`, []string{"lca_0", "lca_1", "lca_why"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := NewOutput(c.config)
			c.w.K, c.w.Features = 2, []string{"a", "b"}
			in := jsonRecord(t, arrow.BinaryTypes.String, "s", `["x","y"]`)
			var out []byte
			for range 3 { // the second and third by what the first left behind
				var err error
				out, err = o.Append([]byte("kept"), in, &c.w)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.HasPrefix(out, []byte("kept")) {
					t.Fatal("what dst held is gone")
				}
				rec := fixtures.ReadStream(t, out[len("kept"):])
				var names []string
				var columns []string
				for j, col := range rec.Columns() {
					names = append(names, rec.ColumnName(j))
					b, err := col.MarshalJSON()
					if err != nil {
						t.Fatal(err)
					}
					columns = append(columns, strings.ReplaceAll(string(b), "\n", ""))
				}
				if diff := cmp.Diff(c.fields, names); diff != "" {
					t.Error(diff)
				}
				if got := strings.Join(columns, " "); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			}
		})
	}
}

// TestOutputType: the vector's child is not nullable, so that readers see plain float32.
func TestOutputType(t *testing.T) {
	out, err := NewOutput(OutputConfig{}).Append(nil, jsonRecord(t, arrow.BinaryTypes.String, "s", `["x"]`), &Whitened{K: 2, Y: []float32{1, 2}, Invalid: make([]minibatch.Reason, 1)})
	if err != nil {
		t.Fatal(err)
	}
	field := fixtures.ReadStream(t, out).Schema().Field(0)
	list, ok := field.Type.(*arrow.FixedSizeListType)
	if !ok || list.Len() != 2 || list.ElemField().Nullable || list.Elem().ID() != arrow.FLOAT32 || !field.Nullable {
		t.Errorf("lca is %s", field)
	}
}

// TestOutputPassthrough: columns of every type, with metadata, come out as pyarrow wrote them,
// whole and sliced.
func TestOutputPassthrough(t *testing.T) {
	data, err := os.ReadFile("testdata/passthrough.arrows")
	if err != nil {
		t.Fatal(err)
	}
	whole := fixtures.ReadStream(t, data)
	for _, c := range []struct {
		name   string
		in     arrow.Record
		layout Layout
	}{
		{"whole", whole, LayoutVector},
		{"whole, columns", whole, LayoutColumns},
		// arrow/go v15 cannot write a slice of a dense union; messages are written whole.
		{"slice", without(whole, "dense_union").NewSlice(1, 4), LayoutVector},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := NewOutput(OutputConfig{Layout: c.layout, Score: true, P: true, Why: 1, Passthrough: true})
			n := int(c.in.NumRows())
			for range 2 { // dictionaries must be there the second time too
				out, err := o.Append(nil, c.in, &Whitened{K: 2, Y: make([]float32, 2*n), Score: make([]float32, n), P: make([]float32, n), Why: make([]lca.Gain, n), Features: []string{"one"}, Invalid: make([]minibatch.Reason, n)})
				if err != nil {
					t.Fatal(err)
				}
				got := fixtures.ReadStream(t, out)
				if !got.Schema().Metadata().Equal(whole.Schema().Metadata()) {
					t.Errorf("schema metadata: %v", got.Schema().Metadata())
				}
				for j, want := range c.in.Columns() {
					if f := c.in.Schema().Field(j); !f.Equal(got.Schema().Field(j)) {
						t.Errorf("field %v became %v", f, got.Schema().Field(j))
					}
					if !array.Equal(want, got.Column(j)) {
						t.Errorf("column %s: %v became %v", c.in.ColumnName(j), want, got.Column(j))
					}
				}
			}
		})
	}
}

func without(rec arrow.Record, name string) arrow.Record {
	var fields []arrow.Field
	var columns []arrow.Array
	for j, f := range rec.Schema().Fields() {
		if f.Name != name {
			fields, columns = append(fields, f), append(columns, rec.Column(j))
		}
	}
	m := rec.Schema().Metadata()
	return array.NewRecord(arrow.NewSchema(fields, &m), columns, rec.NumRows())
}

// TestOutputFollowsTheSchema: dictionaries, columns and widths may change from message to message.
func TestOutputFollowsTheSchema(t *testing.T) {
	colour := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	nested := arrow.ListOf(colour)
	o := NewOutput(OutputConfig{Passthrough: true})
	for i, in := range []arrow.Record{
		jsonRecord(t, colour, "c", `["red","blue"]`),
		jsonRecord(t, colour, "c", `["green","red"]`),
		jsonRecord(t, nested, "c", `[["red"],["blue","red"]]`),
		jsonRecord(t, nested, "c", `[["blue"],[]]`),
		jsonRecord(t, arrow.PrimitiveTypes.Int32, "c", `[1,2]`),
		jsonRecord(t, colour, "c", `["blue","blue"]`),
	} {
		k := 1 + i%3
		out, err := o.Append(nil, in, &Whitened{K: k, Y: make([]float32, 2*k), Invalid: make([]minibatch.Reason, 2)})
		if err != nil {
			t.Fatal(err)
		}
		if got := fixtures.ReadStream(t, out); !array.Equal(in.Column(0), got.Column(0)) {
			t.Errorf("message %d: %v became %v", i, in.Column(0), got.Column(0))
		}
	}
}

func TestOutputColumnExists(t *testing.T) {
	for _, c := range []struct {
		config OutputConfig
		column string
		clash  bool
	}{
		{OutputConfig{Passthrough: true}, "lca", true},
		{OutputConfig{Passthrough: true, Score: true}, "lca_score", true},
		{OutputConfig{Passthrough: true, P: true}, "lca_p", true},
		{OutputConfig{Passthrough: true, Why: 2}, "lca_why", true},
		{OutputConfig{Passthrough: true, Layout: LayoutColumns}, "lca_1", true},
		{OutputConfig{Passthrough: true}, "lca_score", false},
		{OutputConfig{Passthrough: true}, "lca_p", false},
		{OutputConfig{Passthrough: true}, "lca_why", false},
		{OutputConfig{Passthrough: true}, "lca_1", false},
		{OutputConfig{}, "lca", false},
		{OutputConfig{Passthrough: true, Column: "w"}, "lca", false},
	} {
		t.Run(fmt.Sprintf("%s in %+v", c.column, c.config), func(t *testing.T) {
			o := NewOutput(c.config)
			in := jsonRecord(t, arrow.PrimitiveTypes.Float32, c.column, `[1]`)
			w := Whitened{K: 2, Y: []float32{1, 2}, Score: []float32{1}, P: []float32{1}, Why: make([]lca.Gain, 1), Features: []string{"one"}, Invalid: make([]minibatch.Reason, 1)}
			dst := []byte("kept")
			out, err := o.Append(dst, in, &w)
			var oe *OutputError
			if errors.As(err, &oe) != c.clash {
				t.Fatalf("got %v", err)
			}
			if c.clash && (oe.Code != reject.CodeOutputColumnExists || oe.Column != c.column || !bytes.Equal(out, dst)) {
				t.Errorf("got %+v, dst %q", oe, out)
			}
			if !c.clash && err != nil {
				t.Error(err)
			}
			// A refusal is of one message; the next may be fine.
			if _, err := o.Append(nil, jsonRecord(t, arrow.PrimitiveTypes.Float32, "fine", `[1]`), &w); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOutputIsDeterministic: the same rows are the same bytes, also from an Output that has seen
// other schemas before.
func TestOutputIsDeterministic(t *testing.T) {
	data, err := os.ReadFile("testdata/passthrough.arrows")
	if err != nil {
		t.Fatal(err)
	}
	in := fixtures.ReadStream(t, data)
	n := int(in.NumRows())
	encode := func(o *Output) []byte {
		out, err := o.Append(nil, in, &Whitened{K: 1, Y: []float32{1, 2, 3, 4, 5}, Score: make([]float32, n), P: make([]float32, n), Why: make([]lca.Gain, n), Features: []string{"one"}, Invalid: make([]minibatch.Reason, n)})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	config := OutputConfig{Passthrough: true, Score: true, P: true, Why: 1}
	want := encode(NewOutput(config))
	used := NewOutput(config)
	if _, err := used.Append(nil, jsonRecord(t, arrow.PrimitiveTypes.Float32, "a", `[1]`), &Whitened{K: 1, Y: []float32{9}, Score: []float32{9}, P: []float32{9}, Why: make([]lca.Gain, 1), Features: []string{"other"}, Invalid: []minibatch.Reason{minibatch.ReasonNaN}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if !bytes.Equal(want, encode(used)) {
			t.Fatal("other bytes for the same rows")
		}
	}
}

// A message of one row with texts is that of the Arrow library, whatever their lengths and whatever came before.
func TestOutputOfTexts(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "v", Type: arrow.PrimitiveTypes.Float64}, {Name: "id", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "raw", Type: arrow.BinaryTypes.Binary},
	}, nil)
	config := OutputConfig{Score: true, P: true, Passthrough: true}
	used := NewOutput(config)
	for i, id := range []string{`"device-7"`, `"device-8"`, `"Gerät-8"`, `""`, `null`, `"device-10"`, `""`, `"device-9"`, `null`} {
		raw := base64.StdEncoding.EncodeToString([]byte{0xff, byte(i), 0}[:1+i%3])
		rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(fmt.Sprintf(`[{"v":%d,"id":%s,"raw":%q}]`, i, id, raw)))
		if err != nil {
			t.Fatal(err)
		}
		w := &Whitened{K: 2, Y: []float32{float32(i), -1}, Score: []float32{3}, P: []float32{0.5}, Invalid: []minibatch.Reason{minibatch.ReasonNone}}
		got, err := used.Append(nil, rec, w)
		if err != nil {
			t.Fatal(err)
		}
		want, err := NewOutput(config).Append(nil, rec, w)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: another message than the library's", id)
		}
		if back, err := fixtures.NewDecoder(t, format.Config{}).Decode(t.Context(), got, ""); err != nil || !array.Equal(back.Column(1), rec.Column(1)) || !array.Equal(back.Column(2), rec.Column(2)) {
			t.Errorf("%s: read back as %v, %v", id, back, err)
		}
	}
}

// Messages without an episode are copied together, and are those of the Arrow library, whatever came before.
func TestOutputOfEpisodes(t *testing.T) {
	config := OutputConfig{Score: true, P: true, Episode: true, Imputed: true}
	used, none := NewOutput(config), 0
	for i, n := range []int{1, 1, 9, 9, 1, 9, 64, 9, 0, 64, 64, 1} {
		in := jsonRecord(t, arrow.PrimitiveTypes.Float32, "a", "["+strings.TrimSuffix(strings.Repeat("1,", n), ",")+"]")
		w := &Whitened{K: 1, Y: make([]float32, n), Score: make([]float32, n), P: make([]float32, n), Invalid: make([]minibatch.Reason, n)}
		if i > 4 { // zeros before: they look the same wherever they lie in a message
			w.Imputed = slices.Repeat([]int16{3}, n)
		}
		if i%4 == 2 {
			w.Episode = make([]string, n)
			w.Episode[n/2] = "m/0/~/1.0"
			none--
		}
		got, err := used.Append(nil, in, w)
		if err != nil {
			t.Fatal(err)
		}
		want, err := NewOutput(config).Append(nil, in, w)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("message %d of %d rows: another one than the library's, %v", i, n, err)
		}
		column := fixtures.ReadStream(t, got).Column(3).(*array.String)
		if column.Len() != n || column.NullN() != n && (w.Episode == nil || column.NullN() != n-1 || column.Value(n/2) != "m/0/~/1.0") {
			t.Errorf("message %d: %v", i, column)
		}
	}
	if used.layouts.Empty() || none == 0 {
		t.Error("no message was copied together, or none had an episode")
	}
}

func BenchmarkOutput(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("%dx64", n), func(b *testing.B) {
			const k = 64
			w := &Whitened{K: k, Y: make([]float32, n*k), Score: make([]float32, n), P: make([]float32, n), Invalid: make([]minibatch.Reason, n)}
			typ := arrow.FixedSizeListOf(k, arrow.PrimitiveTypes.Float32)
			child := array.NewData(arrow.PrimitiveTypes.Float32, n*k, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Float32Traits.CastToBytes(w.Y))}, nil, 0, 0)
			col := array.MakeFromData(array.NewData(typ, n, []*memory.Buffer{nil}, []arrow.ArrayData{child}, 0, 0))
			in := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "v", Type: typ}}, nil), []arrow.Array{col}, int64(n))
			o := NewOutput(OutputConfig{Score: true, P: true, Passthrough: true})
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = o.Append(dst[:0], in, w); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(dst)))
		})
	}
}
