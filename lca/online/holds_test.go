package online

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/recent"
)

// fleet is a learner of several series, whose rows come in turn, one every ten seconds.
type fleet struct {
	t      *testing.T
	l      *Learner
	r      *rand.Rand
	series int
	block  int     // rows of a series in a row
	apart  float64 // the levels of two series in a column
	all    bool    // all series are moved
	rows   int
	alarms []Alarm
	told   int // acceptances
	held   int
	learnt int
}

func newFleet(t *testing.T, series int, change func(*Config)) *fleet {
	t.Helper()
	c := fixed(DefaultConfig(4))
	c.Preset, c.Neighbours, c.Minibatch = lca.PresetDensity, 1000, 50
	change(&c)
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{t: t, l: l, r: rand.New(rand.NewPCG(3, 5)), series: series, block: 1}
}

// learn learns rows, of which those of series 0 are moved.
func (f *fleet) learn(rows int, moved float64) {
	f.t.Helper()
	b := f.l.cfg.Minibatch
	f.alarms, f.told, f.held, f.learnt = nil, 0, 0, 0
	for ; rows > 0; rows -= b {
		x := mat.NewDense(b, 4, nil)
		series, stamps := make([]uint64, b), make([]int64, b)
		for i := range b {
			series[i], stamps[i] = uint64(f.rows/f.block%f.series), int64(1e12)+10_000*int64(f.rows)
			common := f.r.NormFloat64()
			for k := range 4 {
				x.Set(i, k, common+0.3*f.r.NormFloat64())
			}
			x.Set(i, 2, x.At(i, 2)+f.apart*float64(series[i]))
			if series[i] == 0 || f.all {
				x.Set(i, 1, x.At(i, 1)+moved)
			}
			f.rows++
		}
		s, err := f.l.LearnSeries(x, sequence(f.rows-b, b), nil, series, stamps)
		if err != nil {
			f.t.Fatal(err)
		}
		if s.Alarm != AlarmNone {
			f.alarms = append(f.alarms, s.Alarm)
		}
		f.told, f.held, f.learnt = f.told+s.Accepted, f.held+s.Held, f.learnt+s.Learnt
		h := &f.l.unusual
		all := h.queue.Len()
		for _, one := range slices.Concat(h.open, h.closed) {
			all += one.rows.Len()
		}
		if all > 3*f.l.cfg.Neighbours {
			f.t.Fatalf("%d rows are kept", all)
		}
	}
}

// density is log p of a row whose series is at moved.
func (f *fleet) density(moved float64) float64 {
	f.t.Helper()
	m, err := f.l.Model()
	if err != nil {
		f.t.Fatal(err)
	}
	score := []float32{0}
	m.NewScorer().Score(nil, score, []float64{0, moved, 0, 0}, 1)
	return -float64(score[0])
}

// TestFaultIsNotLearnt holds that the rows of a series that is unusual are not learnt, however many there are, and those of others are; when it is over all goes on as before.
func TestFaultIsNotLearnt(t *testing.T) {
	for _, series := range []int{1, 20} {
		f := newFleet(t, series, func(*Config) {})
		f.learn(20_000, 0)
		if f.held > 1000 {
			t.Errorf("%d series: %d of 20000 usual rows were held", series, f.held)
		}
		before := f.density(3)
		f.learn(50_000, 3)
		if want := 50_000 / series; f.held < want*9/10 || f.held > want+1000 || len(f.alarms) > 0 || f.told > 0 {
			t.Errorf("%d series: %d rows held, alarms %v, %d accepted", series, f.held, f.alarms, f.told)
		}
		if after := f.density(3); after > before+1 {
			t.Errorf("%d series: a row of the fault had log p %.1f before it, and %.1f after 50000", series, before, after)
		}
		f.learn(2000, 0)
		if f.learnt < 1800 {
			t.Errorf("%d series: %d of 2000 rows learnt when the fault is over", series, f.learnt)
		}
	}
}

