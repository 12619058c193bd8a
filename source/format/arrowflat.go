package format

import (
	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/flatipc"
)

// flat is a record that is decoded only when its columns are needed. Its message has a layout that was met
// before, so its numbers are where they were then and, whatever they are, they are sound: one comparison stands for
// the whole of decoding, and Buffers gives the numbers as they lie.
type flat struct {
	lazyRecord
	layout  *flatipc.Layout
	value   []byte
	decoder *arrowDecoder
}

// Buffers appends the buffers of all columns to dst.
func (f *flat) Buffers(dst [][]byte) [][]byte { return f.layout.Buffers(dst, f.value) }

// Buffer returns one of them.
func (f *flat) Buffer(i int) []byte { return f.layout.Buffer(f.value, i) }

// record decodes the message.
func (f *flat) record() arrow.Record {
	rec, err := f.decoder.decodeBatches(f.value, nil)
	if err != nil {
		panic("format: internal error: a message of a known layout cannot be decoded: " + err.Error())
	}
	return rec
}

var _ flatipc.Record = (*flat)(nil)
