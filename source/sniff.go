package source

import (
	"bytes"
	"encoding/binary"
	"mime"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
)

// decodeAuto decides by the first bytes, which cannot be mistaken for the other format; a content
// type only helps to say what is wrong with bytes that are neither.
func (d *Decoder) decodeAuto(value []byte, contentType string, s *space) (arrow.Record, error) {
	switch {
	case looksJSON(value):
		return d.decodeJSON(value, s)
	case looksArrow(value):
		return d.decodeArrow(value, s)
	}
	switch kind, _, _ := mime.ParseMediaType(contentType); {
	case strings.Contains(kind, "arrow"):
		return d.decodeArrow(value, s)
	case strings.Contains(kind, "json"):
		return d.decodeJSON(value, s)
	case kind != "":
		return nil, decodeErrorf(CodeFormatUnknown, "content type %q is not read; send an Arrow IPC stream or JSON", clip(kind))
	}
	return nil, decodeErrorf(CodeFormatUnknown, "%s; send an Arrow IPC stream or JSON", guess(value))
}

// looksJSON reports whether the first byte that is not space opens an object or an array. A zero
// byte near the start belongs to a length, not to text.
func looksJSON(value []byte) bool {
	if bytes.IndexByte(value[:min(len(value), 8)], 0) >= 0 {
		return false
	}
	value = bytes.TrimLeft(bytes.TrimPrefix(value, []byte(byteOrderMark)), jsonSpace)
	return len(value) > 0 && (value[0] == '{' || value[0] == '[')
}

// looksArrow reports whether value opens as a message of a stream, or as a file, which decodeArrow
// then refuses with the remedy. Streams from before Arrow 0.15 have no mark but a length that fits.
func looksArrow(value []byte) bool {
	if bytes.HasPrefix(value, []byte("ARROW1")) || bytes.HasPrefix(value, []byte{0xFF, 0xFF, 0xFF, 0xFF}) {
		return true
	}
	if len(value) < 8 {
		return false
	}
	n := int64(binary.LittleEndian.Uint32(value))
	return n >= 8 && n%4 == 0 && n <= int64(len(value)-4)
}

// guess names formats that end up on such topics by mistake.
func guess(value []byte) string {
	for _, known := range []struct{ magic, name string }{
		{"\x1f\x8b", "these bytes are gzip (compress in the producer's settings instead, not the value)"},
		{"\x28\xb5\x2f\xfd", "these bytes are zstd (compress in the producer's settings instead, not the value)"},
		{"\x04\x22\x4d\x18", "these bytes are lz4 (compress in the producer's settings instead, not the value)"},
		{"PAR1", "these bytes are a Parquet file"},
		{"Obj\x01", "these bytes are an Avro file"},
		{"\x00", "these bytes begin with 0, as Avro and Protobuf with a schema registry's prefix do"},
	} {
		if bytes.HasPrefix(value, []byte(known.magic)) {
			return known.name
		}
	}
	return "these bytes are of no known format"
}
