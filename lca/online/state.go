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
	"github.com/lca-stream/lca-stream/lca/online/internal/watch"
)

// The state of a Learner, little-endian:
//
//	 0  8  "lcastate"
//	 8  4  version of the layout, 18
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
//	          and of each the same
//	warm-up   rows, identities u×n, places            of the warm-up, or in quarantine
//	pool      offered u64, rows, identities u×n, places
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
//	          learnt since its restart u64, pool, moments, C_L, d_P u64, drift, aligned, gap, gate, flag whether there is an evaluator of the last rows, and that, longest rests u×d or u×0
//	known     flag whether what was known is kept, and held is what was refused last
//	recent    flag whether the last rows are scored, flag whether they come again, and unless they are not: as recent.Learner writes it, number of series u64,
//	          and of each, ascending, its identity u64, and as recent.Series writes it
//	holds     rows held u64, rows of holds that ended u64, acceptances that are not told u64, rows, identities u×n, places    accepted, and
//	          not yet learnt, and the same of few series among others; flag whether there is an evaluator of the regime that is about to be left, and that; number of open holds u64, and of each, ascending by series, series, rows so far, stamps of the first and the last row, of its clock the
//	          largest stamp, the one ahead, rows behind, rows that moved it on and time   u64 each; rows, identities u×n, places; number of holds that are over u64, and of each the same
//	rests     values that the columns repeat f×d or f×0, rows that have them u×n, and of each whether some were refused, a count and flags; longest rests of the
//	          regime u×d or u×0
//
// Version 9, of the second edition, ends before recent. It has a count of recurrences before that of refusals; the same of the Gaussian part and the least variance of the NLL f64 after drift; a u64 after offered in a pool; before
// formers rows, identities u×n, places, u×n and four u64; and after the first u64 of formers a flag, a u64 and a flag, and a f64 at its end. The first edition wrote version 3. It has no lockouts and nothing after them among the counts; of drift only that of the
// NLL, without the least variance; no places; no settings; in choice, after the rows, d_P u64 and C_L f×d² or f×0; and
// nothing after choice. The versions between were never released and are refused.
//
// Places are a count, and for each a partition and a number of rows, as varints. Rows are a flag, and then as many
// float32 if it is 1 (nothing is lost by it), and otherwise float64.
const (
	stateMagic   = "lcastate"
	stateVersion = 18
	stateHeader  = 24
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
	l.fields(&state.Fields{W: w, Version: stateVersion})
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
	r := &state.Reader{B: body}
	if next.fields(&state.Fields{R: r, Version: binary.LittleEndian.Uint32(b[8:])}); len(r.B) > 0 {
		r.Fail(fmt.Errorf("%d bytes too many", len(r.B)))
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
	case v != stateVersion && v != state.SecondEdition && v != state.FirstEdition:
		return nil, fmt.Errorf("layout version %d, want %d, %d or %d: it was written by a build that was never released", v, state.FirstEdition, state.SecondEdition, stateVersion)
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
	r := &state.Reader{B: body}
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

// fields passes all that a learner knows to a state, or from one into a new learner.
func (l *Learner) fields(f *state.Fields) {
	for _, s := range origin() {
		f.Text(&s)
	}
	for k, want := range l.shape() {
		got := want
		if f.U64(&got); f.Reads() && got != want {
			f.R.Fail(&ShapeError{Name: shapeNames[k], State: got, Config: want})
		}
	}
	d, first := l.cfg.Dim, f.Version == state.FirstEdition
	l.counts.fields(f, &l.since)
	r := &l.running
	f.F64(&r.Weight, &r.NLL, &r.GaussianNLL, &r.Effective)
	l.drift.fields(f, d)
	l.warm.Fields(f, d)
	l.pool.Fields(f)
	l.moments.fields(f)
	if was := l.cfg.recipe(); !first {
		if was.fields(f); f.Reads() {
			l.restore(was)
		}
	}
	f.Sized("C_L", &l.cl, d*d)
	l.metricFields(f)
	f.Flag(&l.split)
	l.aligned.fields(f, d)
	l.choice.fields(f, d)
	if first {
		return // nothing came after it
	}
	choiceFields(f, &l.chosen)
	l.gap.Fields(f, d)
	pool.Places(f, (*[]pool.Place)(&l.clocks), 0)
	l.gate.fields(f)
	l.held.Fields(f, d)
	l.lockout.Fields(f)
	if f.Version == state.SecondEdition { // rows that came again and again, and what was known of them
		_, _ = f.R.Rows(), f.R.Words()
		pool.Places(f, new([]pool.Place), 0)
		_ = f.R.Words()
		for range 4 {
			_ = f.R.U64()
		}
	}
	l.formerFields(f)
	known := l.keepsKnown()
	if f.Flag(&known); known != l.keepsKnown() {
		l.held = pool.Batch{} // they were held for another purpose
	}
	if f.Version == state.SecondEdition {
		f.F64(new(float64)) // of what the tails were needed for
	} else {
		l.recent.fields(f, d)
		l.unusual.fields(f, d)
		l.rests.fields(f)
		restsField(f, &l.longest, d)
	}
}

// metricFields passes the metric, if there is one.
func (l *Learner) metricFields(f *state.Fields) {
	known := l.metric != nil
	if f.Flag(&known); !known {
		return
	}
	if f.Reads() {
		l.metric = new(metricState)
	}
	l.metric.fields(f, l.cfg.Dim)
	f.Check(l.pool.Len() > 0, "a metric without a pool")
	if f.Reads() && f.R.Err == nil {
		f.Check(l.metric.resume(l), "a C_L that is not positive definite")
	}
}

func (g *runningMoments) fields(f *state.Fields) {
	g.full()
	f.Sized("mean", &g.mean, g.dim)
	f.Sized("C_G", &g.cov, g.dim*g.dim)
	f.F64(&g.count)
	state.List(f, &g.sparse, 24, func(s *prop1.Sparse) {
		state.Numbers(f, &s.Column)
		f.F64(&s.Usual, &s.Share)
	})
}

func (m *metricState) fields(f *state.Fields, dim int) {
	state.List(f, &m.Active, 8, func(k *int) { state.Numbers(f, k) })
	n := len(m.Active)
	f.Check(n > 0 && n <= dim && slices.IsSorted(m.Active) && m.Active[0] >= 0 && m.Active[n-1] < dim, "active columns %v of %d", m.Active, dim)
	f.Sized("scales", &m.Scale, n)
	state.Numbers(f, &m.parzen)
	f.Sized("B", &m.basis, n*n)
	f.Sized("inverse of B", &m.inverse, n*n)
	f.Sized("ratios", &m.ratio, n)
	f.F64(&m.logDet)
	f.Sized("factor of C_G", &m.gaussian, n*n)
	f.Flag(&m.ridged)
	f.Sized("centre", &m.centre, dim)
	f.F64(&m.pending)
	state.Numbers(f, &m.minibatches)
	f.F64(&m.keep)
	if !f.Reads() {
		m.freshFull()
	}
	f.Sized("rows since the split", &m.fresh, n*n)
	f.Check(m.parzen >= 0 && m.parzen <= n, "d_P is %d of %d", m.parzen, n)
}

func (a *reference) fields(f *state.Fields, dim int) {
	f.Floats(&a.w)
	f.Floats(&a.parzen)
	f.F64(&a.radians)
	f.Check((a.w == nil || len(a.w) == dim*dim) && len(a.parzen)%dim == 0, "reference of %d and %d numbers for %d columns", len(a.w), len(a.parzen), dim)
}

func (c *counts) fields(f *state.Fields, since *uint64) {
	f.U64(&c.Rows, &c.Learnt, &c.Skipped, &c.Gated, &c.Copies, &c.Alarms, &c.Minibatches, since)
	if f.Version == state.FirstEdition {
		return
	}
	if f.U64(&c.Lockouts, &c.Returns); f.Version == state.SecondEdition {
		f.U64(new(uint64)) // recurrences
	}
	f.U64(&c.Refusals)
}

func (d *drift) fields(f *state.Fields, dim int) {
	d.nll.Fields(f)
	if f.Version == state.FirstEdition {
		return
	}
	d.far.Fields(f)
	if d.quiet.fields(f, dim); f.Version == state.SecondEdition {
		new(watch.Level).Fields(f) // of the Gaussian part
		f.F64(new(float64))        // the least variance of the NLL
	}
}

func (c *choice) fields(f *state.Fields, dim int) {
	if f.U64(&c.began); c.began == 0 {
		return
	}
	var found outcome
	if !f.Reads() {
		found = c.wait()
	}
	if c.rows.Fields(f, dim); f.Version == state.FirstEdition { // a comparison for LCA-Gauss-Red, which is dropped: the next comes
		_, _ = f.R.U64(), f.R.Floats()
		*c = choice{}
		return
	}
	if choiceFields(f, &found.Choice); found.Taken != 0 {
		b := &found.best
		b.recipe.fields(f)
		state.Numbers(f, &b.parzen)
		f.Floats(&b.cl)
		f.Check(len(b.cl) == dim*dim && b.parzen >= 0 && b.parzen <= dim, "a comparison that offers d_P = %d and %d numbers for %d columns", b.parzen, len(b.cl), dim)
	}
	if f.Reads() {
		c.comparison = &comparison{found: found}
	}
}

// choiceFields passes a record of what was chosen.
func choiceFields(f *state.Fields, c *lca.Choice) {
	const least = 48 // bytes of a candidate without a name
	f.U64(&c.Rows)
	state.Numbers(f, &c.Taken)
	state.List(f, &c.Candidates, least, func(t *lca.Trial) {
		f.Text(&t.Name)
		state.Numbers(f, &t.Parzen)
		f.F64(&t.Nu)
		state.Numbers(f, &t.NuUnit)
		state.Numbers(f, &t.Kernel)
		f.F64(&t.NLL)
	})
	f.Check(c.Taken >= 0 && c.Taken < max(1, len(c.Candidates)), "candidate %d of %d", c.Taken, len(c.Candidates))
}
