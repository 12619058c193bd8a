package format

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// CodeCSVInvalid is a CSV file whose lines have no common columns, or no names.
const CodeCSVInvalid = "csv_invalid"

// csvFormat is CSV, as files only.
var csvFormat = spec{
	name:       "csv",
	title:      "a CSV file",
	extensions: []string{".csv"},
	open:       openCSVFile,
}

// csvFile is a CSV file (RFC 4180) whose first line names the columns, which a comma, a semicolon or a tab separates. Opening it reads all of it once,
// for the types of the columns and for where batches begin. One batch is in memory at a time.
//
//	int64, float64   all values are such numbers; a column of both is float64
//	timestamp        all values are what ParseTime reads
//	boolean          all are true or false, in any case
//	utf8             all others
//
// An empty field is null, and so are NA and null where the column is no text.
type csvFile struct {
	f      *os.File
	comma  rune
	most   int64 // bytes of a record
	fields *arrow.Schema
	kinds  []csvKind
	unused []bool // columns that are not needed: they are nulls
	pieces []csvPiece
	total  int64
}

// csvPiece is where a batch stands.
type csvPiece struct {
	offset int64
	rows   int64
}

// csvKind is the type of a column, as far as its values have told.
type csvKind uint8

const (
	csvEmpty csvKind = iota // no value so far
	csvInt
	csvFloat
	csvTime
	csvBool
	csvText
)

var csvTypes = [...]arrow.DataType{
	csvEmpty: arrow.PrimitiveTypes.Float64, csvInt: arrow.PrimitiveTypes.Int64, csvFloat: arrow.PrimitiveTypes.Float64,
	csvTime: arrow.FixedWidthTypes.Timestamp_us, csvBool: arrow.FixedWidthTypes.Boolean, csvText: arrow.BinaryTypes.String,
}

// csvShare is the part of the bytes of a batch that its text may have: what is made of it takes more.
const csvShare = 8

func openCSVFile(path string, c FileConfig) (_ table, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t := &csvFile{f: f, most: c.MaxBytes / csvShare}
	if err = t.index(int64(c.MaxRows), cmp.Or(c.Head, math.MaxInt64), c.Need); err != nil {
		_ = f.Close()
		return nil, err
	}
	return t, nil
}

// index reads the file once.
func (t *csvFile) index(maxRows, head int64, need func(arrow.Field) bool) error {
	names, offset, err := t.names()
	if err != nil {
		return err
	}
	r, err := t.reader(offset, len(names))
	if err != nil {
		return err
	}
	t.kinds = make([]csvKind, len(names))
	piece := csvPiece{offset: offset}
	for t.total < head {
		fields, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		var place *csv.ParseError
		if errors.As(err, &place) { // it counts from the second line
			place.Line++
			place.StartLine++
		}
		if err != nil {
			return errorf(CodeCSVInvalid, "row %d: %w", t.total, err)
		}
		for i, text := range fields {
			t.kinds[i] = t.kinds[i].with(text)
		}
		piece.rows++
		t.total++
		if end := offset + r.csv.InputOffset(); piece.rows == maxRows || end-piece.offset >= t.most {
			t.pieces = append(t.pieces, piece)
			piece = csvPiece{offset: end}
		}
	}
	if piece.rows > 0 {
		t.pieces = append(t.pieces, piece)
	}
	return t.shape(names, need)
}

// shape makes the schema.
func (t *csvFile) shape(names []string, need func(arrow.Field) bool) error {
	fields := make([]arrow.Field, len(names))
	t.unused = make([]bool, len(names))
	for i, name := range names {
		fields[i] = arrow.Field{Name: name, Type: csvTypes[t.kinds[i]], Nullable: true}
		if t.unused[i] = need != nil && !need(fields[i]); t.unused[i] {
			fields[i].Type = arrow.Null
		}
	}
	t.fields = arrow.NewSchema(fields, nil)
	return nil
}

