package online

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// The state of a Learner, little-endian:
//
//	 0  8  "lcastate"
//	 8  4  version of the layout, 16
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
//	          lockouts, returns of former metrics, refusals                                   u64 each
//	running   weight, NLL, Gaussian NLL, effective neighbours                                   f64 each
//	drift     of the NLL minibatches u64, mean f64, variance f64; of the share of far rows the same; number of columns u64,
//	          and of each the same; of the Gaussian part the same
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
//	formers   minibatches at the last return u64, number of former regimes u64, and of each
//	          learnt since its restart u64, pool, moments, C_L, d_P u64, drift, aligned, gap, gate, flag whether there is an evaluator of the last rows, and that
//	known     flag whether what was known is kept, and held is what was refused last; 0 f64, once the share of rows beyond a gate for Gaussian tails
//
//	recent    flag whether the last rows are scored, flag whether they come again, and unless they are not: as recent.Learner writes it, number of series u64,
//	          and of each, ascending, its identity u64, and as recent.Series writes it
//	holds     rows held u64, rows of holds that ended u64, flag whether the last minibatch was held for the most part, acceptances that are not told u64, rows, identities u×n, places    accepted, and
//	          not yet learnt, and the same of few series among others; flag whether there is an evaluator of the regime that is about to be left, and that; number of open holds u64, and of each, ascending by series, series, rows so far, stamps of the first and the last row, of its clock the
//	          largest stamp, the one ahead, rows behind, rows that moved it on and time   u64 each; rows, identities u×n, places; number of holds that are over u64, and of each the same
//
// Version 9, of the second edition, ends before recent. It has a count of recurrences before that of refusals; the least variance of the NLL f64 after drift; before
// formers rows, identities u×n, places, u×n and four u64; and after the first u64 of formers a flag, a u64 and a flag. The first edition wrote version 3. It has no lockouts and nothing after them among the counts; of drift only that of the
// NLL, without the least variance; no places; no settings; in choice, after the rows, d_P u64 and C_L f×d² or f×0; and
// nothing after choice. The versions between were never released and are refused.
//
// Places are a count, and for each a partition and a number of rows, as varints. Rows are a flag, and then as many
// float32 if it is 1 (nothing is lost by it), and otherwise float64.
const (
	stateMagic    = "lcastate"
	stateVersion  = 16
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
	b = slices.Grow(b, 8*(matrices*l.cfg.Dim*l.cfg.Dim+len(l.pool.Rows)+len(l.warm.X)+1024))
	b = append(b, make([]byte, stateHeader)...)
	w := &state.Writer{B: b}
	for _, s := range origin() {
		w.Text(s)
	}
	for _, v := range l.shape() {
		w.U64(v)
	}
	l.counts.write(w)
	l.running.write(w)
	l.drift.write(w)
	l.warm.Write(w)
	l.pool.Write(w)
	l.moments.write(w)
	l.cfg.recipe().write(w)
	w.Floats(l.cl)
	w.Flag(l.metric != nil)
	if l.metric != nil {
		l.metric.write(w)
	}
	w.Flag(l.split)
	l.aligned.write(w)
	l.choice.write(w)
	writeChoice(w, l.chosen)
	l.gap.Write(w)
	pool.WritePlaces(w, l.clocks)
	l.gate.write(w)
	l.held.Write(w)
	l.lockout.Write(w)
	l.former.write(w)
	w.Flag(l.keepsKnown())
	w.F64(0) // of what the tails were needed for, which is no more
	l.recent.write(w)
	l.unusual.write(w)

	b = w.B
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
	r := &reader{Reader: state.Reader{B: body}, version: binary.LittleEndian.Uint32(b[8:])}
	if next.read(r); r.Err == nil && len(r.B) > 0 {
		r.Err = fmt.Errorf("%d bytes too many", len(r.B))
	}
	if r.Err != nil {
		return fmt.Errorf("lca: state: %w", r.Err)
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
	r := &reader{Reader: state.Reader{B: body}}
	return Origin{Arch: r.Text(), Go: r.Text(), Kernel: r.Text()}, r.Err
}

// SameBits reports whether a learner here goes on from that state with the same bits as a learner there: the kernel
// does not matter, GOARCH and the Go version may.
func (o Origin) SameBits() bool { return o.Arch == runtime.GOARCH && o.Go == runtime.Version() }

func origin() []string { return []string{runtime.GOARCH, runtime.Version(), kernel.Name()} }

// biased is the kind of pool, once one of three.
const biased = 1

// shape is what a state can only be read into if it is equal.
func (l *Learner) shape() []uint64 {
	return []uint64{uint64(l.cfg.Dim), uint64(l.cfg.Neighbours), biased}
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
		_ = r.Text()
	}
	for k, want := range l.shape() {
		if got := r.U64(); r.Err == nil && got != want {
			r.Err = &ShapeError{Name: shapeNames[k], State: got, Config: want}
		}
	}
	d := l.cfg.Dim
	l.counts.read(r)
	l.running.read(r)
	l.drift.read(r, d)
	l.warm = pool.ReadBatch(&r.Reader, !r.first())
	if r.Err == nil && !l.warm.Valid(d) {
		r.Err = errors.New("warm-up rows and identities differ in number")
	}
	l.pool.Read(&r.Reader, !r.first())
	l.moments.read(r)
	if !r.first() {
		l.restore(readRecipe(r))
	}
	l.cl = r.Sized("C_L", d*d)
	if r.Flag() {
		l.metric = new(metricState)
		l.metric.read(r, d)
		if r.Err == nil && l.pool.Len() == 0 {
			r.Err = errors.New("a metric without a pool")
		}
		if r.Err == nil && !l.metric.resume(l) {
			r.Err = errors.New("a C_L that is not positive definite")
		}
	}
	l.split = r.Flag()
	l.aligned.read(r, d)
	l.choice.read(r, d)
	if r.first() {
		return // nothing came after it
	}
	l.chosen = readChoice(r)
	l.gap.Read(&r.Reader, d)
	l.clocks = pool.ReadPlaces(&r.Reader, 0, !r.first())
	l.gate.read(r)
	if l.held = pool.ReadBatch(&r.Reader, !r.first()); r.Err == nil && !l.held.Valid(d) {
		r.Err = errors.New("refused rows and identities differ in number")
	}
	l.lockout.Read(&r.Reader)
	if r.version == secondVersion { // rows that came again and again, and what was known of them
		_, _ = pool.ReadBatch(&r.Reader, !r.first()), r.Words()
		for range 4 {
			_ = r.U64()
		}
	}
	l.readFormers(r)
	if r.Flag() != l.keepsKnown() {
		l.held = pool.Batch{} // they were held for another purpose
	}
	_ = r.F64()
	if r.version > secondVersion {
		l.recent.read(r, d)
		l.unusual.read(r, d)
	}
}

