package nested

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

var (
	f64  = arrow.PrimitiveTypes.Float64
	text = arrow.BinaryTypes.String
)

func structOf(fields ...any) *arrow.StructType {
	var all []arrow.Field
	for i := 0; i < len(fields); i += 2 {
		all = append(all, arrow.Field{Name: fields[i].(string), Type: fields[i+1].(arrow.DataType), Nullable: true})
	}
	return arrow.StructOf(all...)
}

// record has the fields of a struct as columns; values are its rows as JSON.
func record(t testing.TB, s *arrow.StructType, values string) arrow.Record {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, s, strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	return array.RecordFromStructArray(a.(*array.Struct), nil)
}

func TestPaths(t *testing.T) {
	reading := structOf("temp", f64, "tags", arrow.ListOf(text))
	sparse := arrow.SparseUnionOf([]arrow.Field{{Name: "n", Type: arrow.Null, Nullable: true}, {Name: "v", Type: f64, Nullable: true}}, []arrow.UnionTypeCode{0, 1})
	dense := arrow.DenseUnionOf([]arrow.Field{{Name: "v", Type: reading, Nullable: true}, {Name: "n", Type: arrow.Null, Nullable: true}}, []arrow.UnionTypeCode{3, 7})
	several := arrow.SparseUnionOf([]arrow.Field{{Name: "a", Type: text}, {Name: "b", Type: f64}}, []arrow.UnionTypeCode{0, 1})
	nestedStruct := structOf("after", structOf("temp", f64, "a.b", f64, "ok", arrow.FixedWidthTypes.Boolean))
	for _, c := range []struct {
		what, name string
		column     arrow.DataType // of c
		values     string         // of c
		want       string         // "": no path
	}{
		{"a field", "c.after.temp", nestedStruct, `[{"after":{"temp":1}}, {"after":null}, null, {"after":{"temp":null}}, {"after":{"temp":5}}]`, "[1 (null) (null) (null) 5]"},
		{"a field without a null", "c.after.temp", nestedStruct, `[{"after":{"temp":1}}, {"after":{"temp":2}}]`, "[1 2]"},
		{"a boolean", "c.after.ok", nestedStruct, `[null, {"after":{"ok":true}}, {"after":{"ok":false}}]`, "[(null) true false]"},
		{"a field with a dot", "c.after.a.b", nestedStruct, `[{"after":{"a.b":7}}]`, "[7]"},
		{"no such field", "c.after.tmp", nestedStruct, `[]`, ""},
		{"beyond a number", "c.after.temp.x", nestedStruct, `[]`, ""},
		{"an empty part", "c..temp", nestedStruct, `[]`, ""},
		{"the column itself", "c", f64, `[1]`, "[1]"},
		{"an element", "c.1", arrow.ListOf(f64), `[[1,2], [3], null, [], [4,null], [5,6,7]]`, "[2 (null) (null) (null) (null) 6]"},
		{"an element of a large list", "c.0", arrow.LargeListOf(arrow.PrimitiveTypes.Int16), `[[1,2], null]`, "[1 (null)]"},
		{"an element of a fixed list", "c.1", arrow.FixedSizeListOf(2, f64), `[[1,2], null, [3,4]]`, "[2 (null) 4]"},
		{"a struct in a list", "c.1.temp", arrow.ListOf(reading), `[[{"temp":1},{"temp":2}], [null,{"temp":3}], [{"temp":4}], [{"temp":5},null]]`, "[2 3 (null) (null)]"},
		{"a list in a struct in a list", "c.0.tags", arrow.ListOf(reading), `[[{"tags":["x","y"]}], [], [{"tags":null}], [{"tags":[]}]]`, `[["x" "y"] (null) (null) []]`},
		{"text in a list in a struct in a list", "c.0.tags.1", arrow.ListOf(reading), `[[{"tags":["x","y"]}], [], [{"tags":["z"]}]]`, `["y" (null) (null)]`},
		{"no place", "c.x", arrow.ListOf(f64), `[]`, ""},
		{"a place with a zero before it", "c.01", arrow.ListOf(f64), `[]`, ""},
		{"a place beyond all lists", "c.4294967296", arrow.ListOf(f64), `[]`, ""},
		{"an entry", "c.room", arrow.MapOf(text, f64), `[[{"key":"room","value":1}], null, [], [{"key":"hall","value":2},{"key":"room","value":3}]]`, "[1 (null) (null) 3]"},
		{"an entry with a dot", "c.room.1", arrow.MapOf(text, f64), `[[{"key":"room.1","value":1}]]`, "[1]"},
		{"a whole number as the key", "c.-7", arrow.MapOf(arrow.PrimitiveTypes.Int32, f64), `[[{"key":-7,"value":1}]]`, "[1]"},
		{"a struct of an entry", "c.room.temp", arrow.MapOf(text, reading), `[[{"key":"room","value":{"temp":1}}], [{"key":"room","value":null}]]`, "[1 (null)]"},
		{"a union with null", "c", sparse, `[[1,2.5],[0,null],[1,3.5]]`, "[2.5 (null) 3.5]"},
		{"a field of a dense union with null", "c.temp", dense, `[[3,{"temp":1}],[7,null],[3,{"temp":2}]]`, "[1 (null) 2]"},
		{"a union of two", "c.a", several, `[]`, ""},
		{"nulls alone", "c.0", arrow.ListOf(arrow.Null), `[[null]]`, "[(null)]"},
	} {
		t.Run(c.what, func(t *testing.T) {
			a, _, err := array.FromJSON(memory.DefaultAllocator, c.column, strings.NewReader(c.values))
			if err != nil {
				t.Fatal(err)
			}
			schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: c.column, Nullable: true}}, nil)
			rec := array.NewRecord(schema, []arrow.Array{a}, int64(a.Len()))
			path, found := Find(schema, c.name)
			if found == 0 || c.want == "" {
				if found > 0 || c.want != "" {
					t.Fatalf("%d found, want %q", found, c.want)
				}
				return
			}
			if got := column(t, &path, rec); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			// A slice has the same values, whatever the offsets.
			for from := range rec.NumRows() {
				rows := rec.NewSlice(from, rec.NumRows())
				want := column(t, &path, rec.NewSlice(from, from+1))
				got := column(t, &path, rows)
				if !strings.HasPrefix(got, strings.TrimSuffix(want, "]")) || !strings.HasSuffix(c.want, strings.TrimPrefix(got, "[")) {
					t.Errorf("from row %d: %s, the row alone %s, all %s", from, got, want, c.want)
				}
			}
		})
	}
}

