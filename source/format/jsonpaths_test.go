package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/internal/nested"
)

const envelope = `{"op":"u","payload":{"before":null,"after":{"temp":1.5,"tags":["x"],"vec":[1,2],"a.b":7}},"readings":[{"temp":2},{"temp":3}],"n":4}
{"op":"d","payload":{"before":{"temp":9},"after":null},"readings":[],"n":5}
`

// Names and paths become columns of their own, and with Only there is nothing else.
func TestJSONColumns(t *testing.T) {
	const number = "float64"
	for _, c := range []struct {
		name, in string
		config   Config
		want     []string
	}{
		{"a column alone", envelope, Config{Columns: []string{"n"}, Only: true}, []string{"n " + number + " " + f(4) + " " + f(5)}},
		{"in the order of the names", envelope, Config{Columns: []string{"payload.after.temp", "n"}, Only: true},
			[]string{"payload.after.temp " + number + " " + f(1.5) + " null", "n " + number + " " + f(4) + " " + f(5)}},
		{"elements, a list, a key with a dot", envelope, Config{Columns: []string{"readings.1.temp", "payload.after.vec", "payload.after.a.b", "payload.after.vec.0"}, Only: true},
			[]string{"readings.1.temp " + number + " " + f(3) + " null", "payload.after.vec fixed_size_list<item: float64, nullable>[2] [" + f(1) + "," + f(2) + "] null",
				"payload.after.a.b " + number + " " + f(7) + " null", "payload.after.vec.0 " + number + " " + f(1) + " null"}},
		{"null in one row", envelope, Config{Columns: []string{"readings.0.temp", "payload.before.temp"}, Only: true}, []string{"readings.0.temp " + number + " " + f(2) + " null", "payload.before.temp " + number + " null " + f(9)}},
		{"next to all that is there", `{"a":{"b":1},"n":2}`, Config{Columns: []string{"a.b", "n"}}, []string{"a utf8 " + x(`{"b":1}`), "n " + number + " " + f(2), "a.b " + number + " " + f(1)}},
		{"one that is not there", `{"a":{"b":1,"c":[]},"n":2}`, Config{Columns: []string{"a.b", "m"}, Only: true},
			[]string{"a struct<b: float64, c: list<item: float64, nullable>> {" + f(1) + ",[]}", "n " + number + " " + f(2), "a.b " + number + " " + f(1)}},
		{"exactly first", `{"a":{"b":1},"a.b":2}`, Config{Columns: []string{"a.b"}, Only: true}, []string{"a.b " + number + " " + f(2)}},
		{"the longest key first", `{"a":{"b":{"c":1},"b.c":2},"a.b":{"c":3}}`, Config{Columns: []string{"a.b.c"}, Only: true}, []string{"a.b.c " + number + " " + f(3)}},
		{"the longest key within", `{"a":{"b":{"c":1},"b.c":2}}`, Config{Columns: []string{"a.b.c"}, Only: true}, []string{"a.b.c " + number + " " + f(2)}},
		{"of several types, within", `[{"a":{"b":1}},{"a":{"b":"x"}},{"a":{"b":[2]}}]`, Config{Columns: []string{"a.b"}, Only: true}, []string{"a.b utf8 " + x("1") + " " + x(`"x"`) + " " + x("[2]")}},
		{"twice, within", `[{"a":{"b":1,"c":2,"b":3},"a.d":1,"c":1,"c":2},{"a":{"b":4}}]`, Config{Columns: []string{"a.b"}, Only: true}, []string{"a.b utf8 " + x(`{"b":1,"b":3}`) + " " + x("4")}},
		{"long integers and booleans", `[{"a":{"b":9007199254740993,"c":true}}]`, Config{Columns: []string{"a.b", "a.c"}, Only: true}, []string{"a.b int64 9007199254740993", "a.c bool true"}},
		{"objects as structs", `[{"a":{"b":1,"c":{"d":"x"}},"n":{}},{"a":null,"n":{"e":[1]}}]`, Config{Nested: true},
			[]string{"a struct<b: float64, c: struct<d: utf8>> {" + f(1) + ",{" + x("x") + "}} {null,{null}}", "n struct<e: fixed_size_list<item: float64, nullable>[1]> {null} {[" + f(1) + "]}"}},
		{"what is not always an object", `[{"a":{"b":1}},{"a":{"b":{}}},{"v":[]}]`, Config{Nested: true}, []string{"a struct<b: utf8> {" + x("1") + "} {" + x("{}") + "} {null}", "v list<item: float64, nullable> null null []"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder(t, c.config)
			for range 2 { // the second time with what is known of the first
				rec, err := d.Decode(t.Context(), []byte(c.in), "")
				if err != nil {
					t.Fatal(err)
				}
				if got := describe(rec); !cmp.Equal(got, c.want) {
					t.Error(cmp.Diff(c.want, got))
				}
				rec.Release()
			}
		})
	}
	// Values that go on to lack a column are read without the others.
	d := newDecoder(t, Config{Columns: []string{"a", "b.c"}, Only: true})
	for i := range mostShown + 2 {
		rec, err := d.Decode(t.Context(), []byte(`{"a":1,"b":{"x":2}}`), "")
		if err != nil || (rec.NumCols() == 1) != (i >= mostShown) {
			t.Fatalf("value %d: %d columns, %v", i, rec.NumCols(), err)
		}
	}
	_, err := newDecoder(t, Config{Columns: []string{"a.b"}}).Decode(t.Context(), []byte(`{"a":{"b":1},"c":2,"a":{"b":1}}`), "")
	checkRefusal(t, err, CodeJSONInvalid, `key "a" is there twice`)
}

