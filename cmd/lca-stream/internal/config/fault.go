package config

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fault is one thing that is wrong, and where.
type Fault struct {
	File    string `json:"file"`           // path, "<stdin>", "--set" or "<default>"
	Line    int    `json:"line"`           // from 1; 0: no place in the file
	Column  int    `json:"column"`         // from 1, in characters
	Path    string `json:"path,omitempty"` // the key, such as lca.gamma
	Message string `json:"message"`
	Remedy  string `json:"remedy"` // what to write instead

	text         string // the line itself, until its secrets are hidden
	before, rest string // what is near the fault in it then
	width        int    // characters under the caret
}

// String is the fault on one line.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
	}
	b.WriteString(": ")
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Message)
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return printable(b.String())
}

// printable replaces control characters, one by one: a file that is no configuration must not command the terminal, and carets stay
// under what they mean.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, text)
}

// What an excerpt shows of a longer line: so much in all, of which so much before the fault.
const (
	excerptWidth  = 160
	excerptBefore = 60
)

// Excerpt is the line with carets under the fault, ending in a line feed; "" where there is no place. Of a long line it
// shows what is around the fault.
func (f Fault) Excerpt() string {
	if f.Line == 0 {
		return ""
	}
	before, rest := f.before, f.rest
	width := max(1, f.width)
	if what, _ := cutColumn(rest, width+1); strings.Contains(what, hidden) {
		width = utf8.RuneCountInString(shown(what))
	}
	if strings.HasPrefix(rest, hidden) { // the fault is in a secret: its place and length would tell of it
		before, width = strings.TrimRight(before, hidden), len(mask)
	}
	line, before := []rune(printable(shown(before+rest))), shown(before)
	under := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, before)
	indent := []rune(under)
	if from := max(0, len(indent)-excerptBefore); len(line) > excerptWidth && from < len(line) {
		to := min(from+excerptWidth, len(line))
		tail := ""
		if to < len(line) {
			tail = "…"
		}
		if indent, width = indent[from:], min(width, to-len(indent)); from > 0 {
			line[from] = '…'
		}
		line = append(line[from:to:to], []rune(tail)...)
	}
	return fmt.Sprintf("%4d | %s\n     | %s%s\n", f.Line, string(line), string(indent), strings.Repeat("^", max(1, width)))
}

// near cuts what is far from a fault: a line may hold thousands of them, and each would look at all of it.
func near(before, rest string) (string, string) {
	const far = 1 << 10
	from, to := max(0, len(before)-far), min(len(rest), far)
	for from < len(before) && !utf8.RuneStart(before[from]) {
		from++
	}
	for to > 0 && to < len(rest) && !utf8.RuneStart(rest[to]) {
		to--
	}
	return before[from:], rest[:to]
}

// Faults is every fault that was found, in the order of the file.
type Faults []Fault

// Error is one line a fault, each with its excerpt.
func (fs Faults) Error() string {
	var b strings.Builder
	for i, f := range fs {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(f.String())
		if e := f.Excerpt(); e != "" {
			b.WriteString("\n" + strings.TrimSuffix(e, "\n"))
		}
	}
	return b.String()
}

// cutColumn splits a line before its column-th character.
func cutColumn(line string, column int) (before, rest string) {
	at := 0
	for i := 1; i < column && at < len(line); i++ {
		_, n := utf8.DecodeRuneInString(line[at:])
		at += n
	}
	return line[:at], line[at:]
}
