package format

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// The codes that an Error of any format may have; those of one format stand in its file. They end in the
// lca-error-code header of dead letters and in metric labels, so they never change; a new cause gets a
// new code.
const (
	CodeEmpty         = "empty"          // no bytes at all
	CodeTooLarge      = "too_large"      // more bytes than source.max_message_bytes
	CodeFormatUnknown = "format_unknown" // of no format of the table: CSV, gzip, MessagePack, …
	CodeDecodePanic   = "decode_panic"   // a fault of ours, or of a library; the bytes are worth a bug report
)

// Codes returns all codes that the value of a message can be refused with.
func Codes() []string {
	codes := []string{CodeEmpty, CodeTooLarge, CodeFormatUnknown, CodeDecodePanic, CodeSchemaUnknown, CodeSchemaInvalid}
	for _, f := range formats {
		if f.decoder != nil && !slices.Contains(codes, f.invalid) { // bodies may have the codes of another format
			codes = append(append(codes, f.invalid, f.tooLarge), f.otherCodes...)
		}
	}
	return codes
}

// Error says why bytes could not be decoded.
type Error struct {
	Code string // one of Codes, or of a file
	Err  error
}

// Error returns the code and the cause.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Code, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// asError gives an error of the guard its code. Any other that has none is of the bytes too.
func asError(err error) *Error {
	if e := errorOf(err); e != nil {
		return e
	}
	return &Error{Code: CodeArrowInvalid, Err: err}
}

// errorOf finds the fault of the bytes in err; nil if it is of another kind, such as of a
// disk.
func errorOf(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var ge *ipcguard.Error
	if errors.As(err, &ge) {
		return &Error{Code: "arrow_" + string(ge.Cause), Err: err}
	}
	return nil
}
