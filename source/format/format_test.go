package format

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

func TestUnknownFormatIsAnError(t *testing.T) {
	for _, name := range []Format{"none", "Arrow", "parquet"} { // Parquet is a format of files
		if _, err := NewDecoder(Config{Format: name}); err == nil || !strings.Contains(err.Error(), "use "+either(Names())) {
			t.Errorf("%s: %v does not say what there is", name, err)
		}
	}
	if got := Names(); got[0] != "auto" || !slices.Contains(got, "json") || slices.Contains(got, "parquet") {
		t.Error(got)
	}
}

// The first bytes decide; a configured format refuses those of another, and says how to read them.
func TestFormatIsRecognized(t *testing.T) {
	stream, file, object := streams(t)["float"].data(t), []byte("ARROW1\x00\x00 and more"), []byte(` {"x": 1}`)
	for _, c := range []struct {
		name        string
		format      Format
		contentType string
		value       []byte
		code, says  string // none: it is read
	}{
		{"a stream", Auto, "", stream, "", ""},
		{"an object", Auto, "", object, "", ""},
		{"a stream that is said to be JSON", Auto, "application/json", stream, "", ""},
		{"a stream as configured", Arrow, "", stream, "", ""},
		{"an object as configured", JSON, "", object, "", ""},
		{"an object where streams are expected", Arrow, "", object, CodeArrowInvalid, "this looks like JSON; set source.format to auto or json"},
		{"a stream where JSON is expected", JSON, "", stream, CodeJSONInvalid, "this looks like an Arrow IPC stream; set source.format to auto or arrow"},
		{"a file instead of a stream", Auto, "", file, CodeArrowFileFormat, ""},
		{"text", Auto, "", []byte("id,x\n1,2\n"), CodeFormatUnknown, "no known format; send " + titles()},
		{"text that is said to be JSON", Auto, "application/json; charset=utf-8", []byte("true"), CodeJSONType, "true or false"},
		{"text that is said to be Arrow", Auto, "application/vnd.apache.arrow.stream", []byte("text"), CodeArrowTruncated, ""},
		{"text that is said to be CSV", Auto, "text/csv", []byte("1,2"), CodeFormatUnknown, `content type "text/csv" is not read; send ` + titles()},
		{"Parquet", Auto, "", []byte("PAR1 and more"), CodeFormatUnknown, "a Parquet file"},
		{"nothing", Auto, "", nil, CodeEmpty, "send " + titles()},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, err := newDecoder(t, Config{Format: c.format}).Decode(t.Context(), c.value, c.contentType)
			if c.code != "" {
				checkRefusal(t, err, c.code, c.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			rec.Release()
		})
	}
}

// No value looks like two formats, so the order of the table does not matter.
func TestNoValueLooksLikeTwoFormats(t *testing.T) {
	const spaces = " \t\t\t" // as a length from before Arrow 0.15, 152 MB
	long := make([]byte, 4+binary.LittleEndian.Uint32([]byte(spaces)))
	copy(long, spaces+`{"x":1}`)
	values := append(seeds(t), []byte(`{"x":1}`), []byte("\xef\xbb\xbf [1]"), long)
	for _, v := range values {
		var by []Format
		for _, f := range formats {
			if f.looks != nil && f.looks(v) {
				by = append(by, f.name)
			}
		}
		if len(by) > 1 {
			t.Errorf("%.16q looks like %v", v, by)
		}
	}
}

// What a row of the table has to say, so that error texts and metric labels have it.
func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{"": true}
	once := func(f spec, what string) {
		if seen[what] {
			t.Errorf("%s: %q is missing or there twice", f.name, what)
		}
		seen[what] = true
	}
	for _, f := range formats {
		once(f, string(f.name))
		once(f, f.title)
		if f.decoder != nil {
			if f.name != JSONSchema { // whose bodies are JSON
				once(f, f.invalid)
				once(f, f.tooLarge)
			}
			once(f, f.contentType+" in content types")
			if f.contentType == "" { // it would be in all of them
				t.Errorf("%s: no content type", f.name)
			}
		}
		for _, code := range f.otherCodes {
			once(f, code)
		}
		for _, ext := range f.extensions {
			once(f, ext)
		}
		if (f.open == nil) != (len(f.extensions) == 0) || f.open == nil && f.decoder == nil {
			t.Errorf("%s: it has extensions and no reader of files, or no reader at all", f.name)
		}
	}
}
