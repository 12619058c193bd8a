package backtest

import (
	"bytes"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/sink/rowfile"
)

// output writes rows with what the transform adds, and the version that has scored them: a live output has that in its headers.
type output struct {
	to      io.Writer
	kind    rowfile.Kind
	several bool

	passthrough bool
	models      bool // each value has a model: rows name theirs
	schema      *arrow.Schema
	nothing     []arrow.Array // a null for each column that the transform adds
	writer      rowfile.Writer
	fault       error // of the output
}

// begin makes the schema.
func (o *output) begin(in *arrow.Schema, c encode.OutputConfig, coordinates int, models bool) error {
	column := c.Column
	c.Models, c.Score, c.Format = false, true, encode.FormatArrow
	out := encode.NewOutput(c)
	if err := out.Check(in, coordinates); err != nil {
		return err
	}
	o.passthrough, o.models = c.Passthrough, models
	fields := out.Out.Fields()
	inputs := 0
	if o.passthrough {
		inputs = in.NumFields()
	}
	for _, f := range fields[inputs:] {
		o.nothing = append(o.nothing, array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, 1))
	}
	more := []arrow.Field{{Name: column + "_version", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}
	if models {
		more = append([]arrow.Field{{Name: column + "_model", Type: arrow.BinaryTypes.String, Nullable: true}}, more...)
	}
	for _, f := range more {
		if o.passthrough && in.HasField(f.Name) {
			return &encode.OutputError{Column: f.Name}
		}
	}
	metadata := out.Out.Metadata()
	o.schema = arrow.NewSchema(append(fields[:len(fields):len(fields)], more...), &metadata)
	o.writer, o.fault = rowfile.New(o.kind, o.to, o.schema, o.several)
	return o.fault
}

// write writes rows of the input with what they have become.
func (o *output) write(rec arrow.Record, done []scored) error {
	var all []arrow.Array
	if o.passthrough {
		all = append(all, rec.Columns()...)
	}
	for k, null := range o.nothing {
		col, err := gathered(len(done), func(i int) (arrow.Array, int) {
			if done[i].rows == nil {
				return null, 0
			}
			return done[i].rows.Column(k), done[i].at
		})
		if err != nil {
			return err
		}
		defer col.Release()
		all = append(all, col)
	}
	for _, col := range o.origins(done) {
		defer col.Release()
		all = append(all, col)
	}
	out := array.NewRecord(o.schema, all, int64(len(done)))
	defer out.Release()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(o.schema))
	if err := w.Write(out); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	o.fault = o.writer.Write(b.Bytes())
	return o.fault
}

// origins are the columns that name the model.
func (o *output) origins(done []scored) (all []arrow.Array) {
	versions, ids := array.NewInt64Builder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator)
	defer versions.Release()
	defer ids.Release()
	for _, d := range done {
		if d.version == 0 {
			versions.AppendNull()
			ids.AppendNull()
			continue
		}
		versions.Append(int64(d.version))
		ids.Append(d.id)
	}
	if o.models {
		all = append(all, ids.NewArray())
	}
	return append(all, versions.NewArray())
}

func (o *output) close() error {
	if o.writer == nil {
		return nil // there were no rows, and that is the fault
	}
	o.fault = o.writer.Close()
	return o.fault
}

// gathered is a column of n values, each in an array of one type, of which neighbours are copied together.
func gathered(n int, at func(i int) (arrow.Array, int)) (arrow.Array, error) {
	var parts []arrow.Array
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	for i := 0; i < n; {
		col, first := at(i)
		length := 1
		for ; i+length < n; length++ {
			if next, k := at(i + length); next != col || k != first+length {
				break
			}
		}
		parts = append(parts, array.NewSlice(col, int64(first), int64(first+length)))
		i += length
	}
	col, err := array.Concatenate(parts, memory.DefaultAllocator)
	if err != nil {
		return nil, fmt.Errorf("a column of the output: %w", err)
	}
	return col, nil
}
