package format

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"golang.org/x/text/encoding"
)

// CodeCSVInvalid is a CSV file whose lines have no common columns, or no names.
const CodeCSVInvalid = "csv_invalid"

// csvFormat is CSV, as files only.
var csvFormat = spec{
	name:       "csv",
	title:      "a CSV file",
	extensions: []string{".csv", ".tsv", ".csv.gz", ".tsv.gz"},
	open:       openCSVFile,
}

// csvFile is a CSV file (RFC 4180), plain or compressed by gzip. A comma, a semicolon, a tab or a bar separates its columns: the one by which the first lines
// have as many fields each, most of them numbers. The first line names the columns, unless it is a row: then they are column_1, column_2, … Text that is no UTF-8
// is Windows-1252, which has Latin 1, or, by its mark, UTF-16.
// Opening it reads all of it once, for the types of the columns and for where batches begin. One batch is in memory at a time.
//
//	int64, float64   all values are such numbers; a column of both is float64
//	timestamp        all values are what ParseTime reads
//	boolean          all are true or false, in any case
//	utf8             all others
//
// An empty field is null, and so are NA, N/A, None and null where the column is no text. Numbers may have a comma before their decimals and points between
// thousands, or the other way round, by what the column has; spaces stand between thousands, too.
type csvFile struct {
	f       *os.File
	packed  bool              // by gzip
	coding  encoding.Encoding // of its text; nil: UTF-8
	comma   rune
	most    int64 // bytes of a record
	path    string
	bad     func(Bad)
	fields  *arrow.Schema
	columns []csvColumn
	unused  []bool // columns that are not needed: they are nulls
	pieces  []csvPiece
	total   int64

	reading *csvReader // of the batches, one after the other
	next    int        // the batch that it reads next
}

// csvPiece is where a batch stands.
type csvPiece struct {
	offset int64
	line   int64 // lines before it
	rows   int64
}

// csvShare is the part of the bytes of a batch that its text may have: what is made of it takes more.
const csvShare = 8

func openCSVFile(path string, c FileConfig) (_ table, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t := &csvFile{f: f, path: path, most: c.MaxBytes / csvShare, bad: c.Bad}
	magic := make([]byte, 2)
	n, _ := f.ReadAt(magic, 0)
	t.packed = bytes.Equal(magic[:n], []byte{0x1f, 0x8b})
	if err = t.index(int64(c.MaxRows), cmp.Or(c.Head, math.MaxInt64), c.Need); err != nil {
		_ = f.Close()
		return nil, err
	}
	return t, nil
}

// index reads the file once.
func (t *csvFile) index(maxRows, head int64, need func(arrow.Field) bool) error {
	names, offset, line, err := t.names()
	if err != nil {
		return err
	}
	r, err := t.reader(offset, line, len(names))
	if err != nil {
		return err
	}
	t.columns = make([]csvColumn, len(names))
	piece := csvPiece{offset: offset, line: line}
	wrong, first := int64(0), error(nil)
	for t.total < head {
		fields, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			var place *csv.ParseError
			if err = r.placed(err); t.bad == nil || !passedOver(err) || !errors.As(err, &place) {
				return errorf(CodeCSVInvalid, "row %d: %w", t.total, err)
			}
			t.bad(Bad{Path: t.path, Line: int64(place.StartLine), What: place.Err.Error()})
			wrong, first = wrong+1, cmp.Or(first, err)
			continue
		}
		for i, text := range fields {
			t.columns[i].take(text, t.comma != ',')
		}
		piece.rows++
		t.total++
		if end := offset + r.csv.InputOffset(); piece.rows == maxRows || end-piece.offset >= t.most {
			t.pieces = append(t.pieces, piece)
			piece = csvPiece{offset: end, line: r.line()}
		}
	}
	if piece.rows > 0 {
		t.pieces = append(t.pieces, piece)
	}
	if wrong > t.total {
		return errorf(CodeCSVInvalid, "lines that are no rows: %d of %d; the first: %w", wrong, wrong+t.total, first)
	}
	t.shape(names, need)
	return nil
}