func (g *runningMoments) write(w *state.Writer) {
	w.Floats(g.mean)
	w.Floats(g.full())
	w.F64(g.count)
	w.U64(uint64(len(g.sparse)))
	for _, s := range g.sparse {
		w.U64(uint64(s.Column))
		w.F64(s.Usual)
		w.F64(s.Share)
	}
}

func (g *runningMoments) read(r *reader) {
	g.mean, g.cov, g.count = r.Sized("mean", g.dim), r.Sized("C_G", g.dim*g.dim), r.F64()
	g.upperStale = false
	g.sparse = make([]prop1.Sparse, r.Count(24))
	for i := range g.sparse {
		g.sparse[i] = prop1.Sparse{Column: int(r.U64()), Usual: r.F64(), Share: r.F64()}
	}
}

func (m *metricState) write(w *state.Writer) {
	n := len(m.Active)
	w.Count(n)
	for _, k := range m.Active {
		w.U64(uint64(k))
	}
	w.Floats(m.Scale)
	w.U64(uint64(m.parzen))
	w.Floats(m.basis)
	w.Floats(m.inverse)
	w.Floats(m.ratio)
	w.F64(m.logDet)
	w.Floats(m.gaussian)
	w.Flag(m.ridged)
	w.Floats(m.centre)
	w.F64(m.pending)
	w.Count(m.minibatches)
	w.F64(m.keep)
	w.Floats(m.freshFull())
}

func (m *metricState) read(r *reader, dim int) {
	for _, k := range r.Words() {
		m.Active = append(m.Active, int(k))
	}
	n := len(m.Active)
	if r.Err == nil && (n == 0 || n > dim || !slices.IsSorted(m.Active) || m.Active[0] < 0 || m.Active[n-1] >= dim) {
		r.Err = fmt.Errorf("active columns %v of %d", m.Active, dim)
	}
	m.Scale, m.parzen = r.Sized("scales", n), int(r.U64())
	m.basis, m.inverse = r.Sized("B", n*n), r.Sized("inverse of B", n*n)
	m.ratio, m.logDet = r.Sized("ratios", n), r.F64()
	m.gaussian = r.Sized("factor of C_G", n*n)
	m.ridged = r.Flag()
	m.centre = r.Sized("centre", dim)
	m.pending, m.minibatches, m.keep = r.F64(), int(r.U64()), r.F64()
	m.fresh = r.Sized("rows since the split", n*n)
	if r.Err == nil && (m.parzen < 0 || m.parzen > n) {
		r.Err = fmt.Errorf("d_P is %d of %d", m.parzen, n)
	}
}

func (a *reference) write(w *state.Writer) {
	w.Floats(a.w)
	w.Floats(a.parzen)
	w.F64(a.radians)
}

