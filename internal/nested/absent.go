package nested

import "github.com/apache/arrow/go/v15/arrow"

// openKey is metadata of an open schema.
const openKey = "lca-open"

// Open returns an open schema of these fields: one that names what is there, of rows that could have more, as the keys of
// JSON objects. What it does not name is null in all of its rows.
func Open(fields []arrow.Field) *arrow.Schema {
	m := arrow.NewMetadata([]string{openKey}, []string{"true"})
	return arrow.NewSchema(fields, &m)
}

// Absent is the path of a column that an open schema does not name.
func Absent() Path { return Path{Type: arrow.Null, top: -1} }

// IsOpen reports whether a schema is open.
func IsOpen(schema *arrow.Schema) bool {
	return schema.HasMetadata() && schema.Metadata().FindKey(openKey) >= 0
}
