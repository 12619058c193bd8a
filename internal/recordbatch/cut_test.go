package recordbatch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// A batch with its cuts in their places has the bytes of Append, whatever the sizes of values and pieces, and the
// cuts are the caller's memory.
func TestAppendCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	sizes := []int{0, 1, 100, CutBytes - 1, CutBytes, CutBytes + 1, 40_000}
	some := func() []byte {
		b := make([]byte, sizes[rng.IntN(len(sizes))])
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	cuts := 0
	for round := range 300 {
		recs := make([]Record, 1+rng.IntN(6))
		for i := range recs {
			r := &recs[i]
			r.Timestamp, r.Key, r.Value = rng.Int64N(1e6), some(), some()
			for range rng.IntN(4) {
				r.Rest = append(r.Rest, some())
			}
			if rng.IntN(4) == 0 {
				r.Value, r.Rest = nil, nil // a tombstone
			}
			r.Headers = []Header{{Key: "h", Value: some()}}
		}
		p := Producer{ID: 5, Epoch: 2, Sequence: 9, Transactional: true}
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			before := Cut{At: 2, Bytes: []byte("of another batch")}
			got, all := AppendCut([]byte("head"), []Cut{before}, recs, p)
			if n := len(got) - 4; n != CutSize(recs) {
				t.Errorf("%d bytes, CutSize says %d", n, CutSize(recs))
			}
			whole, from := []byte(nil), 4
			for _, c := range all[1:] {
				whole = append(append(whole, got[from:c.At]...), c.Bytes...)
				from = c.At
				cuts++
				if len(c.Bytes) < CutBytes || !isOf(recs, c.Bytes) {
					t.Errorf("a cut of %d bytes", len(c.Bytes))
				}
			}
			if whole = append(whole, got[from:]...); !bytes.Equal(whole, Append(nil, recs, p)) {
				t.Error("another batch than that of Append")
			}
		})
	}
	if cuts < 300 {
		t.Errorf("only %d cuts", cuts)
	}
}

// isOf reports whether b is a value, or a piece of one, and no copy.
func isOf(recs []Record, b []byte) bool {
	for i := range recs {
		for _, piece := range append([][]byte{recs[i].Value}, recs[i].Rest...) {
			if len(piece) > 0 && &piece[0] == &b[0] {
				return true
			}
		}
	}
	return false
}
