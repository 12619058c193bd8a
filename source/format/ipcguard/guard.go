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

// Limits bound what one input may ask for. They hold for a whole stream (a Kafka value, a file),
// not for each of its messages, except where said otherwise.
type Limits struct {
	Metadata int64 // bytes of one message's flatbuffer
	Strings  int64 // bytes of names and key-value metadata that the schema refers to, shared ones counted each time
	Fields   int   // fields of the schema, children counted
	Depth    int   // nesting of types
	Messages int   // messages of one stream
	Rows     int64 // rows of all batches; also of any array that needs no bytes for its rows
	Decoded  int64 // bytes of all buffers once decompressed; aliased bytes are counted each time
	Viewed   int64 // bytes that all string and binary views spell, shared ones counted each time
}

// MessageLimits are the limits of a message on a topic: 2^20 rows, 8192 fields nested 32 deep,
// 64 MiB once decompressed.
func MessageLimits() Limits {
	return Limits{
		Metadata: 16 << 20,
		Strings:  8 << 20,
		Fields:   8192,
		Depth:    32,
		Messages: 4096,
		Rows:     1 << 20,
		Decoded:  64 << 20,
		Viewed:   256 << 20,
	}
}

// BatchLimits are the limits of one batch of a file on the user's own disk: no bound on rows but
// the 2^31−1 of the format, and 2 GiB of buffers.
func BatchLimits() Limits {
	l := MessageLimits()
	l.Strings, l.Messages, l.Rows, l.Decoded, l.Viewed = 64<<20, 1<<24, 1<<31-1, 2<<30, 8<<30
	return l
}
