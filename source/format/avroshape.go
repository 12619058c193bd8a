package format

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// avroShape is a node that is read into a column of the Arrow record, or into a part of one. Shapes form a tree: a
// record within itself is left out.
type avroShape struct {
	name  string
	node  *avroNode
	null  int            // of [null, T], which is the shape of T: number of the null branch; −1: it is no such union
	typ   arrow.DataType // nil: only what is within is read
	place int            // among the states of reading

	left     bool         // of a record: its fields that are skipped are those that no column can hold
	children []*avroShape // of a record, a union; nil where skipped. Of an array, its items; of a map, keys and values

	slot int // of a column that is a number or a list of numbers: its place among those
}

// avroShaper makes the shapes of a plan.
type avroShaper struct {
	plan *avroPlan
	path []*avroNode // what is being shaped, from the row's record inwards
	at   []string    // names of the fields around
}

// newAvroPlan shapes a record: all its fields, or those that are read alone.
func newAvroPlan(root *avroNode, c Config) *avroPlan {
	p := &avroPlan{}
	if c.Only {
		columns := slices.Clone(c.Columns)
		for _, name := range c.Also {
			if slices.Contains(root.names, name) {
				columns = append(columns, name)
			}
		}
		p.root = (&avroShaper{plan: p}).only(root, columns)
	}
	if p.root == nil {
		p.columns, p.shapes, p.left = nil, 0, LeftOut{}
		p.root = (&avroShaper{plan: p}).shape("", root)
		p.columns = slices.DeleteFunc(slices.Clone(p.root.children), func(f *avroShape) bool { return f == nil })
	}
	if p.shapes > ipcguard.MessageLimits().Fields {
		p.err = fmt.Errorf("it has more than %d fields, with those within fields", ipcguard.MessageLimits().Fields)
		return p
	}
	p.left.tell(&c, root.name)
	fields := make([]arrow.Field, len(p.columns))
	p.flat = len(fields) > 0
	for i, col := range p.columns {
		fields[i] = arrow.Field{Name: col.name, Type: col.typ, Nullable: true}
		switch {
		case col.number():
			col.slot = p.numbers
			p.numbers++
		case col.numbers():
			col.slot = p.lists
			p.lists++
		default:
			p.flat = false
		}
	}
	p.schema = arrow.NewSchema(fields, nil)
	return p
}

// number reports whether the column is of plain numbers.
func (s *avroShape) number() bool { return s.node.isNumber() || s.node.ofNumbers() }

// numbers reports whether the column is of arrays of plain numbers.
func (s *avroShape) numbers() bool { return s.node.kind == avroArray && s.children[0].number() }

// only shapes what the columns name, as fields or as paths through records; nil if one of them is not to be had so.
func (s *avroShaper) only(root *avroNode, columns []string) *avroShape {
	s.path = append(s.path, root)
	top := s.new("", root)
	top.children = make([]*avroShape, len(root.fields))
	for _, name := range columns {
		found := s.lift(top, name, strings.Split(name, "."))
		if found == nil {
			return nil
		}
		if !slices.Contains(s.plan.columns, found) {
			s.plan.columns = append(s.plan.columns, found)
		}
	}
	return top
}

// lift shapes the field at a path within a record, as a column that has the path's name.
func (s *avroShaper) lift(in *avroShape, name string, path []string) *avroShape {
	i := slices.Index(in.node.names, path[0])
	if i < 0 {
		return nil
	}
	child := in.children[i]
	if len(path) == 1 {
		if child == nil {
			child = s.shape(name, in.node.fields[i])
			in.children[i] = child
		}
		if child == nil || child.typ == nil || child.name != name {
			return nil
		}
		return child
	}
	if child == nil {
		record, null := in.node.fields[i], -1
		if other, at := record.without(); other != nil {
			record, null = other, at
		}
		if record.kind != avroRecord || len(s.path) > avroDepth {
			return nil
		}
		child = s.new("", record)
		child.null, child.children = null, make([]*avroShape, len(record.fields))
		in.children[i] = child
	}
	if child.typ != nil {
		return nil
	}
	s.path = append(s.path, child.node)
	defer func() { s.path = s.path[:len(s.path)-1] }()
	return s.lift(child, name, path[1:])
}

func (s *avroShaper) new(name string, n *avroNode) *avroShape {
	shape := &avroShape{name: name, node: n, null: -1, place: s.plan.shapes}
	s.plan.shapes++
	return shape
}

