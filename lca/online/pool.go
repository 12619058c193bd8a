package online

import (
	"math/bits"
	"slices"

	"github.com/lca-stream/lca-stream/internal/enum"
)

// PoolKind is the rule by which a stream's rows become neighbours.
type PoolKind uint8

// The pools.
const (
	PoolAuto      PoolKind = iota // PoolBiased
	PoolBiased                    // enters with p = 0.3, replaces a random slot
	PoolSliding                   // the newest N rows
	PoolReservoir                 // a uniform sample of all rows so far
)

var poolNames = enum.Names[PoolKind]{PoolAuto: "auto", PoolBiased: "biased", PoolSliding: "sliding", PoolReservoir: "reservoir"}

// String returns the name that the configuration uses.
func (p PoolKind) String() string { return poolNames.Of(p) }

// PoolKinds returns every PoolKind.
func PoolKinds() []PoolKind { return poolNames.All() }

// Resolve replaces PoolAuto by what it means.
func (p PoolKind) Resolve() PoolKind {
	if p == PoolAuto {
		return PoolBiased
	}
	return p
}

// A biased pool takes a row with this probability once it is full, so that a neighbour stays for
// N/0.3 rows on average: long enough to outlast a burst of one partition's rows, which would fill
// a sliding window, and short enough to follow a drift, at which a uniform reservoir sticks.
const biasedEntry = 0.3

// pool holds the N rows that stand for the centres x_j of the Parzen part (section 5.2 samples
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
type pool struct {
	kind     PoolKind
	capacity int
	dim      int
	seed     uint64

	rows    []float64  // len·dim, row-major, in the input's units
	slots   identities // identity of each row
	places  []place    // place of each row
	offered uint64     // rows offered so far
	next    int        // slot of the oldest row (sliding)
}

func newPool(kind PoolKind, capacity, dim int, seed uint64) *pool {
	return &pool{kind: kind, capacity: capacity, dim: dim, seed: seed, slots: newIdentities(capacity)}
}

// clone returns a pool of its own with the same rows.
func (p *pool) clone() *pool {
	c := *p
	c.rows, c.places = slices.Clone(p.rows), slices.Clone(p.places)
	c.slots.ids, c.slots.places = slices.Clone(p.slots.ids), slices.Clone(p.slots.places)
	return &c
}

// batch returns all rows; it is the pool's own memory.
func (p *pool) batch() batch { return batch{p.rows, p.slots.ids, p.places} }

// len returns the number of rows held.
func (p *pool) len() int { return len(p.slots.ids) }

// row returns slot s; it is the pool's own memory.
func (p *pool) row(s int) []float64 { return p.rows[s*p.dim : (s+1)*p.dim] }

// offer counts a row and returns the slot it is to be put in: len() to append, −1 to stay out.
func (p *pool) offer(id uint64) int {
	place := p.offered
	p.offered++
	if p.slots.slot(id) >= 0 {
		return -1
	}
	if p.len() < p.capacity {
		return p.len()
	}
	h := mix(mix(p.seed^mix(id)) + place)
	switch p.kind {
	case PoolSliding:
		s := p.next
		p.next = (p.next + 1) % p.capacity
		return s
	case PoolReservoir:
		if s := below(h, place+1); s < uint64(p.capacity) {
			return int(s)
		}
		return -1
	case PoolBiased:
		if float64(h>>11)*0x1p-53 >= biasedEntry {
			return -1
		}
		return int(below(mix(h), uint64(p.capacity)))
	default:
		panic("lca: internal error: a pool of kind " + p.kind.String()) // NewLearner has resolved and checked it
	}
}

// put writes a row to the slot that offer chose, in place of the row that was there.
func (p *pool) put(slot int, id uint64, at place, x []float64) {
	if slot == p.len() {
		p.rows, p.places = append(p.rows, x...), append(p.places, at)
	} else {
		p.slots.drop(slot)
		copy(p.row(slot), x)
		p.places[slot] = at
	}
	p.slots.put(slot, id)
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose output bits all
// depend on all input bits.
func mix(z uint64) uint64 {
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
