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
	FormatAvro                // Avro by a schema in a registry: that of the input with our fields, or one made of the columns of what came otherwise

	formatJSONSchema // JSON behind the prefix that names its schema
)

var formats = enum.Names[Format]{FormatArrow: "arrow", FormatJSON: "json", FormatInput: "input", FormatAvro: "avro"}

// Check refuses what is no Format that can be chosen.
func (f Format) Check() error { return formats.Check(f, "pipeline: unknown transform.format") }

// String returns the name that the configuration uses.
func (f Format) String() string { return formats.Of(f) }

// Formats returns every Format.
func Formats() []Format { return formats.All() }

// mediaTypes are the headers that say what a value is.
var mediaTypes = [...]source.Header{
	FormatArrow: text(contentType, "application/vnd.apache.arrow.stream"),
	FormatJSON:  text(contentType, "application/json"),
	FormatAvro:  text(contentType, "application/avro"),
}

// of returns the format of the output of a message; FormatInput where its own cannot be written.
func (f Format) of(m *source.Message) Format {
	if f != FormatInput {
		return f
	}
	switch m.Format {
	case format.JSON:
		return FormatJSON
	case format.Avro:
		return FormatAvro
	case format.JSONSchema:
		return formatJSONSchema
	case format.Protobuf:
		return FormatInput
	}
	return FormatArrow
}

// Copied returns the formats of which an output begins with the bytes of the input, so that of a record it needs no columns but those that
// are whitened.
func (f Format) Copied() []format.Format {
	switch f {
	case FormatInput:
		return []format.Format{format.JSON, format.JSONSchema, format.Avro}
	case FormatJSON:
		return []format.Format{format.JSON, format.JSONSchema}
	case FormatAvro:
		return []format.Format{format.Avro}
	default: // made of columns
		return nil
	}
}

// copies reports whether an output of this format begins with the bytes of an input.
func (f Format) copies(in format.Format) bool {
	return (f.text() && (in == format.JSON || in == format.JSONSchema)) || f == FormatAvro && in == format.Avro
}

// Names returns the names that an output of up to k coordinates gives to our columns: an input must not have them.
func (c OutputConfig) Names(k int) (names []string) {
	c = c.withDefaults()
	for _, f := range c.fields(k) {
		names = append(names, f.Name)
	}
	return names
}

// text reports whether values of a format are JSON.
func (f Format) text() bool { return f == FormatJSON || f == formatJSONSchema }

// keepsType reports whether the output of a message has the content type of its input, because it names its schema in the same way.
func (f Format) keepsType(m *source.Message) bool {
	as := f.of(m)
	return as == FormatAvro && m.Format == format.Avro || as == formatJSONSchema
}
