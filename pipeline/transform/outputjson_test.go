package transform

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// texts are messages in every form of JSON. A § is where our keys go, without a comma before them behind %.
var texts = []string{
	`{"id": 12345678901234567890, "x":[1,2,3,4,5,6,7,8], "price" : 1.10§}`,
	" \n{ \"x\" : [0.50, -1e0, 3, 4, 5, 6, 7, 8], \"note\": \"} \\\"Ünï\" §} \r\n",
	`[{"x":[1,2,3,4,5,6,7,8]§}]`,
	`[ {"x":[1,2,3,4,5,6,7,null]§}, {"note":"{[","deep":{"a":[{}]},"x":[8,7,6,5,4,3,2,1]§},{%§} ]`,
	"{\"x\":[1,2,3,4,5,6,7,8]§}\n\n{\"x\":[1,2,3,4,5,6,1e999,8]§}\n{\"x\":null§}\n",
	`[{"x":[1,2,3,4,5,6,7,NaN]§}, {"x":[-Infinity,2,3,4,5,6,7,8],"note":NaN§}]`, // as Python writes them
	`[]`,
}

// The output of a JSON message is its text, to the byte, with keys added that have the values of the columns of an Arrow
// output; and it says what it is.
func TestJSONOutputIsTheInputWithTheColumns(t *testing.T) {
	for i := range 24 {
		config := encode.OutputConfig{Layout: encode.Layout(i % 2), Score: i%3 > 0, P: i%4 > 1, Why: i % 5, Imputed: i%3 == 2, Passthrough: i%7 > 0}
		invalid := []reject.OnInvalid{reject.NullRow, reject.NullRow, reject.ImputeRow}[i%3]
		whiten := func(f encode.Format) []sink.Message {
			tr := listTransform(t, invalid, fixtures.ListDim)
			tr.Output, tr.Columns = config, []string{"x"}
			tr.Output.Format = f
			if i >= 16 {
				tr.Follow, tr.UntilModel = &models.Follow{ModelID: "m"}, PassThrough
			}
			var values [][]byte
			for _, text := range texts {
				values = append(values, []byte(strings.NewReplacer("%", "", "§", "").Replace(text)))
			}
			out, _ := outputsOf(t, tr, values, len(values))
			return out
		}
		arrows, input, always := whiten(encode.FormatArrow), whiten(encode.FormatInput), whiten(encode.FormatJSON)
		for k := range arrows {
			text := texts[k%(len(texts)-1)] // the last has no rows
			want := expected(text, config, fixtures.ReadStream(t, arrows[k].Value))
			if got := string(input[k].Value); got != want || string(always[k].Value) != want {
				t.Errorf("variant %d: %s\nwant %s", i, got, want)
			}
			if fixtures.Header(input[k], "content-type") != "application/json" || fixtures.Header(arrows[k], "content-type") != "application/vnd.apache.arrow.stream" {
				t.Errorf("variant %d: content type %s, as Arrow %s", i, fixtures.Header(input[k], "content-type"), fixtures.Header(arrows[k], "content-type"))
			}
		}
	}
}

// expected puts the values of columns into a text.
func expected(text string, c encode.OutputConfig, rec arrow.Record) string {
	var b strings.Builder
	row := 0
	if !c.Passthrough {
		between := "\n"
		if strings.HasPrefix(text, "[") {
			between = ","
		}
		n := int(rec.NumRows())
		text = strings.Repeat("{%§}"+between, n-1) + "{%§}"
		if between == "," {
			text = "[" + text + "]"
		}
	}
	for part := range strings.SplitAfterSeq(text, "§") {
		before, found := strings.CutSuffix(part, "§")
		before, first := strings.CutSuffix(before, "%")
		b.WriteString(before)
		if !found {
			break
		}
		for j, f := range rec.Schema().Fields() {
			if !strings.HasPrefix(f.Name, "lca") {
				continue
			}
			if !first {
				b.WriteByte(',')
			}
			first = false
			fmt.Fprintf(&b, "%q:%s", f.Name, cell(rec.Column(j), row))
		}
		row++
	}
	return b.String()
}

