package terminal

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWriter(t *testing.T) {
	for in, want := range map[string]string{
		"plain ‖ γ ≥ µ 温度 🙂\ttab\n": "plain ‖ γ ≥ µ 温度 🙂\ttab\n",
		"\x1b[31mred\x07\r":         `\u001b[31mred\u0007\u000d`,
		"C1 \u009b31m":              `C1 \u009b31m`,
		"bidi \u202e\u2066\u061c":   `bidi \u202e\u2066\u061c`,
		"a mark \ufeff\u2028":       `a mark \ufeff\u2028`,
		"no UTF-8 \x9b31m":          "no UTF-8 \ufffd31m",
		"a language tag \U000e0041": `a language tag \udb40\udc41`,
	} {
		for cut := range len(in) + 1 { // a writer may be given text in pieces
			var b strings.Builder
			w := NewWriter(&b)
			for _, piece := range []string{in[:cut], in[cut:]} {
				if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatal(n, err)
				}
			}
			if got := b.String(); got != want {
				t.Errorf("%q cut at %d is written %q, want %q", in, cut, got, want)
			}
		}
	}
	if w := NewWriter(nil); NewWriter(w) != w {
		t.Error("a writer in a writer")
	}
}

// A name can neither command the terminal nor end the line.
func TestNamesAndLines(t *testing.T) {
	for in, want := range map[string]string{
		"temp": "temp", "µ 2": "µ 2", "": `""`, " a": `" a"`, "a\nok": `"a\nok"`, "\x1b[31m": `"\x1b[31m"`, `say "x"`: `"say \"x\""`,
	} {
		if got := Name(in); got != want {
			t.Errorf("%q is named %s, want %s", in, got, want)
		}
	}
	if got, want := Line("a\nok\tb\r\u202e"), `a\nok\u0009b\u000d\u202e`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// JSON means the same behind a writer, and text without control characters stays as it is.
func FuzzWriter(f *testing.F) {
	f.Add("a\x1b\u009b\U000e0041\xff")
	f.Fuzz(func(t *testing.T, text string) {
		var b strings.Builder
		if err := json.NewEncoder(NewWriter(&b)).Encode(text); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got != strings.ToValidUTF8(text, "\ufffd") && utf8.ValidString(text) {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	})
}