// TestYoungFaultIsHeld holds that the rows of an episode are held from the first 1000 rows of a stream on, where no run of high scores may be over yet: with
// preset metric the learner would restart from the fault after 200 rows of it.
func TestYoungFaultIsHeld(t *testing.T) {
	for _, usual := range []int{1200, 2000} {
		for seed := range uint64(20) {
			f := newFleet(t, 1, func(c *Config) { c.Preset, c.Neighbours, c.Minibatch = lca.PresetMetric, 500, 100 })
			f.r = rand.New(rand.NewPCG(45, seed))
			f.learn(usual, 0)
			tail := f.l.recent.learner.Evaluator().Tail
			if f.learn(600, 6); f.held < 500 || len(f.alarms) > 0 {
				t.Errorf("seed %d: after %d rows %d of 600 of a fault were held, alarms %v: %+v", seed, usual, f.held, f.alarms, tail)
			}
		}
	}
}

// TestChangeIsLearnt holds that a change for good is learnt when it has lasted long enough or someone says so, and not before.
func TestChangeIsLearnt(t *testing.T) {
	for _, c := range []struct {
		name   string
		series int
		change func(*Config)
		accept bool
		until  int // rows, in which it is learnt
		alarms []Alarm
		reason string
	}{
		{"rows", 1, func(c *Config) { c.AcceptRows = 2000 }, false, 3000, []Alarm{AlarmDrift}, recent.Aged},
		{"the metric preset", 1, func(c *Config) { c.Preset = lca.PresetMetric }, false, 1500, []Alarm{AlarmDrift}, recent.Aged},
		{"a week", 1, func(*Config) {}, false, 63_000, []Alarm{AlarmDrift}, recent.Aged},
		{"someone says so", 1, func(*Config) {}, true, 3000, []Alarm{AlarmDrift}, recent.Accepted},
		{"one of twenty", 20, func(*Config) {}, true, 8000, nil, recent.Accepted},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, c.series, c.change)
			f.learn(20_000, 0)
			from := int64(1e12) + 10_000*int64(f.rows)
			switch {
			case c.accept:
				f.learn(20_000, 3)
				if rows := f.l.Accept(0, from, 0); rows < 700 {
					t.Errorf("%d rows accepted", rows)
				}
			case c.reason == recent.Aged && c.until > 1500:
				f.learn(c.until/2, 3)
				if f.told > 0 || f.density(3) > -6 {
					t.Errorf("after half of the time %d are accepted, and log p is %.1f", f.told, f.density(3))
				}
				c.until -= c.until / 2
			}
			f.learn(c.until, 3)
			accepted := f.l.recent.evaluator().Accepted
			if f.told != 1 || !slices.Equal(f.alarms, c.alarms) || len(accepted) != 1 || accepted[0].Series != 0 || accepted[0].Reason != c.reason || accepted[0].Until <= from {
				t.Errorf("%d accepted, %+v, alarms %v", f.told, accepted, f.alarms)
			}
			if p, least := f.density(3), map[bool]float64{true: -6, false: -10}[c.series == 1]; p < least {
				t.Errorf("log p of a row is %.1f", p)
			}
			f.learn(5000, 3)
			if f.held > 500 {
				t.Errorf("%d of 5000 rows held once it is normal", f.held)
			}
		})
	}
}

// TestFewAcceptedRows holds that a change that someone accepts is learnt from what was held of it, however small the pool is and however few the rows: they
// need not be as many as it takes when no one says anything.
func TestFewAcceptedRows(t *testing.T) {
	for _, c := range []struct{ neighbours, rows int }{{500, 200}, {500, 2000}, {1000, 150}, {1000, 600}, {3000, 200}} {
		f := newFleet(t, 1, func(c2 *Config) { c2.Neighbours = c.neighbours })
		f.learn(10_000, 0)
		f.learn(c.rows, 3)
		if held := f.l.Accept(0, 0, 0); held < min(c.rows, c.neighbours)*9/10 {
			t.Errorf("pool of %d: %d of %d rows were held", c.neighbours, held, c.rows)
		}
		f.learn(100, 3)
		if p := f.density(3); p < -7 {
			t.Errorf("pool of %d, %d rows of a change accepted: after 100 more log p of a row is %.1f", c.neighbours, c.rows, p)
		}
		if f.learn(500, 3); f.learnt < 450 {
			t.Errorf("pool of %d, %d rows of a change accepted: %d of 500 rows learnt behind it", c.neighbours, c.rows, f.learnt)
		}
	}
}

