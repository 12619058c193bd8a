package minibatch

import (
	"bytes"
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// FuzzCutting: any cutting of the same rows into records gives the same minibatches, with a
// checkpoint taken and read back at any of the cuts.
func FuzzCutting(f *testing.F) {
	f.Add(uint8(10), uint8(3), []byte{4, 0, 6})
	f.Add(uint8(200), uint8(7), []byte{1, 255, 3, 90})
	f.Add(uint8(0), uint8(1), []byte{})
	f.Fuzz(func(t *testing.T, n, rows uint8, cuts []byte) {
		if rows == 0 {
			rows = 1
		}
		rec := fuzzRecord(int(n))
		whole := minibatches(t, int(rows), rec)

		var pieces []arrow.Record
		at := int64(0)
		for _, c := range cuts {
			next := min(at+int64(c), rec.NumRows())
			pieces = append(pieces, rec.NewSlice(at, next))
			at = next
		}
		pieces = append(pieces, rec.NewSlice(at, rec.NumRows()))
		if diff := cmp.Diff(whole, minibatches(t, int(rows), pieces...)); diff != "" {
			t.Errorf("cut into %v: %s", cuts, diff)
		}
	})
}

// fuzzRecord has a bad row in every eleven, which no minibatch may hold.
func fuzzRecord(n int) arrow.Record {
	a, b := array.NewFloat32Builder(memory.DefaultAllocator), array.NewInt16Builder(memory.DefaultAllocator)
	for i := range n {
		switch i % 11 {
		case 5:
			a.AppendNull()
		case 7:
			a.Append(float32(math.NaN()))
		default:
			a.Append(float32(i) / 3)
		}
		b.Append(int16(-i))
	}
	fields := []arrow.Field{{Name: "a", Type: f32, Nullable: true}, {Name: "b", Type: arrow.PrimitiveTypes.Int16}}
	return array.NewRecord(arrow.NewSchema(fields, nil), []arrow.Array{a.NewArray(), b.NewArray()}, int64(n))
}

// minibatches runs records through Gather and a Batcher that is checkpointed after each. The
// remainder is the last element.
func minibatches(t *testing.T, rows int, records ...arrow.Record) (all []flat) {
	features := Features{Names: []string{"a", "b"}}
	b := NewBatcher(2, rows)
	id := NewRowIDs("events", 1)
	start := 0 // identities follow the row in the uncut record, as if it were all one message
	var r Rows
	for _, rec := range records {
		if err := features.Gather(&r, rec); err != nil {
			t.Fatal(err)
		}
		var x []float64
		var ids []uint64
		for i, reason := range r.Invalid {
			if reason == ReasonNone {
				x, ids = append(x, r.X[2*i:2*i+2]...), append(ids, id.ID(0, start+i))
			}
		}
		start += r.N
		for m := range b.Add(x, ids, 3) {
			all = append(all, keep(m))
		}
		state, err := b.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		b = NewBatcher(2, rows)
		if err := b.UnmarshalBinary(state); err != nil {
			t.Fatal(err)
		}
	}
	if b.Len() > 0 {
		all = append(all, keep(b.Rest()))
	}
	return all
}

// FuzzState: no bytes make UnmarshalBinary panic, and what it takes it gives back, in the oldest layout that has it all.
func FuzzState(f *testing.F) {
	b := NewBatcher(2, 9)
	for range b.Add([]float64{1, 2, 3, 4}, []uint64{8, 9}, 3) {
		f.Fatal("two rows are not a minibatch of nine")
	}
	for _, series := range [][]uint64{nil, {7}} {
		for range b.AddSeries([]float64{1, math.NaN()}[:2*len(series)], make([]uint64, len(series)), series, 1) {
			f.Fatal("a row with a null has completed a minibatch")
		}
		state, err := b.AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(state)
	}
	f.Add([]byte("B1"))
	f.Add([]byte("B2"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, d := NewBatcher(2, 9), NewBatcher(2, 9)
		if c.UnmarshalBinary(data) != nil {
			return
		}
		state, err := c.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if string(data[:2]) == string(state[:2]) && !bytes.Equal(data, state) {
			t.Error("changed on its way")
		}
		if err := d.UnmarshalBinary(state); err != nil {
			t.Fatal(err)
		}
		if again, err := d.AppendBinary(nil); err != nil || !bytes.Equal(state, again) {
			t.Errorf("%x became %x, %v", state, again, err)
		}
	})
}
