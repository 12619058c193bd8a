package learn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/source/format"
)

// What a cell of JSON is does not depend on the rows that share its message: any two of these next to each other are what each is alone. No one costs
// its neighbours their row.
func TestCellsOfJSON(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	const null, text, width = minibatch.ReasonNull, minibatch.ReasonText, minibatch.ReasonWidth
	type cell struct {
		text   string // "": the row lacks the key
		want   []float64
		reason minibatch.Reason
	}
	number := func(text string, x float64) cell { return cell{text, []float64{x}, minibatch.ReasonNone} }
	none := func(text string, reason minibatch.Reason) cell { return cell{text, []float64{nan}, reason} }
	long := `"` + strings.Repeat("x", 300) + `"`
	scalars := []cell{
		number("21.5", 21.5), number("-0.0", math.Copysign(0, -1)), number("9007199254740993", 9007199254740992), number("1e-400", 0), number("true", 1), number("false", 0), number("0.1", 0.1),
		{"1e400", []float64{inf}, minibatch.ReasonInf}, {"-Infinity", []float64{-inf}, minibatch.ReasonInf}, none("NaN", minibatch.ReasonNaN), none("null", null), none("", null),
		none(`"n/a"`, text), none(`"NaN"`, text), none(`"21.5"`, text), none(`""`, text), none(`"null"`, text), none(`"\u0031"`, text), none(`{}`, text), none(`{"x":1}`, text), none(`[]`, text), none(`[1]`, text), none(`["a"]`, text), none(long, text), none(`1,"f":2`, text),
	}
	two := func(text string, reason minibatch.Reason, x ...float64) cell { return cell{text, x, reason} }
	lists := []cell{
		two("[1,2.5]", 0, 1, 2.5), two("[ -1 , 2e3 ]", 0, -1, 2e3), two("[1,null]", null, 1, nan), two("[NaN,1]", minibatch.ReasonNaN, nan, 1), two("null", null, nan, nan), two("", null, nan, nan),
		two(`[1,"n/a"]`, text, 1, nan), two(`["],[",2]`, text, nan, 2), two(`[[1,2],3]`, text, nan, 3), two(`[{"a":[1]},"\"]"]`, text, nan, nan), two(`[true,1]`, text, nan, 1),
		two(`"n/a"`, text, nan, nan), two(`{"v":1}`, text, nan, nan), two("true", text, nan, nan), two(`[1,2],"f":[3,4]`, text, nan, nan),
		two("7", width, nan, nan), two("9007199254740993", width, nan, nan), two("[]", width, nan, nan), two("[1]", width, nan, nan), two(`["a",2,3]`, width, nan, nan),
	}
	check := func(name string, config format.Config, row string, feature []string, cells ...cell) {
		d := fixtures.NewDecoder(t, config)
		var rows []string
		for _, c := range cells {
			key := ""
			if c.text != "" {
				key = `"f":` + c.text + `,`
			}
			rows = append(rows, fmt.Sprintf(row, key))
		}
		in := "[" + strings.Join(rows, ",") + "]"
		rec, err := d.Decode(t.Context(), []byte(in), "")
		if err != nil {
			t.Fatalf("%s: %s: %v", name, in, err)
		}
		for _, keep := range []bool{true, false} {
			got := minibatch.Rows{KeepMissing: keep}
			f := minibatch.Features{Names: append(slices.Clone(feature), "g")}
			if strings.HasSuffix(feature[0], "[0]") {
				f.Names = feature
			}
			if err := f.Gather(&got, rec); err != nil {
				t.Fatalf("%s: %s: %v", name, in, err)
			}
			for i, c := range cells {
				want := slices.Clone(c.want)
				if !keep && c.reason != minibatch.ReasonNone || c.reason == minibatch.ReasonInf || c.reason == width {
					want = make([]float64, len(want))
				}
				x := got.X[i*got.Dim : i*got.Dim+len(want)]
				same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b }
				if got.Invalid[i] != c.reason || !slices.EqualFunc(x, want, same) {
					t.Errorf("%s: %s: row %d is %v, %v; want %v, %v", name, in, i, x, got.Invalid[i], want, c.reason)
				}
			}
		}
	}
	for i, a := range scalars {
		for _, b := range scalars[i:] {
			for _, cells := range [][]cell{{a}, {a, b}, {b, a, b}} {
				check("a key", format.Config{}, `{%s"g":1}`, []string{"f"}, cells...)
				check("the features alone", format.Config{Columns: []string{"f", "g"}, Only: true}, `{"h":[],%s"g":1}`, []string{"f"}, cells...)
				check("a path", format.Config{Columns: []string{"p.f", "g"}, Only: true}, `{"p":{"h":"",%s"z":1},"g":1}`, []string{"p.f"}, cells...)
			}
		}
	}
	for _, a := range lists {
		for _, b := range lists {
			if a.reason == width && a.text[0] == '[' && b.reason != 0 {
				continue // a message of nothing but lists of another size has another schema
			}
			check("a list", format.Config{}, `{%s"g":1}`, []string{"f[0]", "f[1]"}, a, b, lists[0])
			check("a list alone", format.Config{Columns: []string{"f"}, Only: true}, `{%s"g":1}`, []string{"f[0]", "f[1]"}, lists[0], b, a)
		}
	}
}

