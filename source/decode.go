package source

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/ipcguard"
)

// Format is what the bytes of a value are said to be.
type Format string

// The formats of a value. Auto looks at the first bytes, and at the content type where these do
// not decide.
const (
	FormatAuto  Format = "auto"
	FormatArrow Format = "arrow"
	FormatJSON  Format = "json"
)

// The codes of a DecodeError. They end in the lca-error-code header of dead letters and in metric
// labels, so they never change; a new cause gets a new code.
const (
	CodeEmpty            = "empty"             // no bytes at all
	CodeTooLarge         = "too_large"         // more bytes than source.max_message_bytes
	CodeBatchInvalid     = "batch_invalid"     // a whole batch whose records contradict the format, or are in a codec or format that is not read
	CodeBatchDamaged     = "batch_damaged"     // a whole batch whose bytes are not those that were produced
	CodeFormatUnknown    = "format_unknown"    // neither Arrow nor JSON: Avro, Protobuf, CSV, gzip, …
	CodeArrowTruncated   = "arrow_truncated"   // the stream ends within a message
	CodeArrowInvalid     = "arrow_invalid"     // the bytes contradict themselves or the Arrow format
	CodeArrowFileFormat  = "arrow_file_format" // an Arrow file (Feather) instead of a stream
	CodeArrowTooLarge    = "arrow_too_large"   // more rows, columns, nesting or decoded bytes than the limits
	CodeArrowUnsupported = "arrow_unsupported" // sound, but of a type or version that is not read here
	CodeJSONInvalid      = "json_invalid"      // not JSON, not UTF-8, or a key twice in one row
	CodeJSONType         = "json_type"         // a row that is no object, or a column of mixed types
	CodeJSONTooLarge     = "json_too_large"    // more rows, columns, nesting or cells than the limits
	CodeParquetInvalid   = "parquet_invalid"   // a Parquet file that breaks off, or holds nothing that is read
	CodeDecodePanic      = "decode_panic"      // a fault of ours, or of a library; the bytes are worth a bug report
)

// DefaultMaxBytes bounds the bytes of one value unless the configuration says otherwise.
const DefaultMaxBytes = 16 << 20

// DecodeError says why a value could not be decoded.
type DecodeError struct {
	Code string // one of the codes above
	Err  error
}

// Error returns the cause; the code stands next to it in RecordError and in the headers.
func (e *DecodeError) Error() string { return fmt.Sprintf("%s: %v", e.Code, e.Err) }

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

func decodeErrorf(code, format string, args ...any) *DecodeError {
	return &DecodeError{Code: code, Err: fmt.Errorf(format, args...)}
}

// DecoderConfig says what a Decoder takes.
type DecoderConfig struct {
	Format   Format // default FormatAuto
	MaxBytes int    // bytes of one value; default DefaultMaxBytes
}

// Decoder turns the value of a message into one Arrow record. Its input is hostile until proven
// otherwise: every byte is bounds-checked before anything is allocated or read by a library, no
// input panics, and one input never holds more than 64 MiB in addition to its own bytes.
//
// A Decoder may be used by several goroutines at once.
type Decoder struct {
	config  DecoderConfig
	schemas schemas
	codecs  codecs
	flats   flatLayouts
	last    atomic.Pointer[arrow.Schema] // of a JSON message
	tables  jsonTables
}

// NewDecoder returns a Decoder; zero fields of c take their defaults.
func NewDecoder(c DecoderConfig) *Decoder {
	if c.Format == "" {
		c.Format = FormatAuto
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	return &Decoder{config: c}
}

// Decode returns all rows of value as one record, which the caller releases. The record may alias
// value, so value must stay unchanged for as long as the record is in use. A stream or an array
// without rows gives a record of 0 rows. contentType is the content-type header, or "". Every
// error is a *DecodeError. A nil value (a tombstone) is for the caller to leave out: it is
// refused as empty.
func (d *Decoder) Decode(value []byte, contentType string) (rec arrow.Record, err error) {
	return d.decode(value, contentType, nil)
}

// decode is Decode for a message of a batch with this space.
func (d *Decoder) decode(value []byte, contentType string, s *space) (rec arrow.Record, err error) {
	defer func() {
		if p := recover(); p != nil {
			rec, err = nil, decodeErrorf(CodeDecodePanic, "decoding %d bytes: %v", len(value), p)
		}
	}()
	switch {
	case len(value) == 0:
		return nil, decodeErrorf(CodeEmpty, "no bytes; write an Arrow IPC stream or a JSON object")
	case len(value) > d.config.MaxBytes:
		return nil, decodeErrorf(CodeTooLarge, "%d bytes, at most %d are read (source.max_message_bytes)", len(value), d.config.MaxBytes)
	}
	switch d.config.Format {
	case FormatArrow:
		if looksJSON(value) {
			return nil, decodeErrorf(CodeArrowInvalid, "this looks like JSON; set source.format to auto or json to read it")
		}
		return d.decodeArrow(value, s)
	case FormatJSON:
		if !looksJSON(value) && looksArrow(value) {
			return nil, decodeErrorf(CodeJSONInvalid, "this looks like Arrow; set source.format to auto or arrow to read it")
		}
		return d.decodeJSON(value, s)
	}
	return d.decodeAuto(value, contentType, s)
}

// asDecodeError gives an error of the guard its code.
func asDecodeError(err error) *DecodeError {
	if de := decodeErrorOf(err); de != nil {
		return de
	}
	return &DecodeError{Code: CodeArrowInvalid, Err: err}
}

// decodeErrorOf finds the fault of the bytes in err; nil if it is of another kind, such as of a
// disk.
func decodeErrorOf(err error) *DecodeError {
	var de *DecodeError
	if errors.As(err, &de) {
		return de
	}
	var ge *ipcguard.Error
	if errors.As(err, &ge) {
		return &DecodeError{Code: "arrow_" + string(ge.Cause), Err: err}
	}
	return nil
}
