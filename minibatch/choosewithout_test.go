package minibatch

import (
	"errors"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
)

// The column that says which model a row belongs to is no feature unless it is named, and what is next to it is judged as if it stood alone. A
// model and the outputs before there is one choose alike.
func TestChooseWithout(t *testing.T) {
	for _, c := range []struct {
		name    string
		rec     []column
		columns []string
		want    []string // nil: an error
	}{
		{"next to numbers", []column{{"m", i64, `[1]`}, {"a", f64, `[1.5]`}}, nil, []string{"a"}},
		{"text", []column{{"m", arrow.BinaryTypes.String, `["x"]`}, {"a", f64, `[1.5]`}}, nil, []string{"a"}},
		{"next to a list", []column{{"m", i64, `[1]`}, {"v", fixed(2, f32), `[[1,2]]`}}, nil, []string{"v[0]", "v[1]"}},
		{"named", []column{{"m", i64, `[1]`}, {"a", f64, `[1.5]`}}, []string{"m", "a"}, []string{"m", "a"}},
		{"alone", []column{{"m", i64, `[1]`}}, nil, nil},
		{"next to an id", []column{{"m", i64, `[1]`}, {"id", i64, `[1]`}}, nil, nil},
		{"next to two lists", []column{{"m", i64, `[1]`}, {"v", fixed(2, f32), `[[1,2]]`}, {"w", fixed(2, f32), `[[1,2]]`}}, nil, nil},
		{"the other values do not count where they would leave out all", []column{{"m", f64, values(200, func(i int) any { return float64(i%7) + 0.5 })}, {"a", i64, values(200, func(i int) any { return i % 4 })}},
			nil, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := record(t, c.rec...)
			f, leftOut, err := ChooseWithout(rec, c.columns, "m")
			g, err2 := ResolveRecordWithout(rec, c.columns, "m")
			if c.want == nil {
				var fault *FeatureError
				if !errors.As(err, &fault) {
					t.Fatal(err)
				}
				checkFeatureError(t, err, fault.Code, "")
				checkFeatureError(t, err2, fault.Code, "")
				return
			}
			if err != nil || err2 != nil || !slices.Equal(f.Names, c.want) || !slices.Equal(g.Names, c.want) {
				t.Errorf("features %q, %v, and of an output without a model %q, %v, want %q", f.Names, err, g.Names, err2, c.want)
			}
			if slices.ContainsFunc(leftOut, func(j Judgement) bool { return j.Column.Name == "m" }) {
				t.Error("the users hear of the column that they have named in model.by")
			}
		})
	}
}
