package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestKindsOfPoints holds that of a pool with few kinds of points each row leaves all out that are equal to it, and no other, whatever the rows
// before it have left out, where 0 and −0 are two kinds of bits, and where the next call has another pool.
func TestKindsOfPoints(t *testing.T) {
	const n, dim, kinds, rows = 300, 40, 4, 200
	r := rand.New(rand.NewPCG(1, 2))
	values, _ := points[float32](3, kinds, dim, 1)
	values[3] = 0
	for kind := 1; kind < kinds; kind += 2 { // so near to the one before that logits do not tell them apart, and yet no copy
		copy(values[kind*dim:][:dim], values[(kind-1)*dim:])
		values[kind*dim+5] += 0.01
	}
	var q, z []float32
	var ofRow, ofPoint []int
	ex := Exclusion{NearCopy: NearCopy * dim, Start: []int32{0}}
	for range rows {
		kind := r.IntN(kinds)
		q, ofRow = append(q, values[kind*dim:][:dim]...), append(ofRow, kind)
		for j := range int32(n) {
			if r.IntN(3) == 0 {
				ex.Index = append(ex.Index, j)
			}
		}
		ex.Start = append(ex.Start, int32(len(ex.Index)))
	}
	for range n {
		kind := r.IntN(kinds)
		z, ofPoint = append(z, values[kind*dim:][:dim]...), append(ofPoint, kind)
	}
	var pool Neighbours[float32]
	var m Moments
	s := Scratch[float32]{Threads: 2}
	for range 3 {
		for j, kind := range ofPoint {
			if copy(z[j*dim:], values[kind*dim:][:dim]); kind == 0 {
				z[j*dim+3] = float32(math.Copysign(0, r.Float64()-0.5))
			}
		}
		pool.Pack(z, n, dim, dim)
		Update(&m, &s, q, rows, &pool, ex)
		copies := 0
		for i, kind := range ofRow {
			want := 0
			for j, other := range ofPoint {
				if _, out := slices.BinarySearch(ex.Index[ex.Start[i]:ex.Start[i+1]], int32(j)); out {
					continue
				} else if other == kind {
					copies++
				} else {
					want++
				}
			}
			if int(m.Admissible[i]) != want {
				t.Fatalf("row %d has %d neighbours, want %d", i, m.Admissible[i], want)
			}
		}
		if m.Copies != copies {
			t.Fatalf("%d copies, want %d", m.Copies, copies)
		}
		r.Shuffle(n, func(i, j int) { ofPoint[i], ofPoint[j] = ofPoint[j], ofPoint[i] })
	}
}

// BenchmarkUpdateKinds is of a pool in which most points are equal to many others, as where columns are switches.
func BenchmarkUpdateKinds(b *testing.B) {
	const rows, n, dim = 100, 3000, 25
	for _, kinds := range []int{3, 30, n} {
		b.Run(fmt.Sprintf("kinds=%d", kinds), func(b *testing.B) {
			values, _ := points[float32](1, kinds, dim, 1)
			var z []float32
			for j := range n {
				z = append(z, values[j%kinds*dim:][:dim]...)
			}
			var pool Neighbours[float32]
			pool.Pack(z, n, dim, dim)
			var m Moments
			var s Scratch[float32]
			measure(b, flops(rows, n, dim), func() {
				Update(&m, &s, z, rows, &pool, Exclusion{NearCopy: NearCopy * dim})
			})
		})
	}
}
