package jsontext

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// A number is read back as it was, from text that is JSON and not longer than is said.
func TestNumbers(t *testing.T) {
	for f, want := range map[float32]string{
		0: "0", 1: "1", -2.5: "-2.5", 0.1: "0.1", 1e-5: "0.00001", 1e-7: "1e-7", 1.5e-10: "1.5e-10", 1e15: "1000000000000000", 1e16: "1e+16",
		math.MaxFloat32: "3.4028235e+38", math.SmallestNonzeroFloat32: "1e-45", float32(math.Inf(1)): "null", float32(math.NaN()): "null",
	} {
		if got := string(AppendFloat32(nil, f)); got != want {
			t.Errorf("%g: %s, want %s", f, got, want)
		}
	}
	if got := string(AppendFloat32(nil, float32(math.Copysign(0, -1)))); got != "-0" {
		t.Errorf("-0: %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		text := AppendFloat32(nil, f)
		if f != f || math.IsInf(float64(f), 0) {
			return
		}
		back, err := strconv.ParseFloat(string(text), 32)
		if err != nil || float32(back) != f || len(text) > MostFloat32 || !json.Valid(text) {
			t.Fatalf("%g: %s, %v", f, text, err)
		}
		d := math.Float64frombits(rapid.Uint64().Draw(t, "bits64"))
		if text = AppendFloat64(nil, d); !json.Valid(text) {
			t.Fatalf("%g: %s", d, text)
		}
		if back, err := strconv.ParseFloat(string(text), 64); err == nil && back != d {
			t.Fatalf("%g: %s", d, text)
		}
	})
}

func TestStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		var back string
		text := AppendString([]byte("x"), s)
		if err := json.Unmarshal(text[1:], &back); err != nil || back != strings.ToValidUTF8(replaced(s), "") {
			t.Fatalf("%q: %s, %v", s, text, err)
		}
		if n := StringSize(s); n != len(text)-1 {
			t.Fatalf("%q: %d bytes, measured %d", s, len(text)-1, n)
		}
	})
}

// replaced is s with one U+FFFD for each byte that is not UTF-8.
func replaced(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		b.WriteRune(r)
		s = s[size:]
	}
	return b.String()
}

// Each row is found, in all forms, whatever is in its strings.
func TestObjects(t *testing.T) {
	for _, c := range []struct {
		name, text string
		rows       int
		want       string // the text with + before the brace that closes a row, or 0 if the row is empty
	}{
		{"an object", `{"a":1}`, 1, `{"a":1+}`},
		{"space around it", " \n{\"a\" : {} } \r\n", 1, " \n{\"a\" : {} +} \r\n"},
		{"no keys", "{ \n}", 1, "{ \n0}"},
		{"an array", `[{"a":1}, {"b":{"c":[{}]}},{}]`, 3, `[{"a":1+}, {"b":{"c":[{}]}+},{0}]`},
		{"an array of one", `[{"a":"}"} ]`, 1, `[{"a":"}"+} ]`},
		{"an empty array", ` []`, 0, ` []`},
		{"lines", "{\"a\":1}\n\n{\"a\":\"{\\\"\"}\r\n{}\n", 3, "{\"a\":1+}\n\n{\"a\":\"{\\\"\"+}\r\n{0}\n"},
		{"a line", "\n{\"a\":1}\n", 1, "\n{\"a\":1+}\n"},
		{"braces in strings", `[{"}":"\\"},{"\"{":"]}"}]`, 2, `[{"}":"\\"+},{"\"{":"]}"+}]`},
		{"a byte order mark", "\xef\xbb\xbf[{\"a\":1}]", 1, "\xef\xbb\xbf[{\"a\":1+}]"},
	} {
		var got []byte
		from := 0
		for o := Walk([]byte(c.text), c.rows); ; {
			end, empty := o.Next()
			if end < 0 {
				break
			}
			got = append(got, c.text[from:end]...)
			got = append(got, map[bool]byte{true: '0', false: '+'}[empty])
			from = end
		}
		if got = append(got, c.text[from:]...); string(got) != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
