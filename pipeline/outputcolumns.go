package pipeline

import (
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/minibatch"
)

// Keys of JSON come and go, and ten that do so have a thousand sets. A schema for each set would be a version of the subject for each. So
// a message has the columns of all messages before it, and those that it lacks are null.

// mostColumns bounds the columns, and with them the versions of a subject, each of which has more than the one before.
const mostColumns = 1000

// columnsSoFar are the columns that messages have had. All outputs of a process share them.
type columnsSoFar struct {
	mu     sync.Mutex
	schema *arrow.Schema // nil: there was no message
}

// with returns the columns so far, those of a message among them. One whose type has changed has the type of the message.
func (c *columnsSoFar) with(in *arrow.Schema) (*arrow.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schema == in {
		return in, nil
	}
	if c.schema == nil {
		c.schema = arrow.NewSchema(nil, nil)
	}
	var fields []arrow.Field // nil: nothing is new
	for _, f := range in.Fields() {
		at := c.schema.FieldIndices(f.Name)
		if len(at) > 0 && arrow.TypeEqual(c.schema.Field(at[0]).Type, f.Type) {
			continue
		}
		if fields == nil {
			fields = slices.Clone(c.schema.Fields())
		}
		if len(at) > 0 {
			fields[at[0]] = f
		} else {
			fields = append(fields, f)
		}
	}
	if len(fields) > mostColumns {
		return nil, fmt.Errorf("%w: the messages have had more than %d keys, which would all be fields; set transform.format to json", errNotAvro, mostColumns)
	}
	switch {
	case fields != nil && slices.EqualFunc(fields, in.Fields(), arrow.Field.Equal):
		c.schema = in
	case fields != nil:
		c.schema = arrow.NewSchema(fields, nil)
	}
	return c.schema, nil
}

// oddFeature returns a feature of a row of JSON whose column is no number, as where it is text: in the schema of all rows, its type would take the place of the numbers'. nil: there is none.
func oddFeature(row *arrow.Schema, features []string) *arrow.Field {
	columns := minibatch.ColumnsOf(features)
	lists := !slices.Equal(columns, features)
	for i := range row.NumFields() {
		f := row.Field(i)
		odd := lists
		switch f.Type.(type) {
		case *arrow.Float64Type, *arrow.Int64Type, *arrow.Uint64Type, *arrow.BooleanType:
		case *arrow.FixedSizeListType, *arrow.ListType:
			odd = !lists
		default:
			odd = true
		}
		if odd && slices.Contains(columns, f.Name) {
			return &f
		}
	}
	return nil
}

// paddedRow is the row of a message with further columns, which are null.
func paddedRow(row arrow.Record, schema *arrow.Schema) arrow.Record {
	if own := row.Schema(); own == schema || own.Equal(schema) {
		return row
	}
	columns := make([]arrow.Array, schema.NumFields())
	for i := range columns {
		f := schema.Field(i)
		if at := row.Schema().FieldIndices(f.Name); len(at) > 0 {
			columns[i] = row.Column(at[0])
		} else {
			columns[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, 1)
		}
	}
	return array.NewRecord(schema, columns, 1)
}