// Numbers are those of strconv, to the bit, and so is where they end.
func TestJSONNumbers(t *testing.T) {
	check := func(text string) {
		c := cursor{b: []byte(text + ",1")}
		want, _ := strconv.ParseFloat(text, 64)
		if got, _, ok := c.number(); !ok || f(got) != f(want) || c.i != len(text) {
			t.Errorf("%s is read as %v up to byte %d, want %v", text, got, c.i, want)
		}
	}
	for _, text := range []string{"0", "-0", "-0.0", "9007199254740992", "9007199254740993", "9007199254740991e22", "1e22", "1e23", "1E-22", "123456789012345678901234567890", "0.1", "5e-324", "2e-324",
		"1e400", "-1e400", "1e-400", "1e99999999999999999999", "0e99999999999999999999", "-1.7976931348623157e308", "18446744073709551616", "0.00000000000000000000000000001", "1.00000000000000000000000000001"} {
		check(text)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		check(strconv.FormatUint(r.Uint64()>>r.IntN(64), 10)[:1] + "." + strconv.FormatUint(r.Uint64()>>r.IntN(64), 10))
		text := strconv.FormatFloat(r.NormFloat64()*[]float64{1, 1e-9, 1e21, 1e300}[r.IntN(4)], "eg"[r.IntN(2)], r.IntN(19)-1, 64)
		check(strings.Replace(text, "e+", "e", r.IntN(2)))
	}
}

// What is JSON is what encoding/json takes, and that does not depend on the columns that are wanted.
func FuzzJSONColumns(f *testing.F) {
	for _, s := range []string{envelope, `[{"a":{"b":{"c":1}}},{"a":[{"b":2}]}]`, `{"a":1}{"a":2}`, "{\"a\":1}\n[]", `[{"a":1e5,"b":-0.5E-7,"c":1.}]`, `{"a":"\u00e9\x"}`, `{"a":tru}`, "{\"a\":1,\n\"b\":2}\n{}"} {
		f.Add([]byte(s), "a.b.c")
	}
	f.Fuzz(func(t *testing.T, in []byte, name string) {
		whole, err := newDecoder(t, Config{Format: JSON}).Decode(t.Context(), in, "")
		for _, c := range []Config{{Columns: []string{name, "a.b", "n", "a.0"}, Only: true}, {Columns: []string{name, "a"}}, {Nested: true}} {
			c.Format = JSON
			rec, e := newDecoder(t, c).Decode(t.Context(), in, "")
			var refused *Error
			if errors.Is(e, errJSON.Err) || errors.As(e, &refused) && refused.Code == CodeDecodePanic {
				t.Fatalf("%+v: %v", c, e)
			}
			within := e != nil && strings.Contains(e.Error(), "is there twice")
			if (err == nil) != (e == nil) && !within {
				t.Fatalf("%+v: %v; all columns: %v", c, e, err)
			}
			if e != nil {
				continue
			}
			nested.Leaves(rec.Schema())
			if got := describe(rec); rec.NumRows() == 1 && json.Valid(in) && in[0] == '{' {
				checkTwice(t, c, in, got)
			}
			if i := rec.Schema().FieldIndices("n"); c.Only && len(i) == 1 && len(whole.Schema().FieldIndices("n")) == 1 && !cmp.Equal(dump(rec.Column(i[0]), 0), dump(whole.Column(whole.Schema().FieldIndices("n")[0]), 0)) {
				t.Errorf("%+v: other values of n", c)
			}
		}
		if err == nil && whole.NumRows() == 1 && in[0] == '{' && !json.Valid(in) {
			t.Error("taken although it is not JSON")
		}
	})
}

// checkTwice compares what is read of one row with what is read of the row among others, in two passes.
func checkTwice(t *testing.T, c Config, in []byte, want []string) {
	t.Helper()
	twice, err := newDecoder(t, c).Decode(t.Context(), fmt.Appendf(nil, "[%s,%s]", in, in), "")
	if err != nil {
		t.Fatalf("%+v: twice: %v", c, err)
	}
	if got := describe(twice.NewSlice(0, 1)); !cmp.Equal(got, want) {
		t.Errorf("%+v: twice: %s", c, cmp.Diff(want, got))
	}
}

