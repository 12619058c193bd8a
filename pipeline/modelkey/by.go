// Package modelkey says which model a row belongs to: where its value is (model.by of the configuration), what the value
// is, and the id of its model.
//
// Begin with [Parse], which reads model.by, and with [By.OfMessage] or [By.Column], which find the values of rows. [ID]
// makes the id of a model.
package modelkey

import (
	"fmt"
	"strings"

	"github.com/lca-stream/lca-stream/source"
)

// MostBytes is the longest value in bytes. A row with a longer one has no model.
const MostBytes = 200

// Place is where the value of a row is.
type Place uint8

// The places; the zero value is one model for all rows.
const (
	None   Place = iota
	Key          // the message's key
	Header       // the last of the message's headers of a name
	Column       // a column of the row
)

// By is model.by of the configuration.
type By struct {
	Place Place
	Name  string // of the header or the column
}

const (
	byNone   = "none"
	byKey    = "key"
	byHeader = "header:"
	byColumn = "column:"
)

// Parse reads none, key, header:NAME or column:NAME.
func Parse(text string) (By, error) {
	switch {
	case text == byNone:
		return By{}, nil
	case text == byKey:
		return By{Place: Key}, nil
	}
	for prefix, place := range map[string]Place{byHeader: Header, byColumn: Column} {
		if name, ok := strings.CutPrefix(text, prefix); ok && name != "" {
			return By{place, name}, nil
		}
	}
	return By{}, fmt.Errorf("modelkey: %q: want none, key, header:NAME or column:NAME", text)
}

// String is the inverse of Parse.
func (b By) String() string {
	switch b.Place {
	case Key:
		return byKey
	case Header:
		return byHeader + b.Name
	case Column:
		return byColumn + b.Name
	}
	return byNone
}

// ColumnName is the name of the column that has the values; "" where they are elsewhere.
func (b By) ColumnName() string {
	if b.Place != Column {
		return ""
	}
	return b.Name
}

// Keyed reports whether there is a model for each value.
func (b By) Keyed() bool { return b.Place != None }

// OfMessage returns the value that all rows of a message have, by key or header. It returns false if they have none: a
// null key, no header of that name, a header of null, or a value longer than MostBytes.
func (b By) OfMessage(m *source.Message) (value []byte, ok bool) {
	switch b.Place {
	case Key:
		value = m.Key
	case Header:
		value = source.LastHeaderValue(m.Headers, b.Name)
	}
	return value, value != nil && len(value) <= MostBytes
}
