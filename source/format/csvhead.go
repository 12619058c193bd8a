package format

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// csvSeparators are what may separate columns. Of those that fit as well the first counts.
const csvSeparators = ",;\t|"

const (
	sampledBytes = 64 << 10 // of the text, by which the separator is found
	sampledLines = 20
)

// names finds out what separates the columns, and what they are called. offset is where the first row begins, behind so many lines.
func (t *csvFile) names() (names []string, offset, line int64, err error) {
	sample, err := t.sample()
	if err != nil {
		return nil, 0, 0, err
	}
	if line, _, _ := bytes.Cut(sample, []byte("\n")); bytes.IndexByte(line, 0) >= 0 {
		return nil, 0, 0, errorf(CodeCSVInvalid, "its first line has bytes of 0, as UTF-16 has them: save it as UTF-8")
	}
	if bytes.HasPrefix(sample, []byte(byteOrderMark)) {
		offset = int64(len(byteOrderMark))
		sample = sample[offset:]
	}
	t.comma = separatorOf(sample)
	columns, _ := fit(sample, t.comma)
	r, err := t.reader(offset, 0, -1)
	if err != nil {
		return nil, 0, 0, err
	}
	var first []string
	var at int64
	for {
		at = r.csv.InputOffset()
		if first, err = r.next(); err != nil {
			return nil, 0, 0, errorf(CodeCSVInvalid, "its first line, which names the columns: %w", err)
		}
		if t.bad == nil || !isTitle(first, columns) {
			break
		}
		t.bad(Bad{Path: t.path, Line: r.line(), What: "before the names of the columns"})
	}
	if isRow(first, t.comma != ',') || comesAgain(sample, t.comma, first) {
		for i := range first {
			names = append(names, fmt.Sprintf("column_%d", i+1))
		}
		return names, offset + at, int64(bytes.Count(sample[:min(at, int64(len(sample)))], []byte("\n"))), nil
	}
	first = t.ended(first, columns, sample)
	for i, name := range first {
		if name = strings.TrimSpace(name); name == "" { // as of the index that pandas writes
			name = fmt.Sprintf("column_%d", i+1)
		}
		if strings.Contains(name, "\r") { // all of the file would be names
			return nil, 0, 0, errorf(CodeCSVInvalid, "its lines end with CR alone, or a name has one: save it with LF or CRLF")
		}
		if t.bad != nil && slices.Contains(names, name) {
			t.bad(Bad{Path: t.path, Line: r.line(), What: fmt.Sprintf("two columns have the name %q, and the second is %[1]s_%d", name, i+1)})
			name = fmt.Sprintf("%s_%d", name, i+1)
		}
		if slices.Contains(names, name) {
			return nil, 0, 0, errorf(CodeCSVInvalid, "two columns have the name %q", name)
		}
		names = append(names, strings.Clone(name))
	}
	end := r.csv.InputOffset()
	return names, offset + end, int64(max(1, bytes.Count(sample[:min(end, int64(len(sample)))], []byte("\n")))), nil
}

// sample is the beginning of the text, by which it is found out what the text is, too.
func (t *csvFile) sample() ([]byte, error) {
	for {
		from, err := t.text(0)
		if err != nil {
			return nil, err
		}
		sample, err := io.ReadAll(io.LimitReader(bufio.NewReader(from), min(t.most, sampledBytes)))
		if err != nil {
			return nil, errorf(CodeCSVInvalid, "its first lines: %w", err)
		}
		whole := sample
		if end := bytes.LastIndexByte(sample, '\n'); end >= 0 {
			whole = sample[:end] // the last character may be cut
		}
		switch {
		case t.coding != nil:
			return sample, nil
		case bytes.HasPrefix(sample, []byte("\xff\xfe")), bytes.HasPrefix(sample, []byte("\xfe\xff")):
			t.coding = unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
		case !utf8.Valid(whole):
			t.coding = charmap.Windows1252
		default:
			return sample, nil
		}
	}
}

// ended are the names of columns, and those of rows that end with a separator where that of the names does not.
func (t *csvFile) ended(names []string, columns int, sample []byte) []string {
	if t.bad == nil || columns != len(names)+1 {
		return names
	}
	r := sampled(sample, t.comma)
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return append(names, "")
		}
		if err == nil && len(record) == columns && record[columns-1] != "" {
			return names
		}
	}
}

// isTitle reports whether a line has hardly any of the fields that the others have: programs write titles and dates before the names.
func isTitle(line []string, columns int) bool {
	filled := 0
	for _, text := range line {
		if text != "" {
			filled++
		}
	}
	return 2*filled < columns
}

// comesAgain reports whether a first line with a value has a text that comes again below: then it is a row.
func comesAgain(sample []byte, comma rune, first []string) bool {
	decimal, value := comma != ',', false
	for _, text := range first {
		value = value || !csvNull(text) && classOf(text, decimal, csvEmpty) != csvText
	}
	r, times := sampled(sample, comma), make([]int, len(first))
	for lines := 0; value && lines < 2*sampledLines; {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if lines++; err != nil {
			continue
		}
		for i, text := range record[:min(len(record), len(first))] {
			if text != first[i] || csvNull(text) || classOf(text, decimal, csvEmpty) != csvText {
				continue
			}
			if times[i]++; times[i] == 2 {
				return true
			}
		}
	}
	return false
}

// isRow reports whether a first line is a row: it has numbers and times alone. 0, 1, 2, … are the names that pandas gives.
func isRow(first []string, decimal bool) bool {
	values, counted := 0, 0
	for i, text := range first {
		switch {
		case csvNull(text):
			counted++
		case classOf(text, decimal, csvEmpty) == csvText:
			return false
		default:
			if values++; text == strconv.Itoa(i-counted) {
				continue
			}
			counted = len(first) + 1
		}
	}
	return values > 0 && counted > len(first)
}

// separatorOf finds what separates the columns of a text's first lines.
func separatorOf(sample []byte) (found rune) {
	if end := bytes.LastIndexByte(sample, '\n'); end >= 0 && len(sample) >= sampledBytes {
		sample = sample[:end+1]
	}
	best := 0.
	for _, one := range csvSeparators {
		if _, fits := fit(sample, one); found == 0 || fits > best {
			found, best = one, fits
		}
	}
	return found
}

func sampled(sample []byte, comma rune) *csv.Reader {
	r := csv.NewReader(bytes.NewReader(sample))
	r.Comma, r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = comma, -1, true, true
	return r
}

// fit says how well lines are rows of columns with a separator: how many have as many fields as most, and how many of the fields are values.
func fit(sample []byte, comma rune) (columns int, fits float64) {
	r := sampled(sample, comma)
	lines, fields, values, having := 0, 0, 0, map[int]int{}
	for lines < sampledLines {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if lines++; err != nil {
			continue
		}
		n := len(record)
		if having[n]++; having[n] > having[columns] || having[n] == having[columns] && n > columns {
			columns = n
		}
		for _, text := range record {
			if fields++; csvNull(text) || classOf(text, comma != ',', csvEmpty) != csvText {
				values++
			}
		}
	}
	if columns < 2 {
		return columns, 0
	}
	return columns, float64(having[columns]) / float64(lines) * (0.5 + float64(values)/float64(fields))
}