// TestOldHoldIsAccepted holds that what was unusual for a while can still be accepted when it is over, and that nothing else is.
func TestOldHoldIsAccepted(t *testing.T) {
	f := newFleet(t, 20, func(*Config) {})
	f.learn(20_000, 0)
	from := int64(1e12) + 10_000*int64(f.rows)
	f.learn(10_000, 3)
	to := int64(1e12) + 10_000*int64(f.rows)
	f.learn(2000, 0)
	for _, none := range []int{f.l.Accept(7, from, to), f.l.Accept(0, from-1e9, from-9e8)} {
		if none != 0 {
			t.Errorf("%d rows accepted of what was not held", none)
		}
	}
	if rows := f.l.Accept(0, from, to); rows < 200 {
		t.Errorf("%d rows accepted", rows)
	}
	f.learn(1000, 0)
	if p := f.density(3); p < -15 { // it was −38
		t.Errorf("log p of a row is %.1f", p)
	}
}

// TestAcceptedOfLargeMessages holds that one of twenty machines that is accepted joins the others also where a minibatch has rows of that machine alone.
func TestAcceptedOfLargeMessages(t *testing.T) {
	f := newFleet(t, 20, func(*Config) {})
	f.block = 200
	f.learn(20_000, 0)
	f.learn(20_050, 3)
	if got := f.l.Accept(0, 0, 0); got < 300 {
		t.Errorf("%d rows accepted", got)
	}
	if e := f.l.recent.evaluator(); e.Learnt != 40_050 || len(e.Accepted) != 1 {
		t.Errorf("of %d rows %d are known, accepted %+v", f.rows, e.Learnt, e.Accepted)
	}
	f.learn(2000, 3)
	if p, q := f.density(3), f.density(0); p < -10 || q < -4 {
		t.Errorf("log p of a row is %.1f, of one of the others %.1f", p, q)
	}
}

// TestOverIsNotWhatIsNow holds that what is accepted when it is over joins what is known, also of the only series, and says nothing of what is held since.
func TestOverIsNotWhatIsNow(t *testing.T) {
	for _, series := range []int{1, 20} {
		f := newFleet(t, series, func(*Config) {})
		f.learn(20_000, 0)
		from := int64(1e12) + 10_000*int64(f.rows)
		f.learn(500*series, 3)
		to := int64(1e12) + 10_000*int64(f.rows)
		f.learn(250*series, 0)
		f.learn(200*series, -8)
		known := f.l.recent.evaluator().Learnt
		if rows := f.l.Accept(0, from, to); rows < 200 {
			t.Errorf("%d series: %d rows accepted", series, rows)
		}
		dropped, waiting := f.l.NotLearnt()
		if open, held := f.l.HeldSeries(); open != 1 || dropped+waiting != held {
			t.Errorf("%d series: %d are held; of %d rows that were, %d were dropped and %d wait", series, open, held, dropped, waiting)
		}
		if e := f.l.recent.evaluator(); e.Learnt < known || len(e.Accepted) > 0 {
			t.Errorf("%d series: of %d rows %d are known, accepted %+v", series, f.rows, e.Learnt, e.Accepted)
		}
		f.learn(50, -8)
		if p, q := f.density(3), f.density(-8); p < -16 || q > -60 {
			t.Errorf("%d series: log p of a row that was accepted is %.1f, of one that is held %.1f", series, p, q)
		}
	}
}