// shape makes the schema.
func (t *csvFile) shape(names []string, need func(arrow.Field) bool) {
	fields := make([]arrow.Field, len(names))
	t.unused = make([]bool, len(names))
	for i, name := range names {
		t.columns[i].settle(t.bad != nil, t.comma != ',')
		fields[i] = arrow.Field{Name: name, Type: csvTypes[t.columns[i].kind], Nullable: true}
		if t.unused[i] = need != nil && !need(fields[i]); t.unused[i] {
			fields[i].Type = arrow.Null
		}
	}
	t.fields = arrow.NewSchema(fields, nil)
}

// text is the text of the file from an offset on.
func (t *csvFile) text(offset int64) (io.Reader, error) {
	if !t.packed && t.coding == nil {
		_, err := t.f.Seek(offset, io.SeekStart)
		return t.f, err
	}
	_, err := t.f.Seek(0, io.SeekStart)
	if err != nil {
		return nil, err
	}
	var text io.Reader = bufio.NewReader(t.f)
	if t.packed {
		if text, err = gzip.NewReader(text); err != nil {
			return nil, errorf(CodeCSVInvalid, "it is no whole file of gzip: %w", err)
		}
	}
	if t.coding != nil {
		text = t.coding.NewDecoder().Reader(text)
	}
	if _, err := io.CopyN(io.Discard, text, offset); err != nil {
		return nil, errorf(CodeCSVInvalid, "it cannot be read again from its beginning: %w", err)
	}
	return text, nil
}

// csvReader reads records, none of which may take more than most bytes.
type csvReader struct {
	csv    *csv.Reader
	most   int64
	left   int64 // bytes that may be read before the next record ends
	before int64 // lines
	from   io.Reader
}

func (t *csvFile) reader(offset, line int64, fields int) (*csvReader, error) {
	from, err := t.text(offset)
	if err != nil {
		return nil, err
	}
	r := &csvReader{most: t.most, before: line, from: from}
	r.csv = csv.NewReader(bufio.NewReaderSize(r, 1<<16))
	r.csv.Comma, r.csv.FieldsPerRecord, r.csv.ReuseRecord = t.comma, fields, true
	r.csv.TrimLeadingSpace = t.bad != nil && t.comma != '\t' // before a quote
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

// line is that of the record that was read last.
func (r *csvReader) line() int64 {
	line, _ := r.csv.FieldPos(0)
	return r.before + int64(line)
}

// placed is a fault with the line that it has in the file: the reader counts from where it began.
func (r *csvReader) placed(err error) error {
	var place *csv.ParseError
	if errors.As(err, &place) {
		place.Line += int(r.before)
		place.StartLine += int(r.before)
	}
	return err
}

// passedOver reports whether a fault is of one line, and the next one may be a row. A quote that is not closed may have taken any number of lines.
func passedOver(err error) bool {
	var place *csv.ParseError
	return errors.As(err, &place) && place.Line == place.StartLine && (errors.Is(err, csv.ErrFieldCount) || errors.Is(err, csv.ErrBareQuote) || errors.Is(err, csv.ErrQuote))
}

func (t *csvFile) rows() int64           { return t.total }
func (t *csvFile) batches() int          { return len(t.pieces) }
func (t *csvFile) schema() *arrow.Schema { return t.fields }
func (t *csvFile) close() error          { return t.f.Close() }

func (t *csvFile) read(i int) (arrow.Record, error) {
	piece := t.pieces[i]
	if t.reading == nil || t.next != i {
		r, err := t.reader(piece.offset, piece.line, len(t.columns))
		if err != nil {
			return nil, err
		}
		t.reading = r
	}
	r := t.reading
	t.reading = nil // unless all goes well
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.fields)
	defer b.Release()
	b.Reserve(int(piece.rows))
	for got := int64(0); got < piece.rows; {
		fields, err := r.next()
		if err != nil && t.bad != nil && passedOver(err) {
			continue // it was said when the file was opened
		}
		if err != nil {
			return nil, errorf(CodeCSVInvalid, "it has changed since it was opened: %w", r.placed(err))
		}
		got++
		for k, text := range fields {
			if t.unused[k] {
				b.Field(k).AppendNull()
				continue
			}
			if err := t.columns[k].add(b.Field(k), text); err != nil {
				if t.bad == nil {
					return nil, errorf(CodeCSVInvalid, "it has changed since it was opened: %w", err)
				}
				t.bad(Bad{t.path, r.line(), t.fields.Field(k).Name, strings.Clone(text)})
				b.Field(k).AppendNull()
			}
		}
	}
	t.reading, t.next = r, i+1
	return b.NewRecord(), nil
}