// A decoder that has met other rows reads one as it is among others: rows of numbers with the keys of the last, or with one more, in another
// order, with null or text in the place of a number, lists of other sizes, of nothing but numbers or not, and more numbers than are kept.
func TestJSONOneRow(t *testing.T) {
	numbers := func(n int) string { return strings.TrimSuffix(strings.Repeat("1.25,", n), ",") }
	values := []string{
		`{"a":1.5,"b":2}`, `{"a":2.5,"b":-3e5}`, `{"a":null,"b":2}`, `{"a":3.5,"b":4}`, `{"b":1,"a":2}`, `{"a":1,"b":2,"c":3}`, `{"a":1}`, `{"a":"x","b":2}`, `{"a":9007199254740993,"b":1}`, `{"a":1,"b":2}`,
		`{"v":[1,2,3],"a":4}`, `{"v":[4,5,6],"a":7}`, `{"v":[1,2],"a":3}`, `{"v":[1,null],"a":3}`, `{"v":[1,[2,3]],"a":3}`, `{"v":[[1,2],3],"a":3}`, `{"v":[],"a":1}`, `{"v":[1,"2"],"a":1}`, `{"d":1,"b":2,"d":3}`, `{"d":1,"b":2}`, `{"a":1,"v":[2,3,4]}`,
		`{"a":{"b":1,"c":[5,6]},"n":2}`, `{"a":{"b":3,"c":[7,8]},"n":4}`, `{"a":[9,8],"n":1}`, `{"a":[7,6],"n":2}`, `{"a":[{"b":1},5],"n":2}`, `{"a":[{"b":1},5],"n":2}`, `{"price":"1.5","n":1}`, `{"price":"-2e3","n":2}`, `{"price":3,"n":2}`,
		`{"v":[` + numbers(mostFirst-1) + `]}`, `{"v":[` + numbers(mostFirst) + `]}`, `{"v":[` + numbers(mostFirst) + `],"a":1}`, `{"v":[` + numbers(mostFirst-1) + `]}`,
	}
	decimal := schemasByID{1: {ID: 1, Type: SchemaJSON, Text: jsonSchemaText}}
	for _, c := range []Config{{}, {Columns: []string{"a", "n"}, Only: true}, {Columns: []string{"a.b", "a.0", "v.1", "n"}, Only: true}, {Columns: []string{"a.b", "v.1"}}, {Nested: true}, {Registry: decimal}} {
		d := newDecoder(t, c)
		for _, v := range append(values, values...) {
			prefix := ""
			if c.Registry != nil {
				prefix = "\x00\x00\x00\x00\x01"
			}
			got, err := d.Decode(t.Context(), []byte(prefix+v), "")
			want, err2 := newDecoder(t, c).Decode(t.Context(), []byte(prefix+"["+v+","+v+"]"), "")
			if err != nil || err2 != nil {
				t.Fatalf("%.60s: %v, %v", v, err, err2)
			}
			if diff := cmp.Diff(describe(want.NewSlice(0, 1)), describe(got)); diff != "" {
				t.Errorf("%+v, %.60s: %.500s", c.Columns, v, diff)
			}
		}
	}
}

func BenchmarkJSONColumns(b *testing.B) {
	row := func(format string) []byte {
		r := rand.New(rand.NewPCG(1, 2))
		var text strings.Builder
		for k := range 64 {
			fmt.Fprintf(&text, "%c\"f%d\":"+format, ",{"[b2i(k == 0)], k, r.NormFloat64())
		}
		return []byte(text.String() + "}")
	}
	var names []string
	for k := range 64 {
		names = append(names, fmt.Sprint("f", k))
	}
	nestedRow := []byte(`{"payload":{"op":"c","after":` + string(row("%.6g")) + `}}`)
	var paths []string
	for _, name := range names {
		paths = append(paths, "payload.after."+name)
	}
	for _, c := range []struct {
		name   string
		in     []byte
		config Config
	}{
		{"all", row("%.6g"), Config{}},
		{"17digits", row("%.17g"), Config{}},
		{"only", row("%.6g"), Config{Columns: names, Only: true}},
		{"only8", row("%.6g"), Config{Columns: names[:8], Only: true}},
		{"paths", nestedRow, Config{Columns: paths, Only: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := newDecoder(b, c.config)
			b.SetBytes(int64(len(c.in)))
			b.ReportAllocs()
			for b.Loop() {
				rec, err := d.Decode(b.Context(), c.in, "")
				if err != nil {
					b.Fatal(err)
				}
				rec.Release()
			}
		})
	}
}
