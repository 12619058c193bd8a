package online

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/lca-stream/lca-stream/internal/enum"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/state"
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

// identities finds the slot of a record by its identity: a hash table of slots, open to the next free place
// (linear probing) and never more than a quarter full, so that the usual answer, that a record is not there,
// takes a look or two at memory that is small. The identities themselves are the pool's.
type identities struct {
	ids    []uint64 // of each slot
	places []int32  // slot + 1; 0 where free
	shift  int
}

func newIdentities(capacity int) identities {
	log := bits.Len(uint(4*max(capacity, 2) - 1))
	return identities{places: make([]int32, 1<<log), shift: 64 - log}
}

// start is where a search for an identity begins, and next where it goes on.
func (s *identities) start(id uint64) int { return int(mix(id) >> s.shift) }
func (s *identities) after(at int) int    { return (at + 1) & (len(s.places) - 1) }

// slot returns the slot of a record, or −1.
func (s *identities) slot(id uint64) int32 {
	for at := s.start(id); ; at = s.after(at) {
		slot := s.places[at] - 1
		if slot < 0 || s.ids[slot] == id {
			return slot
		}
	}
}

// put gives a slot, which holds nothing or is the next new one, to an identity.
func (s *identities) put(slot int, id uint64) {
	if slot == len(s.ids) {
		s.ids = append(s.ids, id)
	}
	s.ids[slot] = id
	at := s.start(id)
	for s.places[at] != 0 {
		at = s.after(at)
	}
	s.places[at] = int32(slot) + 1
}

// drop forgets the identity in a slot. What comes after it moves up to the place that falls free, unless its
// search begins behind that place.
func (s *identities) drop(slot int) {
	free := s.start(s.ids[slot])
	for s.places[free] != int32(slot)+1 {
		free = s.after(free)
	}
	for at := s.after(free); s.places[at] != 0; at = s.after(at) {
		steps := len(s.places) - 1
		if home := s.start(s.ids[s.places[at]-1]); (at-home)&steps >= (at-free)&steps {
			s.places[free], free = s.places[at], at
		}
	}
	s.places[free] = 0
}

// place is where a row stands in time: its partition, and how many of the partition's rows the learner saw before it.
// Rows of a partition that is consumed in order are ordered in time; rows of two partitions are not comparable.
type place struct {
	partition int32
	at        uint64
}

// near reports whether two rows are nearer in time than gap rows.
func (p place) near(q place, gap uint64) bool {
	return p.partition == q.partition && p.partition != noPartition && max(p.at, q.at)-min(p.at, q.at) < gap
}

// compare orders places by partition and time.
func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.partition, q.partition), cmp.Compare(p.at, q.at))
}

// inOrder returns which place is the first by partition and time, which the second, and so on.
func inOrder(places []place) []int {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return places[a].compare(places[b]) })
	return order
}

// noPartition is that of rows whose place is not known, such as those of a snapshot. They are near to none in time.
const noPartition = -1

// batch is rows with their identities and places.
type batch struct {
	x      []float64 // row-major
	ids    []uint64
	places []place
}

func (b *batch) len() int { return len(b.ids) }

func (b *batch) append(a batch) {
	b.x, b.ids, b.places = append(b.x, a.x...), append(b.ids, a.ids...), append(b.places, a.places...)
}

// pick copies the given rows of from; they are valid until the next call.
func (b *batch) pick(from batch, kept []int, d int) batch {
	b.x, b.ids, b.places = b.x[:0], b.ids[:0], b.places[:0]
	for _, i := range kept {
		b.x = append(b.x, from.x[i*d:(i+1)*d]...)
		b.ids, b.places = append(b.ids, from.ids[i]), append(b.places, from.places[i])
	}
	return *b
}

// forget drops the oldest rows.
func (b *batch) forget(rows, d int) {
	if rows == 0 {
		return
	}
	b.x, b.ids, b.places = slices.Clone(b.x[rows*d:]), slices.Clone(b.ids[rows:]), slices.Clone(b.places[rows:])
}

// equalFirst returns how many of the first rows are equal.
func (b *batch) equalFirst(d int) (rows int) {
	for rows < b.len() && slices.Equal(b.x[rows*d:(rows+1)*d], b.x[:d]) {
		rows++
	}
	return rows
}

// clocks count the rows of each partition, ascending by partition.
type clocks []place

// next returns the place of the partition's next row.
func (c *clocks) next(partition int32) place {
	i, found := slices.BinarySearchFunc(*c, partition, func(p place, q int32) int { return cmp.Compare(p.partition, q) })
	if !found {
		*c = slices.Insert(*c, i, place{partition: partition})
	}
	p := (*c)[i]
	(*c)[i].at++
	return p
}

func (b *batch) write(w *state.Writer) {
	w.Rows(b.x)
	w.Words(b.ids)
	writePlaces(w, b.places)
}

func readBatch(r *reader) (b batch) {
	b.x, b.ids = r.Rows(), r.Words()
	b.places = readPlaces(r, len(b.ids))
	return b
}

// valid reports whether the parts agree in number.
func (b *batch) valid(dim int) bool { return len(b.x) == len(b.ids)*dim && len(b.places) == len(b.ids) }

func writePlaces(w *state.Writer, places []place) {
	w.Count(len(places))
	for _, p := range places {
		w.Varint(uint64(uint32(p.partition)))
		w.Varint(p.at)
	}
}

