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
)

// csvSeparators are what may separate columns. Of those that fit as well the first counts.
const csvSeparators = ",;\t|"

const (
	sampledBytes = 64 << 10 // of the text, by which the separator is found
	sampledLines = 20
)

// names finds out what separates the columns, and what they are called. offset is where the first row begins, behind so many lines.
func (t *csvFile) names() (names []string, offset, line int64, err error) {
	from, err := t.text(0)
	if err != nil {
		return nil, 0, 0, err
	}
	sample, err := io.ReadAll(io.LimitReader(bufio.NewReader(from), min(t.most, sampledBytes)))
	if err != nil {
		return nil, 0, 0, errorf(CodeCSVInvalid, "its first lines: %w", err)
	}
	if line, _, _ := bytes.Cut(sample, []byte("\n")); bytes.IndexByte(line, 0) >= 0 {
		return nil, 0, 0, errorf(CodeCSVInvalid, "its first line has bytes of 0, as UTF-16 has them: save it as UTF-8")
	}
	if bytes.HasPrefix(sample, []byte(byteOrderMark)) {
		offset = int64(len(byteOrderMark))
		sample = sample[offset:]
	}
	t.comma = separatorOf(sample)
	r, err := t.reader(offset, 0, 0)
	if err != nil {
		return nil, 0, 0, err
	}
	first, err := r.next()
	if err != nil {
		return nil, 0, 0, errorf(CodeCSVInvalid, "its first line, which names the columns: %w", err)
	}
	if isRow(first, t.comma != ',') {
		for i := range first {
			names = append(names, fmt.Sprintf("column_%d", i+1))
		}
		return names, offset, 0, nil
	}
	for i, name := range first {
		if name == "" { // as of the index that pandas writes
			name = fmt.Sprintf("column_%d", i+1)
		}
		if strings.Contains(name, "\r") { // all of the file would be names
			return nil, 0, 0, errorf(CodeCSVInvalid, "its lines end with CR alone, or a name has one: save it with LF or CRLF")
		}
		if slices.Contains(names, name) {
			return nil, 0, 0, errorf(CodeCSVInvalid, "two columns have the name %q", name)
		}
		names = append(names, strings.Clone(name))
	}
	end := r.csv.InputOffset()
	return names, offset + end, int64(max(1, bytes.Count(sample[:min(end, int64(len(sample)))], []byte("\n")))), nil
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
		if fits := fit(sample, one); found == 0 || fits > best {
			found, best = one, fits
		}
	}
	return found
}

// fit says how well lines are rows of columns with a separator: of how many fields are as many as in the first line, and how many of them are values.
func fit(sample []byte, comma rune) float64 {
	r := csv.NewReader(bytes.NewReader(sample))
	r.Comma, r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = comma, -1, true, true
	columns, lines, alike, fields, values := 0, 0, 0, 0, 0
	for lines < sampledLines {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if lines++; err != nil {
			continue
		}
		if lines == 1 {
			columns = len(record)
		}
		if len(record) == columns {
			alike++
		}
		for _, text := range record {
			if fields++; csvNull(text) || classOf(text, comma != ',', csvEmpty) != csvText {
				values++
			}
		}
	}
	if columns < 2 {
		return 0
	}
	return float64(alike) / float64(lines) * (0.5 + float64(values)/float64(fields))
}
