// Package rowrecord is about records of one row that show single values without making arrays of their columns, because of
// a single row the arrays cost more than all else.
package rowrecord

import (
	"math"

	"github.com/apache/arrow/go/v15/arrow"
)

// Record is a record of one row.
type Record interface {
	arrow.Record

	// Value returns the value of column i, for whose type Shows is true.
	Value(i int) Value
}

// Value is the value of a column.
type Value struct {
	Bits  uint64 // of a number: those of a float, or an integer extended to 64 bits by its sign; 0 or 1 of a boolean
	Text  []byte // of text and bytes; it must not be changed
	Valid bool   // it is not null
}

// Shows reports whether the value of a column of a type can be had from Record.Value.
func Shows(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.STRING, arrow.BINARY:
		return true
	}
	return IsNumber(t)
}

// IsNumber reports whether Value.Number is for values of a type.
func IsNumber(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.BOOL, arrow.INT32, arrow.INT64, arrow.UINT32, arrow.UINT64, arrow.FLOAT32, arrow.FLOAT64, arrow.TIMESTAMP, arrow.DURATION:
		return true
	}
	return false
}

// Number is a value of a type for which IsNumber is true: a boolean is 0 or 1, and a time is in the unit of its type.
func (v Value) Number(t arrow.Type) float64 {
	switch t {
	case arrow.FLOAT64:
		return math.Float64frombits(v.Bits)
	case arrow.FLOAT32:
		return float64(math.Float32frombits(uint32(v.Bits)))
	case arrow.UINT32, arrow.UINT64:
		return float64(v.Bits)
	}
	return float64(int64(v.Bits))
}
