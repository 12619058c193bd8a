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

// account scores rows in batches, with an episode open from a row on.
func account(t *testing.T, e *Evaluator, x []float64, opens int, batch func() int) (*Series, *Cause) {
	t.Helper()
	var c Scorer
	var cause *Cause
	s, d := new(Series), e.Dim
	for at := 0; at < len(x)/d; {
		n := min(batch(), len(x)/d-at)
		c.Score(e, make([]float64, n), x[at*d:(at+n)*d], one(s, n))
		for i := range n {
			cause = c.Account(e, i, s, at+i >= opens, cause)
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
	_, cause := account(t, e, x, opens, func() int { return 7 })
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
		_, cause := account(t, e, x, opens, func() int { return 25 })
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

// A sensor that freezes at its last value is named first.
func TestCauseOfAFrozenSensor(t *testing.T) {
	found := 0
	for seed := range uint64(40) {
		e, x := plant(seed, 300, 600, func(row, before []float64, _ *rand.Rand) { row[5] = before[5] })
		_, cause := account(t, e, x, 450, func() int { return 50 })
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
			_, cause := account(t, l.Evaluator(), x[train*d:(train+begins+rows)*d], begins, func() int { return 25 })
			if cause.Ranked(l.Evaluator(), 1)[0].Column == guilty {
				named[rows]++
			}
		}
	}
	if named[1] < 30 || named[30] < 38 {
		t.Errorf("named first, by rows of the episode, of %d: %v", seeds, named)
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
	want := write(account(t, e, x, 210, func() int { return 1 }))
	rng := rand.New(rand.NewPCG(3, 4))
	if got := write(account(t, e, x, 210, func() int { return 1 + rng.IntN(60) })); !bytes.Equal(got, want) {
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
	if most := SeriesBytes(e.Dim) + 24*e.Dim + 6*8; len(want) > most {
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
	s, sum := new(Series), 0.
	for i := range 400 {
		of := e
		if i >= 200 {
			of = &wider
		}
		c.Score(of, make([]float64, 1), x[i*e.Dim:(i+1)*e.Dim], one(s, 1))
		if cause = c.Account(of, 0, s, i >= begins, cause); cause != nil {
			sum += x[i*e.Dim+guilty]
		}
	}
	for _, change := range cause.Ranked(&wider, e.Dim) {
		if change.Column == guilty && (math.Abs(change.Now-sum/float64(cause.Rows)) > moved/4 || change.Direction != "up") {
			t.Errorf("%+v, and its rows have the mean %g", change, sum/float64(cause.Rows))
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
		if cause := c.Account(e, 49, s, true, &Cause{before: n, noise: n, rms: n, mean: n}); cause.Columns() != e.Dim {
			t.Errorf("%d columns: %d of %d are accounted for", columns, cause.Columns(), e.Dim)
		}
	}
}
