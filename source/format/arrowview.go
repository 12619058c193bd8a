package format

import (
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// Polars writes categories as dictionaries of string views. Arrow/go v15 reads them but cannot
// write them: it repeats the buffer counts of views in a dictionary in whatever it writes next,
// which then no reader can make sense of. So dictionaries of views are read as dictionaries of
// plain text or bytes: the same values, of a type that every reader and writer knows. Views
// outside dictionaries are read as they are.

// plainSchema returns s with dictionaries of views replaced; s itself where it has none.
func plainSchema(s *arrow.Schema) *arrow.Schema {
	fields, changed := plainFields(s.Fields())
	if !changed {
		return s
	}
	metadata := s.Metadata()
	return arrow.NewSchema(fields, &metadata)
}

func plainFields(fields []arrow.Field) (out []arrow.Field, changed bool) {
	out = append(out, fields...)
	for i := range out {
		if dt := plainType(out[i].Type); dt != nil {
			out[i].Type, changed = dt, true
		}
	}
	return out, changed
}

// plainType returns the replacement of a type; nil where there is nothing to replace, or where a
// dictionary stands within a type that is not rebuilt here (maps, unions, run ends).
func plainType(dt arrow.DataType) arrow.DataType {
	switch dt := dt.(type) {
	case *arrow.DictionaryType:
		plain := *dt
		switch dt.ValueType.ID() {
		case arrow.STRING_VIEW:
			plain.ValueType = arrow.BinaryTypes.String
		case arrow.BINARY_VIEW:
			plain.ValueType = arrow.BinaryTypes.Binary
		default:
			return nil
		}
		return &plain
	case *arrow.StructType:
		if fields, changed := plainFields(dt.Fields()); changed {
			return arrow.StructOf(fields...)
		}
		return nil
	}
	nested, ok := dt.(arrow.NestedType)
	if !ok || len(nested.Fields()) != 1 {
		return nil
	}
	item, changed := plainFields(nested.Fields())
	if !changed {
		return nil
	}
	switch dt := dt.(type) {
	case *arrow.ListType:
		return arrow.ListOfField(item[0])
	case *arrow.LargeListType:
		return arrow.LargeListOfField(item[0])
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(dt.Len(), item[0])
	}
	return nil
}

// storedType is the type in which the values of a dictionary are stored, where plainSchema gave
// it another.
func storedType(f *ipcguard.Field, dt arrow.DataType) arrow.DataType {
	switch {
	case f.Kind == ipcguard.Utf8View && dt.ID() == arrow.STRING:
		return arrow.BinaryTypes.StringView
	case f.Kind == ipcguard.BinaryView && dt.ID() == arrow.BINARY:
		return arrow.BinaryTypes.BinaryView
	}
	return dt
}

// plain copies validated views into an array of plain text or bytes.
func (l *loader) plain(data *array.Data, dt arrow.DataType) *array.Data {
	views := array.MakeFromData(data).(array.ViewLike)
	n := views.Len()
	size := 0
	for i := range n {
		if views.IsValid(i) {
			size += views.ValueHeader(i).Len()
		}
	}
	if int64(size+4*(n+1)) > min(l.mem.left, 1<<31-1) {
		l.fail(errorf(CodeArrowTooLarge, "a dictionary of %d bytes of text; send it as plain strings", size))
		return nil
	}
	text := l.mem.Allocate(size)[:0]
	offsets := arrow.Int32Traits.CastFromBytes(l.mem.Allocate(4 * (n + 1)))
	for i := range n {
		if views.IsValid(i) {
			text = append(text, viewBytes(views, i)...)
		}
		offsets[i+1] = int32(len(text))
	}
	buffers := []*memory.Buffer{data.Buffers()[0], memory.NewBufferBytes(arrow.GetBytes(offsets)), memory.NewBufferBytes(text)}
	return array.NewData(dt, n, buffers, nil, data.NullN(), 0)
}

func viewBytes(views array.ViewLike, i int) []byte {
	h := views.ValueHeader(i)
	if h.IsInline() {
		return h.InlineBytes()
	}
	from := int(h.BufferOffset())
	return views.Data().Buffers()[2+h.BufferIndex()].Bytes()[from : from+h.Len()]
}
