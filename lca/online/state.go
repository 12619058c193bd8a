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
//	 8  4  version of the layout, 23
//	12  8  length n of the body
//	20  4  CRC32C of the body
//	24  n  body
//
// The body are the fields that Learner.fields goes over, in that order: where the state was written (the bits of what is learnt next are the same for
// every kernel, not for every GOARCH), what must be as the configuration has it, and what has been learnt. What follows from the rest is left out.
//
// Of former editions it reads the versions that they wrote, state.FirstEdition and state.SecondEdition. Those between were never released and are refused.
const (
	stateMagic   = "lcastate"
	stateVersion = 23
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
	if next.metric == nil {
		next.dependence.Measure(next.warm, next.cfg.Dim)
		next.slow = next.slowestOfWarmup()
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
func (c Config) stateShape() []uint64 {
	return []uint64{uint64(c.Dim), uint64(c.Neighbours), biased}
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
	for k, want := range l.cfg.stateShape() {
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
	gapFields(f, &l.gap)
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
	if f.Version == state.SecondEdition {
		var known bool
		if f.Flag(&known); known { // rows were held for another purpose
			l.held = pool.Batch{}
		}
		f.F64(new(float64)) // of what the tails were needed for
	} else {
		l.recent.fields(f, d)
		l.unusual.fields(f, d)
		l.rests.fields(f)
		restsField(f, &l.longest, d)
	}
}

// metricFields passes the metric, if there is one.
func (l *model) metricFields(f *state.Fields) {
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
	m.basisFields(f, n)
	f.Sized("ratios", &m.ratio, n)
	f.F64(&m.logDet)
	f.Sized("factor of C_G", &m.gaussian, n*n)
	f.Flag(&m.ridged)
	f.Sized("centre", &m.centre, dim)
	f.F64(&m.pending)
	state.Numbers(f, &m.minibatches)
	f.F64(&m.keep)
	if !f.Reads() && m.form != axesForm {
		m.freshFull()
	}
	f.Sized("rows since the split", &m.fresh, m.freshLen())
	f.Check(m.parzen >= 0 && m.parzen <= n, "d_P is %d of %d", m.parzen, n)
}

func (a *reference) fields(f *state.Fields, dim int) {
	f.Floats(&a.w)
	f.Floats(&a.parzen)
	f.F64(&a.radians)
	f.Check((a.w == nil || len(a.w) == dim*dim) && len(a.parzen)%dim == 0, "reference of %d and %d numbers for %d columns", len(a.w), len(a.parzen), dim)
}

func (c *counts) fields(f *state.Fields, since *uint64) {
	restarts, of := c.restarts(), &c.Alarms
	if f.U64(&c.Rows, &c.Learnt, &c.Skipped, &c.Gated, &c.Copies, &restarts, &c.Minibatches, since); f.Version > state.FirstEdition {
		if f.U64(&of[AlarmLockout], &of[AlarmRegimeReturned]); f.Version == state.SecondEdition {
			f.U64(new(uint64)) // recurrences
		}
		f.U64(&of[AlarmRefused])
	}
	of[AlarmDrift] = restarts - of[AlarmLockout]
}

// gapFields passes a time gap. In the second edition what it followed from came after it: rows seen, the first row, rows of partitions, and moments of lags.
func gapFields(f *state.Fields, gap *uint64) {
	if f.U64(gap); f.Version > state.SecondEdition {
		return
	}
	const lags, moments = 13, 5
	f.U64(new(uint64))
	f.Floats(new([]float64))
	state.List(f, new([]struct{}), 8*lags, func(*struct{}) {
		f.U64(new(uint64))
		f.Words(new([]uint64))
		f.Floats(new([]float64))
	})
	state.List(f, new([]struct{}), 16, func(*struct{}) {
		f.F64(new(float64), new(float64))
		for range moments {
			f.Floats(new([]float64))
		}
	})
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
