package config

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// What editors and shells make of a file is no fault of its settings.
func TestFileOfAnyEditor(t *testing.T) {
	for name, doc := range map[string]string{
		"a byte order mark": "\xef\xbb\xbfsource: {topic: mine}\n",
		"CRLF":              "source:\r\n  topic: mine\r\n",
		"a mark and CRLF":   "\xef\xbb\xbfsource:\r\n  topic: mine\r\n",
		"a directive":       "%YAML 1.2\n---\nsource: {topic: mine}\n...\n",
		"no line feed":      "source: {topic: mine}",
	} {
		t.Run(name, func(t *testing.T) {
			if c := mustLoad(t, doc, nil); c.Source.Topic != "mine" {
				t.Errorf("the topic is %q", c.Source.Topic)
			}
		})
	}
	for name, doc := range map[string]string{"UTF-16, little": "\xff\xfes\x00", "UTF-16, big": "\xfe\xff\x00s", "without a mark": "s\x00o\x00u\x00", "a program": "\x7fELF\x00\x01"} {
		t.Run(name, func(t *testing.T) {
			if faults := faultsOf(t, doc); len(faults) != 1 || !strings.Contains(faults[0].String(), "<stdin>: is not UTF-8 text; save it as UTF-8") {
				t.Errorf("%v", faults)
			}
		})
	}
}

// A fault in a line of a megabyte shows what is around it; and no file commands the terminal on which its faults are shown.
func TestExcerptFitsATerminal(t *testing.T) {
	long := strings.Repeat("x", 900_000)
	for name, doc := range map[string]string{
		"a long value":       "source: {topic: " + long + "}",
		"behind a long one":  "source: {group: " + strings.Repeat("x", 200) + ", topics: t, format: auto, " + long + ": 1}",
		"a long key":         long + ": 1",
		"control characters": "\x1b[2J\x1b]0;title\x07: 1",
		"a scalar":           "\x1b[31mred\u009b31m " + long,
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range faultsOf(t, doc) {
				lines := strings.Split(strings.TrimSuffix(f.Excerpt(), "\n"), "\n")
				if len(lines) != 2 {
					t.Fatalf("%d lines", len(lines))
				}
				for _, line := range lines {
					if n := utf8.RuneCountInString(line); n > excerptWidth+10 {
						t.Errorf("a line of %d characters", n)
					}
				}
				if strings.ContainsFunc(strings.Join(lines, "")+f.String(), unicode.IsControl) {
					t.Errorf("%q", f.String()+lines[0])
				}
				caret := strings.IndexByte(lines[1], '^')
				if shown := []rune(lines[0]); caret < 0 || utf8.RuneCountInString(lines[1]) > len(shown) {
					t.Errorf("the caret is at %d of\n%s\n%s", caret, lines[0], lines[1])
				}
			}
		})
	}
	f := faultsOf(t, "source: {features: ["+strings.Repeat("abc, ", 1000)+"d], topics: t}")
	for _, f := range f {
		lines := strings.Split(f.Excerpt(), "\n")
		if at := strings.IndexByte(lines[1], '^'); f.Path == "source.topics" && string([]rune(lines[0])[at:at+6]) != "topics" {
			t.Errorf("the caret is elsewhere:\n%s", f.Excerpt())
		}
	}
}
