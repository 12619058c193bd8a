package minibatch

import (
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/google/go-cmp/cmp"
)

func TestResolve(t *testing.T) {
	scalar := func(names ...string) (columns []column) {
		for _, n := range names {
			columns = append(columns, column{n, f32, `[1]`})
		}
		return columns
	}
	dictOf := func(t arrow.DataType) arrow.DataType {
		return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: t}
	}
	decimal := &arrow.Decimal128Type{Precision: 9, Scale: 2}
	for _, c := range []struct {
		name    string
		columns []column
		ask     []string
		want    []string
		code    string // of the error instead
		says    string // part of the error
	}{
		{"all numeric columns in the schema's order", []column{{"b", f64, `[1]`}, {"s", arrow.BinaryTypes.String, `["x"]`}, {"a", i64, `[1]`}, {"h", f16, `[1]`}}, nil, []string{"b", "a", "h"}, "", ""},
		{"booleans, times, lists and structs are passed over", append(scalar("a"), column{"ok", arrow.FixedWidthTypes.Boolean, `[true]`}, column{"d", decimal, `["1.5"]`},
			column{"t", arrow.FixedWidthTypes.Timestamp_ms, `[1]`}, column{"v", fixed(2, f32), `[[1,2]]`}, column{"s", arrow.StructOf(arrow.Field{Name: "b", Type: f32}), `[{"b":1}]`}), nil, []string{"a", "d"}, "", ""},
		{"a dictionary of numbers is an encoding", []column{{"a", dictOf(f32), `[1]`}, {"s", dictOf(arrow.BinaryTypes.String), `["x"]`}}, nil, []string{"a"}, "", ""},
		{"names in the order asked for", scalar("a", "b", "c"), []string{"c", "a"}, []string{"c", "a"}, "", ""},
		{"the only list", []column{{"s", arrow.BinaryTypes.String, `["x"]`}, {"v", fixed(3, f32), `[[1,2,3]]`}}, nil, []string{"v[0]", "v[1]", "v[2]"}, "", ""},
		{"a list by name", append(scalar("a"), column{"v", fixed(2, i32), `[[1,2]]`}), []string{"v"}, []string{"v[0]", "v[1]"}, "", ""},
		{"a variable list takes its first length", []column{{"v", arrow.ListOf(f32), `[null,[1,2],[1]]`}}, nil, []string{"v[0]", "v[1]"}, "", ""},
		{"a large list", []column{{"v", arrow.LargeListOf(f64), `[[1,2]]`}}, []string{"v"}, []string{"v[0]", "v[1]"}, "", ""},
		{"two lists", []column{{"v", fixed(1, f32), `[[1]]`}, {"w", fixed(1, f32), `[[1]]`}}, nil, nil, CodeAmbiguous, "v, w"},
		{"nothing numeric", []column{{"s", arrow.BinaryTypes.String, `["x"]`}}, nil, nil, CodeNone, `"s" utf8`},
		{"missing", scalar("a"), []string{"a", "b"}, nil, CodeMissing, `"a" float32`},
		{"missing, and near to one that is taken", scalar("f0", "x"), []string{"f0", "f1"}, nil, CodeMissing, `"x" float32): send it under this name`},
		{"asked twice", scalar("a"), []string{"a", "a"}, nil, CodeAmbiguous, "twice"},
		{"in the schema twice", scalar("a", "a"), []string{"a", "a"}, nil, CodeAmbiguous, "2 times"},
		{"all numeric with one twice", scalar("a", "a"), nil, nil, CodeAmbiguous, "unique"},
		{"a boolean and a time by name", []column{{"d", arrow.FixedWidthTypes.Boolean, `[true]`}, {"e", arrow.FixedWidthTypes.Date32, `[1]`}}, []string{"e", "d"}, []string{"e", "d"}, "", ""},
		{"a struct by name", []column{{"s", arrow.StructOf(arrow.Field{Name: "b", Type: f32}), `[{"b":1}]`}}, []string{"s"}, nil, CodeType, "by its path"},
		{"a field that is not there", []column{{"s", arrow.StructOf(arrow.Field{Name: "temp", Type: f32}), `[{"temp":1}]`}}, []string{"s.tmp"}, nil, CodeMissing, `did you mean "s.temp"?`},
		{"a nested list", []column{{"s", arrow.StructOf(arrow.Field{Name: "v", Type: arrow.ListOf(f32)}), `[null, {"v":[1,2]}]`}}, []string{"s.v"}, []string{"s.v[0]", "s.v[1]"}, "", ""},
		{"a string by name", []column{{"d", arrow.BinaryTypes.String, `["1"]`}}, []string{"d"}, nil, CodeType, "integer or a float"},
		{"a list among columns", append(scalar("a"), column{"v", fixed(2, f32), `[[1,2]]`}), []string{"a", "v"}, nil, CodeType, "only feature"},
		{"a list of no numbers", []column{{"v", fixed(2, arrow.BinaryTypes.String), `[["x","y"]]`}}, []string{"v"}, nil, CodeType, "not a number"},
		{"a list of unknown length", []column{{"v", arrow.ListOf(f32), `[null]`}}, nil, nil, CodeUnknown, "null"},
		{"empty lists", []column{{"v", arrow.ListOf(f32), `[[]]`}}, nil, nil, CodeWidth, "at least one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := ResolveRecord(record(t, c.columns...), c.ask)
			checkFeatureError(t, err, c.code, c.says)
			if diff := cmp.Diff(c.want, f.Names); c.code == "" && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func checkFeatureError(t *testing.T, err error, code, says string) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	var fe *FeatureError
	if !errors.As(err, &fe) {
		t.Fatalf("got %v, want a FeatureError", err)
	}
	if fe.Code != code || !strings.Contains(err.Error(), says) {
		t.Errorf("got %s: %v; want %s: …%s…", fe.Code, err, code, says)
	}
}

func TestLeftOut(t *testing.T) {
	vector := column{"v", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[[1, 2]]`}
	for _, c := range []struct {
		name    string
		rec     []column
		columns []string
		want    []string
	}{
		{"a vector next to a number", []column{{"size", f32, `[1]`}, vector}, nil, []string{"v"}},
		{"a label next to a vector", []column{{"label", f32, `[1]`}, vector}, nil, []string{"label"}},
		{"chosen", []column{{"label", f32, `[1]`}, vector}, []string{"label"}, nil},
		{"a vector alone is learnt", []column{vector}, nil, nil},
		{"text is no surprise", []column{{"a", f32, `[1]`}, {"name", arrow.BinaryTypes.String, `["x"]`}}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			_, leftOut, err := Choose(record(t, c.rec...), c.columns)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range leftOut {
				got = append(got, j.Column.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMapByName: a fixed Features follows later schemas by name, and refuses what it cannot follow.
func TestMapByName(t *testing.T) {
	columns := Features{Names: []string{"a", "b"}}
	list := Features{Names: []string{"v[0]", "v[1]"}}
	for _, c := range []struct {
		name string
		f    Features
		rec  []column
		want []float64
		code string
		says string
	}{
		{"as learnt", columns, []column{{"a", f32, `[1]`}, {"b", f32, `[2]`}}, []float64{1, 2}, "", ""},
		{"reordered", columns, []column{{"b", f32, `[2]`}, {"a", f32, `[1]`}}, []float64{1, 2}, "", ""},
		{"more columns", columns, []column{{"x", f32, `[9]`}, {"a", f32, `[1]`}, {"y", f32, `[9]`}, {"b", f32, `[2]`}}, []float64{1, 2}, "", ""},
		{"other widths", columns, []column{{"a", f64, `[1]`}, {"b", arrow.PrimitiveTypes.Uint8, `[2]`}}, []float64{1, 2}, "", ""},
		{"column renamed", columns, []column{{"a", f32, `[1]`}, {"B", f32, `[2]`}}, nil, CodeMissing, `"b"`},
		{"column gone", columns, []column{{"a", f32, `[1]`}}, nil, CodeMissing, "model_id"},
		{"column became text", columns, []column{{"a", f32, `[1]`}, {"b", arrow.BinaryTypes.String, `["2"]`}}, nil, CodeType, "utf8"},
		{"columns became a list", columns, []column{{"v", fixed(2, f32), `[[1,2]]`}}, nil, CodeMissing, `"a"`},
		{"list", list, []column{{"v", fixed(2, f32), `[[1,2]]`}}, []float64{1, 2}, "", ""},
		{"list of another kind", list, []column{{"v", arrow.LargeListOf(f64), `[[1,2]]`}}, []float64{1, 2}, "", ""},
		{"list moved", list, []column{{"x", f32, `[7]`}, {"v", fixed(2, f64), `[[1,2]]`}}, []float64{1, 2}, "", ""},
		{"list grew", list, []column{{"v", fixed(3, f32), `[[1,2,3]]`}}, nil, CodeWidth, "3 numbers per row, but the model has 2"},
		{"list became columns", list, []column{{"v_0", f32, `[1]`}, {"v_1", f32, `[2]`}}, nil, CodeMissing, `"v"`},
		{"list became one number", list, []column{{"v", f32, `[1]`}}, nil, CodeType, "lists of 2"},
		{"columns that are named like elements", list, []column{{"v[1]", f32, `[2]`}, {"v[0]", f32, `[1]`}}, []float64{1, 2}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rows Rows
			rec := record(t, c.rec...)
			for range 2 { // the second time by the remembered plan
				err := c.f.Gather(&rows, rec)
				checkFeatureError(t, err, c.code, c.says)
			}
			if diff := cmp.Diff(c.want, rows.X); c.code == "" && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What source.features says is compared with what was learnt, whose names may be the elements of one list.
func TestChosen(t *testing.T) {
	abc, list := []string{"a", "b", "c"}, []string{"v[0]", "v[1]"}
	for _, c := range []struct {
		name           string
		columns, names []string
		want           bool
	}{
		{"the same", abc, abc, true},
		{"no choice", nil, abc, true},
		{"no choice of a list", nil, list, true},
		{"the list", []string{"v"}, list, true},
		{"the list of one element", []string{"v"}, []string{"v[0]"}, true},
		{"its elements by name", list, list, true},
		{"another list", []string{"w"}, list, false},
		{"one more", []string{"a", "b", "c", "d"}, abc, false},
		{"one fewer", abc[:2], abc, false},
		{"another order", []string{"b", "a", "c"}, abc, false},
		{"one column of several", []string{"a"}, abc, false},
		{"a list and a column", []string{"v", "a"}, list, false},
		{"elements out of order", []string{"v"}, []string{"v[1]", "v[0]"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Chosen(c.columns, c.names); got != c.want {
				t.Errorf("Chosen(%v, %v) is %v", c.columns, c.names, got)
			}
		})
	}
}
