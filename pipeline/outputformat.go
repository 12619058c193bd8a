package pipeline

import (
	"github.com/lca-stream/lca-stream/internal/enum"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Format is what the values of output messages are.
type Format uint8

// The formats; the zero value is FormatArrow.
const (
	FormatArrow Format = iota // an Arrow IPC stream
	FormatJSON                // JSON text: that of the input with our keys added, or an array of objects
	FormatInput               // as the message came
)

var formats = enum.Names[Format]{FormatArrow: "arrow", FormatJSON: "json", FormatInput: "input"}

// String returns the name that the configuration uses.
func (f Format) String() string { return formats.Of(f) }

// Formats returns every Format.
func Formats() []Format { return formats.All() }

// ParseFormat is the inverse of Format.String.
func ParseFormat(s string) (Format, error) { return formats.Parse(s, unknownFormat) }

const unknownFormat = "pipeline: unknown transform.format"

// mediaTypes are the headers that say what a value is.
var mediaTypes = [...]source.Header{
	FormatArrow: text(contentType, "application/vnd.apache.arrow.stream"),
	FormatJSON:  text(contentType, "application/json"),
}

// of returns the format of the output of a message.
func (f Format) of(m *source.Message) Format {
	switch {
	case f != FormatInput:
		return f
	case m.Format == format.JSON:
		return FormatJSON
	}
	return FormatArrow
}