// shape makes a column of a node; nil where Arrow has none.
func (s *avroShaper) shape(name string, n *avroNode) *avroShape {
	null := -1
	if other, at := n.without(); other != nil {
		n, null = other, at
	}
	limits := ipcguard.MessageLimits()
	if slices.Contains(s.path, n) || len(s.path) > limits.Depth-2 || s.plan.shapes > limits.Fields {
		s.plan.left.add(s.at)
		return nil
	}
	shape := s.new(name, n)
	shape.null = null
	if n.kind == avroRecord || n.kind == avroArray || n.kind == avroMap || n.kind == avroUnion {
		s.path = append(s.path, n)
		defer func() { s.path = s.path[:len(s.path)-1] }()
	}
	switch {
	case n.kind == avroRecord:
		var fields []arrow.Field
		for i, f := range n.fields {
			s.at = append(s.at, n.names[i])
			child := s.shape(n.names[i], f)
			s.at = s.at[:len(s.at)-1]
			if shape.children = append(shape.children, child); child != nil {
				fields = append(fields, arrow.Field{Name: child.name, Type: child.typ, Nullable: true})
			}
			shape.left = shape.left || child == nil
		}
		shape.typ = arrow.StructOf(fields...)
	case n.kind == avroArray || n.kind == avroMap:
		return s.items(shape)
	case n.ofNumbers():
		shape.typ = arrow.PrimitiveTypes.Float64
	case n.kind == avroUnion:
		return s.union(shape)
	default:
		shape.typ = n.leaf()
	}
	return shape
}

func (s *avroShaper) items(shape *avroShape) *avroShape {
	items := s.shape("item", shape.node.items)
	if items == nil {
		return nil
	}
	if shape.node.kind == avroArray {
		shape.children, shape.typ = []*avroShape{items}, arrow.ListOf(items.typ)
		return shape
	}
	keys := s.new("key", &avroNode{kind: avroString, least: 1, exact: -1})
	keys.typ = arrow.BinaryTypes.String
	shape.children, shape.typ = []*avroShape{keys, items}, arrow.MapOf(keys.typ, items.typ)
	return shape
}

func (s *avroShaper) union(shape *avroShape) *avroShape {
	var fields []arrow.Field
	var codes []arrow.UnionTypeCode
	for i, b := range shape.node.branches {
		child := s.shape(b.title(), b)
		if child == nil || i > 127 {
			return nil
		}
		shape.children = append(shape.children, child)
		fields = append(fields, arrow.Field{Name: child.name, Type: child.typ, Nullable: true})
		codes = append(codes, arrow.UnionTypeCode(i))
	}
	shape.typ = arrow.DenseUnionOf(fields, codes)
	return shape
}

// title names a branch of a union: a named type by its name, another by its kind.
func (n *avroNode) title() string {
	if n.name != "" {
		return n.name
	}
	return avroTypes[n.kind]
}

// leaf is the Arrow type of a node that holds no others.
func (n *avroNode) leaf() arrow.DataType {
	switch n.kind {
	case avroNull:
		return arrow.Null
	case avroBoolean:
		return arrow.FixedWidthTypes.Boolean
	case avroInt:
		switch n.logical {
		case "date":
			return arrow.FixedWidthTypes.Date32
		case "time-millis":
			return arrow.FixedWidthTypes.Time32ms
		}
		return arrow.PrimitiveTypes.Int32
	case avroLong:
		return n.long()
	case avroFloat:
		return arrow.PrimitiveTypes.Float32
	case avroDouble:
		return arrow.PrimitiveTypes.Float64
	case avroString, avroEnum:
		return arrow.BinaryTypes.String
	}
	switch {
	case n.isDecimal() && n.precision <= 38:
		return &arrow.Decimal128Type{Precision: n.precision, Scale: n.scale}
	case n.isDecimal():
		return &arrow.Decimal256Type{Precision: n.precision, Scale: n.scale}
	case n.kind == avroFixed:
		return &arrow.FixedSizeBinaryType{ByteWidth: n.size}
	}
	return arrow.BinaryTypes.Binary
}

func (n *avroNode) long() arrow.DataType {
	zone := "UTC"
	logical, local := strings.CutPrefix(n.logical, "local-")
	if local {
		zone = ""
	}
	switch logical {
	case "time-micros":
		return arrow.FixedWidthTypes.Time64us
	case "timestamp-millis":
		return &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: zone}
	case "timestamp-micros":
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: zone}
	case "timestamp-nanos":
		return &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: zone}
	}
	return arrow.PrimitiveTypes.Int64
}

// isDecimal reports whether n is a decimal that Arrow has a type for.
func (n *avroNode) isDecimal() bool {
	return n.logical == "decimal" && (n.kind == avroBytes || n.kind == avroFixed) && n.precision >= 1 && n.precision <= mostDigitsOfDecimal && n.scale <= n.precision
}
