package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
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
	csvFormat,
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
	if ext == ".gz" {
		ext = strings.ToLower(filepath.Ext(path[:len(path)-len(ext)])) + ext
	}
	var all []string
	for _, f := range formats {
		if slices.Contains(f.extensions, ext) {
			return f, nil
		}
		all = append(all, f.extensions...)
	}
	remedy := "convert to " + either(all)
	switch ext {
	case ".json", ".jsonl", ".ndjson":
		remedy += ", such as by pyarrow.parquet.write_table(pyarrow.json.read_json(…), …)"
	}
	return spec{}, fmt.Errorf("files of type %q are not read: %s", ext, remedy)
}

// Reads reports whether OpenFile reads files of a name.
func Reads(path string) bool {
	_, err := byExtension(path)
	return err == nil
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

// The codes that an Error of any format may have; those of one format stand in its file. They end in the
// lca-error-code header of dead letters and in metric labels, so they never change; a new cause gets a
// new code.
const (
	CodeEmpty         = "empty"          // no bytes at all
	CodeTooLarge      = "too_large"      // more bytes than Config.MaxBytes
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

// choose returns the place in formats of the one that value is to be read as. The first bytes decide, which
// cannot be mistaken for another format; a content type only helps to say what is wrong with bytes that
// are of none. Values of a schema in a file are of any bytes: those of a number may look like the beginning of JSON.
func (d *Decoder) choose(value []byte, contentType string) (int, error) {
	if d.config.AvroSchema != "" {
		return d.chosen, nil
	}
	seen := recognize(value)
	if c := d.chosen; c >= 0 {
		if seen >= 0 && seen != c {
			return 0, errorf(formats[c].invalid, "this looks like %s; set source.format to auto or %s to read it", formats[seen].title, formats[seen].name)
		}
		return c, nil
	}
	if seen >= 0 {
		return seen, nil
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	if kind == "" {
		return 0, errorf(CodeFormatUnknown, "%s; send %s", guess(value), titles())
	}
	for i, f := range formats {
		if f.decoder != nil && strings.Contains(kind, f.contentType) {
			return i, nil
		}
	}
	return 0, errorf(CodeFormatUnknown, "content type %q is not read; send %s", clip(kind), titles())
}

// recognize returns the place in formats of the one that the first bytes of value are of; −1 if they do not tell.
func recognize(value []byte) int {
	for i := range formats {
		if looks := formats[i].looks; looks != nil && looks(value) {
			return i
		}
	}
	return -1
}

// guess names formats that end up on such topics by mistake.
func guess(value []byte) string {
	if len(value) < prefixBytes && bytes.HasPrefix(value, []byte{0}) {
		return "these bytes begin with 0 and end before the id of a schema, which has 4 more"
	}
	for _, known := range []struct{ magic, name string }{
		{"\x1f\x8b", "these bytes are gzip (compress in the producer's settings instead, not the value)"},
		{"\x28\xb5\x2f\xfd", "these bytes are zstd (compress in the producer's settings instead, not the value)"},
		{"\x04\x22\x4d\x18", "these bytes are lz4 (compress in the producer's settings instead, not the value)"},
		{"PAR1", "these bytes are a Parquet file"},
		{"Obj\x01", "these bytes are an Avro file"},
		{"\xc3\x01", "these bytes are Avro with a fingerprint of its schema (single-object encoding)"},
		{"\x00", "these bytes begin with 0, as those written with a schema registry do (Avro, Protobuf, JSON Schema): set source.registry.url"},
	} {
		if bytes.HasPrefix(value, []byte(known.magic)) {
			return known.name
		}
	}
	return "these bytes are of no known format"
}

// clip shortens a name in an error.
func clip(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}
