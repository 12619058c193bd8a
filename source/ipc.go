package source

import (
	"bytes"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/source/ipcguard"
)

// decodeArrow reads one IPC stream.
func (d *Decoder) decodeArrow(value []byte) (arrow.Record, error) {
	if err := ipcguard.Frames(value); err != nil {
		return nil, asDecodeError(err)
	}
	r, err := ipc.NewReader(bytes.NewReader(value))
	if err != nil {
		return nil, asDecodeError(err)
	}
	defer r.Release()
	var recs []arrow.Record
	for r.Next() {
		rec := r.Record()
		rec.Retain()
		recs = append(recs, rec)
	}
	if err := r.Err(); err != nil {
		return nil, asDecodeError(err)
	}
	return joinRecords(r.Schema(), recs, memory.DefaultAllocator)
}

// joinRecords makes one record of all batches of a stream.
func joinRecords(schema *arrow.Schema, recs []arrow.Record, mem memory.Allocator) (arrow.Record, error) {
	if len(recs) == 1 {
		return recs[0], nil
	}
	cols := make([]arrow.Array, schema.NumFields())
	var rows int64
	for _, r := range recs {
		rows += r.NumRows()
	}
	for i := range cols {
		parts := make([]arrow.Array, len(recs))
		for j, r := range recs {
			parts[j] = r.Column(i)
		}
		if len(parts) == 0 {
			cols[i] = array.MakeArrayOfNull(mem, schema.Field(i).Type, 0)
			continue
		}
		col, err := array.Concatenate(parts, mem)
		if err != nil {
			return nil, decodeErrorf(CodeArrowUnsupported, "joining %d batches in column %q: %w; send one batch a message", len(recs), schema.Field(i).Name, err)
		}
		cols[i] = col
	}
	return array.NewRecord(schema, cols, rows), nil
}
