package minibatch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/nested"
)

// openRecord is a record of JSON objects, as source/format makes them; kept are columns of their text.
func openRecord(t testing.TB, kept []string, columns ...column) arrow.Record {
	plain := record(t, columns...)
	return array.NewRecord(nested.Open(plain.Schema().Fields(), kept...), plain.Columns(), plain.NumRows())
}

// Text is said before null and NaN, whichever column comes first, and after the columns of lists.
func TestTextComesBeforeNull(t *testing.T) {
	text := arrow.BinaryTypes.String
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}, {"a", "d", "b"}} {
		rec := openRecord(t, []string{"b"}, column{"a", f64, `[null,1,null,1,null]`}, column{"b", text, `["\"x\"","\"x\"","1",null,null]`}, column{"c", f32, `[1,1,1,1,null]`})
		f := Features{Names: names}
		var rows Rows
		if err := f.Gather(&rows, rec); err != nil {
			t.Fatal(err)
		}
		want := "[text text null null null]"
		if got := fmt.Sprint(rows.Invalid); got != want || rows.Bad != 5 {
			t.Errorf("%v: %s, want %s", names, got, want)
		}
	}
}

// The same columns of Arrow are not those of JSON, whichever came before: there, text is the word of a schema.
func TestTextOfArrowAfterJSON(t *testing.T) {
	columns := []column{{"a", f64, `[1]`}, {"b", arrow.BinaryTypes.String, `["x"]`}}
	open, plain := openRecord(t, nil, columns...), record(t, columns...)
	f := Features{Names: []string{"a", "b"}}
	var rows Rows
	for range 2 {
		if err := f.Gather(&rows, open); err != nil || rows.Invalid[0] != ReasonText {
			t.Errorf("JSON: %v, %v", rows.Invalid, err)
		}
		checkFeatureError(t, f.Gather(&rows, plain), CodeType, "utf8")
	}
}

// One key is a number or a list by the first of its values that can be a feature; text alone does not tell.
func TestOneKeyWithText(t *testing.T) {
	text := arrow.BinaryTypes.String
	for _, c := range []struct {
		values string
		kept   bool
		want   []string
	}{
		{`["\"x\"","2"]`, true, []string{"v"}},
		{`["{}","[1,2,3]","4"]`, true, []string{"v[0]", "v[1]", "v[2]"}},
		{`["[]","{}"]`, true, nil},
		{`["1"]`, false, nil},
	} {
		var kept []string
		if c.kept {
			kept = []string{"v"}
		}
		rec := openRecord(t, kept, column{"v", text, c.values})
		f, err := ResolveRecord(rec, []string{"v"})
		if c.want == nil {
			checkFeatureError(t, err, CodeType, "utf8")
		} else if err != nil || !slices.Equal(f.Names, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.values, f.Names, err, c.want)
		}
	}
}

// A key that holds numbers and text is what most of its values are, for a model that begins and for init.
func TestSurveyOfMixedKeys(t *testing.T) {
	text := arrow.BinaryTypes.String
	rec := openRecord(t, []string{"temp", "status"}, column{"temp", text, `["21.5","\"n/a\"","20.5",null]`}, column{"status", text, `["\"ok\"","0","\"ok\"","\"ok\""]`}, column{"flow", f64, `[1.5,2,3,4]`})
	f, _, err := Choose(rec, nil)
	if err != nil || !slices.Equal(f.Names, []string{"temp", "flow"}) {
		t.Errorf("%v, %v", f.Names, err)
	}
	var s Survey
	for _, values := range []string{`["x"]`, `["y"]`} {
		if err := s.Add(openRecord(t, nil, column{"temp", text, values}), 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := s.Add(openRecord(t, nil, column{"temp", f64, `[1.5]`}), 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	if columns, _ := s.Features(); !slices.Equal(columns, []string{"temp"}) {
		t.Errorf("three numbers and two texts: %v", columns)
	}
}
