package minibatch

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/decimal256"
	"pgregory.net/rapid"
)

// What is no number of its own is one where it is named, within structs and lists too.
func TestGatherNested(t *testing.T) {
	reading := arrow.StructOf(arrow.Field{Name: "temp", Type: f32, Nullable: true}, arrow.Field{Name: "ok", Type: arrow.FixedWidthTypes.Boolean, Nullable: true})
	rec := record(t,
		column{"id", arrow.BinaryTypes.String, `["x", "y", "z"]`},
		column{"after", reading, `[{"temp": 1.5, "ok": true}, {"temp": null, "ok": false}, null]`},
		column{"readings", arrow.ListOf(reading), `[[{"temp": 2}, {"temp": 3}], [{"temp": 4}], [null, {"temp": 6}]]`},
		column{"price", &arrow.Decimal128Type{Precision: 9, Scale: 2}, `["1.25", "-0.30", "7"]`},
		column{"day", arrow.FixedWidthTypes.Date32, `["1970-01-03", "1970-01-01", null]`},
		column{"at", arrow.FixedWidthTypes.Timestamp_ms, `["1970-01-01T00:00:01Z", null, null]`})
	for name, want := range map[string][]float64{
		"after.temp":      {1.5, nan, nan},
		"after.ok":        {1, 0, nan},
		"readings.0.temp": {2, 4, nan},
		"readings.1.temp": {3, nan, 6},
		"price":           {1.25, -0.3, 7},
		"day":             {2, 0, nan},
		"at":              {1000, nan, nan},
	} {
		f, err := ResolveRecord(rec, []string{name})
		if err != nil {
			t.Fatal(err)
		}
		rows := Rows{KeepMissing: true}
		if err := f.Gather(&rows, rec); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(rows.X); got != fmt.Sprint(want) {
			t.Errorf("%s: %s, want %v", name, got, want)
		}
	}
	f, err := ResolveRecord(rec, nil)
	if err != nil || fmt.Sprint(f.Names) != "[price]" {
		t.Errorf("without names: %v, %v; want the columns of the record itself", f.Names, err)
	}
}

var nan = math.NaN()

// A survey that looks within structs proposes what is there, which an empty choice of columns does not take.
func TestSurveyNested(t *testing.T) {
	after := arrow.StructOf(arrow.Field{Name: "temp", Type: f32}, arrow.Field{Name: "id", Type: i64}, arrow.Field{Name: "time", Type: i64}, arrow.Field{Name: "unit", Type: arrow.BinaryTypes.String})
	rec := record(t, column{"op", arrow.BinaryTypes.String, `["c"]`}, column{"payload", arrow.StructOf(arrow.Field{Name: "after", Type: after}), `[{"after": {"temp": 1.5, "id": 7, "time": 12, "unit": "K"}}]`})
	s := Survey{Nested: true}
	if err := s.Add(rec, 0, ""); err != nil {
		t.Fatal(err)
	}
	columns, leftOut := s.Features()
	if len(columns) != 1 || columns[0] != "payload.after.temp" {
		t.Errorf("proposed %v", columns)
	}
	var reasons []string
	for _, j := range leftOut {
		reasons = append(reasons, j.Column.Name+": "+j.Reason)
	}
	if got, want := strings.Join(reasons, "; "), "op: text; payload.after.id: an id, by its name; payload.after.time: a time, by its name; payload.after.unit: text"; got != want {
		t.Errorf("left out %s\nwant     %s", got, want)
	}
	_, _, err := Choose(rec, nil)
	checkFeatureError(t, err, CodeNone, `"payload.after.temp"`)
}

// Elements of lists of structs and values of maps are not proposed: how many there are, and under which keys, may differ in the next message.
// Named by their paths they are features.
func TestSurveyOfListsAndMaps(t *testing.T) {
	rec := record(t, column{"temp", f32, `[1.5]`},
		column{"readings", arrow.ListOf(arrow.StructOf(arrow.Field{Name: "bar", Type: f32})), `[[{"bar": 2}, {"bar": 3}]]`},
		column{"tags", arrow.MapOf(arrow.BinaryTypes.String, f32), `[[{"key": "room", "value": 4}]]`})
	s := Survey{Nested: true}
	if err := s.Add(rec, 0, ""); err != nil {
		t.Fatal(err)
	}
	columns, leftOut := s.Features()
	if len(columns) != 1 || columns[0] != "temp" || len(leftOut) != 2 {
		t.Fatalf("proposed %v, left out %v", columns, leftOut)
	}
	for i, want := range []string{"a list; an element is a feature if it is named by its place", "a map; a value is a feature if it is named by its key"} {
		if leftOut[i].Reason != want {
			t.Errorf("%s: %s, want %s", leftOut[i].Column.Name, leftOut[i].Reason, want)
		}
	}
	f, err := ResolveRecord(rec, []string{"temp", "readings.1.bar", "tags.room"})
	if err != nil {
		t.Fatal(err)
	}
	var rows Rows
	if err := f.Gather(&rows, rec); err != nil || fmt.Sprint(rows.X) != "[1.5 3 4]" {
		t.Errorf("%v, %v", rows.X, err)
	}
}

// Decimals are the nearest float64.
func TestDecimals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 15).Draw(t, "digits"))
		if rapid.Bool().Draw(t, "negative") {
			digits.Neg(digits)
		}
		scale := rapid.Int32Range(-40, 60).Draw(t, "scale")
		power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil))
		exact := new(big.Rat).SetInt(digits)
		if scale < 0 {
			exact.Mul(exact, power)
		} else {
			exact.Quo(exact, power)
		}
		want, _ := exact.Float64()
		for _, got := range []float64{decimalToFloat(decimal128.FromBigInt(digits), scale), decimalToFloat(decimal256.FromBigInt(digits), scale)} {
			if got != want {
				t.Errorf("%s of scale %d is read as %v, want %v", digits, scale, got, want)
			}
		}
	})
}

// Where columns within others are not looked at, as for the features of a live stream, it is said how to name them.
func TestSurveyOfAStruct(t *testing.T) {
	rec := record(t, column{"temp", f32, `[1.5]`}, column{"motor", arrow.StructOf(arrow.Field{Name: "bar", Type: f32}), `[{"bar": 2}]`})
	var s Survey
	if err := s.Add(rec, 0, ""); err != nil {
		t.Fatal(err)
	}
	columns, leftOut := s.Features()
	if len(columns) != 1 || len(leftOut) != 1 || leftOut[0].Reason != "a struct; a column within it is a feature if it is named by its path" {
		t.Errorf("proposed %v, left out %+v", columns, leftOut)
	}
}