// cell is the text of a value of ours.
func cell(column arrow.Array, row int) string {
	if column.IsNull(row) {
		return "null"
	}
	switch a := column.(type) {
	case *array.Float32:
		return string(jsontext.AppendFloat32(nil, a.Value(row)))
	case *array.Int16:
		return fmt.Sprint(a.Value(row))
	case *array.String:
		return fmt.Sprintf("%q", a.Value(row))
	case *array.Struct:
		return fmt.Sprintf(`{"feature":%s,"nats":%s}`, cell(a.Field(0), row), cell(a.Field(1), row))
	case array.ListLike:
		var all []string
		from, to := a.ValueOffsets(row)
		for i := from; i < to; i++ {
			all = append(all, cell(a.ListValues(), int(i)))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	panic(fmt.Sprintf("a column of type %v", column.DataType()))
}

// Arrow messages become an array of objects where JSON is asked for, and stay as they are with input.
func TestArrowAsJSON(t *testing.T) {
	values := companyValues(t, rand.New(rand.NewPCG(3, 0)), 20)
	outputs := map[encode.Format][]sink.Message{}
	for _, f := range []encode.Format{encode.FormatArrow, encode.FormatJSON, encode.FormatInput} {
		tr := listTransform(t, reject.NullRow, fixtures.ListDim)
		tr.Output.Format = f
		outputs[f], _ = outputsOf(t, tr, values, len(values))
	}
	for i, m := range outputs[encode.FormatArrow] {
		if !fixtures.Same(m, outputs[encode.FormatInput][i]) {
			t.Errorf("message %d: with input it differs from Arrow", i)
		}
		if fixtures.Header(m, "lca-error-code") != "" || m.Value == nil {
			continue
		}
		rec := fixtures.ReadStream(t, m.Value)
		var rows []map[string]any
		if err := json.Unmarshal(outputs[encode.FormatJSON][i].Value, &rows); err != nil || len(rows) != int(rec.NumRows()) {
			t.Fatalf("message %d: %d rows of %d, %v: %s", i, len(rows), rec.NumRows(), err, outputs[encode.FormatJSON][i].Value)
		}
		score := rec.Column(int(rec.NumCols()) - 2).(*array.Float32)
		for k, row := range rows {
			got, ok := row["lca_score"].(float64)
			if ok == score.IsNull(k) || ok && float32(got) != score.Value(k) || len(row) != int(rec.NumCols()) {
				t.Errorf("message %d, row %d: score %v, as Arrow %v; %d keys of %d columns", i, k, row["lca_score"], score, len(row), rec.NumCols())
			}
		}
	}
}

// A key that is there already, two columns of one name, and more text than is written: messages that are set aside.
func TestWhatJSONHasNoPlaceFor(t *testing.T) {
	wide := make([]arrow.Field, 2)
	for i := range wide {
		wide[i] = arrow.Field{Name: "y", Type: arrow.PrimitiveTypes.Float64}
	}
	row := `"x":[1,2,3,4,5,6,7,8]`
	for _, c := range []struct {
		name, value, code string
		rename            func(*source.Message)
	}{
		{"a key of ours", `{` + row + `,"lca_p":1}`, reject.CodeOutputColumnExists, nil},
		{"a key of ours that is written otherwise", `{` + row + `,"l\u0063a":1}`, reject.CodeOutputColumnExists, nil},
		{"another key", `{` + row + `,"lca_q":1}`, "", nil},
		{"two columns of a name", `[{` + row + `}]`, reject.CodeRefused, func(m *source.Message) {
			fields := append(m.Record.Schema().Fields(), wide...)
			column := m.Record.Column(0)
			m.Record, m.Format = array.NewRecord(arrow.NewSchema(fields, nil), []arrow.Array{column, fixtures.NumbersColumn(1), fixtures.NumbersColumn(1)}, 1), "arrow"
		}},
		{"too much text", `[` + strings.Repeat(`{`+row+`},`, 40) + `{` + row + `}]`, reject.CodeOutputTooLarge, func(m *source.Message) {
			fields := append(m.Record.Schema().Fields(), arrow.Field{Name: strings.Repeat("n", encode.MostWhitened/40), Type: arrow.PrimitiveTypes.Float64})
			m.Record, m.Format = array.NewRecord(arrow.NewSchema(fields, nil), []arrow.Array{m.Record.Column(0), fixtures.NumbersColumn(41)}, 41), "arrow"
		}},
	} {
		tr := listTransform(t, reject.NullRow, fixtures.ListDim)
		tr.Output.Format = encode.FormatJSON
		m := fixtures.Decoded(fixtures.Events, 0, sink.Message{Value: []byte(c.value)})
		if c.rename != nil {
			c.rename(&m)
		}
		work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{m}})
		if err != nil || len(work.Messages) != 1 || fixtures.Header(work.Messages[0], "lca-error-code") != c.code {
			t.Errorf("%s: %v, %d messages with code %q, want %q", c.name, err, len(work.Messages), fixtures.Header(work.Messages[0], "lca-error-code"), c.code)
		}
	}
}
