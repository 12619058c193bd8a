package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/google/go-cmp/cmp"
)

// describe writes a record as one line a column: name, type, values.
func describe(rec arrow.Record) []string {
	var lines []string
	for i, values := range dumpRecord(rec) {
		f := rec.Schema().Field(i)
		lines = append(lines, fmt.Sprintf("%s %s %s", f.Name, f.Type, strings.Join(values, " ")))
	}
	return lines
}

// f and x write values as dump does.
func f(v float64) string { return fmt.Sprintf("f%016x", math.Float64bits(v)) }
func x(s string) string  { return fmt.Sprintf("x%x", s) }

func TestDecodeJSON(t *testing.T) {
	const number, text = "float64", "utf8"
	for _, c := range []struct {
		name, in string
		rows     int64
		want     []string
	}{
		{"an object", `{"a": 1, "b": -2.5e-3}`, 1, []string{"a " + number + " " + f(1), "b " + number + " " + f(-2.5e-3)}},
		{"an array of objects", ` [ {"a":1} , {"a":2} ] `, 2, []string{"a " + number + " " + f(1) + " " + f(2)}},
		{"lines", "{\"a\":1}\n\n{\"a\":2}\r\n", 2, []string{"a " + number + " " + f(1) + " " + f(2)}},
		{"an object over lines", "{\n\"a\":\n1\n}\n", 1, []string{"a " + number + " " + f(1)}},
		{"a byte order mark", "\xef\xbb\xbf{\"a\":1}", 1, []string{"a " + number + " " + f(1)}},
		{"no rows", `[]`, 0, nil},
		{"a row without keys", `{}`, 1, nil},
		{"missing and null", `[{"a":1},{"b":"x"},{"a":null,"b":null}]`, 3, []string{"a " + number + " " + f(1) + " null null", "b " + text + " null " + x("x") + " null"}},
		{"keys in another order", `[{"a":1,"b":2},{"b":4,"a":3}]`, 2, []string{"a " + number + " " + f(1) + " " + f(3), "b " + number + " " + f(2) + " " + f(4)}},
		{"nothing but null is a number", `[{"a":null},{}]`, 2, []string{"a " + number + " null null"}},
		{"bools", `[{"a":true},{"a":null},{"a":false}]`, 3, []string{"a bool true null false"}},
		{"escapes", `{"\u00e9\n":"a\"\\\/\b\ud83d\ude00"}`, 1, []string{"é\n " + text + " " + x("a\"\\/\b😀")}},
		{"a key written two ways", `[{"a":1},{"\u0061":2}]`, 2, []string{"a " + number + " " + f(1) + " " + f(2)}},
		{"list of one size", `[{"v":[1,2]},{},{"v":[3,null]}]`, 3, []string{"v fixed_size_list<item: float64, nullable>[2] [" + f(1) + "," + f(2) + "] null [" + f(3) + ",null]"}},
		{"ragged lists", `[{"v":[1]},{"v":null},{"v":[]},{"v":[2,3]}]`, 4, []string{"v list<item: float64, nullable> [" + f(1) + "] null [] [" + f(2) + "," + f(3) + "]"}},
		{"empty lists", `[{"v":[]}]`, 1, []string{"v list<item: float64, nullable> []"}},
		{"other arrays and objects are text", `[{"v":["a", {"b":[]}]},{"v":[]},{"v":{"c":1}}]`, 3, []string{"v " + text + " " + x(`["a", {"b":[]}]`) + " " + x(`[]`) + " " + x(`{"c":1}`)}},
		{"long integers stay exact", `[{"a":9007199254740993},{"a":-1},{}]`, 3, []string{"a int64 9007199254740993 -1 null"}},
		{"longer integers", `[{"a":18446744073709551615},{"a":1}]`, 2, []string{"a uint64 18446744073709551615 1"}},
		{"too long for integers", `[{"a":18446744073709551615},{"a":-1}]`, 2, []string{"a " + number + " " + f(18446744073709551615) + " " + f(-1)}},
		{"beyond float64", `{"a":1e999,"b":-1e999,"c":1e-999}`, 1, []string{"a " + number + " " + f(math.Inf(1)), "b " + number + " " + f(math.Inf(-1)), "c " + number + " " + f(0)}},
		{"what Python writes", `[{"a":NaN,"b":[1,Infinity],"c":"NaN","d":7,"e":{"f":NaN}},{"a":1,"b":[-Infinity,NaN],"c":null,"d":-Infinity}]`, 2, []string{
			"a " + number + " " + f(math.NaN()) + " " + f(1), "b fixed_size_list<item: float64, nullable>[2] [" + f(1) + "," + f(math.Inf(1)) + "] [" + f(math.Inf(-1)) + "," + f(math.NaN()) + "]",
			"c " + text + " " + x("NaN") + " null", "d " + number + " " + f(7) + " " + f(math.Inf(-1)), "e " + text + " " + x(`{"f":NaN}`) + " null"}},
		{"one row of it", `{"a":NaN,"b":[-Infinity]}`, 1, []string{"a " + number + " " + f(math.NaN()), "b fixed_size_list<item: float64, nullable>[1] [" + f(math.Inf(-1)) + "]"}},
		{"NaN among long integers", `[{"a":9007199254740992},{"a":NaN}]`, 2, []string{"a " + number + " " + f(9007199254740992) + " " + f(math.NaN())}},
		{"several types are text", `[{"a":1,"b":true,"c":[]},{"a":null},{"a":"2\n","b":1,"c":"x"},{"a":NaN,"c":[1]}]`, 4, []string{
			"a " + text + " " + x("1") + " null " + x(`"2\n"`) + " " + x("NaN"), "b " + text + " " + x("true") + " null " + x("1") + " null", "c " + text + " " + x("[]") + " null " + x(`"x"`) + " " + x("[1]")}},
		{"a key twice", `[{"a":1,"b":"x","\u0061":[2]},{"a":3},{"b":"y"}]`, 3, []string{"a " + text + " " + x(`{"a":1,"a":[2]}`) + " " + x("3") + " null", "b " + text + " " + x("x") + " null " + x("y")}},
		{"a key three times, and null", `[{"a":1,"a":null,"a":2,"a":"x","b":null,"b":1}]`, 1, []string{"a " + text + " " + x(`{"a":1,"a":2,"a":"x"}`), "b " + text + " " + x("1")}},
		{"signed zero and subnormals", `{"a":-0.0,"b":5e-324}`, 1, []string{"a " + number + " " + f(math.Copysign(0, -1)), "b " + number + " " + f(5e-324)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, err := newDecoder(t, Config{}).Decode(t.Context(), []byte(c.in), "")
			if err != nil {
				t.Fatal(err)
			}
			defer rec.Release()
			if got := describe(rec); rec.NumRows() != c.rows || !cmp.Equal(got, c.want) {
				t.Errorf("%d rows, want %d\n%s", rec.NumRows(), c.rows, cmp.Diff(c.want, got))
			}
		})
	}
}

func TestDecodeJSONRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, code, says string }{
		{"cut", `{"a": 1`, CodeJSONInvalid, "unexpected end"},
		{"a trailing comma", `[{"a": 1},]`, CodeJSONInvalid, "byte 11"},
		{"a bad line", "{\"a\":1}\n{\"a\":}\n", CodeJSONInvalid, "row 1"},
		{"the sign of NaN", `{"a": NaN, "b": -NaN}`, CodeJSONInvalid, "in numeric literal at byte 18"},
		{"NaN in lower case", `{"a": nan}`, CodeJSONInvalid, "at byte 8"},
		{"NaN and more", `{"a": [NaN], "b": NaN0}`, CodeJSONInvalid, "at byte 22"},
		{"a cut infinity", `{"a": Infin}`, CodeJSONInvalid, "at byte 7"},
		{"a row that is NaN", `[NaN]`, CodeJSONType, "row 0 is a number"},
		{"not UTF-8", "{\"a\":\"\xff\"}", CodeJSONInvalid, `byte 6, 0xff, is not UTF-8, in the value of key "a"`},
		{"not UTF-8, nested", "\n[{\"a\":[1,\"é\"],\"b\" : {\"c\":[\"x\",\"y\xc3\"]}}]", CodeJSONInvalid, `byte 34, 0xc3, is not UTF-8, in the value of key "c"`},
		{"a key that is not UTF-8", "{\"a\":1,\"b\xe9\":1}", CodeJSONInvalid, "byte 9, 0xe9, is not UTF-8, in key \"b\ufffd\""},
		{"bytes that are not UTF-8", "{\xff\xfe", CodeJSONInvalid, `byte 1, 0xff, is not UTF-8, outside`},
		{"rows that are numbers", `[1, 2]`, CodeJSONType, "row 0 is a number"},
		{"rows that are arrays", `[[1, 2]]`, CodeJSONType, "row 0 is an array"},
		{"nested deep", `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, CodeJSONTooLarge, "nested"},
		{"too many rows", "[" + strings.Repeat("{},", 1<<20) + "{}]", CodeJSONTooLarge, "rows"},
		{"too many keys", manyKeys(9000, 1), CodeJSONTooLarge, "keys"},
		{"sparse rows", manyKeys(4000, 4000), CodeJSONTooLarge, "4000 columns"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, err := newDecoder(t, Config{Format: JSON}).Decode(t.Context(), []byte(c.in), "")
			if err == nil {
				rec.Release()
				t.Fatal("accepted")
			}
			checkRefusal(t, err, c.code, c.says)
		})
	}
}

func checkRefusal(t *testing.T, err error, code, says string) {
	t.Helper()
	var de *Error
	if !errors.As(err, &de) || de.Code != code || !strings.Contains(err.Error(), says) {
		t.Errorf("got %.200q, want %s: …%s…", err, code, says)
	}
}

// manyKeys is n distinct keys over the given number of rows.
func manyKeys(n, rows int) string {
	var b strings.Builder
	for i := range n {
		if i%(n/rows) == 0 {
			b.WriteString("\n{")
		} else {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `"k%d":1`, i)
		if (i+1)%(n/rows) == 0 {
			b.WriteString("}")
		}
	}
	return b.String()
}

// Numbers and strings are those that encoding/json reads, and the same behind the prefix of a schema that says nothing.
func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"price":"1.5","after":{"price":null}}`, `[{"a":[1,2],"b":"x"},{"a":null}]`, "{\"a\":true}\n{\"a\":false}", `{"a":{"b":[1,"\u0041"]}}`, `[{"v":[1]},{"v":[]}]`} {
		f.Add([]byte(s))
	}
	d := newDecoder(f, Config{Format: JSON})
	named := newDecoder(f, Config{Registry: schemasByID{1: {ID: 1, Type: SchemaJSON, Text: jsonSchemaText}, 2: {ID: 2, Type: SchemaJSON, Text: "true"}}})
	f.Fuzz(func(t *testing.T, in []byte) {
		rec, err := keepHostile(t, d, in)
		_ = decodeHostile(t, named, append([]byte{0, 0, 0, 0, 1}, in...))
		if e := decodeHostile(t, named, append([]byte{0, 0, 0, 0, 2}, in...)); (e == nil) != (err == nil) {
			t.Errorf("%v, and with a schema %v", err, e)
		}
		if err != nil {
			return
		}
		defer rec.Release()
		var row map[string]json.RawMessage
		if rec.NumRows() != 1 || json.Unmarshal(in, &row) != nil {
			return
		}
		for i := range int(rec.NumCols()) {
			raw := row[rec.ColumnName(i)]
			var number float64
			var text string
			got := dump(rec.Column(i), 0)
			switch rec.Column(i).DataType().ID() {
			case arrow.FLOAT64:
				if string(raw) != "null" && json.Unmarshal(raw, &number) == nil && got != fmt.Sprintf("f%016x", math.Float64bits(number)) {
					t.Errorf("%s read as %s", raw, got)
				}
			case arrow.STRING:
				if json.Unmarshal(raw, &text) == nil && got != x(text) {
					t.Errorf("%s read as %s", raw, got)
				}
			}
		}
	})
}

func BenchmarkDecodeJSON(b *testing.B) {
	var rows, lists strings.Builder
	for r := range 100 {
		for k := range 64 {
			v := math.Sin(float64(r*64 + k))
			fmt.Fprintf(&rows, "%c\"f%d\":%.6g", ",{"[b2i(k == 0)], k, v)
			fmt.Fprintf(&lists, "%s%.6g", []string{",", "{\"v\":["}[b2i(k == 0)], v)
		}
		rows.WriteString("}\n")
		lists.WriteString("]}\n")
	}
	for name, in := range map[string]string{"100x64keys": rows.String(), "100xlist64": lists.String()} {
		b.Run(name, func(b *testing.B) {
			d := newDecoder(b, Config{})
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				rec, err := d.Decode(b.Context(), []byte(in), "")
				if err != nil {
					b.Fatal(err)
				}
				rec.Release()
			}
			b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
