package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"path/filepath"
	"slices"
	"sort"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/source/format"
)

// maxFileRows bounds the rows of one Read from a file.
const maxFileRows = 1 << 16

// Files reads what format.OpenFile opens, one file after the other, as a source. Each file is a partition,
// {Topic: its name without directories, ID: its place among the files}. What is learnt depends on the rows and the order
// of the files alone: see Message.Identity. Its messages are batches of at most 65,536 rows, with their number as offset. A batch
// that cannot be decoded comes as a Message with Err set, as from Kafka; what cannot even be told apart into
// batches is refused by OpenFiles.
//
// Files is for one goroutine.
type Files struct {
	paths []string
	files []*format.File
	next  []int // index of the next batch of each file
	rows  int64

	before [][]int // rows of each file before its batches, as far as that is known
}

// OpenFiles opens all paths and counts their rows. The zero FileConfig has the default bounds, and reads all columns.
func OpenFiles(paths []string, c format.FileConfig) (*Files, error) {
	return openFiles(paths, bounded(c))
}

// bounded adds the bound of rows.
func bounded(c format.FileConfig) format.FileConfig {
	if c.MaxRows <= 0 {
		c.MaxRows = maxFileRows
	}
	return c
}

func openFiles(paths []string, c format.FileConfig) (*Files, error) {
	if len(paths) == 0 {
		return nil, errors.New("source: no input files")
	}
	if twice := duplicate(paths); twice != "" {
		return nil, fmt.Errorf("source: %s is named twice", twice)
	}
	fs := &Files{paths: paths, next: make([]int, len(paths)), before: make([][]int, len(paths))}
	for _, path := range paths {
		f, err := format.OpenFile(path, c)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("source: %s: %w", path, err), fs.Close())
		}
		fs.files = append(fs.files, f)
		fs.rows += f.Rows()
	}
	return fs, nil
}

func duplicate(paths []string) string {
	sorted := append([]string(nil), paths...)
	sort.Strings(sorted)
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return sorted[i]
		}
	}
	return ""
}

// Rows returns the number of rows in all files.
func (f *Files) Rows() int64 { return f.rows }

// Reuse lets each message have the memory of the one before, of which nothing may be used then.
func (f *Files) Reuse() {
	for _, file := range f.files {
		file.Reuse()
	}
}

// Schema is the schema of the first file's records.
func (f *Files) Schema() *arrow.Schema { return f.files[0].Schema() }

// Read returns the next batch as one message, or ErrEnd after the last one of the last file.
func (f *Files) Read(ctx context.Context) (Batch, error) {
	if err := ctx.Err(); err != nil {
		return Batch{}, err
	}
	for k, file := range f.files {
		i := f.next[k]
		if i >= file.Batches() {
			continue
		}
		before, err := f.rowsBefore(k, i)
		if err != nil {
			return Batch{}, err
		}
		m := Message{Partition: f.partition(k), Offset: int64(i), Row: before + 1}
		rec, err := file.Read(i)
		var cause *format.Error
		switch {
		case err == nil:
			m.Record = rec
		case errors.As(err, &cause):
			m.Err = &RecordError{Partition: m.Partition, Offset: m.Offset, Code: cause.Code, Err: cause.Err}
		default:
			return Batch{}, fmt.Errorf("source: %s, batch %d: %w", f.paths[k], i, err)
		}
		if f.next[k]++; len(f.before[k]) == f.next[k] && m.Record != nil { // no second reading for rowsBefore
			f.before[k] = append(f.before[k], before+int(m.Record.NumRows()))
		}
		return Batch{Messages: []Message{m}, Claim: Claim{Generation: -1, Next: f.position()}}, nil
	}
	return Batch{}, ErrEnd
}

// rowsBefore counts the rows of file k before batch i. Batches that were passed over are read for that; one that cannot
// be decoded has none.
func (f *Files) rowsBefore(k, i int) (int, error) {
	for len(f.before[k]) <= i {
		known := len(f.before[k])
		if known == 0 {
			f.before[k] = append(f.before[k], 0)
			continue
		}
		rows := 0
		rec, err := f.files[k].Read(known - 1)
		var cause *format.Error
		switch {
		case err == nil:
			rows = int(rec.NumRows())
			rec.Release()
		case !errors.As(err, &cause):
			return 0, fmt.Errorf("source: %s, batch %d: %w", f.paths[k], known-1, err)
		}
		f.before[k] = append(f.before[k], f.before[k][known-1]+rows)
	}
	return f.before[k][i], nil
}

func (f *Files) partition(k int) Partition {
	return Partition{Topic: filepath.Base(f.paths[k]), ID: int32(k)}
}

// position returns the next batch of every file.
func (f *Files) position() Offsets {
	at := make(Offsets, len(f.paths))
	for k := range f.paths {
		at[f.partition(k)] = int64(f.next[k])
	}
	return at
}

