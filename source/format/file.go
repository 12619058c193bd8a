package format

import (
	"github.com/apache/arrow/go/v15/arrow"
)

// table is one open file, cut into batches of bounded rows. Which rows a batch holds depends
// on the file alone, so a batch's number serves as an offset.
type table interface {
	rows() int64                      // of all batches
	batches() int                     // number of them
	schema() *arrow.Schema            // of all batches
	read(i int) (arrow.Record, error) // batch i; going forward by one is cheap
	close() error
}

// File is an open file of rows, cut into batches of bounded rows. Which rows a batch holds depends on the file and
// the bound alone. What ipcguard demands of messages holds here as well, except for the limits on size: a batch
// may have 2^31−1 rows and 2 GiB. One batch is held in memory at a time.
//
// A File is for one goroutine.
type File struct{ table table }

// OpenFile opens a file by its extension: .arrow and .feather (IPC file), .arrows (IPC stream) or .parquet. Its
// batches have at most maxRows rows.
func OpenFile(path string, maxRows int) (*File, error) {
	f, err := byExtension(path)
	if err != nil {
		return nil, err
	}
	t, err := f.open(path, maxRows)
	if err != nil {
		return nil, err
	}
	return &File{t}, nil
}

// Rows is the number of rows in all batches.
func (f *File) Rows() int64 { return f.table.rows() }

// Schema is the schema of all batches.
func (f *File) Schema() *arrow.Schema { return f.table.schema() }

// Batches is the number of batches.
func (f *File) Batches() int { return f.table.batches() }

// Reuse lets each batch have the memory of the one before, of which nothing may be used then. Parquet has no such memory.
func (f *File) Reuse() {
	if a, ok := f.table.(*arrowFile); ok {
		a.memory.again = true
	}
}

// Read returns batch i, which the caller releases and which stays usable after Close; going forward by one is
// cheap. An error about the bytes is an *Error, and other batches may still be read; any other is of the disk.
func (f *File) Read(i int) (rec arrow.Record, err error) {
	defer func() {
		if p := recover(); p != nil { // of a library
			rec, err = nil, errorf(CodeDecodePanic, "decoding batch %d: %v", i, p)
		}
	}()
	if rec, err = f.table.read(i); err != nil {
		if e := errorOf(err); e != nil {
			return nil, e
		}
		return nil, err
	}
	return rec, nil
}

// Close closes the file.
func (f *File) Close() error { return f.table.close() }
