// Package nested finds a column within nested Arrow columns by a name with dots:
//
//	payload.after.temp    a field of a struct of a struct
//	readings.0.temp       a field of the first element of a list
//	tags.room             the value of a key of a map
//
// A name is taken exactly first, and as a path only where no column has it; the same holds for the fields of structs,
// whose names may have dots too. A union is its one branch that is not null. Begin with [Find].
package nested

import (
	"iter"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
)

// Path is where a column lies in the records of one schema. It never changes.
type Path struct {
	Type  arrow.DataType // of the column
	top   int
	steps []step
}

// Top returns the index of the column, and whether it is a column of the record itself.
func (p *Path) Top() (int, bool) { return p.top, len(p.steps) == 0 }

// step leads from a nested column to one within it.
type step struct {
	kind  arrow.Type // of the nested column
	child int        // of a struct or a union
	place int        // in each list
	key   string     // of a map
}

// Find returns the path of a name, and how many columns have the name: unless that is 1 there is no path.
func Find(schema *arrow.Schema, name string) (Path, int) {
	fields := schema.Fields()
	for head, rest := range splits(name) {
		i, count := field(fields, head)
		if count == 0 {
			continue
		}
		t, steps := settle(fields[i].Type, nil)
		if rest != "" {
			var more int
			if t, steps, more = within(t, rest, steps); more == 0 {
				continue
			}
			count *= more
		}
		return Path{Type: t, top: i, steps: steps}, count
	}
	return Path{}, 0
}

// splits yields the ways to read a name as a column and a path within it, the longest column first; rest is "" for
// the whole name.
func splits(name string) iter.Seq2[string, string] {
	return func(yield func(head, rest string) bool) {
		if !yield(name, "") {
			return
		}
		for i := len(name) - 2; i > 0; i-- {
			if name[i] == '.' && !yield(name[:i], name[i+1:]) {
				return
			}
		}
	}
}

// field returns the first field of a name, and how many have it.
func field(fields []arrow.Field, name string) (first, count int) {
	for i := range fields {
		if fields[i].Name != name {
			continue
		}
		if count == 0 {
			first = i
		}
		count++
	}
	return first, count
}

// within follows the rest of a name through a nested type.
func within(t arrow.DataType, rest string, steps []step) (arrow.DataType, []step, int) {
	switch t := t.(type) {
	case *arrow.StructType:
		return withinStruct(t, rest, steps)
	case *arrow.MapType:
		key := rest
		if rest = ""; isNested(t.ItemType()) {
			key, rest, _ = strings.Cut(key, ".")
		}
		return goOn(t.ItemType(), rest, append(steps, step{kind: arrow.MAP, key: key}))
	case *arrow.ListType, *arrow.LargeListType, *arrow.FixedSizeListType:
		digits, rest, _ := strings.Cut(rest, ".")
		place, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || digits != strconv.FormatUint(place, 10) {
			return nil, nil, 0
		}
		return goOn(t.(arrow.ListLikeType).Elem(), rest, append(steps, step{kind: arrow.LIST, place: int(place)}))
	}
	return nil, nil, 0
}

func withinStruct(t *arrow.StructType, rest string, steps []step) (arrow.DataType, []step, int) {
	for head, rest := range splits(rest) {
		i, count := field(t.Fields(), head)
		if count == 0 {
			continue
		}
		there := append(steps[:len(steps):len(steps)], step{kind: arrow.STRUCT, child: i})
		found, there, n := goOn(t.Field(i).Type, rest, there)
		if n > 0 {
			return found, there, n * count
		}
	}
	return nil, nil, 0
}

// goOn follows the rest of a name, if there is any, from a type that a step has led to.
func goOn(t arrow.DataType, rest string, steps []step) (arrow.DataType, []step, int) {
	t, steps = settle(t, steps)
	if rest == "" {
		return t, steps, 1
	}
	return within(t, rest, steps)
}

// settle steps through unions that have one branch that is not null.
func settle(t arrow.DataType, steps []step) (arrow.DataType, []step) {
	for {
		u, ok := t.(arrow.UnionType)
		if !ok {
			return t, steps
		}
		branch, count := 0, 0
		for i, f := range u.Fields() {
			if f.Type.ID() != arrow.NULL {
				branch, count = i, count+1
			}
		}
		if count != 1 {
			return t, steps
		}
		t, steps = u.Fields()[branch].Type, append(steps, step{kind: t.ID(), child: branch})
	}
}

func isNested(t arrow.DataType) bool {
	t, _ = settle(t, nil)
	switch t.(type) {
	case *arrow.StructType, *arrow.MapType, arrow.ListLikeType:
		return true
	}
	return false
}

// Columns returns the columns of a schema in its order, each with its name.
func Columns(schema *arrow.Schema) []Leaf {
	all := make([]Leaf, schema.NumFields())
	for i, f := range schema.Fields() {
		t, steps := settle(f.Type, nil)
		all[i] = Leaf{f.Name, Path{t, i, steps}}
	}
	return all
}

// Leaf is a column that is no struct, within any number of structs.
type Leaf struct {
	Name string
	Path
}

// Leaves returns the leaves of a schema in its order, each with the name that Find knows it by. Those that share a name
// with an earlier one, or with a column, are left out.
func Leaves(schema *arrow.Schema) []Leaf {
	var all []Leaf
	known := make(map[string]bool, schema.NumFields())
	for _, f := range schema.Fields() {
		known[f.Name] = true
	}
	var add func(name string, p Path, top bool)
	add = func(name string, p Path, top bool) {
		p.Type, p.steps = settle(p.Type, p.steps)
		s, ok := p.Type.(*arrow.StructType)
		if !ok || s.NumFields() == 0 {
			if top || !known[name] {
				known[name] = true
				all = append(all, Leaf{name, p})
			}
			return
		}
		for i, f := range s.Fields() {
			steps := append(p.steps[:len(p.steps):len(p.steps)], step{kind: arrow.STRUCT, child: i})
			add(name+"."+f.Name, Path{f.Type, p.top, steps}, false)
		}
	}
	for i, f := range schema.Fields() {
		add(f.Name, Path{f.Type, i, nil}, true)
	}
	return all
}
