package online

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// The state of a Learner, little-endian:
//
//	 0  8  "lcastate"
//	 8  4  version of the layout, 10
//	12  8  length n of the body
//	20  4  CRC32C of the body
//	24  n  body
//
// The body, where "f×n" is a count and n float64, "u×n" a count and n uint64, and text a count and
// bytes:
//
//	origin    text GOARCH, text Go version, text kernel: where the state was written. The bits of
//	          what is learnt next are the same for every kernel, not for every GOARCH
//	shape     dim, neighbours, pool kind                                                       u64 each
//	counts    rows, learnt, skipped, gated, copies, restarts, minibatches, learnt since the last restart,
//	          lockouts, returns of former metrics, recurrences, refusals                      u64 each
//	running   weight, NLL, Gaussian NLL, effective neighbours                                   f64 each
//	drift     of the NLL minibatches u64, mean f64, variance f64; of the share of far rows the same; number of columns u64,
//	          and of each the same; of the Gaussian part the same; least variance of the NLL f64
//	warm-up   rows, identities u×n, places            of the warm-up, or in quarantine
//	pool      offered u64, next slot u64, rows, identities u×n, places
//	moments   mean f×d, C_G f×d², rows that they stand for f64, number of sparse columns u64,
//	          and of each column u64, most frequent value f64, share f64
//	settings  ν f64, its unit u64, kernel u64, degrees of freedom u64
//	C_L       f×d², without ν, at the last split
//	metric    flag whether there is one; then of its split
//	          active columns u×a, scales f×a, d_P u64, B f×a², B⁻¹ f×a², e f×a, log|det B| f64,
//	          Cholesky factor of C_G + ν_g f×a², ridged flag, mean of the pool f×d,
//	          and of the time since pending f64, minibatches u64, keep f64, fresh f×a²
//	split     flag
//	aligned   W_ref f×d² or f×0, B_L f×d·d_P, angle f64
//	choice    rows learnt at the start of the comparison u64; unless 0: rows, identities u×n, places, a record, and unless
//	          that has taken 0: settings as above, d_P u64, C_L f×d²
//	chosen    a record: rows learnt u64, candidate taken u64, number of candidates u64, and of each
//	          name text, d_P u64, ν f64, its unit u64, kernel u64, NLL f64
//	gap       gap u64, rows seen u64, first row f×d or f×0, number of partitions u64, and of each
//	          number u64, places of its last rows u×13, those rows f×13d; number of lags u64, and of each
//	          rows f64, lag f64, rows f×d, sums f×d, squares f×d, products f×d, half squared differences f×d
//	clocks    places: of each partition the number of rows seen
//	gate      limit of the score f64, revisions u64
//	held      rows, identities u×n, places            refused, and not yet known to have no company
//	lockout   rows u64, refused u64, tripped flag, rows for which many have been u64
//	recurring rows, identities u×n, places            released from quarantine; which time each was of u×n, times u64,
//	          rows released since the first u64, rows seen at the first u64, normal rows since the last u64
//	formers   minibatches at the last return u64, flag whether the last one was left for the current one, minibatches when that began u64,
//	          flag whether the last one was brief, number of former regimes u64, and of each
//	          learnt since its restart u64, pool, moments, C_L, d_P u64, drift, aligned, gap, gate
//	known     flag whether what was known is kept, and held is what was refused last; share of the last rows beyond a gate for Gaussian tails f64
//
//	recent    flag whether the last rows are scored, flag whether they come again, and unless they are not: as recent.Learner writes it, number of series u64,
//	          and of each partition u64, and as recent.Series writes it
//
// Version 9, of the second edition, ends before recent. The first edition wrote version 3. It has no lockouts and nothing after them among the counts; of drift only that of the
// NLL, without the least variance; no places; no settings; in choice, after the rows, d_P u64 and C_L f×d² or f×0; and
// nothing after choice. The versions between were never released and are refused.
//
// Places are a count, and for each a partition and a number of rows, as varints. Rows are a flag, and then as many
// float32 if it is 1 (nothing is lost by it), and otherwise float64.
const (
	stateMagic    = "lcastate"
	stateVersion  = 10
	secondVersion = 9 // of the second edition
	firstVersion  = 3 // of the first edition
	stateHeader   = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendBinary appends the learner's whole state. A learner that reads it back goes on as this one
// would: bit for bit, given the same configuration and GOARCH.
func (l *Learner) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	const matrices = 8 // of d², about
	b = slices.Grow(b, 8*(matrices*l.cfg.Dim*l.cfg.Dim+len(l.pool.rows)+len(l.warm.x)+1024))
	b = append(b, make([]byte, stateHeader)...)
	w := &writer{b: b}
	for _, s := range origin() {
		w.text(s)
	}
	for _, v := range l.shape() {
		w.u64(v)
	}
	l.counts.write(w)
	l.running.write(w)
	l.drift.write(w)
	l.warm.write(w)
	l.pool.write(w)
	l.moments.write(w)
	l.cfg.recipe().write(w)
	w.floats(l.cl)
	w.flag(l.metric != nil)
	if l.metric != nil {
		l.metric.write(w)
	}
	w.flag(l.split)
	l.aligned.write(w)
	l.choice.write(w)
	writeChoice(w, l.chosen)
	l.gap.write(w)
	writePlaces(w, l.clocks)
	l.gate.write(w)
	l.held.write(w)
	l.lockout.write(w)
	l.recurring.write(w)
	l.former.write(w)
	w.flag(l.keepsKnown())
	w.f64(l.tailNeed)
	l.recent.write(w)

	b = w.b
	body := b[start+stateHeader:]
	head := append(b[start:start], stateMagic...)
	head = binary.LittleEndian.AppendUint32(head, stateVersion)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(body)))
	binary.LittleEndian.AppendUint32(head, crc32.Checksum(body, castagnoli))
	return b, nil
}

