package snapshot

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// AppendBinary appends the slots for a checkpoint: their number, then slot, chunks of the model
// part and chunks of the neighbours part of each by ascending slot, all as unsigned varints.
func (s Slots) AppendBinary(dst []byte) ([]byte, error) {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	for _, slot := range slices.Sorted(maps.Keys(s)) {
		dst = binary.AppendUvarint(dst, uint64(slot))
		dst = binary.AppendUvarint(dst, uint64(s[slot].Model))
		dst = binary.AppendUvarint(dst, uint64(s[slot].Neighbours))
	}
	return dst, nil
}

// UnmarshalBinary reads what AppendBinary wrote, and nothing longer.
func (s *Slots) UnmarshalBinary(data []byte) error {
	bad := errors.New("snapshot: damaged slots in a checkpoint")
	next := func() (int, bool) {
		v, n := binary.Uvarint(data)
		if n <= 0 || v > 1<<31-1 {
			return 0, false
		}
		data = data[n:]
		return int(v), true
	}
	count, ok := next()
	if !ok || count > len(data)/3 {
		return bad
	}
	read := make(Slots, count)
	for range count {
		slot, ok1 := next()
		model, ok2 := next()
		neighbours, ok3 := next()
		if _, twice := read[slot]; !ok1 || !ok2 || !ok3 || twice {
			return bad
		}
		read[slot] = Chunks{model, neighbours}
	}
	if len(data) > 0 {
		return bad
	}
	*s = read
	return nil
}
