package minibatch

import (
	"encoding/binary"
	"fmt"
	"math"
)

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