// UnmarshalBinary replaces the learner's state by one that AppendBinary wrote. The configuration
// stays the learner's own; γ, ν, gates and the like may have changed, but not the number of columns
// or the pool. On an error the learner is unchanged.
func (l *Learner) UnmarshalBinary(b []byte) error {
	if l.pool == nil {
		return errors.New("lca: state: UnmarshalBinary wants a learner from NewLearner, whose configuration it keeps")
	}
	body, err := stateBody(b)
	if err != nil {
		return fmt.Errorf("lca: state: %w", err)
	}
	next, err := NewLearner(l.asked)
	if err != nil {
		return err
	}
	r := &reader{b: body, version: binary.LittleEndian.Uint32(b[8:])}
	if next.read(r); r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return fmt.Errorf("lca: state: %w", r.err)
	}
	l.choice.drop()
	*l = *next
	return nil
}

// stateBody checks the header and returns what it stands for.
func stateBody(b []byte) ([]byte, error) {
	if len(b) < stateHeader || string(b[:8]) != stateMagic {
		return nil, fmt.Errorf("%d bytes that do not begin with %q", len(b), stateMagic)
	}
	switch v := binary.LittleEndian.Uint32(b[8:]); {
	case v > stateVersion:
		return nil, fmt.Errorf("layout version %d, this program reads up to %d: it was written by a newer one", v, stateVersion)
	case v != stateVersion && v != secondVersion && v != firstVersion:
		return nil, fmt.Errorf("layout version %d, want %d, %d or %d: it was written by a build that was never released", v, firstVersion, secondVersion, stateVersion)
	}
	body := b[stateHeader:]
	if n := binary.LittleEndian.Uint64(b[12:]); n != uint64(len(body)) {
		return nil, fmt.Errorf("body of %d bytes, want %d: it was cut or joined with another", len(body), n)
	}
	if sum := crc32.Checksum(body, castagnoli); sum != binary.LittleEndian.Uint32(b[20:]) {
		return nil, fmt.Errorf("checksum is %08x, want %08x: it was damaged", sum, binary.LittleEndian.Uint32(b[20:]))
	}
	return body, nil
}

// Origin is where a state was written: GOARCH, Go version and kernel.
type Origin struct{ Arch, Go, Kernel string }

// StateOrigin returns where a state was written, so that a replay can say whether the same bits can be
// expected here. It checks the state's header and checksum.
func StateOrigin(b []byte) (Origin, error) {
	body, err := stateBody(b)
	if err != nil {
		return Origin{}, fmt.Errorf("lca: state: %w", err)
	}
	r := &reader{b: body}
	return Origin{Arch: r.text(), Go: r.text(), Kernel: r.text()}, r.err
}

// SameBits reports whether a learner here goes on from that state with the same bits as a learner there: the kernel
// does not matter, GOARCH and the Go version may.
func (o Origin) SameBits() bool { return o.Arch == runtime.GOARCH && o.Go == runtime.Version() }

func origin() []string { return []string{runtime.GOARCH, runtime.Version(), kernel.Name()} }

// shape is what a state can only be read into if it is equal.
func (l *Learner) shape() []uint64 {
	return []uint64{uint64(l.cfg.Dim), uint64(l.cfg.Neighbours), uint64(l.cfg.Pool)}
}

