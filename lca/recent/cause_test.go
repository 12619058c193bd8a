package recent

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// plant returns rows of 8 autocorrelated columns with a common load, and an evaluator learnt from the first of them; from begins on, fault changes each row.
func plant(seed uint64, begins, rows int, fault func(row, before []float64, rng *rand.Rand)) (*Evaluator, []float64) {
	const d, train = 8, 2000
	rng := rand.New(rand.NewPCG(seed, 45))
	x, own, load := make([]float64, (train+rows)*d), make([]float64, d), 0.
	for i := range train + rows {
		load = 0.95*load + 0.3*rng.NormFloat64()
		for k := range d {
			own[k] = 0.5*own[k] + 0.8*rng.NormFloat64()
			x[i*d+k] = float64(100*k) + float64(k+1)*(own[k]+load)
		}
		if i >= train+begins {
			fault(x[i*d:][:d], x[(i-1)*d:][:d], rng)
		}
	}
	l, s := NewLearner(d), new(Series)
	for at := 0; at < train; at += 25 {
		l.Learn(x[at*d:(at+25)*d], one(s, 25))
	}
	l.Settle()
	return l.Evaluator(), x[train*d:]
}

// accounted scores rows in batches, with an episode open from a row on; at each of its rows but every hundredth Moved is asked, at those what is told.
func accounted(t *testing.T, e *Evaluator, x []float64, opens int, batch func() int) (*Series, *Cause) {
	t.Helper()
	var c Scorer
	var cause *Cause
	s, d := new(Series), e.Dim
	for at := 0; at < len(x)/d; {
		n := min(batch(), len(x)/d-at)
		scores := make([]float64, n)
		c.Score(e, scores, x[at*d:(at+n)*d], one(s, n))
		for i := range n {
			if cause = c.Account(e, i, s, at+i >= opens, scores[i], cause); cause == nil {
				continue
			}
			if cause.Ends(); cause.Rows%100 != 1 {
				cause.Moved(e)
			} else {
				cause.Now(e, 1)
			}
		}
		at += n
	}
	return s, cause
}

// Where the first rows of an episode are null in a column, nothing is known of when it moved: from the first that is not.
func TestOnsetBehindNulls(t *testing.T) {
	const guilty, begins, opens = 3, 300, 306
	e, x := plant(1, begins, 400, func(row, _ []float64, _ *rand.Rand) { row[guilty] += 30 })
	for i := range 4 {
		x[(opens+i)*e.Dim+guilty] = math.NaN()
	}
	_, cause := accounted(t, e, x, opens, func() int { return 7 })
	if got := cause.Ranked(e, 1)[0]; got.Column != guilty || got.Onset != 4 {
		t.Errorf("%+v", got)
	}
}

// The column that changed is named first, and how it changed, before and now, and since when.
func TestCauseOfMadeFaults(t *testing.T) {
	const guilty, begins, opens = 3, 300, 306
	for _, c := range []struct {
		name, direction string
		fault           func(row, before []float64, rng *rand.Rand)
		now             float64
	}{
		{"higher", "up", func(row, _ []float64, _ *rand.Rand) { row[guilty] += 30 }, 330},
		{"lower", "down", func(row, _ []float64, _ *rand.Rand) { row[guilty] -= 30 }, 270},
		{"noisier", "noisy", func(row, _ []float64, rng *rand.Rand) { row[guilty] += 20 * rng.NormFloat64() }, 300},
		{"frozen", "quiet", func(row, before []float64, _ *rand.Rand) { row[guilty] = before[guilty] }, 300},
	} {
		e, x := plant(1, begins, 500, c.fault)
		_, cause := accounted(t, e, x, opens, func() int { return 25 })
		first := cause.Ranked(e, 3)
		if got := first[0]; got.Column != guilty || got.Direction != c.direction || math.Abs(got.Before-300) > 30 || math.Abs(got.Now-c.now) > 15 {
			t.Errorf("%s: %+v", c.name, first)
		} else if c.direction == "up" && (got.Onset < -12 || got.Onset > 3) {
			t.Errorf("%s: since row %d, want about %d", c.name, got.Onset, begins-opens)
		}
		if len(first) != 3 {
			t.Errorf("%d causes, want 3", len(first))
		}
	}
}

