package minibatch

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Minibatch is exactly B rows with their identities and partitions. All are valid until the next step of the
// sequence that gave it.
type Minibatch struct {
	X          *mat.Dense
	IDs        []uint64
	Partitions []int32
}

// Batcher cuts a stream of rows into minibatches of exactly B rows, in order. The remainder, always the newest rows,
// waits for the next Add and is part of a checkpoint.
type Batcher struct {
	dim, rows  int
	x          []float64 // the remainder, row-major
	ids        []uint64
	partitions []int32
	one        []int32 // the partition of the rows that are handed over, for each row of a minibatch
}

// NewBatcher returns a Batcher for rows of dim columns, in minibatches of the given number of rows.
func NewBatcher(dim, rows int) *Batcher {
	if dim < 1 || rows < 1 {
		panic(fmt.Sprintf("minibatch: NewBatcher(%d, %d): both must be at least 1", dim, rows))
	}
	return &Batcher{dim: dim, rows: rows, one: make([]int32, rows)}
}

// Add appends rows of a partition and yields the minibatches that they complete. Rows are consumed while the sequence is
// ranged over, which can be done only once. After an early exit from the loop, rows that were not yielded are kept and
// come first in the next call. Add does not keep x and ids.
func (b *Batcher) Add(x []float64, ids []uint64, partition int32) iter.Seq[Minibatch] {
	if len(x) != len(ids)*b.dim {
		panic(fmt.Sprintf("minibatch: Add: %d numbers are not %d rows of %d", len(x), len(ids), b.dim))
	}
	return func(yield func(Minibatch) bool) {
		goOn := true
		for goOn && len(b.ids)+len(ids) >= b.rows {
			// The remainder is filled first; without one, minibatches are views of x itself.
			if fill := b.rows - len(b.ids); len(b.ids) > 0 {
				if fill > 0 {
					b.take(x[:fill*b.dim], ids[:fill], partition)
					x, ids = x[fill*b.dim:], ids[fill:]
				}
				m := b.view(b.x, b.ids, b.partitions)
				goOn = yield(m)
				b.drop()
				continue
			}
			for i := range b.one {
				b.one[i] = partition
			}
			m := b.view(x, ids, b.one)
			x, ids = x[b.rows*b.dim:], ids[b.rows:]
			goOn = yield(m)
		}
		b.take(x, ids, partition)
		x, ids = nil, nil
	}
}

// Rest returns the remainder: fewer than B rows, or nil if there are none. It is learnt only at the end of a bounded
// stream. It is valid until the next Add or Reset.
func (b *Batcher) Rest() Minibatch {
	if len(b.ids) == 0 {
		return Minibatch{}
	}
	return Minibatch{X: mat.NewDense(len(b.ids), b.dim, b.x), IDs: b.ids, Partitions: b.partitions}
}

// Reset drops the remainder.
func (b *Batcher) Reset() { b.x, b.ids, b.partitions = b.x[:0], b.ids[:0], b.partitions[:0] }

// Rows returns the number of rows of a minibatch.
func (b *Batcher) Rows() int { return b.rows }

// Len returns the number of rows in the remainder.
func (b *Batcher) Len() int { return len(b.ids) }

func (b *Batcher) take(x []float64, ids []uint64, partition int32) {
	b.x = append(b.x, x...)
	b.ids = append(b.ids, ids...)
	for range ids {
		b.partitions = append(b.partitions, partition)
	}
}

// drop removes the oldest B rows of the remainder.
func (b *Batcher) drop() {
	b.x = b.x[:copy(b.x, b.x[b.rows*b.dim:])]
	b.ids = b.ids[:copy(b.ids, b.ids[b.rows:])]
	b.partitions = b.partitions[:copy(b.partitions, b.partitions[b.rows:])]
}

func (b *Batcher) view(x []float64, ids []uint64, partitions []int32) Minibatch {
	return Minibatch{X: mat.NewDense(b.rows, b.dim, x[:b.rows*b.dim]), IDs: ids[:b.rows], Partitions: partitions[:b.rows]}
}

