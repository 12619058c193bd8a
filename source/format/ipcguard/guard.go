// Package ipcguard stands between untrusted bytes and the Arrow library,
// which trusts lengths, counts and offsets as they come: one flipped bit can make it allocate
// gigabytes, out of reach of recover. Nothing here does: all is checked against the bytes present
// before it is believed.
//
// A stream of Arrow IPC messages is checked in three steps. The first two need no data:
//
//		FF FF FF FF | metadata length | metadata (a flatbuffer)            | body (buffers)
//		            | u32             | schema, dictionary or record batch | bodyLength bytes
//
//	 1. Framing: both lengths against the bytes that are there (Stream.Next).
//	 2. Metadata: every table, vector and string of the flatbuffer lies within it; the types are
//	    known and not nested too deep or too many; a batch has exactly the nodes and buffers that
//	    the schema asks for, each buffer aligned, inside the body and long enough for its rows; what
//	    compressed buffers say they hold stays within a budget (Stream.Next).
//	 3. Values, once buffers are decompressed: offsets, sizes, dictionary indices, view headers,
//	    union ids, run ends, null counts and UTF-8 (Validate).
//
// A record whose arrays passed all three can be read anywhere without a bounds check.
//
// The package is stricter than the format where that costs no honest writer anything: fields that
// the decoder does not take (decimal32, fixed size 0, big-endian, metadata before V4) are refused
// by name, with a remedy, as Unsupported.
package ipcguard

import (
	"encoding/binary"
	"fmt"
)

var le = binary.LittleEndian

// Cause sorts what is wrong with an input.
type Cause string

// The causes of an Error.
const (
	Truncated   Cause = "truncated"   // the bytes end within a message
	Invalid     Cause = "invalid"     // the bytes contradict themselves or the format
	FileFormat  Cause = "file_format" // an Arrow file, not a stream
	TooLarge    Cause = "too_large"   // beyond Limits
	Unsupported Cause = "unsupported" // sound, but not taken here
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

// fileMagic opens and closes an Arrow file.
const fileMagic = "ARROW1"

// continuation opens every message of a stream since Arrow 0.15.
const continuation = 0xFFFFFFFF