// What a column is now is told as it is, however far: a sensor that fails gives what stands for no value.
func TestCauseFarAway(t *testing.T) {
	const guilty, begins, opens = 3, 300, 306
	for _, now := range []float64{-9999, 700, 1e12} {
		e, x := plant(1, begins, 500, func(row, _ []float64, _ *rand.Rand) { row[guilty] = now })
		_, cause := accounted(t, e, x, opens, func() int { return 25 })
		for name, got := range map[string]Change{"now": cause.Now(e, 1)[0], "all": cause.Ranked(e, 1)[0]} {
			want := map[bool]string{true: "up", false: "down"}[now > 300]
			if got.Column != guilty || math.Abs(got.Now-now) > 0.01*math.Abs(now) || got.Direction != want {
				t.Errorf("%s: %+v, want %g, %s", name, got, now, want)
			}
		}
	}
}

// A machine whose level is far from those of the others has that level before its episode and in it, whatever scale a version has that comes meanwhile; and
// what is cut is not quiet.
func TestCausesOfAFarMachine(t *testing.T) {
	const far, guilty, opens = 3, 1, 306
	for _, level := range []float64{0, 4000, -1e6} {
		e, x := plant(1, 0, 400, func(row, _ []float64, _ *rand.Rand) { row[far] += level })
		narrow := *e
		narrow.Scale = slices.Clone(e.Scale)
		narrow.Scale[far] /= 30
		for i := opens; i < len(x)/e.Dim; i++ {
			x[i*e.Dim+guilty] += 30
		}
		var c Scorer
		var cause *Cause
		s, score, by := new(Series), make([]float64, 1), e
		for i := range len(x) / e.Dim {
			if i == 350 {
				by = &narrow
			}
			c.Score(by, score, x[i*e.Dim:][:e.Dim], one(s, 1))
			if cause = c.Account(by, 0, s, i >= opens, score[0], cause); cause != nil {
				cause.Ends()
			}
		}
		want := 300 + level
		for _, got := range cause.Now(by, e.Dim) {
			if got.Column == far && (math.Abs(got.Before-want) > 3+0.01*math.Abs(want) || math.Abs(got.Now-want) > 12+0.02*math.Abs(want) || got.Direction == "quiet") {
				t.Errorf("at %g: %+v", want, got)
			}
		}
	}
}

// In a long episode a column that has changed for good stays the first one told, with what it was when the episode opened, until another
// one changes, even if by less.
func TestCausesOfALongEpisode(t *testing.T) {
	const guilty, other, begins, moves, rows = 3, 1, 300, 2600, 3000
	first, looks := 0, 0
	for seed := range uint64(10) {
		row := 0
		e, x := plant(seed, begins, rows, func(x, _ []float64, _ *rand.Rand) {
			x[guilty] += 120
			if row++; row > moves-begins {
				x[other] -= 40
			}
		})
		var c Scorer
		var cause *Cause
		score, s, d := make([]float64, 1), new(Series), e.Dim
		for i := range rows {
			c.Score(e, score, x[i*d:][:d], one(s, 1))
			if cause = c.Account(e, 0, s, i >= begins, score[0], cause); cause == nil || i%100 != 50 {
				continue
			}
			all := cause.Now(e, d)
			if want := map[bool]int{false: guilty, true: other}[i >= moves]; all[0].Column == want {
				first++
			}
			looks++
			for _, one := range all {
				if one.Column == guilty && (one.Direction != "up" || math.Abs(one.Before-300) > 30 || math.Abs(one.Now-420) > 30) {
					t.Errorf("seed %d, row %d: %+v", seed, i, one)
				}
			}
		}
	}
	if first < looks*95/100 {
		t.Errorf("the newest is first in %d of %d looks", first, looks)
	}
}

// In an episode that has begun long ago, and in which the column was far for a while, the onset of what it does now is when it began to do that.
func TestOnsetOfALaterFault(t *testing.T) {
	const first, guilty, begins, later, rows = 3, 6, 300, 800, 900
	for name, fault := range map[string]func(row, before []float64, rng *rand.Rand){
		"quiet": func(row, before []float64, _ *rand.Rand) { row[guilty] = before[guilty] },
		"noisy": func(row, _ []float64, rng *rand.Rand) { row[guilty] += 60 * rng.NormFloat64() },
		"up":    func(row, _ []float64, _ *rand.Rand) { row[guilty] += 60 },
	} {
		for seed := range uint64(5) {
			row := begins
			e, x := plant(seed, begins, rows, func(x, before []float64, rng *rand.Rand) {
				if row++; row <= begins+100 {
					x[guilty] += 60
				} else if row > later {
					fault(x, before, rng)
				}
				x[first] += 30
			})
			_, cause := accounted(t, e, x, begins, func() int { return 25 })
			if got := cause.Now(e, 1)[0]; got.Column != guilty || got.Direction != name || math.Abs(float64(got.Onset-(later-begins))) > 40 {
				t.Errorf("%s, seed %d: %+v, want column %d since row %d", name, seed, got, guilty, later-begins)
			}
		}
	}
}