// A union with numbers is read row by row, at the top, in a struct and in a list of them; one without is refused, and so is text alone: it will never be a number.
func TestCellsOfUnions(t *testing.T) {
	text := arrow.BinaryTypes.String
	f64 := arrow.PrimitiveTypes.Float64
	fields := []arrow.Field{{Name: "n", Type: arrow.Null, Nullable: true}, {Name: "d", Type: f64, Nullable: true}, {Name: "s", Type: text, Nullable: true}, {Name: "i", Type: arrow.PrimitiveTypes.Int32, Nullable: true}}
	codes := []arrow.UnionTypeCode{0, 1, 2, 3}
	const union = `[[1,2.5],[2,"n/a"],[0,null],[3,7],[1,null],[2,null]]`
	for _, c := range []struct {
		name, feature string
		column        arrow.DataType
		values        string
		code          string
	}{
		{"dense", "f", arrow.DenseUnionOf(fields, codes), union, ""},
		{"sparse", "f", arrow.SparseUnionOf(fields, codes), union, ""},
		{"in a struct", "f.u", arrow.StructOf(arrow.Field{Name: "u", Type: arrow.DenseUnionOf(fields, codes), Nullable: true}), `[{"u":[1,2.5]},{"u":[2,"n/a"]},null,{"u":[3,7]},{"u":[0,null]},{"u":[1,null]}]`, ""},
		{"in a list", "f.1", arrow.ListOf(arrow.DenseUnionOf(fields, codes)), `[[[1,1],[1,2.5]],[[1,1],[2,"n/a"]],[],[[2,""],[3,7]],null,[[1,1]]]`, ""},
		{"of no numbers", "f", arrow.DenseUnionOf([]arrow.Field{fields[2], {Name: "b", Type: arrow.BinaryTypes.Binary, Nullable: true}}, codes[:2]), `[[0,"x"],[0,"x"],[0,"x"],[0,"x"],[0,"x"],[0,"x"]]`, minibatch.CodeType},
		{"text", "f", text, `["1","2","3","4","5","6"]`, minibatch.CodeType},
		{"a dictionary of text", "f", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: text}, `["1","2","3","4","5","6"]`, minibatch.CodeType},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _, err := array.FromJSON(memory.DefaultAllocator, c.column, strings.NewReader(c.values))
			if err != nil {
				t.Fatal(err)
			}
			g, _, _ := array.FromJSON(memory.DefaultAllocator, f64, strings.NewReader(`[1,1,1,1,1,1]`))
			rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "f", Type: c.column, Nullable: true}, {Name: "g", Type: f64}}, nil), []arrow.Array{a, g}, 6)
			f := minibatch.Features{Names: []string{c.feature, "g"}}
			var rows minibatch.Rows
			err = f.Gather(&rows, rec)
			var bad *minibatch.FeatureError
			if c.code != "" {
				if !errors.As(err, &bad) || bad.Code != c.code {
					t.Errorf("got %v, want %s", err, c.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(rows.Invalid, rows.X); got != "[none text null none null null] [2.5 1 0 0 0 0 7 1 0 0 0 0]" {
				t.Errorf("got %s", got)
			}
			for from := range int64(6) {
				var one minibatch.Rows
				if err := f.Gather(&one, rec.NewSlice(from, from+1)); err != nil || one.Invalid[0] != rows.Invalid[from] || one.X[0] != rows.X[2*from] {
					t.Errorf("row %d alone: %v, %v, %v", from, one.X, one.Invalid, err)
				}
			}
		})
	}
}

