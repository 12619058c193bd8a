package pipeline

import (
	"slices"
	"strconv"
	"unsafe"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// made is what a batch becomes. It lives until that is put; then its memory serves another batch, of any partition.
type made struct {
	messages []sink.Message
	inputs   []*source.Message // of messages
	headers  []source.Header   // of messages
	digits   []byte            // their offsets
	numbers  slab[float32]     // y, −log p and probabilities
	gains    slab[lca.Gain]    // of lca_why
	filled   slab[int16]       // of lca_imputed
	values   slab[byte]        // outputs in one piece
	pieces   [][]byte          // the others
}

func (d *made) begin(messages int) {
	const headers, digits = 9, 8 // of a message: headers of its own, and digits of its offset as a rule
	d.messages, d.inputs = slices.Grow(d.messages[:0], messages), slices.Grow(d.inputs[:0], messages)
	d.headers, d.digits = slices.Grow(d.headers[:0], headers*messages), slices.Grow(d.digits[:0], digits*messages)
	d.pieces = slices.Grow(d.pieces[:0], leastPieces*messages)
	d.numbers.begin(slabMost)
	d.gains.begin(slabMost)
	d.filled.begin(slabMost)
	d.values.begin(slabMost)
}

// add takes an output, or a dead letter, of an input.
func (d *made) add(out sink.Message, in *source.Message) {
	d.messages, d.inputs = append(d.messages, out), append(d.inputs, in)
}

// number returns the digits of a number.
func (d *made) number(n int64) []byte {
	at := len(d.digits)
	d.digits = strconv.AppendInt(d.digits, n, 10)
	return d.digits[at:len(d.digits):len(d.digits)]
}

// forget lets go of what the batch was made of, which may be large: it is put, or never will be.
func (d *made) forget() {
	clear(d.messages)
	clear(d.inputs)
	clear(d.headers)
	clear(d.pieces)
	d.numbers.trim(slabMost)
	d.gains.trim(slabMost)
	d.filled.trim(slabMost)
	d.values.trim(slabMost)
}

// bytes is what it takes once it has forgotten.
func (d *made) bytes() int {
	return sizeOf(d.messages) + sizeOf(d.inputs) + sizeOf(d.headers) + sizeOf(d.digits) + sizeOf(d.pieces) +
		d.numbers.bytes(cap(d.numbers.all)) + d.gains.bytes(cap(d.gains.all)) + d.filled.bytes(cap(d.filled.all)) + d.values.bytes(cap(d.values.all))
}

func sizeOf[T any](s []T) int {
	var one T
	return cap(s) * int(unsafe.Sizeof(one))
}