// Of two changes that both last each is first by turns: that is told at most once in againRows.
func TestTwoChangesThatLast(t *testing.T) {
	const begins, rows = 300, 2300
	told := 0
	e, x := plant(1, begins, rows, func(row, _ []float64, rng *rand.Rand) {
		row[3], row[6] = row[3]+30*rng.NormFloat64(), row[6]+52*rng.NormFloat64()
	})
	var c Scorer
	var cause *Cause
	score, s := make([]float64, 1), new(Series)
	for i := range rows {
		c.Score(e, score, x[i*e.Dim:][:e.Dim], one(s, 1))
		if cause = c.Account(e, 0, s, i >= begins, score[0], cause); i == begins || i > begins && cause.Moved(e) {
			told++
			cause.Now(e, 1)
		}
	}
	if most := 2 * (rows - begins) / againRows; told > most || told < 10 {
		t.Errorf("told %d times, at most %d are wanted", told, most)
	}
}

// In an episode in which another column changes and the first is as it was, the other is told for the third row in which it is first, and then no more;
// of the whole episode the first has changed most.
func TestCausesOfTheLastRows(t *testing.T) {
	const begins, other, ends = 300, 500, 600
	for name, faults := range map[string][2]func(row, before []float64){
		"up, then down":       {func(row, _ []float64) { row[3] += 30 }, func(row, _ []float64) { row[6] -= 60 }},
		"frozen, then up":     {func(row, before []float64) { row[5] = before[5] }, func(row, _ []float64) { row[2] += 30 }},
		"up, then frozen":     {func(row, _ []float64) { row[2] += 40 }, func(row, before []float64) { row[5] = before[5] }},
		"the same is further": {func(row, _ []float64) { row[3] += 30 }, func(row, _ []float64) { row[3] += 60 }},
	} {
		rows := 0
		e, x := plant(1, begins, ends, func(row, before []float64, _ *rand.Rand) {
			if rows++; rows <= other-begins {
				faults[0](row, before)
			} else {
				faults[1](row, before)
			}
		})
		var c Scorer
		var cause *Cause
		score := make([]float64, 1)
		s, d, first := new(Series), e.Dim, 0
		var told []int
		running, last := 0, map[int]int{} // the row in which a column was told last
		for i := range len(x) / d {
			c.Score(e, score, x[i*d:][:d], one(s, 1))
			if cause = c.Account(e, 0, s, i >= begins, score[0], cause); cause == nil {
				continue
			}
			cause.Ends()
			now := *cause.Clone()
			if a := now.Now(e, d); i > begins+40 && a[0].Column != first && a[0].Rank > rankOf(a, first)+movedBy && (last[a[0].Column] == 0 || i-last[a[0].Column] >= againRows) {
				running++
			} else {
				running = 0
			}
			switch moved := cause.Moved(e); {
			case i == begins+40:
				first = cause.Now(e, 1)[0].Column
				last[first] = i
			case i < begins+40:
			case moved != (running >= movedRows):
				t.Fatalf("%s: row %d: moved %v, after %d rows with another column first", name, i, moved, running)
			case moved:
				told = append(told, i)
				first, running = cause.Now(e, 1)[0].Column, 0
				last[first] = i
			}
		}
		if name == "the same is further" {
			if len(told) > 0 || first != 3 {
				t.Errorf("%s: told at %v, first column %d", name, told, first)
			}
			continue
		}
		guilty := map[string][2]int{"up, then down": {3, 6}, "frozen, then up": {5, 2}, "up, then frozen": {2, 5}}[name]
		if len(told) == 0 || told[0] < other || told[0] > other+60 || len(told) > 2 || first != guilty[1] {
			t.Errorf("%s: told at %v, the column is now %d, want %d", name, told, first, guilty[1])
		}
		if all := cause.Ranked(e, 2); name == "up, then down" && all[0].Column != guilty[1] {
			t.Errorf("%s: of the whole episode %+v, want column %d first, which went further", name, all, guilty[1])
		}
	}
}