var shapeNames = [...]string{"Dim", "Neighbours", "Pool"}

// ShapeError says in what a state differs from the configuration of the learner that should take it.
type ShapeError struct {
	Name          string // of the field of Config
	State, Config uint64
}

// Error names both values.
func (e *ShapeError) Error() string {
	return fmt.Sprintf("%s is %d, the configuration's %d", e.Name, e.State, e.Config)
}

func (l *Learner) read(r *reader) {
	for range origin() {
		_ = r.text()
	}
	for k, want := range l.shape() {
		if got := r.u64(); r.err == nil && got != want {
			r.err = &ShapeError{Name: shapeNames[k], State: got, Config: want}
		}
	}
	d := l.cfg.Dim
	l.counts.read(r)
	l.running.read(r)
	l.drift.read(r, d)
	l.warm = readBatch(r)
	if r.err == nil && !l.warm.valid(d) {
		r.err = errors.New("warm-up rows and identities differ in number")
	}
	l.pool.read(r)
	l.moments.read(r)
	if !r.first() {
		l.restore(readRecipe(r))
	}
	l.cl = r.sized("C_L", d*d)
	if r.flag() {
		l.metric = new(metricState)
		l.metric.read(r, d)
		if r.err == nil && l.pool.len() == 0 {
			r.err = errors.New("a metric without a pool")
		}
		if r.err == nil && !l.metric.resume(l) {
			r.err = errors.New("a C_L that is not positive definite")
		}
	}
	l.split = r.flag()
	l.aligned.read(r, d)
	l.choice.read(r, d)
	if r.first() {
		return // nothing came after it
	}
	l.chosen = readChoice(r)
	l.gap.read(r, d)
	l.clocks = readPlaces(r, 0)
	l.gate.read(r)
	if l.held = readBatch(r); r.err == nil && !l.held.valid(d) {
		r.err = errors.New("refused rows and identities differ in number")
	}
	l.lockout.read(r)
	l.recurring.read(r, d)
	l.readFormers(r)
	if r.flag() != l.keepsKnown() {
		l.held = batch{} // they were held for another purpose
	}
	l.tailNeed = r.f64()
	if r.version > secondVersion {
		l.recent.read(r, d)
	}
}

func (p *pool) write(w *writer) {
	w.u64(p.offered)
	w.u64(uint64(p.next))
	w.rows(p.rows)
	w.words(p.slots.ids)
	writePlaces(w, p.places)
}

func (p *pool) read(r *reader) {
	p.offered, p.next = r.u64(), int(r.u64())
	b := readBatch(r)
	if r.err != nil {
		return
	}
	if !b.valid(p.dim) || b.len() > p.capacity || p.next < 0 || p.next >= p.capacity {
		r.err = fmt.Errorf("a pool of %d numbers, %d identities, and next slot %d", len(b.x), b.len(), p.next)
		return
	}
	p.rows, p.places = b.x, b.places
	for slot, id := range b.ids {
		p.slots.put(slot, id)
	}
}

func (g *runningMoments) write(w *writer) {
	w.floats(g.mean)
	w.floats(g.full())
	w.f64(g.count)
	w.u64(uint64(len(g.sparse)))
	for _, s := range g.sparse {
		w.u64(uint64(s.Column))
		w.f64(s.Usual)
		w.f64(s.Share)
	}
}

func (g *runningMoments) read(r *reader) {
	g.mean, g.cov, g.count = r.sized("mean", g.dim), r.sized("C_G", g.dim*g.dim), r.f64()
	g.upperStale = false
	g.sparse = make([]prop1.Sparse, r.count(24))
	for i := range g.sparse {
		g.sparse[i] = prop1.Sparse{Column: int(r.u64()), Usual: r.f64(), Share: r.f64()}
	}
}

func (m *metricState) write(w *writer) {
	n := len(m.Active)
	w.count(n)
	for _, k := range m.Active {
		w.u64(uint64(k))
	}
	w.floats(m.Scale)
	w.u64(uint64(m.parzen))
	w.floats(m.basis)
	w.floats(m.inverse)
	w.floats(m.ratio)
	w.f64(m.logDet)
	w.floats(m.gaussian)
	w.flag(m.ridged)
	w.floats(m.centre)
	w.f64(m.pending)
	w.count(m.minibatches)
	w.f64(m.keep)
	w.floats(m.freshFull())
}