// The remainder in a checkpoint, little-endian, exact to the bit:
//
//	+---------+------+------+--------------------+---------------+---------------------+
//	| 'B' '2' | d u32| n u32| partitions n × u32 | ids   n × u64 | rows   n·d × f64    |
//	+---------+------+------+--------------------+---------------+---------------------+
//
// B is not part of it: a remainder may be taken up under another minibatch size. "B1", which is read too, has no
// partitions: they are then −1, which is that of no partition.
const (
	stateVersion  = "B2"
	formerVersion = "B1"
)

// AppendBinary appends the remainder to dst.
func (b *Batcher) AppendBinary(dst []byte) ([]byte, error) {
	dst = append(dst, stateVersion...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.dim))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.ids)))
	for _, p := range b.partitions {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(p))
	}
	for _, id := range b.ids {
		dst = binary.LittleEndian.AppendUint64(dst, id)
	}
	for _, v := range b.x {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst, nil
}

// UnmarshalBinary replaces the remainder by one that AppendBinary wrote for the same number of
// columns. On error the Batcher is unchanged.
func (b *Batcher) UnmarshalBinary(data []byte) error {
	const header = len(stateVersion) + 4 + 4
	version := string(data[:min(len(data), len(stateVersion))])
	if len(data) < header || version != stateVersion && version != formerVersion {
		return fmt.Errorf("minibatch: remainder of %d bytes does not begin with %q: written by another version, or damaged", len(data), stateVersion)
	}
	dim := uint64(binary.LittleEndian.Uint32(data[2:]))
	n := uint64(binary.LittleEndian.Uint32(data[6:]))
	if dim != uint64(b.dim) {
		return fmt.Errorf("minibatch: remainder has %d columns, want %d: the features changed, use another snapshot.model_id", dim, b.dim)
	}
	data = data[header:]
	row := 8 + 8*dim
	if version == stateVersion {
		row += 4
	}
	if want := n * row; uint64(len(data)) != want {
		return fmt.Errorf("minibatch: remainder of %d rows has %d bytes, want %d: damaged", n, len(data), want)
	}
	b.Reset()
	for range n {
		p := int32(-1)
		if version == stateVersion {
			p, data = int32(binary.LittleEndian.Uint32(data)), data[4:]
		}
		b.partitions = append(b.partitions, p)
	}
	for range n {
		b.ids = append(b.ids, binary.LittleEndian.Uint64(data))
		data = data[8:]
	}
	for range n * dim {
		b.x = append(b.x, math.Float64frombits(binary.LittleEndian.Uint64(data)))
		data = data[8:]
	}
	return nil
}

// RowIDs computes the identities of the rows of one partition.
//
// The identity of a row is a fixed function of its position in its topic, so that a replay, a restart and another
// machine agree on it. The neighbour pool draws its slots from it, and by it a row never becomes its own neighbour.
// It is kept in checkpoints, so it must never change.
//
//	h₀ = FNV-1a-64(topic)
//	h₁ = mix(h₀ ⊕ mix(partition + k))
//	h₂ = mix(h₁ ⊕ mix(offset + k))
//	id = mix(h₂ ⊕ mix(row + k))
//
// with k = 0x9e3779b97f4a7c15 and mix the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
// Topics of equal names are the same topic. For files the topic is empty, the partition the index of the file, the offset
// 0, and row counts from the beginning of the file.
type RowIDs struct{ h1 uint64 }

const golden = 0x9e3779b97f4a7c15 // 2⁶⁴/φ

// NewRowIDs returns the identities of one partition.
func NewRowIDs(topic string, partition int32) RowIDs {
	h := uint64(0xcbf29ce484222325)
	for i := range len(topic) {
		h = (h ^ uint64(topic[i])) * 0x100000001b3
	}
	return RowIDs{h1: combine(h, uint64(uint32(partition)))}
}

// ID returns the identity of a row of the record at an offset.
func (r RowIDs) ID(offset int64, row int) uint64 {
	return combine(combine(r.h1, uint64(offset)), uint64(row))
}

func combine(h, v uint64) uint64 { return mix(h ^ mix(v+golden)) }

func mix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}
