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

	// Of a batch that is written in any order.
	parts    []madePart
	shuffled struct { // messages and inputs as they were written
		messages []sink.Message
		inputs   []*source.Message
	}
}

// madePart is what one input has become, where inputs are written in any order.
type madePart struct {
	last int                 // the messages before this one that are no other part's are its own
	bad  *source.RecordError // why the input is set aside; nil: it is not
}

func (d *made) begin(messages int) {
	const headers, digits = 9, 8 // of a message: headers of its own, and digits of its offset as a rule
	d.messages, d.inputs = slices.Grow(d.messages[:0], messages), slices.Grow(d.inputs[:0], messages)
	d.headers, d.digits = slices.Grow(d.headers[:0], headers*messages), slices.Grow(d.digits[:0], digits*messages)
	d.pieces, d.parts = slices.Grow(d.pieces[:0], leastPieces*messages), d.parts[:0]
	d.numbers.begin(slabMost)
	d.gains.begin(slabMost)
	d.filled.begin(slabMost)
	d.values.begin(slabMost)
}

// add takes an output, or a dead letter, of an input.
func (d *made) add(out sink.Message, in *source.Message) {
	d.messages, d.inputs = append(d.messages, out), append(d.inputs, in)
}

// endPart says that all has been added that the next input becomes.
func (d *made) endPart(bad *source.RecordError) {
	d.parts = append(d.parts, madePart{len(d.messages), bad})
}

// inOrder brings the parts into an order: those of place[0], place[1] and so on. After each part it calls settle, which may add a message.
func (d *made) inOrder(place []int32, settle func(i int, bad *source.RecordError) error) error {
	s := &d.shuffled
	s.messages, d.messages = d.messages, slices.Grow(s.messages[:0], len(d.messages))
	s.inputs, d.inputs = d.inputs, slices.Grow(s.inputs[:0], len(d.inputs))
	for i, n := range place {
		first, part := 0, &d.parts[n]
		if n > 0 {
			first = d.parts[n-1].last
		}
		d.messages, d.inputs = append(d.messages, s.messages[first:part.last]...), append(d.inputs, s.inputs[first:part.last]...)
		if err := settle(i, part.bad); err != nil {
			return err
		}
	}
	clear(s.messages)
	clear(s.inputs)
	return nil
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
	clear(d.parts)
	d.numbers.trim(slabMost)
	d.gains.trim(slabMost)
	d.filled.trim(slabMost)
	d.values.trim(slabMost)
}

// bytes is what it takes once it has forgotten.
func (d *made) bytes() int {
	return sizeOf(d.messages) + sizeOf(d.inputs) + sizeOf(d.headers) + sizeOf(d.digits) + sizeOf(d.pieces) +
		sizeOf(d.parts) + sizeOf(d.shuffled.messages) + sizeOf(d.shuffled.inputs) +
		d.numbers.bytes(cap(d.numbers.all)) + d.gains.bytes(cap(d.gains.all)) + d.filled.bytes(cap(d.filled.all)) + d.values.bytes(cap(d.values.all))
}

func sizeOf[T any](s []T) int {
	var one T
	return cap(s) * int(unsafe.Sizeof(one))
}