func (m *metricState) read(r *reader, dim int) {
	for _, k := range r.words() {
		m.Active = append(m.Active, int(k))
	}
	n := len(m.Active)
	if r.err == nil && (n == 0 || n > dim || !slices.IsSorted(m.Active) || m.Active[0] < 0 || m.Active[n-1] >= dim) {
		r.err = fmt.Errorf("active columns %v of %d", m.Active, dim)
	}
	m.Scale, m.parzen = r.sized("scales", n), int(r.u64())
	m.basis, m.inverse = r.sized("B", n*n), r.sized("inverse of B", n*n)
	m.ratio, m.logDet = r.sized("ratios", n), r.f64()
	m.gaussian = r.sized("factor of C_G", n*n)
	m.ridged = r.flag()
	m.centre = r.sized("centre", dim)
	m.pending, m.minibatches, m.keep = r.f64(), int(r.u64()), r.f64()
	m.fresh = r.sized("rows since the split", n*n)
	if r.err == nil && (m.parzen < 0 || m.parzen > n) {
		r.err = fmt.Errorf("d_P is %d of %d", m.parzen, n)
	}
}

func (a *reference) write(w *writer) {
	w.floats(a.w)
	w.floats(a.parzen)
	w.f64(a.radians)
}

func (a *reference) read(r *reader, dim int) {
	a.w, a.parzen, a.radians = r.floats(), r.floats(), r.f64()
	if r.err == nil && ((a.w != nil && len(a.w) != dim*dim) || len(a.parzen)%dim != 0) {
		r.err = fmt.Errorf("reference of %d and %d numbers for %d columns", len(a.w), len(a.parzen), dim)
	}
}

// The counters and running figures of a state: see state.go.

// fields are in the order of the layout. The first edition had the first eight.
func (c *counts) fields() []*uint64 {
	return []*uint64{&c.Rows, &c.Learnt, &c.Skipped, &c.Gated, &c.Copies, &c.Alarms, &c.Minibatches, &c.Since, &c.Lockouts, &c.Returns, &c.Recurrences, &c.Refusals}
}

func (c *counts) write(w *writer) {
	for _, f := range c.fields() {
		w.u64(*f)
	}
}

func (c *counts) read(r *reader) {
	fields := c.fields()
	if r.first() {
		fields = fields[:8]
	}
	for _, f := range fields {
		*f = r.u64()
	}
}

func (d *level) write(w *writer) {
	w.u64(d.seen)
	w.f64(d.mean)
	w.f64(d.variance)
}

func (d *level) read(r *reader) { *d = level{seen: r.u64(), mean: r.f64(), variance: r.f64()} }

func (d *drift) write(w *writer) {
	d.nll.write(w)
	d.far.write(w)
	d.quiet.write(w)
	w.f64(d.nll.floor)
}

func (d *drift) read(r *reader, dim int) {
	if d.nll.read(r); !r.first() {
		d.far.read(r)
		d.quiet.read(r, dim)
		d.nll.floor = r.f64()
	}
}

func (r *running) fields() []*float64 {
	return []*float64{&r.Weight, &r.NLL, &r.GaussianNLL, &r.Effective}
}

func (r *running) write(w *writer) {
	for _, f := range r.fields() {
		w.f64(*f)
	}
}

func (r *running) read(from *reader) {
	for _, f := range r.fields() {
		*f = from.f64()
	}
}

// The part of the state that says what the data have chosen; state.go has the layout.

func (c *choice) write(w *writer) {
	w.u64(c.began)
	if c.began == 0 {
		return
	}
	found := c.wait()
	c.rows.write(w)
	writeChoice(w, found.Choice)
	if found.Taken != 0 {
		found.best.recipe.write(w)
		w.count(found.best.parzen)
		w.floats(found.best.cl)
	}
}

func (c *choice) read(r *reader, dim int) {
	if c.began = r.u64(); c.began == 0 {
		return
	}
	c.rows = readBatch(r)
	if r.err == nil && !c.rows.valid(dim) {
		r.err = fmt.Errorf("a comparison with %d numbers for %d rows", len(c.rows.x), c.rows.len())
	}
	if r.first() { // a comparison for LCA-Gauss-Red, which is dropped: the next comes
		r.u64()
		r.floats()
		*c = choice{}
		return
	}
	found := outcome{Choice: readChoice(r)}
	if found.Taken != 0 {
		found.best = candidate{readRecipe(r), int(r.u64()), r.floats()}
		if n, parzen := len(found.best.cl), found.best.parzen; r.err == nil && (n != dim*dim || parzen < 0 || parzen > dim) {
			r.err = fmt.Errorf("a comparison that offers d_P = %d and %d numbers for %d columns", parzen, n, dim)
		}
	}
	c.comparison = &comparison{found: found}
}

