package format

import (
	"bytes"
	"mime"
	"strings"
)

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
