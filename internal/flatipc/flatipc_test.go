package flatipc_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/flatipc"
	"github.com/lca-stream/lca-stream/source/format"
)

// columns is a message with the given number of rows with columns of these types, and the record that is decoded from it, which
// aliases it where it can. Numbers differ by seed; nulls sets one of the first column.
func columns(t *testing.T, rows, seed int, nulls bool, types []arrow.DataType, opts ...ipc.Option) ([]byte, arrow.Record) {
	t.Helper()
	var fields []arrow.Field
	for i, dt := range types {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("c", i), Type: dt, Nullable: true})
	}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range rows {
		for c, f := range b.Fields() {
			if nulls && c == 0 && i == 0 {
				f.AppendNull()
			} else if err := f.AppendValueFromString(text(types[c], (seed+i)%100)); err != nil {
				t.Fatal(err)
			}
		}
	}
	written := b.NewRecord()
	defer written.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(opts, ipc.WithSchema(schema))...)
	if err := errors.Join(w.Write(written), w.Close()); err != nil {
		t.Fatal(err)
	}
	d, err := format.NewDecoder(format.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := d.Decode(t.Context(), out.Bytes(), "")
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), rec
}

// text is a number, or a list of numbers, as JSON; a text or bytes have the same length for any number.
func text(dt arrow.DataType, number int) string {
	switch dt.ID() {
	case arrow.STRING:
		return fmt.Sprintf("number %02d", number)
	case arrow.BINARY:
		return base64.StdEncoding.EncodeToString([]byte{0xff, byte(number), 0})
	}
	if list, ok := dt.(*arrow.FixedSizeListType); ok {
		items := slices.Repeat([]string{text(list.Elem(), number)}, int(list.Len()))
		return "[" + strings.Join(items, ",") + "]"
	}
	return strconv.Itoa(number)
}

var (
	f32, f64, i8, u16 = arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16
	list              = arrow.FixedSizeListOf(3, f32)
)

// A layout that was learnt from one message gives the buffers of another, and makes that message of its buffers;
// so does the layout that is learnt where a message is written.
func TestLayoutReadsAndWrites(t *testing.T) {
	for name, types := range map[string][]arrow.DataType{
		"one": {f32}, "padding of each length": {i8, u16, f32, f64, i8}, "a list": {list}, "a list of lists": {arrow.FixedSizeListOf(2, list), i8},
		"texts": {f32, arrow.BinaryTypes.String, i8, arrow.BinaryTypes.Binary},
	} {
		for _, rows := range []int{1, 2, 7, 64} {
			if rows > 1 && name == "texts" {
				continue
			}
			message, rec := columns(t, rows, 1, false, types)
			other, same := columns(t, rows, 42, false, types)
			read := flatipc.Read(message, rec)
			if read == nil {
				t.Fatalf("%s, %d rows: no layout", name, rows)
			}
			want, ok := flatipc.Buffers(nil, same)
			if !ok {
				t.Fatalf("%s: not flat", name)
			}
			body := bytes.Index(other, want[flatipc.Count(types[0])-1])
			for how, l := range map[string]*flatipc.Layout{"read": read, "written": flatipc.Written(other, body, want)} {
				var known flatipc.Layouts
				known.Learn(l)
				if known.Match(other) != l || known.Fit(want) != l || known.Match(other[1:]) != nil || known.Fit(want[1:]) != nil {
					t.Errorf("%s, %d rows, %s: the layout is not found", name, rows, how)
				}
				if got := l.Buffers(nil, other); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s, %d rows, %s: buffers %v, want %v", name, rows, how, got, want)
				}
				if got := l.Append([]byte("before"), want); !bytes.Equal(got[6:], other) {
					t.Errorf("%s, %d rows, %s: another message is written", name, rows, how)
				}
				if got := l.Pieces(nil, want); !bytes.Equal(bytes.Join(got, nil), other) {
					t.Errorf("%s, %d rows, %s: the pieces make another message", name, rows, how)
				}
			}
		}
	}
}

func TestWhatIsNotFlat(t *testing.T) {
	for name, c := range map[string]struct {
		rows  int
		nulls bool
		types []arrow.DataType
		opts  []ipc.Option
	}{
		"a null":      {3, true, []arrow.DataType{f32}, nil},
		"a null list": {3, true, []arrow.DataType{list}, nil},
		"a null text": {1, true, []arrow.DataType{arrow.BinaryTypes.String}, nil},
		"three texts": {3, false, []arrow.DataType{arrow.BinaryTypes.String, f32}, nil},
		"compressed":  {300, false, []arrow.DataType{f32}, []ipc.Option{ipc.WithZstd()}},
		"no rows":     {0, false, []arrow.DataType{f32}, nil},
	} {
		message, rec := columns(t, c.rows, 1, c.nulls, c.types, c.opts...)
		if flatipc.Read(message, rec) != nil {
			t.Errorf("%s: taken as flat", name)
		}
	}
	message, rec := columns(t, 5, 1, false, []arrow.DataType{f32})
	if _, ok := flatipc.Buffers(nil, rec.NewSlice(1, 3)); ok || flatipc.Read(message, rec.NewSlice(1, 3)) != nil {
		t.Error("a slice is taken as flat: its buffers are longer than its rows")
	}
	if flatipc.Written(message, 8, [][]byte{make([]byte, 20)}) != nil || flatipc.Written(message, 8, [][]byte{make([]byte, len(message))}) != nil {
		t.Error("a layout from which another message is written")
	}
	body := len(message) - 8 - 24 // 5·4 bytes, padded
	clear(message[body : body+24])
	if flatipc.Written(message, body, [][]byte{nil, make([]byte, 12)}) != nil {
		t.Error("zeros are found where other zeros are")
	}
	if flatipc.Written(message, body, [][]byte{nil, make([]byte, 20)}) == nil {
		t.Error("zeros are not found where they are")
	}
}

// The newest sixteen layouts are known, and none after Forget.
func TestLayoutsAreBounded(t *testing.T) {
	var known flatipc.Layouts
	var all [][]byte
	for rows := range 17 {
		message, rec := columns(t, rows+1, 1, false, []arrow.DataType{f64})
		known.Learn(flatipc.Read(message, rec))
		all = append(all, message)
	}
	for i, message := range all {
		if found := known.Match(message) != nil; found != (i > 0) {
			t.Errorf("%d rows: known is %v", i+1, found)
		}
	}
	if known.Forget(); !known.Empty() || known.Match(all[16]) != nil {
		t.Error("remembered after Forget")
	}
}
