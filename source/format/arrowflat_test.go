package format

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// flatStream is a message of plain numbers, whose values follow from seed.
func flatStream(t testing.TB, rows int, seed float64) []byte {
	t.Helper()
	list := arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "v", Type: list}, {Name: "n", Type: arrow.PrimitiveTypes.Int16}, {Name: "b", Type: arrow.PrimitiveTypes.Float32},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range rows {
		x := seed + float64(i)
		b.Field(0).(*array.Float64Builder).Append(math.Sqrt(x))
		l := b.Field(1).(*array.FixedSizeListBuilder)
		l.Append(true)
		for k := range 3 {
			l.ValueBuilder().(*array.Float32Builder).Append(float32(x * float64(k)))
		}
		b.Field(2).(*array.Int16Builder).Append(int16(x))
		b.Field(3).(*array.Float32Builder).Append(float32(math.Inf(1)))
	}
	return messageOf(t, b, schema)
}

// messageOf is a message of what has been built.
func messageOf(t testing.TB, b *array.RecordBuilder, schema *arrow.Schema) []byte {
	t.Helper()
	rec := b.NewRecord()
	defer rec.Release()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// textStream is a message of one row with a text, a number and bytes.
func textStream(t testing.TB, text, binary string) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.BinaryTypes.String}, {Name: "v", Type: arrow.PrimitiveTypes.Float64}, {Name: "raw", Type: arrow.BinaryTypes.Binary},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.StringBuilder).Append(text)
	b.Field(1).(*array.Float64Builder).Append(float64(len(text)))
	b.Field(2).(*array.BinaryBuilder).Append([]byte(binary))
	return messageOf(t, b, schema)
}

// Texts of a length that came before need no decoding either.
func TestFlatTexts(t *testing.T) {
	used := newDecoder(t, Config{})
	for i, c := range []struct {
		text, binary string
		flat         bool
	}{{"device-7", "\xff", false}, {"device-8", "\x00", true}, {"Gerät-8", "\x80", true}, {"device-10", "\xff", false}, {"", "", false}, {"", "", true}, {"device-9", "x", true}} {
		value := textStream(t, c.text, c.binary)
		got, err := used.Decode(t.Context(), value, "")
		if err != nil {
			t.Fatal(err)
		}
		want, err := newDecoder(t, Config{}).Decode(t.Context(), value, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, isFlat := got.(*flat); isFlat != c.flat {
			t.Errorf("message %d: taken as known is %v", i, isFlat)
		}
		if !array.RecordEqual(got, want) || got.Column(0).ValueStr(0) != c.text {
			t.Errorf("message %d: %v, want %v", i, got, want)
		}
	}
}

// Messages of a known layout hold what a decoder that has never seen it finds in them.
func TestFlatDecodesTheSame(t *testing.T) {
	used := newDecoder(t, Config{})
	for i, rows := range []int{5, 5, 1, 5, 1, 2, 1} {
		value := flatStream(t, rows, float64(10*i))
		got, err := used.Decode(t.Context(), value, "")
		if err != nil {
			t.Fatal(err)
		}
		want, err := newDecoder(t, Config{}).Decode(t.Context(), value, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, isFlat := got.(*flat); isFlat != (i == 1 || i == 3 || i == 4 || i == 6) {
			t.Errorf("message %d of %d rows: taken as known is %v", i, rows, isFlat)
		}
		if got.NumRows() != want.NumRows() || got.NumCols() != want.NumCols() || got.ColumnName(1) != "v" || !array.RecordEqual(got, want) {
			t.Errorf("message %d: %v, want %v", i, got, want)
		}
	}
}

// What is not a number or a text is compared, and text must be UTF-8: one byte changed anywhere leads to the same
// verdict as in a decoder that knows no layout.
func TestFlatTrustsNoMetadata(t *testing.T) {
	for name, value := range map[string][]byte{"numbers": flatStream(t, 3, 1), "text": textStream(t, "Gerät-8", "raw"), "no text": textStream(t, "", "")} {
		used := newDecoder(t, Config{})
		if _, err := used.Decode(t.Context(), value, ""); err != nil {
			t.Fatal(err)
		}
		for i := range 3 * len(value) {
			at := i / 3
			mutant := bytes.Clone(value)
			mutant[at] ^= []byte{0x55, 0x80, 0x01}[i%3]
			got, gotErr := used.Decode(t.Context(), mutant, "")
			want, wantErr := newDecoder(t, Config{}).Decode(t.Context(), mutant, "")
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Fatalf("%s: byte %d changed: error %v, want %v", name, at, gotErr, wantErr)
			}
			if gotErr == nil && fmt.Sprint(got.Schema(), got.Columns()) != fmt.Sprint(want.Schema(), want.Columns()) { // NaN is not equal to itself
				t.Fatalf("%s: byte %d changed: %v, want %v", name, at, got, want)
			}
		}
	}
}

func TestFlatDecodingAllocatesOnce(t *testing.T) {
	d, value := newDecoder(t, Config{}), flatStream(t, 3, 1)
	if _, err := d.Decode(t.Context(), value, ""); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = d.Decode(t.Context(), value, "") }); n > 1 {
		t.Errorf("%v allocations per message, want the record alone", n)
	}
}

// Numbers that were compressed to less than a tenth are a copy, longer than the message and anywhere in memory.
func TestCompressibleMessagesAreRead(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Float32}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for range 1000 {
		b.Field(0).(*array.Float32Builder).Append(1)
	}
	rec := b.NewRecord()
	defer rec.Release()
	for _, codec := range []ipc.Option{ipc.WithZstd(), ipc.WithLZ4()} {
		d := newDecoder(t, Config{})
		for range 200 {
			var buf bytes.Buffer
			w := ipc.NewWriter(&buf, ipc.WithSchema(schema), codec)
			if err := errors.Join(w.Write(rec), w.Close()); err != nil {
				t.Fatal(err)
			}
			got, err := d.Decode(t.Context(), bytes.Clone(buf.Bytes()), "")
			if err != nil {
				t.Fatal(err)
			}
			if !array.RecordEqual(got, rec) {
				t.Fatal(got)
			}
		}
	}
}
