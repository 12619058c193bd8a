package source

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
)

// maxFileRows bounds the rows of one Read from a file.
const maxFileRows = 1 << 16

// tableFile is one open file, cut into batches of bounded rows. Which rows a batch holds depends
// on the file alone, so a batch's number serves as an offset.
type tableFile interface {
	rows() int64                      // of all batches
	batches() int                     // number of them
	read(i int) (arrow.Record, error) // batch i; going forward by one is cheap
	close() error
}

// Files reads .arrow (IPC file), .arrows (IPC stream) and .parquet files, one after the other, as
// a source. Each file is a partition, {Topic: its name without directories, ID: its place among the
// files}, so that what is learnt does not depend on where the files lie; its messages are batches of at
// most 65,536 rows, with their number as offset. A batch that cannot be decoded comes as a Message with
// Err set, as from Kafka; what cannot even be told apart into batches is refused by OpenFiles.
//
// What the guard of ipcguard demands of messages holds here as well, except for the limits on size:
// a batch may have 2^31−1 rows and 2 GiB. One such batch is held in memory at a time.
//
// Files is for one goroutine.
type Files struct {
	paths []string
	files []tableFile
	next  []int // batch of each file
	rows  int64
}

// OpenFiles opens all paths and learns how many rows they have.
func OpenFiles(paths []string) (*Files, error) { return openFiles(paths, maxFileRows) }

func openFiles(paths []string, maxRows int) (*Files, error) {
	if len(paths) == 0 {
		return nil, errors.New("source: no input files")
	}
	if twice := duplicate(paths); twice != "" {
		return nil, fmt.Errorf("source: %s is named twice", twice)
	}
	fs := &Files{paths: paths, next: make([]int, len(paths))}
	for _, path := range paths {
		f, err := openFile(path, maxRows)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("source: %s: %w", path, err), fs.Close())
		}
		fs.files = append(fs.files, f)
		fs.rows += f.rows()
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

func openFile(path string, maxRows int) (tableFile, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".arrow", ".feather", ".arrows":
		return openArrowFile(path, maxRows)
	case ".parquet":
		return openParquetFile(path, maxRows)
	default:
		return nil, fmt.Errorf("files of type %q are not read: convert to .arrow, .arrows or .parquet, such as by pyarrow.parquet.write_table(pyarrow.csv.read_csv(…), …)", ext)
	}
}

// Rows is the number of rows in all files.
func (f *Files) Rows() int64 { return f.rows }

// Read returns the next batch, as one message, or ErrEnd after the last file's last.
func (f *Files) Read(ctx context.Context) (Batch, error) {
	if err := ctx.Err(); err != nil {
		return Batch{}, err
	}
	for k, file := range f.files {
		i := f.next[k]
		if i >= file.batches() {
			continue
		}
		m := Message{Partition: f.partition(k), Offset: int64(i)}
		rec, err := readRecovered(file, i)
		m.Record = rec
		if err != nil {
			de := decodeErrorOf(err)
			if de == nil {
				return Batch{}, fmt.Errorf("source: %s, batch %d: %w", f.paths[k], i, err)
			}
			m.Record, m.Err = nil, &RecordError{Partition: m.Partition, Offset: m.Offset, Code: de.Code, Err: de.Err}
		}
		f.next[k]++
		return Batch{Messages: []Message{m}, Claim: Claim{Generation: -1, Next: f.position()}}, nil
	}
	return Batch{}, ErrEnd
}

func (f *Files) partition(k int) Partition {
	return Partition{Topic: filepath.Base(f.paths[k]), ID: int32(k)}
}

// readRecovered gives a panic of a library back as an error.
func readRecovered(file tableFile, i int) (rec arrow.Record, err error) {
	defer func() {
		if p := recover(); p != nil {
			rec, err = nil, decodeErrorf(CodeDecodePanic, "decoding batch %d: %v", i, p)
		}
	}()
	return file.read(i)
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
		if found++; o < 0 || o > int64(f.files[k].batches()) {
			return fmt.Errorf("source: seek %s to batch %d of %d", path, o, f.files[k].batches())
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
		errs = append(errs, file.close())
	}
	f.files = nil
	return errors.Join(errs...)
}
