package format

import (
	"encoding/binary"

	flatbuffers "github.com/google/flatbuffers/go"
)

// forge writes IPC messages that no Arrow library would: the flatbuffers are well formed, what
// they say is up to the caller.
type forge struct{ b *flatbuffers.Builder }

func newForge() forge { return forge{flatbuffers.NewBuilder(1 << 10)} }

// The kinds of types that the forger needs, numbered as in Schema.fbs.
const (
	fbNull, fbInt, fbFloat, fbUtf8, fbList, fbStruct, fbFixedSizeList, fbUtf8View = 1, 2, 3, 5, 12, 13, 16, 24
)

// vector writes a vector of offsets.
func (f forge) vector(offsets ...flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	f.b.StartVector(4, len(offsets), 4)
	for i := len(offsets) - 1; i >= 0; i-- {
		f.b.PrependUOffsetT(offsets[i])
	}
	return f.b.EndVector(len(offsets))
}

// pairs writes a vector of structs of two int64: nodes or buffers.
func (f forge) pairs(values ...[2]int64) flatbuffers.UOffsetT {
	f.b.StartVector(16, len(values), 8)
	for i := len(values) - 1; i >= 0; i-- {
		f.b.PrependInt64(values[i][1])
		f.b.PrependInt64(values[i][0])
	}
	return f.b.EndVector(len(values))
}

// typ writes a type table: one number, in slot 0, if the kind has one.
func (f forge) typ(kind int, number int32) flatbuffers.UOffsetT {
	f.b.StartObject(2)
	switch kind {
	case fbFloat:
		f.b.PrependInt16Slot(0, int16(number), -1)
	case fbInt, fbFixedSizeList:
		f.b.PrependInt32Slot(0, number, -1)
	}
	return f.b.EndObject()
}

func (f forge) field(name flatbuffers.UOffsetT, kind int, number int32, children ...flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	t, kids := f.typ(kind, number), f.vector(children...)
	f.b.StartObject(7)
	f.b.PrependUOffsetTSlot(0, name, 0)
	f.b.PrependBoolSlot(1, true, false)
	f.b.PrependByteSlot(2, byte(kind), 0)
	f.b.PrependUOffsetTSlot(3, t, 0)
	f.b.PrependUOffsetTSlot(5, kids, 0)
	return f.b.EndObject()
}

func (f forge) schema(fields ...flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	v := f.vector(fields...)
	f.b.StartObject(4)
	f.b.PrependUOffsetTSlot(1, v, 0)
	return f.b.EndObject()
}

// batch writes a RecordBatch; codec below 0 is none.
func (f forge) batch(rows int64, codec int, nodes, buffers [][2]int64, variadic ...int64) flatbuffers.UOffsetT {
	n, u := f.pairs(nodes...), f.pairs(buffers...)
	f.b.StartVector(8, len(variadic), 8)
	for i := len(variadic) - 1; i >= 0; i-- {
		f.b.PrependInt64(variadic[i])
	}
	v := f.b.EndVector(len(variadic))
	var c flatbuffers.UOffsetT
	if codec >= 0 {
		f.b.StartObject(2)
		f.b.PrependByteSlot(0, byte(codec), 255)
		c = f.b.EndObject()
	}
	f.b.StartObject(5)
	f.b.PrependInt64Slot(0, rows, -1)
	f.b.PrependUOffsetTSlot(1, n, 0)
	f.b.PrependUOffsetTSlot(2, u, 0)
	f.b.PrependUOffsetTSlot(3, c, 0)
	f.b.PrependUOffsetTSlot(4, v, 0)
	return f.b.EndObject()
}

// message finishes the flatbuffer and frames it.
func (f forge) message(kind byte, header flatbuffers.UOffsetT, body []byte) []byte {
	f.b.StartObject(5)
	f.b.PrependInt16Slot(0, 4, 0) // V5
	f.b.PrependByteSlot(1, kind, 0)
	f.b.PrependUOffsetTSlot(2, header, 0)
	f.b.PrependInt64Slot(3, int64(len(body)), 0)
	f.b.Finish(f.b.EndObject())
	meta := f.b.FinishedBytes()
	for len(meta)%8 != 0 {
		meta = append(meta, 0)
	}
	out := binary.LittleEndian.AppendUint32([]byte{0xFF, 0xFF, 0xFF, 0xFF}, uint32(len(meta)))
	return append(append(out, meta...), body...)
}

// forged is a stream of one schema and one batch.
func forged(schema func(f forge) flatbuffers.UOffsetT, batch func(f forge) flatbuffers.UOffsetT, body []byte) []byte {
	f := newForge()
	out := f.message(1, schema(f), nil)
	if batch != nil {
		f = newForge()
		out = append(out, f.message(3, batch(f), body)...)
	}
	return out
}

// columns is a schema of one column.
func oneColumn(kind int, number int32) func(f forge) flatbuffers.UOffsetT {
	return func(f forge) flatbuffers.UOffsetT { return f.schema(f.field(f.b.CreateString("c"), kind, number)) }
}
