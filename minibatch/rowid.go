package minibatch

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
