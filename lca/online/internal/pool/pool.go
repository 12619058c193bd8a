// Package pool holds rows of a stream: those that are neighbours of the rows to come, where each of them stands in time, and which record each of them is.
package pool

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

// Entry is the probability with which a full pool takes a row, in place of one at random: a neighbour stays for
// N/0.3 rows on average: long enough to outlast a burst of one partition's rows, which would fill
// a sliding window, and short enough to follow a drift, at which a uniform sample of all rows sticks.
const Entry = 0.3

// Seed chooses among the pools that the same rows could give.
const Seed uint64 = 1

// Pool holds the N rows that stand for the centres x_j of the Parzen part (section 5.2 samples
// them again from all rows at each step, which a stream does not have).
//
// Which row enters and which it replaces is decided by a hash of the row's identity and
// its place in the stream, never by a generator that a retry or a restore could leave elsewhere:
// the same rows in the same order give the same pool. The place is hashed too, so that several
// passes over the same rows do not choose the same few again. A row whose identity is in the pool
// already does not enter a second time: a redelivered record must not count twice.
//
// While the pool is not full every row enters, in order.
type Pool struct {
	capacity int
	dim      int

	Rows    []float64 // len·dim, row-major, in the input's units
	ids     []uint64  // identity of each row
	Places  []Place   // place of each row
	Offered uint64    // rows offered so far

	slots map[uint64]int32 // of the identities
}

// New returns an empty pool.
func New(capacity, dim int) *Pool {
	return &Pool{capacity: capacity, dim: dim, slots: map[uint64]int32{}}
}

// Clone returns a pool of its own with the same rows.
func (p *Pool) Clone() *Pool {
	c := *p
	c.Rows, c.ids, c.Places, c.slots = slices.Clone(p.Rows), slices.Clone(p.ids), slices.Clone(p.Places), maps.Clone(p.slots)
	return &c
}

// Batch returns all rows; it is the pool's own memory.
func (p *Pool) Batch() Batch { return Batch{p.Rows, p.ids, p.Places} }

// Len returns the number of rows held.
func (p *Pool) Len() int { return len(p.ids) }

// Row returns slot s; it is the pool's own memory.
func (p *Pool) Row(s int) []float64 { return p.Rows[s*p.dim : (s+1)*p.dim] }

// Offer counts a row and returns the slot it is to be put in: len() to append, −1 to stay out.
func (p *Pool) Offer(id uint64) int {
	place := p.Offered
	p.Offered++
	if p.Slot(id) >= 0 {
		return -1
	}
	if p.Len() < p.capacity {
		return p.Len()
	}
	h := Mix(Mix(Seed^Mix(id)) + place)
	if float64(h>>11)*0x1p-53 >= Entry {
		return -1
	}
	return int(below(Mix(h), uint64(p.capacity)))
}

// Put writes a row to the slot that offer chose, in place of the row that was there.
func (p *Pool) Put(slot int, id uint64, at Place, x []float64) {
	if slot == p.Len() {
		p.Rows, p.ids, p.Places = append(p.Rows, x...), append(p.ids, id), append(p.Places, at)
	} else {
		delete(p.slots, p.ids[slot])
		copy(p.Row(slot), x)
		p.ids[slot], p.Places[slot] = id, at
	}
	p.slots[id] = int32(slot)
}

// Slot returns the slot of a record, or −1.
func (p *Pool) Slot(id uint64) int32 {
	if slot, known := p.slots[id]; known {
		return slot
	}
	return -1
}

// IDs returns the identities of the rows; it is the pool's own memory.
func (p *Pool) IDs() []uint64 { return p.ids }

// Rowless returns a copy of what is known of the rows but their numbers.
func (p *Pool) Rowless() *Pool {
	return &Pool{ids: slices.Clone(p.ids), Places: slices.Clone(p.Places)}
}

// Fields passes the pool to a state, or from one if it is empty.
func (p *Pool) Fields(f *state.Fields) {
	b := p.Batch()
	if f.U64(&p.Offered); f.Version <= state.SecondEdition {
		f.U64(new(uint64)) // what a sliding pool had
	}
	b.Fields(f, p.dim)
	f.Check(b.Len() <= p.capacity, "a pool of %d rows, which is to have %d at most", b.Len(), p.capacity)
	if !f.Reads() || f.R.Err != nil {
		return
	}
	p.Rows, p.ids, p.Places = b.X, b.IDs, b.Places
	for slot, id := range b.IDs {
		p.slots[id] = int32(slot)
	}
}

// Mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose output bits all
// depend on all input bits.
func Mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below maps a uniform h to 0 … n−1, with a bias below n/2⁶⁴.
func below(h, n uint64) uint64 {
	hi, _ := bits.Mul64(h, n)
	return hi
}