// names reads the first line. offset is where the second one begins.
func (t *csvFile) names() (names []string, offset int64, err error) {
	head, err := bufio.NewReader(io.LimitReader(t.f, t.most)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	if strings.Contains(head, "\x00") {
		return nil, 0, errorf(CodeCSVInvalid, "its first line has bytes of 0, as UTF-16 has them: save it as UTF-8")
	}
	t.comma = ','
	for _, other := range []rune{';', '\t'} {
		if !strings.ContainsRune(head, ',') && strings.ContainsRune(head, other) {
			t.comma = other
		}
	}
	if strings.HasPrefix(head, byteOrderMark) {
		offset = int64(len(byteOrderMark))
	}
	r, err := t.reader(offset, 0)
	if err != nil {
		return nil, 0, err
	}
	first, err := r.next()
	if err != nil {
		return nil, 0, errorf(CodeCSVInvalid, "its first line, which names the columns: %w", err)
	}
	numbers := 0
	for i, name := range first {
		if name == "" { // as of the index that pandas writes
			name = fmt.Sprintf("column_%d", i+1)
		}
		if strings.Contains(name, "\r") { // all of the file would be names
			return nil, 0, errorf(CodeCSVInvalid, "its lines end with CR alone, or a name has one: save it with LF or CRLF")
		}
		if slices.Contains(names, name) {
			return nil, 0, errorf(CodeCSVInvalid, "two columns have the name %q", name)
		}
		if csvEmpty.with(name) < csvTime {
			numbers++
		}
		names = append(names, name)
	}
	if numbers == len(names) {
		return nil, 0, errorf(CodeCSVInvalid, "its first line has numbers alone: name the columns there")
	}
	return names, offset + r.csv.InputOffset(), nil
}

// csvReader reads records, none of which may take more than most bytes.
type csvReader struct {
	csv  *csv.Reader
	most int64
	left int64 // bytes that may be read before the next record ends
	from io.Reader
}

func (t *csvFile) reader(offset int64, fields int) (*csvReader, error) {
	if _, err := t.f.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	r := &csvReader{most: t.most, from: t.f}
	r.csv = csv.NewReader(bufio.NewReaderSize(r, 1<<16))
	r.csv.Comma, r.csv.FieldsPerRecord, r.csv.ReuseRecord = t.comma, fields, true
	return r, nil
}

// Read reads from the file, as long as no record is too large.
func (r *csvReader) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("it has more than %d bytes", r.most)
	}
	n, err := r.from.Read(b)
	r.left -= int64(n)
	return n, err
}

func (r *csvReader) next() ([]string, error) {
	r.left = r.most
	return r.csv.Read()
}

// with is the kind of a column with another value.
func (k csvKind) with(text string) csvKind {
	if k == csvText || csvNull(text) {
		return k
	}
	is := csvText
	switch {
	case (k == csvEmpty || k == csvInt) && isInt(text):
		is = csvInt
	case k <= csvFloat && isFloat(text):
		is = csvFloat
	case (k == csvEmpty || k == csvTime) && isTime(text):
		is = csvTime
	case (k == csvEmpty || k == csvBool) && (strings.EqualFold(text, "true") || strings.EqualFold(text, "false")):
		is = csvBool
	}
	return is
}

func csvNull(text string) bool {
	return text == "" || text == "NA" || strings.EqualFold(text, "null")
}

func isInt(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}

func isFloat(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

func isTime(text string) bool {
	_, ok := ParseTime(text)
	return ok
}

// timeLayouts are those of RFC 3339, with a space in the place of the T, without a zone, which is then UTC, and without a time of day.
var timeLayouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", time.DateTime, time.DateOnly}

// ParseTime reads a time as texts have it; false: it is none.
func ParseTime(text string) (time.Time, bool) {
	if len(text) < len(time.DateOnly) || text[4] != '-' {
		return time.Time{}, false
	}
	for _, layout := range timeLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

func (t *csvFile) rows() int64           { return t.total }
func (t *csvFile) batches() int          { return len(t.pieces) }
func (t *csvFile) schema() *arrow.Schema { return t.fields }
func (t *csvFile) close() error          { return t.f.Close() }

func (t *csvFile) read(i int) (arrow.Record, error) {
	piece := t.pieces[i]
	r, err := t.reader(piece.offset, len(t.kinds))
	if err != nil {
		return nil, err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.fields)
	defer b.Release()
	b.Reserve(int(piece.rows))
	for range piece.rows {
		fields, err := r.next()
		if err != nil {
			return nil, errorf(CodeCSVInvalid, "it has changed since it was opened: %w", err)
		}
		for k, text := range fields {
			if !t.unused[k] {
				err = errors.Join(err, appendCSV(b.Field(k), t.kinds[k], text))
			} else {
				b.Field(k).AppendNull()
			}
		}
		if err != nil {
			return nil, errorf(CodeCSVInvalid, "it has changed since it was opened: %w", err)
		}
	}
	return b.NewRecord(), nil
}

func appendCSV(b array.Builder, kind csvKind, text string) (err error) {
	if text == "" || kind != csvText && csvNull(text) {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.Int64Builder:
		var v int64
		v, err = strconv.ParseInt(text, 10, 64)
		b.Append(v)
	case *array.Float64Builder:
		var v float64
		v, err = strconv.ParseFloat(text, 64)
		b.Append(v)
	case *array.TimestampBuilder:
		at, ok := ParseTime(text)
		if !ok {
			err = fmt.Errorf("%q is no time", text)
		}
		b.Append(arrow.Timestamp(at.UnixMicro()))
	case *array.BooleanBuilder:
		b.Append(strings.EqualFold(text, "true"))
	case *array.StringBuilder:
		b.Append(text)
	}
	return err
}
