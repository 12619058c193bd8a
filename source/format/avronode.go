package format

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/avro"
)

// avroKind is how a value is encoded.
type avroKind uint8

const (
	avroNull avroKind = iota
	avroBoolean
	avroInt
	avroLong
	avroFloat
	avroDouble
	avroBytes
	avroString
	avroFixed
	avroEnum
	avroArray
	avroMap
	avroRecord
	avroUnion
)

func (k avroKind) String() string {
	return [...]string{"null", "a boolean", "an int", "a long", "a float", "a double", "bytes", "a string", "a fixed", "an enum", "an array", "a map", "a record", "a union"}[k]
}

// avroTypes are the names of the kinds in schemas.
var avroTypes = []string{"null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum", "array", "map", "record", "union"}

// avroNode is a type of a schema. A named type is one node wherever it is used, so nodes may form rings.
type avroNode struct {
	kind     avroKind
	logical  string
	name     string      // of a record, an enum or a fixed, without its namespace
	names    []string    // of the fields of a record
	fields   []*avroNode // of a record
	items    *avroNode   // of an array or a map
	branches []*avroNode // of a union
	symbols  []string    // of an enum
	size     int         // of a fixed

	precision, scale int32 // of a decimal

	least int // bytes that a value takes at least
	exact int // bytes that each value takes; −1: they differ
}

const (
	// mostAvroTypes bounds the types of a schema.
	mostAvroTypes = 1 << 16

	// mostAvroBytes stands for all sizes beyond those of any message.
	mostAvroBytes = 1 << 31
)

// avroNodes makes nodes of a parsed schema.
type avroNodes struct {
	named map[string]*avroNode // by full name
	count int
}

// node makes the node of a type that is named or used within a namespace.
func (a *avroNodes) node(s *avro.SchemaNode, namespace string) (*avroNode, error) {
	if a.count++; a.count > mostAvroTypes {
		return nil, fmt.Errorf("it has more than %d types", mostAvroTypes)
	}
	n := &avroNode{exact: -1, logical: s.LogicalType, precision: int32(s.Precision), scale: int32(s.Scale)}
	switch s.Type {
	case "null", "boolean", "int", "long", "float", "double", "bytes", "string":
		n.kind = avroKind(slices.Index(avroTypes, s.Type))
		n.least, n.exact = []int{0, 1, 1, 1, 4, 8, 1, 1}[n.kind], []int{0, 1, -1, -1, 4, 8, -1, -1}[n.kind]
		return n, nil
	case "fixed":
		n.kind, n.size, n.least, n.exact = avroFixed, s.Size, s.Size, s.Size
		a.add(s, n)
		return n, nil
	case "enum":
		n.kind, n.symbols, n.least = avroEnum, s.Symbols, 1
		a.add(s, n)
		return n, nil
	case "array", "map":
		n.kind, n.least = avroArray, 1
		items := s.Items
		if s.Type == "map" {
			n.kind, items = avroMap, s.Values
		}
		var err error
		n.items, err = a.node(items, namespace)
		return n, err
	case "record", "error":
		return n, a.record(s, n)
	case "union":
		n.kind, n.least = avroUnion, 1
		for i := range s.Branches {
			b, err := a.node(&s.Branches[i], namespace)
			if err != nil {
				return nil, err
			}
			n.branches = append(n.branches, b)
		}
		return n, nil
	}
	for _, name := range []string{namespace + "." + s.Type, s.Type} {
		if known := a.named[name]; known != nil {
			return known, nil
		}
	}
	return nil, fmt.Errorf("type %q is not known", clip(s.Type))
}

func (a *avroNodes) record(s *avro.SchemaNode, n *avroNode) error {
	n.kind = avroRecord
	a.add(s, n)
	exact, namespace := 0, s.Namespace
	if i := strings.LastIndexByte(s.Name, '.'); i >= 0 {
		namespace = s.Name[:i]
	}
	for i := range s.Fields {
		f, err := a.node(&s.Fields[i].Type, namespace)
		if err != nil {
			return err
		}
		n.names, n.fields = append(n.names, s.Fields[i].Name), append(n.fields, f)
		n.least = min(n.least+f.least, mostAvroBytes) // of a record within itself what is known so far
		if exact >= 0 && f.exact >= 0 {
			exact = min(exact+f.exact, mostAvroBytes)
		} else {
			exact = -1
		}
	}
	n.exact = exact
	return nil
}

// add notes a named type.
func (a *avroNodes) add(s *avro.SchemaNode, n *avroNode) {
	name := s.Name
	if s.Namespace != "" && !strings.Contains(name, ".") {
		name = s.Namespace + "." + name
	}
	n.name, a.named[name] = name[strings.LastIndexByte(name, '.')+1:], n
}

// without returns the one branch of a union of null and another type, and the number of the null; nil for other unions.
func (n *avroNode) without() (other *avroNode, null int) {
	if n.kind != avroUnion || len(n.branches) != 2 {
		return nil, 0
	}
	for i, b := range n.branches {
		if b.kind == avroNull {
			return n.branches[1-i], i
		}
	}
	return nil, 0
}

// isNumber reports whether values are numbers and nothing else.
func (n *avroNode) isNumber() bool {
	return n.kind >= avroInt && n.kind <= avroDouble && !n.isTime()
}

func (n *avroNode) isTime() bool {
	switch n.logical {
	case "date", "time-millis":
		return n.kind == avroInt
	case "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos":
		return n.kind == avroLong
	}
	return false
}

// ofNumbers reports whether n is a union of numbers, with or without null.
func (n *avroNode) ofNumbers() bool {
	numbers := 0
	for _, b := range n.branches {
		if b.isNumber() {
			numbers++
		} else if b.kind != avroNull {
			return false
		}
	}
	return n.kind == avroUnion && numbers > 1
}
