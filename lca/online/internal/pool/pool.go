package pool

import (
	"fmt"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

// BiasedEntry is the probability with which a biased pool takes a row once it is full: a neighbour stays for
// N/0.3 rows on average: long enough to outlast a burst of one partition's rows, which would fill
// a sliding window, and short enough to follow a drift, at which a uniform reservoir sticks.
const BiasedEntry = 0.3

// Pool holds the N rows that stand for the centres x_j of the Parzen part (section 5.2 samples
// them again from all rows at each step, which a stream does not have).
//
// Which row enters and which it replaces is decided by a hash of the seed, the row's identity and
// its place in the stream, never by a generator that a retry or a restore could leave elsewhere:
// the same rows in the same order give the same pool. The place is hashed too, so that several
// passes over the same rows do not choose the same few again. A row whose identity is in the pool
// already does not enter a second time: a redelivered record must not count twice.
//
//	biased     enters with p = 0.3, replaces a random slot: mean age N/p
//	sliding    replaces the oldest
//	reservoir  enters with p = N/(rows so far): a uniform sample of all (Vitter's algorithm R)
//
// While the pool is not full every row enters, in order.
type Pool struct {
	kind     Kind
	capacity int
	dim      int
	seed     uint64

	Rows    []float64  // len·dim, row-major, in the input's units
	slots   identities // identity of each row
	Places  []Place    // place of each row
	Offered uint64     // rows offered so far
	Next    int        // slot of the oldest row (sliding)
}

// New returns an empty pool; kind must be resolved.
func New(kind Kind, capacity, dim int, seed uint64) *Pool {
	return &Pool{kind: kind, capacity: capacity, dim: dim, seed: seed, slots: newIdentities(capacity)}
}

// Clone returns a pool of its own with the same rows.
func (p *Pool) Clone() *Pool {
	c := *p
	c.Rows, c.Places = slices.Clone(p.Rows), slices.Clone(p.Places)
	c.slots.ids, c.slots.places = slices.Clone(p.slots.ids), slices.Clone(p.slots.places)
	return &c
}

// Batch returns all rows; it is the pool's own memory.
func (p *Pool) Batch() Batch { return Batch{p.Rows, p.slots.ids, p.Places} }

// Len returns the number of rows held.
func (p *Pool) Len() int { return len(p.slots.ids) }

// Row returns slot s; it is the pool's own memory.
func (p *Pool) Row(s int) []float64 { return p.Rows[s*p.dim : (s+1)*p.dim] }

// Offer counts a row and returns the slot it is to be put in: len() to append, −1 to stay out.
func (p *Pool) Offer(id uint64) int {
	place := p.Offered
	p.Offered++
	if p.slots.slot(id) >= 0 {
		return -1
	}
	if p.Len() < p.capacity {
		return p.Len()
	}
	h := Mix(Mix(p.seed^Mix(id)) + place)
	switch p.kind {
	case Sliding:
		s := p.Next
		p.Next = (p.Next + 1) % p.capacity
		return s
	case Reservoir:
		if s := below(h, place+1); s < uint64(p.capacity) {
			return int(s)
		}
		return -1
	case Biased:
		if float64(h>>11)*0x1p-53 >= BiasedEntry {
			return -1
		}
		return int(below(Mix(h), uint64(p.capacity)))
	default:
		panic("lca: internal error: a pool of kind " + p.kind.String()) // NewLearner has resolved and checked it
	}
}

// Put writes a row to the slot that offer chose, in place of the row that was there.
func (p *Pool) Put(slot int, id uint64, at Place, x []float64) {
	if slot == p.Len() {
		p.Rows, p.Places = append(p.Rows, x...), append(p.Places, at)
	} else {
		p.slots.drop(slot)
		copy(p.Row(slot), x)
		p.Places[slot] = at
	}
	p.slots.put(slot, id)
}

// Slot returns the slot of a record, or −1.
func (p *Pool) Slot(id uint64) int32 { return p.slots.slot(id) }

// IDs returns the identities of the rows; it is the pool's own memory.
func (p *Pool) IDs() []uint64 { return p.slots.ids }

// Rowless returns a copy of what is known of the rows but their numbers.
func (p *Pool) Rowless() *Pool {
	return &Pool{slots: identities{ids: slices.Clone(p.slots.ids)}, Places: slices.Clone(p.Places)}
}

// Write appends the pool to a state.
func (p *Pool) Write(w *state.Writer) {
	w.U64(p.Offered)
	w.U64(uint64(p.Next))
	w.Rows(p.Rows)
	w.Words(p.slots.ids)
	WritePlaces(w, p.Places)
}

// Read reads what Write wrote into an empty pool.
func (p *Pool) Read(r *state.Reader, placed bool) {
	p.Offered, p.Next = r.U64(), int(r.U64())
	b := ReadBatch(r, placed)
	if r.Err != nil {
		return
	}
	if !b.Valid(p.dim) || b.Len() > p.capacity || p.Next < 0 || p.Next >= p.capacity {
		r.Err = fmt.Errorf("a pool of %d numbers, %d identities, and next slot %d", len(b.X), b.Len(), p.Next)
		return
	}
	p.Rows, p.Places = b.X, b.Places
	for slot, id := range b.IDs {
		p.slots.put(slot, id)
	}
}
