package nested

import (
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
)

// openKey and keptKey are metadata of an open schema.
const (
	openKey = "lca-open"
	keptKey = "lca-kept"
)

// Open returns an open schema of these fields: one that names what is there, of rows that could have more, as the keys of
// JSON objects. What it does not name is null in all of its rows. kept are names of columns of text which is not what the rows hold, but how that was written: of
// objects, arrays, and values of several types.
func Open(fields []arrow.Field, kept ...string) *arrow.Schema {
	keys, values := []string{openKey}, []string{"true"}
	if len(kept) > 0 {
		keys, values = append(keys, keptKey), append(values, strings.Join(kept, "\x00"))
	}
	m := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(fields, &m)
}

// IsKept reports whether a column of an open schema is text that was kept as it was written.
func IsKept(schema *arrow.Schema, name string) bool {
	if !schema.HasMetadata() {
		return false
	}
	kept, ok := schema.Metadata().GetValue(keptKey)
	return ok && IsOpen(schema) && slices.Contains(strings.Split(kept, "\x00"), name)
}

// Absent is the path of a column that an open schema does not name.
func Absent() Path { return Path{Type: arrow.Null, top: -1} }

// IsOpen reports whether a schema is open.
func IsOpen(schema *arrow.Schema) bool {
	return schema.HasMetadata() && schema.Metadata().FindKey(openKey) >= 0
}