func column(t *testing.T, p *Path, rec arrow.Record) string {
	t.Helper()
	col, err := p.Column(rec)
	if err != nil {
		t.Fatal(err)
	}
	defer col.Release()
	if !arrow.TypeEqual(col.DataType(), p.Type) || col.Len() != int(rec.NumRows()) {
		t.Errorf("%d values of type %s, want %d of %s", col.Len(), col.DataType(), rec.NumRows(), p.Type)
	}
	return fmt.Sprint(col)
}

// A name is a column's before it is a path, and the longest column's of several.
func TestExactNamesComeFirst(t *testing.T) {
	rec := record(t, structOf("a", structOf("b", structOf("c", f64), "b.c", f64), "a.b", structOf("c", f64), "a.b.d", f64),
		`[{"a":{"b":{"c":1},"b.c":2}, "a.b":{"c":3}, "a.b.d":4}]`)
	for name, want := range map[string]string{"a.b.c": "[3]", "a.b.d": "[4]"} {
		path, found := Find(rec.Schema(), name)
		if found != 1 || column(t, &path, rec) != want {
			t.Errorf("%s: %d found, %s, want %s", name, found, column(t, &path, rec), want)
		}
	}
	twice := arrow.NewSchema([]arrow.Field{{Name: "a", Type: structOf("x", f64)}, {Name: "b", Type: structOf("x", f64, "x", f64)}, {Name: "a", Type: f64}}, nil)
	for name, want := range map[string]int{"a": 2, "a.x": 2, "b.x": 2, "c.x": 0, "": 0, ".": 0} {
		if _, found := Find(twice, name); found != want {
			t.Errorf("%q: %d found, want %d", name, found, want)
		}
	}
}

func TestLeaves(t *testing.T) {
	s := arrow.NewSchema(structOf("id", text, "a", structOf("b", structOf("c", f64), "v", arrow.ListOf(f64), "none", structOf()), "a.v", text, "m", arrow.MapOf(text, f64)).Fields(), nil)
	var names []string
	for _, leaf := range Leaves(s) {
		path, found := Find(s, leaf.Name)
		if found != 1 || !arrow.TypeEqual(path.Type, leaf.Type) {
			t.Errorf("%s: %d found, of type %s, want %s", leaf.Name, found, path.Type, leaf.Type)
		}
		names = append(names, leaf.Name)
	}
	if got := strings.Join(names, " "); got != "id a.b.c a.none a.v m" {
		t.Errorf("leaves: %s", got)
	}
}

// Offsets that point outside of a column are an error, not a panic.
func TestBrokenOffsets(t *testing.T) {
	values := array.NewData(f64, 1, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8))}, nil, 0, 0)
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 7}))
	list := array.NewListData(array.NewData(arrow.ListOf(f64), 1, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{values}, 0, 0))
	rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "c", Type: list.DataType()}}, nil), []arrow.Array{list}, 1)
	path, _ := Find(rec.Schema(), "c.3")
	if _, err := path.Column(rec); err == nil || !strings.Contains(err.Error(), "outside") {
		t.Errorf("got %v", err)
	}
}