// One odd cell in a batch costs its own row: in a column that is no feature none, in a feature what source.on_invalid says. It is counted and said.
func TestOddCellsCostTheirRow(t *testing.T) {
	good := `{"a":1,"b":0.5,"c":20,"status":"ok"}`
	for _, c := range []struct {
		name, odd string
		policy    reject.OnInvalid
		null      bool   // the row has no result
		code      string // the message is set aside
	}{
		{"another type", `{"a":1,"b":0.5,"c":20,"status":0}`, reject.NullRow, false, ""},
		{"an object", `{"a":1,"b":0.5,"c":20,"status":{"x":[]}}`, reject.StopAtRow, false, ""},
		{"twice", `{"a":1,"b":0.5,"c":20,"status":"ok","status":"ok"}`, reject.RejectRow, false, ""},
		{"text", `{"a":1,"b":"n/a","c":20}`, reject.NullRow, true, ""},
		{"a number in quotes", `{"a":1,"b":"21.5","c":20,"status":[]}`, reject.NullRow, true, ""},
		{"a feature twice", `{"a":1,"b":2,"c":20,"b":2}`, reject.NullRow, true, ""},
		{"text, filled", `{"a":1,"b":"n/a","c":20}`, reject.ImputeRow, false, ""},
		{"text, set aside", `{"a":1,"b":"n/a","c":20}`, reject.RejectRow, false, reject.CodeRowInvalid},
	} {
		for _, as := range []encode.Format{encode.FormatInput, encode.FormatArrow} {
			t.Run(fmt.Sprint(c.name, " to ", as), func(t *testing.T) {
				w := learnt(t)
				w.output.Format, w.output.Passthrough = as, true
				w.topics[fixtures.Events] = w.topics[fixtures.Events][:1]
				w.topics[fixtures.Events][0].Value = []byte("[" + good + "," + c.odd + strings.Repeat(","+good, 4) + "]")
				loop := w.transformLoop(t, fixtures.Events, 1)
				var log bytes.Buffer
				tr := loop.Stage.(*transform.Transform)
				tr.OnInvalid, tr.DeadLog = c.policy, &reject.DeadLog{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now}
				if err := loop.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if c.code != "" {
					if len(w.topics[fixtures.Out]) != 0 || len(w.topics[fixtures.Dead]) != 1 || fixtures.Header(w.topics[fixtures.Dead][0], "lca-error-code") != c.code {
						t.Errorf("%d outputs, %d dead letters", len(w.topics[fixtures.Out]), len(w.topics[fixtures.Dead]))
					}
					return
				}
				if len(w.topics[fixtures.Out]) != 1 || len(w.topics[fixtures.Dead]) != 0 {
					t.Fatalf("%d outputs, %d dead letters", len(w.topics[fixtures.Out]), len(w.topics[fixtures.Dead]))
				}
				for i, null := range nullRows(t, as, w.topics[fixtures.Out][0].Value) {
					if null != (i == 1 && c.null) {
						t.Errorf("row %d: null %v", i, null)
					}
				}
				counted := tr.Stats.Tables().Rejected["text"]
				said := strings.Contains(log.String(), `reason=text rows=1 example="events/0@0, row 1" features=b remedy="send numbers`)
				if (counted == 1) != c.null || said != c.null {
					t.Errorf("%d rows are counted as text; the log says %q", counted, log.String())
				}
			})
		}
	}
}

func nullRows(t *testing.T, as encode.Format, value []byte) (null []bool) {
	t.Helper()
	if as == encode.FormatArrow {
		rec := fixtures.ReadStream(t, value)
		lca := rec.Column(rec.Schema().FieldIndices("lca")[0])
		for i := range lca.Len() {
			null = append(null, lca.IsNull(i))
		}
		return null
	}
	var rows []struct {
		LCA []float64 `json:"lca"`
	}
	if err := json.Unmarshal(value, &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		null = append(null, row.LCA == nil)
	}
	return null
}
