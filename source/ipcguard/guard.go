// Package ipcguard checks Arrow IPC bytes before anything believes them.
package ipcguard

import (
	"encoding/binary"
	"fmt"
)

// Cause sorts what is wrong with an input.
type Cause string

// The causes of an Error.
const (
	Truncated   Cause = "truncated"
	Invalid     Cause = "invalid"
	FileFormat  Cause = "file_format"
	TooLarge    Cause = "too_large"
	Unsupported Cause = "unsupported"
)

// Error says why the guard refused an input.
type Error struct {
	Cause Cause
	Err   error
}

// Error returns the cause in words.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error within.
func (e *Error) Unwrap() error { return e.Err }

func errorf(c Cause, format string, args ...any) *Error {
	return &Error{Cause: c, Err: fmt.Errorf(format, args...)}
}

// Frames checks the lengths of all messages of a stream against the bytes present.
func Frames(b []byte) error {
	if len(b) >= 6 && string(b[:6]) == "ARROW1" {
		return errorf(FileFormat, "an Arrow file; write the stream format instead (pyarrow: pa.ipc.new_stream)")
	}
	for len(b) > 0 {
		if len(b) < 8 {
			return errorf(Truncated, "%d bytes left where a message begins", len(b))
		}
		n, head := binary.LittleEndian.Uint32(b), 4
		if n == 0xFFFFFFFF {
			n, head = binary.LittleEndian.Uint32(b[4:]), 8
		}
		if n == 0 {
			return nil
		}
		if uint64(n) > uint64(len(b)-head) {
			return errorf(Truncated, "metadata of %d bytes, %d are left", n, len(b)-head)
		}
		w := newWalk(b[head : head+int(n)])
		body := w.root().i64(3, 0)
		if w.err != nil {
			return w.err
		}
		b = b[head+int(n):]
		if body < 0 || body > int64(len(b)) {
			return errorf(Truncated, "body of %d bytes, %d are left", body, len(b))
		}
		b = b[body:]
	}
	return nil
}