// Behind a fault, while the episode is not over yet, no column has changed: which is first then is chance, and hardly ever told.
func TestNoOtherCauseBehindAFault(t *testing.T) {
	const guilty, begins, lasts, plants = 3, 300, 200, 20
	told := 0
	for seed := range uint64(plants) {
		rows := 0
		e, x := plant(seed, begins, begins+lasts+60, func(row, _ []float64, rng *rand.Rand) {
			if rows++; rows <= lasts {
				row[guilty] += 60 * rng.NormFloat64()
			}
		})
		var c Scorer
		var cause *Cause
		score := make([]float64, 1)
		s := new(Series)
		for i := range len(x) / e.Dim {
			c.Score(e, score, x[i*e.Dim:][:e.Dim], one(s, 1))
			switch cause = c.Account(e, 0, s, i >= begins, score[0], cause); {
			case i == begins+100 && cause.Now(e, 1)[0].Column != guilty:
				t.Errorf("plant %d: the column is not first", seed)
			case i > begins+100 && cause.Moved(e):
				told++
				cause.Now(e, 1)
			}
		}
	}
	if told > plants/10 {
		t.Errorf("behind %d faults another column is told %d times", plants, told)
	}
}

func rankOf(changes []Change, column int) float64 {
	for _, c := range changes {
		if c.Column == column {
			return c.Rank
		}
	}
	return math.Inf(-1)
}

// A sensor that freezes at its last value is named first.
func TestCauseOfAFrozenSensor(t *testing.T) {
	found := 0
	for seed := range uint64(40) {
		e, x := plant(seed, 300, 600, func(row, before []float64, _ *rand.Rand) { row[5] = before[5] })
		_, cause := accounted(t, e, x, 450, func() int { return 50 })
		if first := cause.Ranked(e, 1)[0]; first.Column == 5 && first.Direction == "quiet" {
			found++
		}
	}
	if found < 36 {
		t.Errorf("named first for %d of 40 seeds, want 36", found)
	}
}

// Where a column no longer follows the others, and each stays in its range, it is named first: after one row mostly, after thirty nearly always.
func TestCauseOfABrokenRelation(t *testing.T) {
	const d, train, begins, seeds, guilty = 8, 2000, 300, 40, 4
	named := map[int]int{}
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 46))
		x := make([]float64, (train+begins+40)*d)
		var load, other float64
		for i := range len(x) / d {
			load, other = 0.98*load+0.2*rng.NormFloat64(), 0.98*other+0.2*rng.NormFloat64()
			for k := range d {
				follows := load
				if k == guilty && i >= train+begins-10 {
					follows = other
				}
				x[i*d+k] = float64(100*k) + float64(k+1)*(follows+0.2*rng.NormFloat64())
			}
		}
		l, s := NewLearner(d), new(Series)
		for at := 0; at < train; at += 25 {
			l.Learn(x[at*d:(at+25)*d], one(s, 25))
		}
		for _, rows := range []int{1, 30} {
			_, cause := accounted(t, l.Evaluator(), x[train*d:(train+begins+rows)*d], begins, func() int { return 25 })
			if cause.Ranked(l.Evaluator(), 1)[0].Column == guilty {
				named[rows]++
			}
		}
	}
	if named[1] < 30 || named[30] < 38 {
		t.Errorf("named first, by rows of the episode, of %d: %v", seeds, named)
	}
}

// The rows behind a fault, which are usual again, hardly count in what its last record says: a sensor that froze is still first.
func TestCauseOfAFaultThatIsOver(t *testing.T) {
	const guilty, begins, behind = 4, 300, 30
	for lasts, want := range map[int]int{150: 34, 400: 38} { // 3 and 29 if each row weighed the same
		found := 0
		for seed := range uint64(40) {
			rows := 0
			e, x := plant(seed, begins, begins+lasts+behind, func(row, before []float64, _ *rand.Rand) {
				if rows++; rows <= lasts {
					row[guilty] = before[guilty]
				}
			})
			_, cause := accounted(t, e, x, begins+50, func() int { return 30 })
			if cause.Ranked(e, 1)[0].Column == guilty {
				found++
			}
		}
		if found < want {
			t.Errorf("after %d rows it is named first for %d of 40 seeds, want %d", lasts, found, want)
		}
	}
}

