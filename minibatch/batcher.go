package minibatch

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Minibatch is exactly B rows without a null, with their identities, partitions and series, and the rows with nulls between them. All are valid until the
// next step of the sequence that gave it.
type Minibatch struct {
	X          *mat.Dense // NaN: a null
	IDs        []uint64
	Partitions []int32
	Series     []uint64
	Stamps     []int64 // times, in ms since the epoch; 0: none
	Rows       int     // those without a null
}

// Batcher cuts a stream of rows into minibatches of exactly B rows, in order. The remainder, always the newest rows,
// waits for the next Add and is part of a checkpoint.
type Batcher struct {
	dim, rows  int
	x          []float64 // the remainder, row-major
	ids        []uint64
	partitions []int32
	series     []uint64
	stamps     []int64
	stamp      int64    // of the rows that are handed over
	complete   int      // rows of the remainder without a null
	nulls      int      // rows with one behind the last minibatch that is complete
	one        struct { // partition and series of the rows that are handed over, for each row of a minibatch
		partitions []int32
		series     []uint64
		stamps     []int64
	}
}

// mostNulls bounds the rows with nulls that wait, to a multiple of B; more are left out, where nearly all rows have nulls.
const mostNulls = 4

// NewBatcher returns a Batcher for rows of dim columns, in minibatches of the given number of rows.
func NewBatcher(dim, rows int) *Batcher {
	if dim < 1 || rows < 1 {
		panic(fmt.Sprintf("minibatch: NewBatcher(%d, %d): both must be at least 1", dim, rows))
	}
	b := &Batcher{dim: dim, rows: rows}
	b.one.partitions, b.one.series, b.one.stamps = make([]int32, rows), make([]uint64, rows), make([]int64, rows)
	return b
}

// Stamp sets the time of the rows that are added from now on, in ms since the epoch; 0: they have none.
func (b *Batcher) Stamp(at int64) { b.stamp = at }

// SeriesOf is the identity of the series that the rows of a partition are, where no values divide them.
func SeriesOf(partition int32) uint64 { return uint64(partition) }

// Add appends rows of a partition, which have no nulls and are one series, and yields the minibatches that they complete. Rows are consumed while the
// sequence is ranged over, which can be done only once. After an early exit from the loop, rows that were not yielded are kept and
// come first in the next call. Add does not keep x and ids.
func (b *Batcher) Add(x []float64, ids []uint64, partition int32) iter.Seq[Minibatch] {
	if len(x) != len(ids)*b.dim {
		panic(fmt.Sprintf("minibatch: Add: %d numbers are not %d rows of %d", len(x), len(ids), b.dim))
	}
	return func(yield func(Minibatch) bool) {
		goOn := true
		for goOn && b.complete+len(ids) >= b.rows {
			// The remainder is filled first; without one, minibatches are views of x itself.
			if len(b.ids) > 0 {
				if fill := b.rows - b.complete; fill > 0 {
					b.take(x[:fill*b.dim], ids[:fill], partition)
					x, ids = x[fill*b.dim:], ids[fill:]
				}
				goOn = b.yield(yield)
				continue
			}
			for i := range b.rows {
				b.one.partitions[i], b.one.series[i], b.one.stamps[i] = partition, SeriesOf(partition), b.stamp
			}
			m := b.view(x, ids, b.one.partitions, b.one.series, b.one.stamps, b.rows)
			x, ids = x[b.rows*b.dim:], ids[b.rows:]
			goOn = yield(m)
		}
		b.take(x, ids, partition)
		x, ids = nil, nil
	}
}

// AddSeries is Add for rows of any series, given by their identities, which may have NaN for nulls.
func (b *Batcher) AddSeries(x []float64, ids, series []uint64, partition int32) iter.Seq[Minibatch] {
	if len(x) != len(ids)*b.dim || len(series) != len(ids) {
		panic(fmt.Sprintf("minibatch: AddSeries: %d numbers and %d series are not %d rows of %d", len(x), len(series), len(ids), b.dim))
	}
	return func(yield func(Minibatch) bool) {
		goOn := true
		for i, id := range ids {
			for goOn && b.complete >= b.rows {
				goOn = b.yield(yield)
			}
			b.push(x[i*b.dim:(i+1)*b.dim], id, series[i], partition)
		}
		for goOn && b.complete >= b.rows {
			goOn = b.yield(yield)
		}
		x, ids, series = nil, nil, nil
	}
}

// Rest returns the remainder: fewer than B rows, or nil if there are none. It is learnt only at the end of a bounded
// stream. It is valid until the next Add or Reset.
func (b *Batcher) Rest() Minibatch {
	if len(b.ids) == 0 {
		return Minibatch{}
	}
	return b.view(b.x, b.ids, b.partitions, b.series, b.stamps, b.complete)
}

// Reset drops the remainder.
func (b *Batcher) Reset() {
	b.x, b.ids, b.partitions, b.series, b.stamps = b.x[:0], b.ids[:0], b.partitions[:0], b.series[:0], b.stamps[:0]
	b.complete, b.nulls = 0, 0
}

// Rows returns the number of rows of a minibatch.
func (b *Batcher) Rows() int { return b.rows }

// Len returns the number of rows without a null in the remainder.
func (b *Batcher) Len() int { return b.complete }

// take appends rows of a partition, which are one series and have no nulls.
func (b *Batcher) take(x []float64, ids []uint64, partition int32) {
	b.x = append(b.x, x...)
	b.ids = append(b.ids, ids...)
	for range ids {
		b.partitions, b.series, b.stamps = append(b.partitions, partition), append(b.series, SeriesOf(partition)), append(b.stamps, b.stamp)
		b.counted(true)
	}
}

