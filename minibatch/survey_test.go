package minibatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

var i8 = arrow.PrimitiveTypes.Int8

// values writes n values as a JSON array.
func values(n int, value func(i int) any) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(value(i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// What an empty choice of columns leaves out: names tell in the first row, values only from 100 rows on.
func TestSurvey(t *testing.T) {
	sensor := values(200, func(i int) any { return float64(i*i%37) / 7 })
	for _, c := range []struct {
		name string
		rec  []column
		want string // the judgements
	}{
		{"by their names, in one row",
			[]column{{"machine_id", i64, `[7]`}, {"sensorId", i64, `[7]`}, {"ts", i64, `[7]`}, {"label", i8, `[1]`}, {"temp", f64, `[7]`}, {"Class", i8, `[1]`}},
			"machine_id: an id, by its name; sensorId: an id, by its name; ts: a time, by its name; label: a label, by its name; temp; Class: a label, by its name"},
		{"the index that pandas saves with a table",
			[]column{{"__index_level_0__", i64, `[7]`}, {"Unnamed: 0", i64, `[7]`}, {"temp", f64, `[7]`}},
			"__index_level_0__: an index of pandas, by its name; Unnamed: 0: an index of pandas, by its name; temp"},
		{"names that only look like it",
			[]column{{"acid", f64, `[7]`}, {"cycle_time", f64, `[7]`}, {"refractive_index", f64, `[7]`}, {"tons", f64, `[7]`}},
			"acid; cycle_time; refractive_index; tons"},
		{"a constant and a label of one row are not known as such",
			[]column{{"a", f64, `[0]`}, {"regime", i8, `[1]`}}, "a; regime"},
		{"by their values",
			[]column{{"a", f64, sensor}, {"regime", i8, values(200, func(i int) any { return i % 4 })}, {"setpoint", f64, values(200, func(int) any { return 1.5 })},
				{"count", i64, values(200, func(i int) any { return 1000 + 3*i })}, {"never", f64, values(200, func(int) any { return "null" })}},
			"a; regime: a label: 4 whole numbers in 200 rows; setpoint: a constant: 1.5 in 200 rows; count: it counts up, from 1000 to 1597, as an id or a time does; never: no number in 200 of 200 rows"},
		{"data that are all counts stay",
			[]column{{"a", i8, values(200, func(i int) any { return i % 5 })}, {"b", i8, values(200, func(i int) any { return i % 3 })}}, "a; b"},
		{"a meter grows with every row, in fractions too",
			[]column{{"a", f64, sensor}, {"energy_kwh", f64, values(200, func(i int) any { return 13200 + 0.6*float64(i) + float64(i%3)/10 })}},
			"a; energy_kwh: it grows with every row, from 13200 to 13319.5, as a meter or a clock does"},
		{"a sensor that stands still or falls once is none",
			[]column{{"warming", f64, values(200, func(i int) any { return 20.5 + float64(i/2) })}, {"tank", f64, values(200, func(i int) any { return 0.5 + float64((i+3)%200) })}}, "warming; tank"},
		{"a setpoint steps, and a machine that was off has begun to run",
			[]column{{"a", f64, values(2000, func(i int) any { return float64(i*i%37) / 7 })}, {"target_rpm", f64, values(2000, func(i int) any { return 900.5 + float64(i/250*3%8) })},
				{"begins", f64, values(2000, func(i int) any { return float64(max(0, i-1992)*i) / 3 })}, {"steps_often", f64, values(2000, func(i int) any { return 20.5 + float64(i/60%5) })}},
			"a; target_rpm: it changes once in 250 rows, as a setpoint does: a value that is new would be an outlier; begins; steps_often"},
		{"what falls again is no id", []column{{"a", i64, values(200, func(i int) any { return (i * 7) % 199 })}}, "a"},
		{"what is no number",
			[]column{{"a", f64, `[1]`}, {"name", arrow.BinaryTypes.String, `["x"]`}, {"on", arrow.FixedWidthTypes.Boolean, `[true]`}, {"v", fixed(2, f32), `[[1,2]]`}},
			"a; name: text; on: a boolean; v: a list next to columns of numbers: name it alone to learn it"},
		{"an output of ours: its score is no measurement", []column{{"temp", f64, `[1.5]`}, {"lca", fixed(2, f32), `[[1,2]]`}, {"lca_score", f32, `[3]`}, {"lca_p", f32, `[0.5]`}},
			"temp; lca: a list next to columns of numbers: name it alone to learn it; lca_score: made by lca-stream, by its name; lca_p: made by lca-stream, by its name"},
		{"an output of ours that has nothing else", []column{{"lca", fixed(2, f32), `[[1,2]]`}, {"lca_score", f32, `[3]`}}, "lca; lca_score: made by lca-stream, by its name"},
		{"a list next to an id is learnt", []column{{"id", i64, `[1]`}, {"v", fixed(2, f32), `[[1,2]]`}}, "id: an id, by its name; v"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := record(t, c.rec...)
			var s Survey
			if err := s.Add(rec, 0, ""); err != nil {
				t.Fatal(err)
			}
			var got, features []string
			for _, j := range s.Judge() {
				text := j.Column.Name
				if j.Feature {
					features = append(features, j.Column.Name)
				} else {
					text += ": " + j.Reason
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, "; ")); diff != "" {
				t.Error(diff)
			}
			f, _, err := Choose(rec, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !Chosen(features, f.Names) {
				t.Errorf("the learner takes %q, the survey proposes %q", f.Names, features)
			}
		})
	}
}

// Values are judged over records, by partition: the numbers of two interleaved partitions each count up.
func TestSurveyOfRecords(t *testing.T) {
	var s Survey
	for i := range 60 {
		for p := range int32(2) {
			rec := record(t, column{"n", i64, fmt.Sprintf("[%d]", i+1000*int(1-p))}, column{"x", f64, fmt.Sprintf("[%d.5]", i%7)}, column{"y", f64, values(1, func(int) any {
				if i%3 == 0 {
					return "null"
				}
				return i
			})})
			if err := s.Add(rec, p, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := s.Judge()
	if got, want := all[0].Reason, "it counts up, from 0 to 1059, as an id or a time does"; got != want || all[0].Feature {
		t.Errorf("n: %q, want %q", got, want)
	}
	x, y := all[1].Column, all[2].Column
	if x.Rows != 120 || x.Distinct != 7 || x.Min != 0.5 || x.Max != 6.5 || y.Nulls != 40 || s.Rows != 120 {
		t.Errorf("x is %+v, y %+v", x, y)
	}
}

// What counts in each machine by itself goes up and down where the machines take turns.
func TestSurveyOfCountersByKey(t *testing.T) {
	var s Survey
	for i := range 60 {
		for _, machine := range []string{"M1", "M2", "M3"} {
			n := i + 20*int(machine[1]-'0')
			rec := record(t, column{"n", i64, fmt.Sprintf("[%d]", n)}, column{"metre", f64, fmt.Sprintf("[%d.5]", n)}, column{"x", f64, fmt.Sprintf("[%d.5]", n*n%17)})
			if err := s.Add(rec, 0, machine); err != nil {
				t.Fatal(err)
			}
		}
	}
	if names, _ := s.Features(); !slices.Equal(names, []string{"x"}) {
		t.Errorf("features %q", names)
	}
	var once Survey // each key comes once: nothing is known of what it does
	for i := range 300 {
		if err := once.Add(record(t, column{"x", f64, fmt.Sprintf("[%d.5]", i*i%17)}), 0, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if names, _ := once.Features(); !slices.Equal(names, []string{"x"}) {
		t.Errorf("features %q of keys that come once", names)
	}
}

// A column that few records have would cost the rows of all others.
func TestSurveyOfRareColumns(t *testing.T) {
	var s Survey
	for _, rec := range [][]column{{{"a", f64, `[1]`}}, {{"a", f64, `[2]`}}, {{"a", f64, `[3]`}, {"b", f64, `[4]`}}} {
		if err := s.Add(record(t, rec...), 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	features, leftOut := s.Features()
	if len(features) != 1 || len(leftOut) != 1 || leftOut[0].Reason != "it is in 1 of 3 rows" {
		t.Errorf("features %q, left out %+v", features, leftOut)
	}
}

// Nothing that an empty choice could mean: the error says why, and that names help.
func TestSurveyFindsNothing(t *testing.T) {
	_, _, err := Choose(record(t, column{"id", i64, `[1]`}, column{"name", arrow.BinaryTypes.String, `["x"]`}), nil)
	checkFeatureError(t, err, CodeNone, `unless source.features names it: "id" is an id, by its name`)
}

// A misspelt column is answered with the one that was probably meant, and the list begins with its like.
func TestMisspeltColumn(t *testing.T) {
	var columns []column
	for i := range 15 {
		columns = append(columns, column{fmt.Sprintf("sensor_%c", 'a'+i), f64, `[1]`})
	}
	columns = append(columns, column{"pressure_bar", f64, `[1]`})
	_, err := ResolveRecord(record(t, columns...), []string{"presure_bar"})
	checkFeatureError(t, err, CodeMissing, `16 columns ("pressure_bar" float64, `)
	checkFeatureError(t, err, CodeMissing, `did you mean "pressure_bar"?`)
}

// The texts of a dictionary, as pandas writes categories, are counted as other texts are.
func TestSurveyOfADictionary(t *testing.T) {
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "name", Type: typ}}, nil))
	defer b.Release()
	for _, name := range []string{"mill", "saws", "mill"} {
		if err := b.Field(0).(*array.BinaryDictionaryBuilder).AppendString(name); err != nil {
			t.Fatal(err)
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	s := &Survey{}
	if err := s.Add(rec, 0, ""); err != nil {
		t.Fatal(err)
	}
	if n := s.Judge()[0].Column.Distinct; n != 2 {
		t.Errorf("%d different names, want 2", n)
	}
}

// The text of a record is counted although its memory is used again for the next one.
func TestSurveyOfTextThatIsOverwritten(t *testing.T) {
	s := &Survey{}
	for _, name := range []string{"mill", "saws", "mill", "mill"} {
		schema := arrow.NewSchema([]arrow.Field{{Name: "name", Type: arrow.BinaryTypes.String}}, nil)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		b.Field(0).(*array.StringBuilder).Append(name)
		rec := b.NewRecord()
		if err := s.Add(rec, 0, ""); err != nil {
			t.Fatal(err)
		}
		copy(rec.Column(0).Data().Buffers()[2].Bytes(), "xxxx")
	}
	if n := s.Judge()[0].Column.Distinct; n != 2 {
		t.Errorf("%d different names, want 2", n)
	}
}