// TestAcceptedInPieces holds that what is accepted is one stretch, also where the learner had taken it for usual in between.
func TestAcceptedInPieces(t *testing.T) {
	f := newFleet(t, 1, func(*Config) {})
	f.learn(20_000, 0)
	from := int64(1e12) + 10_000*int64(f.rows)
	f.learn(200, 3)
	f.learn(250, 0)
	f.learn(300, 3)
	rows := f.l.Accept(0, from, 0)
	h := &f.l.unusual
	dropped, waiting := f.l.NotLearnt()
	if _, held := f.l.HeldSeries(); rows < 450 || h.queue.Len() != rows || h.joins.Len() > 0 || len(h.open) > 0 || dropped+waiting != held {
		t.Errorf("%d rows accepted, of which %d are what the stream is now; %d dropped, %d wait, %d held", rows, h.queue.Len(), dropped, waiting, held)
	}
	if e := f.l.recent.evaluator(); len(e.Accepted) != 1 || e.Turn != 1 {
		t.Errorf("accepted %+v", e.Accepted)
	}
}

// TestAllChange holds that series that change at the same time and stay there are one change of the stream, and the learner knows all of them then, also
// where they are so many that few of them have rows that are kept.
func TestAllChange(t *testing.T) {
	for _, series := range []int{4, 200} {
		f := newFleet(t, series, func(c *Config) { c.AcceptRows = 400 })
		f.apart = 16 / float64(series)
		f.learn(20_000, 0)
		f.all = true
		for f.told = 0; f.told == 0 && f.rows < 20_000+600*series; {
			f.learn(50, 30)
		}
		e := f.l.recent.evaluator()
		if f.told != series || e == nil || len(e.Accepted) != series {
			t.Fatalf("%d of %d accepted: %+v", f.told, series, e)
		}
		if e.Centre[2] < 4 || e.Centre[2] > 10 || e.Centre[1] < 25 {
			t.Errorf("the centre is %.3g", e.Centre)
		}
		f.learn(4_000, 30)
		if f.held > 200 && series == 4 {
			t.Errorf("%d of 4000 rows held once all is normal", f.held)
		}
	}
}

// TestManyHolds holds that of more holds than there is room for some keep enough rows to be learnt, and always the same ones.
func TestManyHolds(t *testing.T) {
	const most = 1000
	for _, series := range []int{3, 15, 30, 1500} {
		var h holds
		var before []uint64
		for row := range 200 {
			for id := range uint64(series) {
				h.add(id, pool.Batch{X: []float64{float64(row)}, IDs: []uint64{uint64(row)}, Places: make([]pool.Place, 1)}, 0)
			}
			h.bound(most, 1)
			all, with := 0, []uint64(nil)
			for _, one := range h.open {
				if n := one.rows.Len(); n > 0 {
					all, with = all+n, append(with, one.series)
					if n < min(row+1, most/min(series, most/leastKept)) || one.rows.X[n-1] != float64(row) {
						t.Fatalf("%d series: %d rows of %d are kept of one", series, n, row+1)
					}
				}
			}
			if all > most || len(with) != min(series, most/leastKept) || row > 0 && !slices.Equal(with, before) {
				t.Fatalf("%d series, row %d: %d rows of %d are kept", series, row, all, len(with))
			}
			before = with
		}
	}
}

// TestHeldRegimeReturns holds that a regime of before is current again as soon as its rows are held, with what was known of the last rows.
func TestHeldRegimeReturns(t *testing.T) {
	f := newFleet(t, 1, func(c *Config) { c.AcceptRows = 1000 })
	f.learn(10_000, 0)
	f.learn(6_000, 4)
	if !slices.Equal(f.alarms, []Alarm{AlarmDrift}) {
		t.Fatal(f.alarms)
	}
	f.learn(300, 0)
	if !slices.Equal(f.alarms, []Alarm{AlarmRegimeReturned}) || f.held > 200 {
		t.Errorf("alarms %v, %d rows held", f.alarms, f.held)
	}
	if a := f.l.recent.evaluator().Accepted; len(a) != 1 || a[0].Reason != recent.Returned {
		t.Errorf("%+v", a)
	}
	f.learn(3000, 0)
	if f.held > 200 || f.learnt < 2700 {
		t.Errorf("%d rows held and %d learnt of the regime that is back", f.held, f.learnt)
	}
}