// push appends a row.
func (b *Batcher) push(row []float64, id, series uint64, partition int32) {
	if whole := isWhole(row); whole || b.nulls < mostNulls*b.rows {
		b.x, b.ids = append(b.x, row...), append(b.ids, id)
		b.partitions, b.series, b.stamps = append(b.partitions, partition), append(b.series, series), append(b.stamps, b.stamp)
		b.counted(whole)
	}
}

// counted counts a row that was appended.
func (b *Batcher) counted(whole bool) {
	if !whole {
		b.nulls++
		return
	}
	if b.complete++; b.complete%b.rows == 0 {
		b.nulls = 0
	}
}

func isWhole(row []float64) bool {
	for _, v := range row {
		if v != v {
			return false
		}
	}
	return true
}

// yield yields the oldest minibatch of the remainder, and removes it.
func (b *Batcher) yield(yield func(Minibatch) bool) (goOn bool) {
	n := b.rows
	if b.complete < len(b.ids) { // there are rows with nulls
		n = 0
		for whole := 0; whole < b.rows; n++ {
			if isWhole(b.x[n*b.dim : (n+1)*b.dim]) {
				whole++
			}
		}
	}
	goOn = yield(b.view(b.x[:n*b.dim], b.ids[:n], b.partitions[:n], b.series[:n], b.stamps[:n], b.rows))
	b.x = b.x[:copy(b.x, b.x[n*b.dim:])]
	b.ids = b.ids[:copy(b.ids, b.ids[n:])]
	b.partitions = b.partitions[:copy(b.partitions, b.partitions[n:])]
	b.series = b.series[:copy(b.series, b.series[n:])]
	b.stamps = b.stamps[:copy(b.stamps, b.stamps[n:])]
	b.complete -= b.rows
	return goOn
}

// view is a minibatch of rows, of which so many have no nulls.
func (b *Batcher) view(x []float64, ids []uint64, partitions []int32, series []uint64, stamps []int64, whole int) Minibatch {
	n := len(partitions)
	return Minibatch{X: mat.NewDense(n, b.dim, x[:n*b.dim]), IDs: ids[:n], Partitions: partitions, Series: series, Stamps: stamps, Rows: whole}
}

// The remainder in a checkpoint, little-endian, exact to the bit:
//
//	+---------+------+------+--------------------+---------------+----------------+----------------+-----------------+
//	| 'B' '4' | d u32| n u32| partitions n × u32 | ids   n × u64 | series n × u64 | stamps n × i64 | rows  n·d × f64 |
//	+---------+------+------+--------------------+---------------+----------------+----------------+-----------------+
//
// B is not part of it: a remainder may be taken up under another minibatch size. "B2" has no series and no stamps: each is the partition's. It is written where
// that is so, and there are no nulls and no stamps. "B1", which is read too, has no partitions either: they are then −1, which is that of no partition.
const (
	stateVersion  = "B4"
	secondVersion = "B2"
	firstVersion  = "B1"
)

// writes is the version that has all there is.
func (b *Batcher) writes() string {
	if b.complete < len(b.ids) {
		return stateVersion
	}
	for i, p := range b.partitions {
		if b.series[i] != SeriesOf(p) || b.stamps[i] != 0 {
			return stateVersion
		}
	}
	return secondVersion
}

// AppendBinary appends the remainder to dst.
func (b *Batcher) AppendBinary(dst []byte) ([]byte, error) {
	version := b.writes()
	dst = append(dst, version...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.dim))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.ids)))
	for _, p := range b.partitions {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(p))
	}
	for _, id := range b.ids {
		dst = binary.LittleEndian.AppendUint64(dst, id)
	}
	if version == stateVersion {
		for _, id := range b.series {
			dst = binary.LittleEndian.AppendUint64(dst, id)
		}
		for _, at := range b.stamps {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(at))
		}
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
	row, known := map[string]uint64{firstVersion: 8, secondVersion: 8 + 4, stateVersion: 8 + 4 + 8 + 8}[version]
	if len(data) < header || !known {
		return fmt.Errorf("minibatch: remainder of %d bytes does not begin with %q: written by another version, or damaged", len(data), stateVersion)
	}
	dim := uint64(binary.LittleEndian.Uint32(data[2:]))
	n := uint64(binary.LittleEndian.Uint32(data[6:]))
	if dim != uint64(b.dim) {
		return fmt.Errorf("minibatch: remainder has %d columns, want %d: the features changed, use another snapshot.model_id", dim, b.dim)
	}
	data = data[header:]
	row += 8 * dim
	if want := n * row; uint64(len(data)) != want {
		return fmt.Errorf("minibatch: remainder of %d rows has %d bytes, want %d: damaged", n, len(data), want)
	}
	word := func() (v uint64) {
		v, data = binary.LittleEndian.Uint64(data), data[8:]
		return v
	}
	b.Reset()
	for range n {
		p := int32(-1)
		if version != firstVersion {
			p, data = int32(binary.LittleEndian.Uint32(data)), data[4:]
		}
		b.partitions, b.series, b.stamps = append(b.partitions, p), append(b.series, SeriesOf(p)), append(b.stamps, 0)
	}
	for range n {
		b.ids = append(b.ids, word())
	}
	if version == stateVersion {
		for i := range b.series {
			b.series[i] = word()
		}
		for i := range b.stamps {
			b.stamps[i] = int64(word())
		}
	}
	for range n {
		for range dim {
			b.x = append(b.x, math.Float64frombits(word()))
		}
		b.counted(isWhole(b.x[len(b.x)-b.dim:]))
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