func (a *reference) read(r *reader, dim int) {
	a.w, a.parzen, a.radians = r.Floats(), r.Floats(), r.F64()
	if r.Err == nil && ((a.w != nil && len(a.w) != dim*dim) || len(a.parzen)%dim != 0) {
		r.Err = fmt.Errorf("reference of %d and %d numbers for %d columns", len(a.w), len(a.parzen), dim)
	}
}

// The counters and running figures of a state: see state.go.

// fields are in the order of the layout. The first edition had the first eight.
func (c *counts) fields() []*uint64 {
	return []*uint64{&c.Rows, &c.Learnt, &c.Skipped, &c.Gated, &c.Copies, &c.Alarms, &c.Minibatches, &c.Since, &c.Lockouts, &c.Returns, &c.Refusals}
}

func (c *counts) write(w *state.Writer) {
	for _, f := range c.fields() {
		w.U64(*f)
	}
}

func (c *counts) read(r *reader) {
	fields, recurrences := c.fields(), uint64(0)
	switch r.version {
	case firstVersion:
		fields = fields[:8]
	case secondVersion:
		fields = slices.Insert(fields, 10, &recurrences)
	}
	for _, f := range fields {
		*f = r.U64()
	}
}

func (d *drift) write(w *state.Writer) {
	d.nll.Write(w)
	d.far.Write(w)
	d.quiet.write(w)
}

func (d *drift) read(r *reader, dim int) {
	if d.nll.Read(&r.Reader); !r.first() {
		d.far.Read(&r.Reader)
		d.quiet.read(&r.Reader, dim)
		if r.version == secondVersion { // the least variance of the NLL
			_ = r.F64()
		}
	}
}

func (r *running) fields() []*float64 {
	return []*float64{&r.Weight, &r.NLL, &r.GaussianNLL, &r.Effective}
}

func (r *running) write(w *state.Writer) {
	for _, f := range r.fields() {
		w.F64(*f)
	}
}

func (r *running) read(from *reader) {
	for _, f := range r.fields() {
		*f = from.F64()
	}
}

// The part of the state that says what the data have chosen; state.go has the layout.

func (c *choice) write(w *state.Writer) {
	w.U64(c.began)
	if c.began == 0 {
		return
	}
	found := c.wait()
	c.rows.Write(w)
	writeChoice(w, found.Choice)
	if found.Taken != 0 {
		found.best.recipe.write(w)
		w.Count(found.best.parzen)
		w.Floats(found.best.cl)
	}
}

func (c *choice) read(r *reader, dim int) {
	if c.began = r.U64(); c.began == 0 {
		return
	}
	c.rows = pool.ReadBatch(&r.Reader, !r.first())
	if r.Err == nil && !c.rows.Valid(dim) {
		r.Err = fmt.Errorf("a comparison with %d numbers for %d rows", len(c.rows.X), c.rows.Len())
	}
	if r.first() { // a comparison for LCA-Gauss-Red, which is dropped: the next comes
		r.U64()
		r.Floats()
		*c = choice{}
		return
	}
	found := outcome{Choice: readChoice(r)}
	if found.Taken != 0 {
		found.best = candidate{readRecipe(r), int(r.U64()), r.Floats()}
		if n, parzen := len(found.best.cl), found.best.parzen; r.Err == nil && (n != dim*dim || parzen < 0 || parzen > dim) {
			r.Err = fmt.Errorf("a comparison that offers d_P = %d and %d numbers for %d columns", parzen, n, dim)
		}
	}
	c.comparison = &comparison{found: found}
}

func writeChoice(w *state.Writer, c lca.Choice) {
	w.U64(c.Rows)
	w.Count(c.Taken)
	w.Count(len(c.Candidates))
	for _, t := range c.Candidates {
		w.Text(t.Name)
		w.Count(t.Parzen)
		w.F64(t.Nu)
		w.U64(uint64(t.NuUnit))
		w.U64(uint64(t.Kernel))
		w.F64(t.NLL)
	}
}

func readChoice(r *reader) lca.Choice {
	const least = 48 // bytes of a candidate without a name
	c := lca.Choice{Rows: r.U64(), Taken: int(r.U64())}
	for range r.Count(least) {
		c.Candidates = append(c.Candidates, lca.Trial{
			Name: r.Text(), Parzen: int(r.U64()), Nu: r.F64(), NuUnit: lca.Unit(r.U64()), Kernel: lca.Kernel(r.U64()), NLL: r.F64(),
		})
	}
	if r.Err == nil && (c.Taken < 0 || c.Taken >= max(1, len(c.Candidates))) {
		r.Err = fmt.Errorf("candidate %d of %d", c.Taken, len(c.Candidates))
	}
	return c
}

// reader reads a state of some layout.
type reader struct {
	state.Reader
	version uint32
}

func (r *reader) first() bool { return r.version == firstVersion }