// TestKnownRowsBringNothingBack holds that a former regime, which knows the rows that are held as well as the current one, stays a former one: it may know less of others.
func TestKnownRowsBringNothingBack(t *testing.T) {
	f := newFleet(t, 1, func(c *Config) { c.AcceptRows = 1000 })
	f.learn(10_000, 0)
	same, ok := f.l.thinned()
	if !ok {
		t.Fatal("the current regime cannot be kept")
	}
	f.l.former.regimes = append(f.l.former.regimes, same)
	f.l.apart.last = new(pool.Batch).Sample(f.l.pool.Batch(), 100, 0, f.l.cfg.Dim)
	s := Step{Rows: 100, Held: 100}
	f.l.regimeOfHeld(&s)
	if s.Alarm != AlarmNone || len(f.l.former.regimes) != 1 {
		t.Errorf("%v, %d former regimes", s.Alarm, len(f.l.former.regimes))
	}
}

// TestRestoredInHolds holds that a learner goes on bit for bit from a state written after any minibatch around a hold, with one that is over and one that is learnt.
func TestRestoredInHolds(t *testing.T) {
	f := newFleet(t, 3, func(c *Config) { c.AcceptRows = 400 })
	f.learn(6000, 0)
	for i := range 80 {
		moved := 0.
		if i >= 5 && i < 60 {
			moved = 4
		}
		state, err := f.l.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		r, rows := *f.r, f.rows
		source := rand.NewPCG(uint64(i), 9)
		f.r = rand.New(source)
		f.learn(50, moved)
		want, _ := f.l.AppendBinary(nil)
		restored, err := NewLearner(f.l.asked)
		if err != nil {
			t.Fatal(err)
		}
		if err := restored.UnmarshalBinary(state); err != nil {
			t.Fatalf("minibatch %d: %v", i, err)
		}
		f.l, f.rows, f.r = restored, rows, rand.New(rand.NewPCG(uint64(i), 9))
		f.learn(50, moved)
		if got, _ := f.l.AppendBinary(nil); !slices.Equal(got, want) {
			t.Fatalf("minibatch %d: the learner that was restored goes on in another way", i)
		}
		f.r = &r
	}
	if _, rows := f.l.HeldSeries(); rows < 500 || f.l.AlarmsOf(AlarmDrift) > 0 && rows == 0 {
		t.Errorf("%d rows were held: the test sees nothing", rows)
	}
}

// TestOnlyWhatIsAcceptedWithDriftOff holds that with Drift off nothing that is unusual is learnt, however long it lasts, until someone accepts it: from then on that and
// what was normal before each return at once.
func TestOnlyWhatIsAcceptedWithDriftOff(t *testing.T) {
	for _, recent := range []bool{true, false} {
		f := newFleet(t, 1, func(c *Config) { c.AcceptRows, c.Drift, c.Recent = 300, false, recent })
		f.learn(20_000, 0)
		before := f.density(3)
		f.learn(50_000, 3)
		if after := f.density(3); f.learnt > 500 || f.told > 0 || after > before+1 {
			t.Errorf("holds %v: %d rows of a fault learnt, %d accepted, log p of one %.1f before it, and %.1f after", recent, f.learnt, f.told, before, after)
		}
		if !recent {
			continue
		}
		if rows := f.l.Accept(0, 0, 0); rows < 900 {
			t.Fatalf("%d rows accepted", rows)
		}
		f.learn(2000, 3)
		if after := f.density(3); f.learnt < 1500 || after < before+5 || !slices.Equal(f.alarms, []Alarm{AlarmDrift}) {
			t.Errorf("%d of 2000 rows learnt once it was accepted, alarms %v, log p of one %.1f, and %.1f before", f.learnt, f.alarms, after, before)
		}
		for _, moved := range []float64{0, 3, 0, 3} {
			f.learn(5000, moved)
			if f.learnt < 4500 || len(f.alarms) > 1 {
				t.Errorf("at %v again: %d of 5000 rows learnt, alarms %v", moved, f.learnt, f.alarms)
			}
		}
	}
}
