// Package terminal keeps strangers' text from commanding a person's terminal: names and values of records, texts of
// brokers and registries, metadata of models.
//
//	out := terminal.NewWriter(os.Stdout) // whatever is written to it: no escape sequence, no bidirectional mark
//	terminal.Name("a\nok")               // `"a\nok"`, in a line or table: neither can a name end the line
//	terminal.Line(err.Error())           // an error in one line
//
// A Writer is the rule, which no command can forget; Name and Line are for what stands among other text, where a line
// feed would make a false line. JSON means the same before and after a Writer. Cursor movements of our own go around it, to
// Unwrap.
package terminal

import (
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Writer writes text, with escapes such as \u001b for all that is not visible but spaces, tabs and line feeds.
type Writer struct {
	w    io.Writer
	lock sync.Mutex // of rest: logs are written side by side
	rest []byte     // the beginning of a character whose end has not come
}

// NewWriter returns a Writer to w, or w if it is one.
func NewWriter(w io.Writer) *Writer {
	if t, ok := w.(*Writer); ok {
		return t
	}
	return &Writer{w: w}
}

// Unwrap returns what lies behind a Writer; another writer it returns as it is.
func Unwrap(w io.Writer) io.Writer {
	if t, ok := w.(*Writer); ok {
		return t.w
	}
	return w
}

// Write is that of io.Writer.
func (t *Writer) Write(p []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	text := p
	if len(t.rest) > 0 {
		text = append(t.rest, p...)
	}
	end := len(text) - unfinished(text)
	_, err := io.WriteString(t.w, escape(string(text[:end]), "\n\t"))
	t.rest = append([]byte(nil), text[end:]...)
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// unfinished returns how many bytes at the end are the beginning of a character.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Line is a text in one line.
func Line(text string) string { return escape(text, "") }

// Name is a name as it stands, or quoted where that would not show what it is.
func Name(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || strings.TrimSpace(name) != name || name == "" {
		return quoted
	}
	return name
}

// Names is Name for each.
func Names(names []string) []string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = Name(name)
	}
	return shown
}

// escape writes what is not visible, except for some characters, as JSON does. A byte that is no UTF-8 may command a
// terminal too: it becomes U+FFFD.
func escape(text, except string) string {
	clean := true
	for _, r := range text {
		if clean = r != utf8.RuneError && (strconv.IsGraphic(r) || strings.ContainsRune(except, r)); !clean {
			break
		}
	}
	if clean {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case strconv.IsGraphic(r) || strings.ContainsRune(except, r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r > 0xffff:
			high, low := 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff
			b.WriteString(unicodeEscape(high) + unicodeEscape(low))
		default:
			b.WriteString(unicodeEscape(r))
		}
	}
	return b.String()
}

func unicodeEscape(r rune) string {
	digits := strconv.FormatInt(int64(r), 16)
	return `\u` + "0000"[len(digits):] + digits
}