func writeChoice(w *writer, c lca.Choice) {
	w.u64(c.Rows)
	w.count(c.Taken)
	w.count(len(c.Candidates))
	for _, t := range c.Candidates {
		w.text(t.Name)
		w.count(t.Parzen)
		w.f64(t.Nu)
		w.u64(uint64(t.NuUnit))
		w.u64(uint64(t.Kernel))
		w.f64(t.NLL)
	}
}

func readChoice(r *reader) lca.Choice {
	const least = 48 // bytes of a candidate without a name
	c := lca.Choice{Rows: r.u64(), Taken: int(r.u64())}
	for range r.count(least) {
		c.Candidates = append(c.Candidates, lca.Trial{
			Name: r.text(), Parzen: int(r.u64()), Nu: r.f64(), NuUnit: lca.Unit(r.u64()), Kernel: lca.Kernel(r.u64()), NLL: r.f64(),
		})
	}
	if r.err == nil && (c.Taken < 0 || c.Taken >= max(1, len(c.Candidates))) {
		r.err = fmt.Errorf("candidate %d of %d", c.Taken, len(c.Candidates))
	}
	return c
}

// writer appends little-endian values; reader takes them back. A reader never allocates more than
// the bytes it has left could fill, and remembers its first fault.
type writer struct{ b []byte }

func (w *writer) u64(v uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, v) }
func (w *writer) count(n int)  { w.u64(uint64(n)) }
func (w *writer) f64(v float64) {
	w.u64(math.Float64bits(v))
}

func (w *writer) flag(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

func (w *writer) varint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }

func (w *writer) text(s string) {
	w.count(len(s))
	w.b = append(w.b, s...)
}

func (w *writer) floats(v []float64) {
	w.count(len(v))
	for i, to := 0, w.room(8*len(v)); i < len(v); i++ {
		binary.LittleEndian.PutUint64(to[8*i:], math.Float64bits(v[i]))
	}
}

// room appends n bytes, to be written to.
func (w *writer) room(n int) []byte {
	w.b = slices.Grow(w.b, n)
	w.b = w.b[:len(w.b)+n]
	return w.b[len(w.b)-n:]
}

func (w *writer) words(v []uint64) {
	w.count(len(v))
	for _, x := range v {
		w.u64(x)
	}
}

// rows writes floats in four bytes each where that loses nothing, as with rows that came as
// float32, and in eight otherwise.
func (w *writer) rows(v []float64) {
	short := true
	for _, x := range v {
		short = short && float64(float32(x)) == x
	}
	w.flag(short)
	if !short {
		w.floats(v)
		return
	}
	w.count(len(v))
	for i, to := 0, w.room(4*len(v)); i < len(v); i++ {
		binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(float32(v[i])))
	}
}

type reader struct {
	version uint32 // of the layout
	b       []byte
	err     error
}

func (r *reader) first() bool { return r.version == firstVersion }

func (r *reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)) {
		r.err = fmt.Errorf("ends %d bytes early", n-len(r.b))
	}
	if r.err != nil {
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) varint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 && r.err == nil {
		r.err = errors.New("ends within a number")
	}
	r.take(max(n, 0))
	return v
}

func (r *reader) f64() float64 { return math.Float64frombits(r.u64()) }

func (r *reader) flag() bool {
	b := r.take(1)
	return b != nil && b[0] == 1
}

// count reads a length of items of the given size, and refuses one that the rest cannot hold.
func (r *reader) count(size int) int {
	n := r.u64()
	if r.err == nil && n > uint64(len(r.b)/size) {
		r.err = fmt.Errorf("claims %d items of %d bytes in the %d bytes left", n, size, len(r.b))
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *reader) text() string { return string(r.take(r.count(1))) }

func (r *reader) floats() []float64 {
	n := r.count(8)
	if n == 0 {
		return nil
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = r.f64()
	}
	return out
}

func (r *reader) words() []uint64 {
	n := r.count(8)
	if n == 0 {
		return nil
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = r.u64()
	}
	return out
}

func (r *reader) rows() []float64 {
	if !r.flag() {
		return r.floats()
	}
	b := r.take(4 * r.count(4))
	if len(b) == 0 {
		return nil
	}
	out := make([]float64, len(b)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return out
}

// sized reads floats that must be n, or none where that is allowed.
func (r *reader) sized(what string, n int) []float64 {
	v := r.floats()
	if r.err == nil && len(v) != n {
		r.err = fmt.Errorf("%s has %d numbers, want %d", what, len(v), n)
	}
	return v
}
