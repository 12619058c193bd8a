package rowfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
)

// encodedFile writes an Arrow IPC file of batches that it decodes and encodes again.
type encodedFile struct{ f *ipc.FileWriter }

// seeker knows where it is, which is all that the writer of files asks for.
type seeker struct{ counter }

func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, errors.New("rowfile: a file is written from its beginning to its end")
	}
	return s.n, nil
}

func newEncodedFile(w io.Writer, schema *arrow.Schema) (*encodedFile, error) {
	f, err := ipc.NewFileWriter(&seeker{counter{w: w}}, ipc.WithSchema(schema))
	if err != nil {
		return nil, fmt.Errorf("rowfile: %w", err)
	}
	return &encodedFile{f}, nil
}

func (e *encodedFile) Write(pieces ...[]byte) error { return eachBatch(pieces, e.f.Write) }

func (e *encodedFile) Close() error { return e.f.Close() }

// eachBatch decodes the batch of a message.
func eachBatch(pieces [][]byte, use func(arrow.Record) error) error {
	r, err := ipc.NewReader(bytes.NewReader(bytes.Join(pieces, nil)))
	if err != nil {
		return fmt.Errorf("rowfile: %w", err)
	}
	defer r.Release()
	for r.Next() {
		if err := use(r.Record()); err != nil {
			return err
		}
	}
	return r.Err()
}