// readPlaces reads places, or makes n unknown ones: the first edition had none.
func readPlaces(r *reader, n int) []place {
	if r.first() {
		out := make([]place, n)
		for i := range out {
			out[i].partition = noPartition
		}
		return out
	}
	out := make([]place, r.Count(2))
	for i := range out {
		out[i] = place{partition: int32(uint32(r.Varint())), at: r.Varint()}
	}
	return out
}

const (
	replayGain  = 1e-4 // a replay ends when a step gains less than this, in nats per row,
	replaySteps = 100  // or after this number of steps,
	// or after this number of pairs of rows: ten steps with N = 3000, which cost as much as 30000 rows.
	replayPairs = 90e6
	// With fewer rows per column than this, EM to convergence fits the rows and not the stream.
	replayRowsPerColumn = 20
	// The gain at which it then ends: smaller gains say more about these rows than about the stream.
	replayFewGain = 1e-2
)

// replayPool runs EM over the pool, each of its rows against all others, while the stream is young.
//
// EM is slow from C_L = C_G: where structure is much finer than the whole, as two thin rings are,
// it takes dozens of steps before λ shows any of it. A stream makes few. With the growing n a minibatch is
// 4B/rows of a step, which adds up to 4 ln(rows/200) steps: 18 after 20000 rows, and later one per n/(1−γ) rows.
// Reading the pool again costs no row of the stream: rings that took 100000 rows are found in 1000. The scores of
// a young stream, and a gate in kernel widths, are right from the first model on.
//
// It happens at the end of the warm-up (fitFirst) and each time the number of rows learnt has doubled since, until the
// pool is full: by the count of rows, and not by time. C_L is then what lca.Fit gives for the pool, less noisy than a
// running average over rows/8 rows. With fewer than 20 rows per column the converged metric is that of those rows
// alone, and worse on the next rows than the few steps of config.go, except with a full pool, which will not grow.
// Where the configuration sets the number of inner steps, or γ = 0, the caller counts the steps and nothing is replayed.
func (l *Learner) replayPool(before uint64, s *Step) error {
	if !l.worthReplaying(l.pool.len()) || !l.rowsDoubled(before) {
		return nil
	}
	if _, err := l.convergeOnPool(l.pool.batch(), s); err != nil {
		return err
	}
	// While the pool holds all rows so far, outliers among the first can still be left out without losing any other.
	if b := l.pool.batch(); l.pool.offered == uint64(b.len()) && l.knowsScores() {
		if kept := l.insideGate(b); len(kept) < b.len() {
			if _, err := l.fitFirst(new(batch).pick(b, kept, l.cfg.Dim), s); err != nil {
				return err
			}
			l.split = true // the rows left out were counted as learnt when they came, and stay counted so
		}
	}
	l.estimator.load(l.pool, l.metric, l.work)
	l.setGate(l.pool.batch())
	l.renewEstimator()
	return nil
}

// worthReplaying reports whether that number of rows is worth it.
func (l *Learner) worthReplaying(rows int) bool {
	if l.cfg.InnerSteps != lca.Auto || (l.cfg.Gamma == 0 && l.cfg.HalfLifeRows == 0) {
		return false
	}
	return rows >= min(l.cfg.Neighbours, replayRowsPerColumn*len(l.metric.Active))
}

// rowsDoubled says whether the rows learnt have just come to the warm-up's number times a power of two,
// of which the last is the first that finds the pool full.
func (l *Learner) rowsDoubled(before uint64) bool {
	first := uint64(l.cfg.warmupRows())
	for at := first; at < 2*max(uint64(l.cfg.Neighbours), first); at *= 2 {
		if before < at && at <= l.counts.Since {
			return true
		}
	}
	return false
}

// convergeOnPool runs EM for the given rows against the pool and returns how many were used. The split is found at
// each step: to move between the parts is what EM is slow at.
func (l *Learner) convergeOnPool(b batch, s *Step) (used int, err error) {
	return l.converge(context.Background(), b, s)
}

// converge is convergeOnPool until ctx ends.
func (l *Learner) converge(ctx context.Context, b batch, s *Step) (used int, err error) {
	last, least := math.Inf(1), replayGain
	if b.len() < replayRowsPerColumn*len(l.metric.Active) {
		least = replayFewGain
	}
	for range min(replaySteps, max(1, replayPairs/(b.len()*l.pool.len()))) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		l.estimator.load(l.pool, l.metric, l.work)
		l.estimator.project(b.x, l.moments.mean)
		ex := l.exclusion(b)
		if !l.usesScores() { // a gate narrower than far would shut out much of the data while C_L comes down
			ex.Gate = math.Max(l.cfg.kernelGate(), kernel.FarLimit(l.metric.parzen))
		}
		m := l.estimator.update(ex)
		var now Step
		if l.evaluate(m, b.x, &now); m.Rows == 0 || !(last-now.NLL > least) {
			break
		}
		used, last = m.Rows+m.Atoms, now.NLL
		l.metric.average(m, 0, l.work)
		if _, err := l.updateMetric(1); err != nil {
			return 0, err
		}
		l.split = true
		s.Replayed++
	}
	s.Parzen, s.Gaussian = l.metric.parzen, len(l.metric.Active)-l.metric.parzen
	s.Ridged = s.Ridged || l.metric.ridged
	return used, nil
}