// Seek makes the next Read return the batches from the given ones on. Files that at does not name
// are read from their beginning; names that are not open are an error.
func (f *Files) Seek(_ context.Context, at Offsets) error {
	next := make([]int, len(f.paths))
	found := 0
	for k, path := range f.paths {
		o, ok := at[f.partition(k)]
		if !ok {
			continue
		}
		if found++; o < 0 || o > int64(f.files[k].Batches()) {
			return fmt.Errorf("source: seek %s to batch %d of %d", path, o, f.files[k].Batches())
		}
		next[k] = int(o)
	}
	if found < len(at) {
		return fmt.Errorf("source: seek: %d of %d files are not open", len(at)-found, len(at))
	}
	f.next = next
	return nil
}

// Close closes all files. Records that Read returned stay usable.
func (f *Files) Close() error {
	var errs []error
	for _, file := range f.files {
		errs = append(errs, file.Close())
	}
	f.files = nil
	return errors.Join(errs...)
}

// Pipe reads an Arrow IPC stream from a reader, such as standard input, in messages of at most 65,536 rows. It is for one goroutine.
type Pipe struct {
	name string
	pipe *format.Pipe
	n    int64 // messages that were read
	rows int   // in them
}

// OpenPipe reads the schema of the stream. The name is that of the partition of its messages.
func OpenPipe(name string, r io.Reader) (*Pipe, error) {
	return OpenPipeWith(name, r, format.FileConfig{})
}

// OpenPipeWith is OpenPipe with other bounds.
func OpenPipeWith(name string, r io.Reader, c format.FileConfig) (*Pipe, error) {
	p, err := format.OpenPipe(r, bounded(c))
	if err != nil {
		return nil, fmt.Errorf("source: %s: %w", name, err)
	}
	return &Pipe{name: name, pipe: p}, nil
}

// Read returns the next rows as one message, or ErrEnd after the last. A stream has no second half that could be read after a fault.
func (p *Pipe) Read(ctx context.Context) (Batch, error) {
	if err := ctx.Err(); err != nil {
		return Batch{}, err
	}
	rec, err := p.pipe.Read()
	switch {
	case errors.Is(err, io.EOF):
		return Batch{}, ErrEnd
	case err != nil:
		return Batch{}, fmt.Errorf("source: %s, after %s: %w", p.name, plural.Count(p.rows, "row"), err)
	}
	m := Message{Partition: Partition{Topic: p.name}, Offset: p.n, Row: p.rows + 1, Record: rec}
	p.n++
	p.rows += int(rec.NumRows())
	return Batch{Messages: []Message{m}}, nil
}

// Reuse lets each message have the memory of the one before, of which nothing may be used then.
func (p *Pipe) Reuse() { p.pipe.Reuse() }

// Schema is the schema of all messages' records.
func (p *Pipe) Schema() *arrow.Schema { return p.pipe.Schema() }

// Close does nothing: the reader is the caller's.
func (p *Pipe) Close() error { return nil }

// A range with an end can be read in part: one stretch of each period, which is OneIn times as long. Brokers are not asked for
// what lies between. Where a stretch begins within its period follows a sequence that is spread evenly and repeats nothing, so
// that neither a cycle of the data nor the marks of transactions can keep time with it. It depends on the range alone.

const (
	stretchesPerRange = 64 // of a partition
	leastStretch      = 16 // offsets: fewer save no bytes, because requests bring more
)

// WorthSampling reports whether a range of offsets is long enough to be read in stretches (KafkaConfig.OneIn).
func WorthSampling(offsets, oneIn int64) bool {
	return oneIn > 1 && offsets/oneIn >= stretchesPerRange*leastStretch
}

// stretches are those of one partition.
type stretches struct {
	first          int64 // offset of the range
	length, period int64 // period 0: everything is read
}

func stretchesOf(start, end, oneIn int64) stretches {
	if oneIn <= 1 || end <= start {
		return stretches{}
	}
	length := max((end-start)/oneIn/stretchesPerRange, leastStretch)
	return stretches{first: start, length: length, period: length * oneIn}
}

// of returns the bounds of the stretch in the period of an offset.
func (s stretches) of(offset int64) (begin, end int64) {
	n := max(offset-s.first, 0) / s.period
	golden := uint64(0x9E3779B97F4A7C15) * uint64(n+1) // n over the golden ratio, of which the fraction counts
	within, _ := bits.Mul64(golden, uint64(s.period-s.length+1))
	begin = s.first + n*s.period + int64(within)
	return begin, begin + s.length
}

// next returns the first offset from one on that is read.
func (s stretches) next(offset int64) int64 {
	if s.period == 0 {
		return offset
	}
	begin, end := s.of(offset)
	if offset >= end {
		begin, _ = s.of(s.first + (max(offset-s.first, 0)/s.period+1)*s.period)
	}
	return max(begin, offset)
}

// thin drops what lies between the stretches. A batch that cannot be read counts if any of its offsets does.
func (s stretches) thin(p *portion) {
	if s.period == 0 {
		return
	}
	p.records = slices.DeleteFunc(p.records, func(r Record) bool { return s.next(r.Offset) != r.Offset })
	p.rejected = slices.DeleteFunc(p.rejected, func(r Rejected) bool { return s.next(r.Offset) > r.Last })
	p.done()
}
