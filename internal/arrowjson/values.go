package arrowjson

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/jsontext"
)

// values returns what appends the values of a column, and null where there is none.
func values(column arrow.Array, b *bound) (appender, error) {
	some, err := present(column, b)
	if err != nil || some == nil {
		return func(dst []byte, _ int) []byte { return append(dst, jsontext.Null...) }, err
	}
	if column.NullN() == 0 {
		return some, nil
	}
	return func(dst []byte, row int) []byte {
		if column.IsNull(row) {
			return append(dst, jsontext.Null...)
		}
		return some(dst, row)
	}, nil
}

// present returns what appends the values that are not null; nil if all are.
func present(column arrow.Array, b *bound) (appender, error) {
	switch a := column.(type) {
	case *array.Null:
		return nil, nil
	case *array.Boolean:
		return func(dst []byte, i int) []byte { return strconv.AppendBool(dst, a.Value(i)) }, nil
	case *array.Int8:
		return signed(a.Int8Values()), nil
	case *array.Int16:
		return signed(a.Int16Values()), nil
	case *array.Int32:
		return signed(a.Int32Values()), nil
	case *array.Int64:
		return signed(a.Int64Values()), nil
	case *array.Uint8:
		return unsigned(a.Uint8Values()), nil
	case *array.Uint16:
		return unsigned(a.Uint16Values()), nil
	case *array.Uint32:
		return unsigned(a.Uint32Values()), nil
	case *array.Uint64:
		return unsigned(a.Uint64Values()), nil
	case *array.Float16:
		return func(dst []byte, i int) []byte { return jsontext.AppendFloat32(dst, a.Value(i).Float32()) }, nil
	case *array.Float32:
		return func(dst []byte, i int) []byte { return jsontext.AppendFloat32(dst, a.Value(i)) }, nil
	case *array.Float64:
		return func(dst []byte, i int) []byte { return jsontext.AppendFloat64(dst, a.Value(i)) }, nil
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return func(dst []byte, i int) []byte { return append(dst, a.Value(i).ToString(scale)...) }, nil
	case *array.Decimal256:
		scale := a.DataType().(*arrow.Decimal256Type).Scale
		return func(dst []byte, i int) []byte { return append(dst, a.Value(i).ToString(scale)...) }, nil
	case *array.String:
		return func(dst []byte, i int) []byte { return b.text(dst, a.Value(i)) }, nil
	case *array.LargeString:
		return func(dst []byte, i int) []byte { return b.text(dst, a.Value(i)) }, nil
	case *array.StringView:
		return func(dst []byte, i int) []byte { return b.text(dst, a.Value(i)) }, nil
	case *array.Binary:
		return func(dst []byte, i int) []byte { return b.base(dst, a.Value(i)) }, nil
	case *array.LargeBinary:
		return func(dst []byte, i int) []byte { return b.base(dst, a.Value(i)) }, nil
	case *array.BinaryView:
		return func(dst []byte, i int) []byte { return b.base(dst, a.Value(i)) }, nil
	case *array.FixedSizeBinary:
		return func(dst []byte, i int) []byte { return b.base(dst, a.Value(i)) }, nil
	}
	if some := moment(column); some != nil {
		return some, nil
	}
	return nested(column, b)
}

func signed[T int8 | int16 | int32 | int64](v []T) appender {
	return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(v[i]), 10) }
}

func unsigned[T uint8 | uint16 | uint32 | uint64](v []T) appender {
	return func(dst []byte, i int) []byte { return strconv.AppendUint(dst, uint64(v[i]), 10) }
}

// bound is where a text ends that has become too long: what writes several values looks before each, and what writes a
// long one before that, so that little is written beyond it.
type bound struct{ end int }

// short is how long a value may be that is written without a look at how long it becomes.
const short = 4 << 10

// text appends a string.
func (b *bound) text(dst []byte, s string) []byte {
	if len(s) > short && len(dst)+len(s) > b.end-(jsontext.MostEscaped-1)*len(s) && len(dst)+jsontext.StringSize(s) > b.end {
		return b.beyond(dst)
	}
	return jsontext.AppendString(dst, s)
}

// base appends bytes as a string of base64.
func (b *bound) base(dst, v []byte) []byte {
	if len(v) > short && len(dst)+base64.StdEncoding.EncodedLen(len(v)) > b.end {
		return b.beyond(dst)
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v), '"')
}

// reached reports whether dst is too long.
func (b *bound) reached(dst []byte) bool { return len(dst) > b.end }

// beyond makes dst too long, whatever it holds.
func (b *bound) beyond(dst []byte) []byte {
	return append(dst, make([]byte, max(0, b.end-len(dst))+1)...)
}

// nested returns what appends the values of columns that are made of others.
func nested(column arrow.Array, b *bound) (appender, error) {
	switch a := column.(type) {
	case *array.Struct:
		columns := make([]arrow.Array, a.NumField())
		for i := range columns {
			columns[i] = a.Field(i)
		}
		fields, err := keys(a.DataType().(*arrow.StructType).Fields())
		if err == nil {
			err = fill(fields, columns, b)
		}
		return func(dst []byte, i int) []byte { return append(appendFields(append(dst, '{'), fields, i, b), '}') }, err
	case *array.Map: // before ListLike, which it is too
		return object(a, b)
	case array.ListLike:
		value, err := values(a.ListValues(), b)
		return func(dst []byte, i int) []byte {
			from, to := a.ValueOffsets(i)
			dst = append(dst, '[')
			for j := from; j < to && !b.reached(dst); j++ {
				if j > from {
					dst = append(dst, ',')
				}
				dst = value(dst, int(j))
			}
			return append(dst, ']')
		}, err
	case *array.Dictionary:
		value, err := values(a.Dictionary(), b)
		return func(dst []byte, i int) []byte { return value(dst, a.GetValueIndex(i)) }, err
	case *array.RunEndEncoded:
		value, err := values(a.Values(), b)
		return func(dst []byte, i int) []byte { return value(dst, a.GetPhysicalIndex(i)) }, err
	case array.ExtensionArray:
		return values(a.Storage(), b)
	case *array.SparseUnion:
		return branches(a, b, func(i int) int { return i })
	case *array.DenseUnion:
		return branches(a, b, func(i int) int { return int(a.ValueOffset(i)) })
	}
	return nil, fmt.Errorf("type %v cannot be written as JSON; set transform.format to arrow", column.DataType())
}

// object appends maps.
func object(a *array.Map, b *bound) (appender, error) {
	key, err := values(a.Keys(), b)
	if err != nil {
		return nil, err
	}
	value, err := values(a.Items(), b)
	return func(dst []byte, i int) []byte {
		from, to := a.ValueOffsets(i)
		dst = append(dst, '{')
		for j := from; j < to && !b.reached(dst); j++ {
			if j > from {
				dst = append(dst, ',')
			}
			at := len(dst)
			if dst = key(dst, int(j)); dst[at] != '"' {
				dst = jsontext.AppendString(dst[:at], string(dst[at:]))
			}
			dst = value(append(dst, ':'), int(j))
		}
		return append(dst, '}')
	}, err
}

// branches appends the values of unions; at is the place of a row's value in its branch.
func branches(a array.Union, b *bound, at func(row int) int) (appender, error) {
	all := make([]appender, a.NumFields())
	for i := range all {
		var err error
		if all[i], err = values(a.Field(i), b); err != nil {
			return nil, err
		}
	}
	return func(dst []byte, i int) []byte { return all[a.ChildID(i)](dst, at(i)) }, nil
}
