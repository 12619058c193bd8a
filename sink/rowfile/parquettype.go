package rowfile

import (
	"errors"
	"reflect"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/parquet-go/parquet-go"
)

// group is a group whose fields keep their order; parquet.Group sorts them by name.
type group struct {
	parquet.Group
	fields []parquet.Field
}

func (g *group) Fields() []parquet.Field { return g.fields }

type field struct {
	parquet.Node
	name string
}

func (f *field) Name() string                      { return f.name }
func (f *field) Value(reflect.Value) reflect.Value { return reflect.Value{} } // of rows as Go values, which there are none of

func groupOf(fields []parquet.Field) parquet.Node {
	g := &group{Group: parquet.Group{}, fields: fields}
	for _, f := range fields {
		g.Group[f.Name()] = f
	}
	return g
}

// presence says whether a column may be null. What Arrow says of that is not used: parts of a table differ in it.
type presence bool

const (
	required presence = false // the key of a map
	optional presence = true
)

func (p presence) of(n parquet.Node) parquet.Node {
	if p == optional {
		return parquet.Optional(n)
	}
	return n
}

var errNoType = errors.New("write .arrow or .arrows")

// parquetColumnOf returns the node of a type within so many lists, and what writes its arrays.
func parquetColumnOf(dt arrow.DataType, p presence, lists uint8) (parquet.Node, *parquetColumn, error) {
	c := &parquetColumn{optional: bool(p), rep: lists + 1}
	switch dt := dt.(type) {
	case arrow.ExtensionType:
		return parquetColumnOf(dt.StorageType(), p, lists)
	case *arrow.StructType:
		fields := make([]parquet.Field, dt.NumFields())
		for i, f := range dt.Fields() {
			node, child, err := parquetColumnOf(f.Type, optional, lists)
			if err != nil {
				return nil, nil, err
			}
			fields[i], c.children = &field{node, f.Name}, append(c.children, child)
		}
		if len(fields) == 0 {
			return nil, nil, errNoType
		}
		return p.of(groupOf(fields)), c, nil
	case *arrow.MapType:
		key, keys, err := parquetColumnOf(dt.KeyType(), required, lists+1)
		if err != nil {
			return nil, nil, err
		}
		item, items, err := parquetColumnOf(dt.ItemType(), optional, lists+1)
		c.children = []*parquetColumn{keys, items}
		if err != nil {
			return nil, nil, err
		}
		return p.of(parquet.Map(key, item)), c, nil
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType:
		item, items, err := parquetColumnOf(dt.(arrow.ListLikeType).Elem(), optional, lists+1)
		c.children = []*parquetColumn{items}
		if err != nil {
			return nil, nil, err
		}
		return p.of(parquet.List(item)), c, nil
	}
	node, reader := leafOf(dt)
	if reader == nil {
		return nil, nil, errNoType
	}
	c.reader, c.fits = reader, fitsOf(dt)
	return p.of(node), c, nil
}
