package format

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
)

// Format is what the bytes of a value are said to be.
type Format string

// The formats of a value. Auto looks at the first bytes, and at the content type where these do
// not decide.
const (
	Auto       Format = "auto"
	Arrow      Format = "arrow"
	JSON       Format = "json"
	Avro       Format = "avro"
	Protobuf   Format = "protobuf"
	JSONSchema Format = "json_schema"
)

// formats is the table of all that is read. A new format is a file with its spec, and a line here.
var formats = []spec{
	arrowFormat,
	jsonFormat,
	avroFormat,
	protobufFormat,
	jsonSchemaFormat,
	parquetFormat,
}

// spec is what the package knows about a format. The value of a message and a file have readers of their
// own; one of the two may be missing.
type spec struct {
	name  Format
	title string // in error texts: "this looks like …", "send …"

	// looks reports whether the first bytes of a value can be of this format and of no other of the table;
	// nil: they never tell.
	looks       func(value []byte) bool
	contentType string // a word of the content types that announce it

	// decoder returns what reads values, for one Decoder; nil: only files are read.
	decoder    func(Config) valueDecoder
	invalid    string   // the code of bytes that are not of the format
	tooLarge   string   // the code of a value that decodes to more than there is room for
	otherCodes []string // the other codes that a value can be refused with

	// compile returns what reads the bodies of values that name s, a schema of a registry of type schemaType; nil:
	// such values are not of this format.
	compile    func(c Config, s *Schema) (valueDecoder, error)
	schemaType SchemaType

	extensions []string // of file names, in lower case
	open       func(path string, c FileConfig) (table, error)
}

// valueDecoder reads the values of one format, for several goroutines at once.
type valueDecoder interface {
	// decode returns all rows of value, which is not empty. It checks every byte before a library sees it, and
	// takes memory from the arena, within its room. An error about the bytes is an *Error; any other says
	// that they could not be decoded now, such as that of ctx after waiting in vain for a schema.
	decode(ctx context.Context, value []byte, a *Arena) (arrow.Record, error)
}

// Names returns the formats that a Decoder can be told to read, Auto first.
func Names() []string {
	names := []string{string(Auto)}
	for _, f := range formats {
		if f.decoder != nil {
			names = append(names, string(f.name))
		}
	}
	return names
}

// find returns the place of a format of values in the table; −1 for Auto.
func find(name Format) (int, error) {
	if name == Auto || name == "" {
		return -1, nil
	}
	if i := slices.IndexFunc(formats, func(f spec) bool { return f.name == name && f.decoder != nil }); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("format: unknown format %q: use %s", name, either(Names()))
}

// titles lists what a value may be, for error texts: "an Arrow IPC stream, JSON or Avro".
func titles() string {
	var all []string
	for _, f := range formats {
		if f.decoder != nil {
			all = append(all, f.title)
		}
	}
	return either(all)
}

// byExtension returns the format of a file by its name.
func byExtension(path string) (spec, error) {
	ext := strings.ToLower(filepath.Ext(path))
	var all []string
	for _, f := range formats {
		if slices.Contains(f.extensions, ext) {
			return f, nil
		}
		all = append(all, f.extensions...)
	}
	reader := "csv.read_csv"
	switch ext {
	case ".json", ".jsonl", ".ndjson":
		reader = "json.read_json"
	}
	return spec{}, fmt.Errorf("files of type %q are not read: convert to %s, such as by pyarrow.parquet.write_table(pyarrow.%s(…), …)", ext, either(all), reader)
}

// either lists words: "a, b or c".
func either(words []string) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(w)
	}
	return b.String()
}
