package format

import (
	"errors"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// dictionary is what came of one dictionary so far: its values, and additions not yet joined.
type dictionary struct {
	parts []arrow.Array
}

// dictionary loads and validates a dictionary batch. It belongs to this stream alone: the next
// message brings its own.
func (l *loader) dictionary(b *ipcguard.Batch) error {
	l.begin(b)
	schema := l.guard.Schema()
	typ := valueType(schema.Fields, l.schema.Fields(), b.Dict)
	if typ == nil {
		return errorf(CodeArrowUnsupported, "dictionary %d has values of a type that is not read", b.Dict)
	}
	plain := *schema.Value(b.Dict)
	plain.Dict = nil // the values themselves
	stored := storedType(&plain, typ)
	data := l.load(&plain, stored)
	if l.err != nil {
		return l.err
	}
	if err := l.guard.Validate(data, &plain); err != nil {
		return err
	}
	if stored != typ {
		if data = l.plain(data, typ); l.err != nil {
			return l.err
		}
	}
	values := array.MakeFromData(data)
	if old := l.dicts[b.Dict]; b.Delta && old != nil {
		old.parts = append(old.parts, values)
		return nil
	}
	l.dicts[b.Dict] = &dictionary{parts: []arrow.Array{values}}
	return nil
}

// values returns the dictionary of f as it stands, joining additions first.
func (l *loader) values(f *ipcguard.Field) *array.Data {
	d := l.dicts[f.Dict.ID]
	if d == nil {
		l.fail(errorf(CodeArrowInvalid, "column %s: its dictionary %d did not come before it", f.Path, f.Dict.ID))
		return nil
	}
	if len(d.parts) > 1 {
		whole, err := array.Concatenate(d.parts, l.mem)
		switch {
		case errors.Is(err, errBudget):
			l.fail(errorf(CodeArrowTooLarge, "column %s: additions to its dictionary take more than %d bytes", f.Path, l.budget))
			return nil
		case err != nil:
			l.fail(errorf(CodeArrowUnsupported, "column %s: joining its dictionary: %w; send it whole", f.Path, err))
			return nil
		}
		d.parts = []arrow.Array{whole}
	}
	return d.parts[0].Data().(*array.Data)
}

// valueType finds the type of the values of dictionary id, walking the checked fields and the
// Arrow fields side by side; nil if there is none.
func valueType(fields []ipcguard.Field, types []arrow.Field, id int64) arrow.DataType {
	for i := range fields {
		f, dt := &fields[i], types[i].Type
		if ext, ok := dt.(arrow.ExtensionType); ok {
			dt = ext.StorageType()
		}
		if enc, ok := dt.(*arrow.DictionaryType); ok && f.Dict != nil {
			if dt = enc.ValueType; f.Dict.ID == id {
				return dt
			}
		}
		if len(f.Children) == 0 {
			continue
		}
		if found := valueType(f.Children, dt.(arrow.NestedType).Fields(), id); found != nil {
			return found
		}
	}
	return nil
}