// What is kept of a series and of its cause is the same however rows are cut into batches, and after it was written and read; a null counts for nothing.
func TestCauseIsAFunctionOfRows(t *testing.T) {
	e, x := plant(2, 200, 400, func(row, _ []float64, _ *rand.Rand) { row[0], row[6] = row[0]+8, math.NaN() })
	write := func(s *Series, c *Cause) []byte {
		b, _ := s.AppendBinary(nil)
		b, _ = c.AppendBinary(b)
		return b
	}
	want := write(accounted(t, e, x, 210, func() int { return 1 }))
	rng := rand.New(rand.NewPCG(3, 4))
	if got := write(accounted(t, e, x, 210, func() int { return 1 + rng.IntN(60) })); !bytes.Equal(got, want) {
		t.Error("batches change it")
	}
	s, rest, err := ReadSeries(want)
	if err != nil {
		t.Fatal(err)
	}
	cause, rest, err := ReadCause(rest)
	if err != nil || len(rest) != 0 || !bytes.Equal(write(s, cause), want) {
		t.Errorf("%v, %d bytes left, or other bytes", err, len(rest))
	}
	if most := SeriesBytes(e.Dim) + 80*e.Dim + 24*8; len(want) > most {
		t.Errorf("%d bytes, want at most %d", len(want), most)
	}
	for _, c := range cause.Ranked(e, e.Dim) {
		if c.Rank != c.Rank || c.Column == 6 {
			t.Errorf("%+v", c)
		}
	}
	for cut := range want {
		if _, rest, err := ReadSeries(want[:cut]); err == nil {
			if _, _, err := ReadCause(rest); err == nil {
				t.Fatalf("cut at byte %d it was read", cut)
			}
		}
	}
}

// What a column is during an episode is told in its own unit, whatever the scales of the versions that come meanwhile.
func TestCauseAcrossVersions(t *testing.T) {
	const guilty, moved, begins = 3, 60, 100
	e, x := plant(1, begins, 400, func(row, _ []float64, _ *rand.Rand) { row[guilty] += moved })
	wider := *e
	wider.Scale = slices.Clone(e.Scale)
	wider.Scale[guilty] *= 20
	var c Scorer
	var cause *Cause
	score := make([]float64, 1)
	s, sum := new(Series), 0.
	for i := range 400 {
		of := e
		if i >= 200 {
			of = &wider
		}
		c.Score(of, score, x[i*e.Dim:(i+1)*e.Dim], one(s, 1))
		if cause = c.Account(of, 0, s, i >= begins, score[0], cause); cause != nil {
			cause.Ends()
			sum += x[i*e.Dim+guilty]
		}
	}
	all := cause.Ranked(&wider, e.Dim)
	if len(all) != e.Dim {
		t.Errorf("%d causes", len(all))
	}
	for _, change := range all {
		if change.Column == guilty && (math.Abs(change.Now-sum/float64(cause.Rows)) > moved/4 || change.Direction != "up") {
			t.Errorf("%+v, and its rows have the mean %g", change, sum/float64(cause.Rows))
		}
	}
}

// A sensor that has been frozen for long stays quiet, whatever a version that comes meanwhile says of how steady it was.
func TestFrozenAcrossVersions(t *testing.T) {
	const frozen, begins = 5, 100
	e, x := plant(1, begins, 600, func(row, before []float64, _ *rand.Rand) { row[frozen] = before[frozen] })
	other := *e
	other.Deviations.Factor = slices.Clone(e.Deviations.Factor)
	for i := range other.Deviations.Factor {
		other.Deviations.Factor[i] /= 20
	}
	var c Scorer
	var cause *Cause
	score, s := make([]float64, 1), new(Series)
	for i := range 600 {
		of := e
		if i >= 400 {
			of = &other
		}
		c.Score(of, score, x[i*e.Dim:][:e.Dim], one(s, 1))
		cause = c.Account(of, 0, s, i >= begins, score[0], cause)
		if i%50 != 0 || i <= begins {
			continue
		}
		if got := cause.Now(of, 1)[0]; got.Column != frozen || got.Direction != "quiet" || got.Onset > 1 {
			t.Errorf("row %d: %+v", i, got)
		}
	}
}

// An account of another number of columns, which no program has written, is begun again.
func TestCauseOfOtherColumns(t *testing.T) {
	e, x := plant(1, 0, 50, func([]float64, []float64, *rand.Rand) {})
	var c Scorer
	s := new(Series)
	c.Score(e, make([]float64, 50), x, one(s, 50))
	for _, columns := range []int{0, 3, 9} {
		n := make([]float64, columns)
		if cause := c.Account(e, 49, s, true, 1, &Cause{before: n}); cause.Columns() != e.Dim {
			t.Errorf("%d columns: %d of %d are accounted for", columns, cause.Columns(), e.Dim)
		}
	}
}
