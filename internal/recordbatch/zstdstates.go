package recordbatch

import "math/bits"

// stateTable codes the codes of sequences by how frequent they are in a block: finite state entropy, a state machine of which frequent
// codes have many states, so that going to one of these takes few bits (RFC 8878, section 4.1).
type stateTable struct {
	count  [mostCodes]uint32
	shares [mostCodes]uint32 // states of each code, 2^log in all
	log    uint8
	steps  [mostCodes]stateStep
	states [1 << mostStates]uint16 // from 2^log on: those of the first code, in order, then those of the next
	codes  [1 << mostStates]uint8  // the code of each state, less 2^log
}

// stateStep is how a code changes the state.
type stateStep struct {
	bits uint32 // added to a state it has the number of bits to write above the lowest 16
	from int32  // added to what is left of the state it is a place in states
}

const (
	mostCodes   = 53 // of any kind
	leastStates = 5  // bits
	mostStates  = 8  // bits: no kind has fewer
	oneCode     = 1  // mode of a table of one code, which takes no bits
	withShares  = 2  // … of a table that stands before the codes
)

func (t *stateTable) reset() { t.count = [mostCodes]uint32{} }

// build makes a table for n counted codes, and appends it to dst.
func (t *stateTable) build(dst []byte, n int) (longer []byte, mode byte) {
	kinds, last := 0, 0
	for code, count := range t.count {
		if count > 0 {
			kinds, last = kinds+1, code
		}
	}
	if kinds == 1 {
		t.log, t.steps[last], t.states[0] = 0, stateStep{}, 0
		return append(dst, byte(last)), oneCode
	}
	t.log = uint8(min(max(bits.Len(uint(n-1)), leastStates), mostStates))
	t.share(uint64(n))
	t.spread()
	t.number()
	return t.appendShares(dst), withShares
}

// share gives each of n codes its part of the states, and each kind at least one.
func (t *stateTable) share(n uint64) {
	all := int32(1) << t.log
	left, largest := all, 0
	for code, count := range t.count {
		t.shares[code] = 0
		if count > 0 {
			t.shares[code] = max(uint32(uint64(count)<<t.log/n), 1)
		}
		left -= int32(t.shares[code])
		if t.shares[code] > t.shares[largest] {
			largest = code
		}
	}
	for ; left < 0; left++ { // there were many of less than one
		for code, share := range t.shares {
			if share > t.shares[largest] {
				largest = code
			}
		}
		t.shares[largest]--
	}
	t.shares[largest] += uint32(left)
}

// spread gives out the states.
func (t *stateTable) spread() {
	size := uint32(1) << t.log
	step, at := size>>1+size>>3+3, uint32(0)
	for code, share := range t.shares {
		for range share {
			t.codes[at] = uint8(code)
			at = (at + step) & (size - 1)
		}
	}
}

// number finds the steps.
func (t *stateTable) number() {
	var place [mostCodes]uint32
	before := uint32(0)
	for code, share := range t.shares {
		place[code] = before
		if share > 0 {
			most := uint32(t.log) - uint32(max(bits.Len32(share-1)-1, 0)) // bits to write, or one less
			t.steps[code] = stateStep{most<<16 - share<<most, int32(before) - int32(share)}
		}
		before += share
	}
	size := 1 << t.log
	for i, code := range t.codes[:size] {
		t.states[place[code]] = uint16(size + i)
		place[code]++
	}
}

// first is a state of a code before which nothing is written.
func (t *stateTable) first(code uint8) uint32 {
	if t.log == 0 {
		return 0
	}
	step := t.steps[code]
	n := (step.bits + 1<<15) >> 16
	return uint32(t.states[int32((n<<16-step.bits)>>n)+step.from])
}

// next writes what a reader needs to come from the next state to this one, and returns the next.
func (t *stateTable) next(w *bitWriter, state uint32, code uint8) uint32 {
	if t.log == 0 {
		return 0
	}
	step := t.steps[code]
	n := (state + step.bits) >> 16
	w.add(state&(1<<n-1), uint8(n))
	return uint32(t.states[int32(state>>n)+step.from])
}

// end writes the state that a reader begins with.
func (t *stateTable) end(w *bitWriter, state uint32) { w.add(state&(1<<t.log-1), t.log) }

// appendShares appends the table: the share of each code in as many bits as what is left may need, and after a code without states how
// many more there are.
func (t *stateTable) appendShares(dst []byte) []byte {
	w := bitWriter{bytes: dst}
	w.add(uint32(t.log-leastStates), 4)
	left, threshold, wide := uint32(1)<<t.log+1, uint32(1)<<t.log, t.log+1
	for code := 0; left > 1; {
		share := t.shares[code]
		code++
		short := 2*threshold - 1 - left // values below it take a bit less
		left -= share
		value := share + 1
		if value >= threshold {
			value += short
		}
		n := wide
		if value < short {
			n--
		}
		w.add(value, n)
		for left < threshold {
			wide, threshold = wide-1, threshold>>1
		}
		w.flush()
		if share > 0 {
			continue
		}
		none := 0
		for t.shares[code] == 0 {
			none, code = none+1, code+1
		}
		for ; none >= 3; none -= 3 {
			w.add(3, 2)
			w.flush()
		}
		w.add(uint32(none), 2)
		w.flush()
	}
	return w.close()
}
