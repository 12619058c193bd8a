package nested

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// Column returns the column as an array with a value for each row of a record, which has the schema of the path. A null
// on the way, a list that is too short and a key that is not in a map give null. The caller releases the array. An error
// says that offsets point outside of the record, or that values of the type cannot be taken out of lists, maps and unions.
func (p *Path) Column(rec arrow.Record) (arrow.Array, error) {
	if p.top < 0 {
		return array.NewNull(int(rec.NumRows())), nil
	}
	from, places, err := p.Places(rec)
	if err != nil {
		return nil, err
	}
	if places == nil {
		from.Retain()
		return from, nil
	}
	return take(from, places)
}

// Places is Column, of any type, without taking the values out of the array that they lie in, which is the record's: row i has the value
// places[i] of it, −1: null; places is nil where row i has value i. The record has the column.
func (p *Path) Places(rec arrow.Record) (from arrow.Array, places []int, err error) {
	w := walk{at: rec.Column(p.top)}
	for i := range p.steps {
		if err := w.follow(&p.steps[i]); err != nil {
			return nil, nil, err
		}
	}
	return w.at, w.places, nil
}

// walk is how far a path was followed.
type walk struct {
	at     arrow.Array
	places []int // of the rows' values in at, −1: null; nil: row i is value i
}

func (w *walk) follow(s *step) error {
	switch col := w.at.(type) {
	case *array.Struct:
		if col.NullN() > 0 {
			w.move(col.Len(), func(i int) int {
				if col.IsNull(i) {
					return -1
				}
				return i
			})
		}
		w.at = col.Field(s.child)
		return nil
	case *array.Map:
		return w.entry(col, s.key)
	case array.ListLike:
		return w.element(col, s.place)
	case array.Union:
		return w.branch(col, s.child)
	}
	return fmt.Errorf("is a %s although its schema says %s", w.at.DataType(), s.kind)
}

// move replaces each place by what to says of it.
func (w *walk) move(n int, to func(int) int) {
	if w.places == nil {
		w.places = make([]int, n)
		for i := range w.places {
			w.places[i] = i
		}
	}
	for row, i := range w.places {
		if i >= 0 {
			w.places[row] = to(i)
		}
	}
}

func (w *walk) element(lists array.ListLike, place int) error {
	values, broken := lists.ListValues(), false
	w.move(lists.Len(), func(i int) int {
		if lists.IsNull(i) {
			return -1
		}
		start, end, ok := bounds(lists, i, values.Len())
		broken = broken || !ok
		if !ok || place >= end-start {
			return -1
		}
		return start + place
	})
	w.at = values
	return outside(broken)
}

func (w *walk) entry(maps *array.Map, key string) error {
	keys, broken := maps.Keys(), false
	w.move(maps.Len(), func(i int) int {
		if maps.IsNull(i) {
			return -1
		}
		start, end, ok := bounds(maps, i, keys.Len())
		broken = broken || !ok
		for k := start; ok && k < end; k++ {
			if keys.IsValid(k) && isKey(keys, k, key) {
				return k
			}
		}
		return -1
	})
	w.at = maps.Items()
	return outside(broken)
}

func isKey(keys arrow.Array, i int, key string) bool {
	if s, ok := keys.(*array.String); ok {
		return s.Value(i) == key
	}
	return keys.ValueStr(i) == key
}

func (w *walk) branch(u array.Union, child int) error {
	field, broken := u.Field(child), false
	w.move(u.Len(), func(i int) int {
		if u.ChildID(i) != child {
			return -1
		}
		if dense, ok := u.(*array.DenseUnion); ok {
			i = int(dense.ValueOffset(i))
		}
		broken = broken || i < 0 || i >= field.Len()
		return i
	})
	w.at = field
	return outside(broken)
}

// bounds returns where a list lies among all values, and whether it lies within them.
func bounds(lists array.ListLike, i, values int) (start, end int, ok bool) {
	from, to := lists.ValueOffsets(i)
	return int(from), int(to), from >= 0 && from <= to && to <= int64(values)
}

func outside(broken bool) error {
	if broken {
		return fmt.Errorf("points outside the values of its column: the producer's encoder is broken")
	}
	return nil
}
