package recordbatch

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

// A large message that is compressed as it is written is read back whole, in a batch of the size that was said,
// and has never been in one piece.
func TestPack(t *testing.T) {
	piece := bytes.Repeat([]byte("a row of numbers "), 1<<18)
	recs := []Record{{
		Timestamp: 77, Key: []byte("key"), Value: []byte("front"), Rest: [][]byte{piece, nil, piece[:9], piece},
		Headers: []Header{{Key: "h", Value: []byte("v")}},
	}}
	producer := Producer{ID: 7, Epoch: 3, Sequence: 11, Transactional: true}
	var c Compressor
	for range 2 { // the second time with an encoder that was used before
		b, ok := c.Pack([]byte("before"), recs, producer)
		if size := c.PackedSize(recs); !ok || string(b[:6]) != "before" || len(b) != 6+size || size > Size(recs)/5 {
			t.Fatalf("%v, %d bytes, %d were said", ok, len(b)-6, size)
		}
		var batch Batch
		d := NewDecoder(64<<20, nil)
		d.Reset(b[6:])
		if err := d.Next(&batch); err != nil {
			t.Fatal(err)
		}
		got, err := d.Records(nil, &batch)
		if err != nil {
			t.Fatal(err)
		}
		want := recs[0]
		want.Value, want.Rest = bytes.Join(append([][]byte{want.Value}, want.Rest...), nil), nil
		if !reflect.DeepEqual([]Record{want}, got) || batch.Producer != producer { // too large for a diff
			t.Errorf("producer %+v, other records than were written", batch.Producer)
		}
	}
	before := allocated()
	c.PackedSize(recs)
	if took := allocated() - before; took > 4<<20 { // an encoder, if the collector has just taken the others
		t.Errorf("%d bytes allocated to compress %d", took, Size(recs))
	}
}

// What would not get smaller is left to others, and takes no more than it is large.
func TestPackGrowsNothing(t *testing.T) {
	noise := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	recs := []Record{{Value: noise}}
	var c Compressor
	if b, ok := c.Pack([]byte("before"), recs, NoProducer()); ok || string(b) != "before" {
		t.Errorf("%d bytes", len(b))
	}
	if size := c.PackedSize(recs); size != Size(recs) {
		t.Errorf("%d bytes, want %d", size, Size(recs))
	}
}
