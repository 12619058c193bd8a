package recent

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// law returns rows of a law, one after the other.
func law(kind string, d int, rng *rand.Rand) func() []float64 {
	x, mix, t := make([]float64, d), make([]float64, d*d), 0
	for i := range mix {
		mix[i] = rng.NormFloat64() / math.Sqrt(float64(d))
	}
	autocorrelated := func(rho float64) []float64 {
		out := make([]float64, d)
		for k := range x {
			x[k] = rho*x[k] + math.Sqrt(1-rho*rho)*rng.NormFloat64()
		}
		for i := range out {
			for k := range x {
				out[i] += mix[i*d+k] * x[k]
			}
		}
		return out
	}
	return func() []float64 {
		out := make([]float64, d)
		t++
		for k := range out {
			switch out[k] = rng.NormFloat64(); kind {
			case "white":
			case "heavy": // Student's t with three degrees of freedom
				chi := 0.
				for range 3 {
					g := rng.NormFloat64()
					chi += g * g
				}
				out[k] /= math.Sqrt(chi / 3)
			case "daily":
				out[k] += 2 * math.Sin(2*math.Pi*float64(t)/1440+float64(k))
			case "wandering":
				x[k] += 0.02 * rng.NormFloat64()
				out[k] += x[k]
			}
		}
		switch kind {
		case "ar .9":
			return autocorrelated(0.9)
		case "ar .99":
			return autocorrelated(0.99)
		case "ar .998":
			return autocorrelated(0.998)
		}
		return out
	}
}

// episodesOf counts the episodes of a stream at a rate per row after the first begin rows.
func episodesOf(next func() []float64, d, begin, rows int, rate float64) (n int) {
	opened, _ := episodesIn(next, d, begin+rows, rate)
	for _, row := range opened {
		if row >= begin {
			n++
		}
	}
	return n
}

// episodesIn learns a stream as it goes, and returns the rows with which episodes open and close at a rate per row.
func episodesIn(next func() []float64, d, rows int, rate float64) (opened, closed []int) {
	return episodesOfMany(next, 1, d, rows, rate)
}

// episodesOfMany is episodesIn of as many series, whose rows come in turn.
func episodesOfMany(next func() []float64, series, d, rows int, rate float64) (opened, closed []int) {
	at := 0
	return episodesOfThose(func() ([]float64, int) { at++; return next(), (at - 1) % series }, series, d, rows, rate)
}

// episodesOfThose is episodesIn of rows whose series are told.
func episodesOfThose(next func() ([]float64, int), series, d, rows int, rate float64) (opened, closed []int) {
	type one struct {
		learns, scores Series
		w              Watch
		usual          float64
	}
	l, all := NewLearner(d), make([]one, series)
	var c Scorer
	var x []float64
	var turns []*Series
	out := []float64{0}
	for i := range rows {
		row, whose := next()
		s := &all[whose]
		if e := l.Evaluator(); e != nil {
			c.Score(e, out, row, []*Series{&s.scores})
			was, level := s.w.Open, 0.
			if !was { // what is usual stays what it was when it opened
				level, _ = e.Tail.Level(rate)
				s.usual = min(e.Scores.Quantile(0.99), e.Tail.Above)
			}
			if c.Rows(0) <= FirstRows { // the level is of the scores of means, and may be below 0
				out[0] = math.Inf(-1)
			}
			switch is := s.w.Step(out[0], level, s.usual); {
			case is && !was:
				opened = append(opened, i)
			case was && !is:
				closed = append(closed, i)
			}
		}
		if x, turns = append(x, row...), append(turns, &s.learns); len(turns) == 100 {
			l.Learn(x, turns)
			x, turns = x[:0], turns[:0]
		}
	}
	return opened, closed
}

// Many series of a model that fail at once are told all, although their peaks raise the level row by row: each is judged by the level at which it began.
func TestManySeriesFailAtOnce(t *testing.T) {
	const d, series, begin, rows = 8, 1000, 60, 20
	for _, c := range []struct{ faulty, least int }{{10, 10}, {50, 49}, {100, 90}, {200, 170}} {
		t.Run(strconv.Itoa(c.faulty), func(t *testing.T) {
			t.Parallel()
			next, at := law("white", d, rand.New(rand.NewPCG(1, 9))), 0
			faulty := func() []float64 {
				row := next()
				if at%series < c.faulty && at/series >= begin {
					row[4] += 4
				}
				at++
				return row
			}
			opened, _ := episodesOfMany(faulty, series, d, series*(begin+rows), 1./20_000)
			told := map[int]bool{}
			for _, row := range opened {
				if row/series >= begin && row%series < c.faulty {
					told[row%series] = true
				}
			}
			if len(told) < c.least {
				t.Errorf("%d of %d are told within %d rows, want %d", len(told), c.faulty, rows, c.least)
			}
		})
	}
}

// At the level of a budget, streams without a fault open about as many episodes as the budget has, whatever their law is.
func TestLevelKeepsTheBudget(t *testing.T) {
	const d = 8
	seeds := 5
	if testing.Short() {
		seeds = 3
	}
	for _, c := range []struct {
		kind        string
		begin, rows int
		every       float64
		short       bool // with -short, too: TestYoungStreamsKeepTheBudget has the other laws
	}{
		{"white", 10_000, 40_000, 2000, false},
		{"ar .9", 10_000, 40_000, 2000, false},
		{"ar .99", 10_000, 40_000, 2000, true},
		{"ar .998", 50_000, 40_000, 2000, true},
		{"heavy", 10_000, 40_000, 2000, false},
		{"daily", 10_000, 40_000, 2000, false},
		{"wandering", 20_000, 40_000, 2000, false},
		{"white", 100_000, 100_000, 20_000, false},
		{"heavy", 100_000, 100_000, 20_000, true},
	} {
		if testing.Short() && !c.short {
			continue
		}
		var ratios []float64
		seeds := seeds
		if c.kind == "wandering" { // no two are alike: from none to two and a half
			seeds = 9
		}
		for seed := range seeds {
			n := episodesOf(law(c.kind, d, rand.New(rand.NewPCG(uint64(seed), 1))), d, c.begin, c.rows, 1/c.every)
			ratios = append(ratios, float64(n)*c.every/float64(c.rows))
		}
		slices.Sort(ratios)
		t.Logf("%s, 1 in %.0f rows: episodes ÷ budget %.2f", c.kind, c.every, ratios)
		if median := ratios[seeds/2]; median < 0.5 || median > 2 {
			t.Errorf("%s, 1 in %.0f rows: episodes ÷ budget %.2f, median %.2f; want 0.5 to 2", c.kind, c.every, ratios, median)
		}
	}
}

// Young streams keep the budget, too: the peaks of their first evaluators, whose scores are higher, do not raise the level of all that come.
func TestYoungStreamsKeepTheBudget(t *testing.T) {
	const d, streams, rows, every = 8, 20, 6000, 3000
	for _, kind := range []string{"white", "ar .9", "heavy", "daily"} {
		n := 0
		for seed := range uint64(streams) {
			n += episodesOf(law(kind, d, rand.New(rand.NewPCG(seed, 77))), d, 0, rows, 1./every)
		}
		ratio := float64(n) / (streams * rows / every)
		t.Logf("%s: episodes ÷ budget %.2f", kind, ratio)
		if ratio < 0.5 || ratio > 2 {
			t.Errorf("%s: episodes ÷ budget %.2f, want 0.5 to 2", kind, ratio)
		}
	}
}

// Series that begin together keep the budget, too: their first runs that are over are short ones.
func TestSeriesThatBeginTogether(t *testing.T) {
	const d, every = 6, 20_000
	for _, c := range []struct{ series, rows int }{{100, 600}, {1000, 220}} {
		for _, kind := range []string{"white", "heavy"} {
			rows := c.series * c.rows
			opened, _ := episodesOfMany(law(kind, d, rand.New(rand.NewPCG(7, 8))), c.series, d, rows, 1./every)
			t.Logf("%s, %d series of %d rows: %d episodes, the budget has %d", kind, c.series, c.rows, len(opened), rows/every)
			if most := 2*rows/every + 2; len(opened) > most {
				t.Errorf("%s, %d series of %d rows: %d episodes, want %d at most: %v", kind, c.series, c.rows, len(opened), most, opened)
			}
		}
	}
}

// Series whose rows come in no order keep the budget from the first level on: the first that are old enough for scores of their last rows are few, and do not
// tell how high others go.
func TestSeriesInNoOrder(t *testing.T) {
	const d, seeds, every = 6, 6, 60_000
	for _, c := range []struct {
		name         string
		series, rows int
		unlike, far  float64 // how unlike their rates are, and how far apart their levels
	}{
		{"100", 100, 10_000, 0, 0},
		{"100, each at a level of its own", 100, 10_000, 0, 3},
		{"300", 300, 20_000, 0, 0},
		{"300, some seldom, each at a level of its own", 300, 20_000, 0.5, 3},
		{"1000, some seldom, each at a level of its own", 1000, 20_000, 0.5, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for seed := range uint64(seeds) {
				rng := rand.New(rand.NewPCG(seed, 4))
				levels, until, sum := make([]float64, c.series*d), make([]float64, c.series), 0.
				for k := range levels {
					levels[k] = c.far * rng.NormFloat64()
				}
				for k := range until {
					sum += math.Pow(float64(k+1), -c.unlike)
					until[k] = sum
				}
				white := law("white", d, rng)
				opened, _ := episodesOfThose(func() ([]float64, int) {
					whose, _ := slices.BinarySearch(until, sum*rng.Float64())
					row := white()
					for k := range row {
						row[k] += levels[whose*d+k]
					}
					return row, whose
				}, c.series, d, c.rows, 1./every)
				n += len(opened)
			}
			t.Logf("%d episodes, the budget has %d", n, seeds*c.rows/every)
			if most := 2*seeds*c.rows/every + 2; n > most {
				t.Errorf("%d episodes, want %d at most", n, most)
			}
		})
	}
}

// A fault of 60,000 rows is one episode, which is open to its end and closed soon after it, though it is slight: its rows are not learnt once it has been seen.
func TestLongFaultIsOneEpisode(t *testing.T) {
	const d, begin, rows, after = 8, 20_000, 60_000, 300
	faults := map[string]func(row, was []float64, sd float64){
		"2 sd higher":   func(row, _ []float64, sd float64) { row[2] += 2 * sd },
		"5 sd higher":   func(row, _ []float64, sd float64) { row[2] += 5 * sd },
		"frozen":        func(row, was []float64, _ float64) { row[2] = was[2] },
		"thrice as far": func(row, _ []float64, _ float64) { row[2] *= 3 },
	}
	for _, kind := range []string{"white", "ar .9", "ar .99", "heavy", "daily"} {
		for name, fault := range faults {
			if name == "frozen" && (kind == "ar .99" || kind == "heavy") {
				continue // slow rows stay where they are, and far ones are the others': it is hardly a fault, and usual again before its end, or not seen at all
			}
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				next, at, squares := law(kind, d, rand.New(rand.NewPCG(3, 4))), 0, 0.
				var was []float64
				faulty := func() []float64 {
					row := next()
					if at++; at <= begin {
						was, squares = row, squares+row[2]*row[2]
					} else if at <= begin+rows {
						fault(row, was, math.Sqrt(squares/begin))
					}
					return row
				}
				opened, closed := episodesIn(faulty, d, begin+rows+after, 1./20_000)
				i := slices.IndexFunc(opened, func(row int) bool { return row >= begin })
				if i < 0 || opened[i] > begin+400 || len(closed) <= i || closed[i] < begin+rows || len(opened) > i+2 {
					t.Errorf("opened at %v, closed at %v", opened, closed)
				}
			})
		}
	}
}

// Behind a far fault of a young stream the next one is told, too.
func TestFaultOfAYoungStream(t *testing.T) {
	const d, begin, rows, pause, times = 8, 3000, 300, 1500, 10
	told := 0
	for seed := range uint64(times) {
		next, at := law("white", d, rand.New(rand.NewPCG(seed, 4))), 0
		faulty := func() []float64 {
			row := next()
			switch {
			case at >= begin && at < begin+rows:
				row[0] += 1000
			case at >= begin+rows+pause:
				row[0] += 8
			}
			at++
			return row
		}
		opened, _ := episodesIn(faulty, d, begin+rows+pause+rows, 1./20_000)
		if n := len(opened); n > 0 && opened[n-1] >= begin+rows+pause {
			told++
		}
	}
	if told < times-1 {
		t.Errorf("told in %d of %d streams", told, times)
	}
}

// A fault that comes back is told each time: those before it must not be what the stream makes by itself.
func TestFaultThatReturns(t *testing.T) {
	const d, begin, times = 8, 20_000, 20
	for _, c := range []struct {
		kind        string
		up          float64 // of a column's standard deviation
		rows, pause int
		least       int // times told
	}{
		{"white", 2, 1500, 1500, 19},
		{"white", 3, 1500, 1500, 20},
		{"white", 3, 300, 1700, 20},
		{"ar .9", 8, 300, 1700, 20},
	} {
		t.Run(fmt.Sprintf("%s, %g sd higher for %d rows", c.kind, c.up, c.rows), func(t *testing.T) {
			t.Parallel()
			next, at, squares := law(c.kind, d, rand.New(rand.NewPCG(3, 4))), 0, 0.
			faulty := func() []float64 {
				row := next()
				if at < begin {
					squares += row[2] * row[2]
				} else if (at-begin)%(c.rows+c.pause) < c.rows {
					row[2] += c.up * math.Sqrt(squares/begin)
				}
				at++
				return row
			}
			opened, _ := episodesIn(faulty, d, begin+times*(c.rows+c.pause), 1./begin)
			told := map[int]bool{}
			for _, row := range opened {
				if row >= begin && (row-begin)%(c.rows+c.pause) < c.rows {
					told[(row-begin)/(c.rows+c.pause)] = true
				}
			}
			if len(told) < c.least {
				t.Errorf("told %d of %d times: opened at %v", len(told), times, opened)
			}
		})
	}
}

// A young model holds, too: a fault is one episode, also where it lasts for longer than all that was before it. What lasts for three times as long is what
// the stream is.
func TestFaultOfAYoungModel(t *testing.T) {
	const d = 8
	for _, c := range []struct{ begin, rows int }{{1700, 2300}, {4000, 8000}} {
		next, at := law("white", d, rand.New(rand.NewPCG(3, 4))), 0
		faulty := func() []float64 {
			row := next()
			if at++; at > c.begin {
				row[2] += 6
			}
			return row
		}
		opened, closed := episodesIn(faulty, d, c.begin+c.rows, 1./2000)
		i := slices.IndexFunc(opened, func(row int) bool { return row >= c.begin })
		if i < 0 || opened[i] > c.begin+60 || len(closed) > i || len(opened) > i+1 {
			t.Errorf("after %d rows: opened at %v, closed at %v", c.begin, opened, closed)
		}
	}
	rests := 1500
	next, at, l := law("white", d, rand.New(rand.NewPCG(5, 6))), 0, NewLearner(d)
	var s Series
	for range 80 {
		var x []float64
		for range 100 {
			row := next()
			if at++; at <= rests { // at rest
				for k := range row {
					row[k] *= 0.1
				}
			} else {
				row[0] += 5
			}
			x = append(x, row...)
		}
		l.Learn(x, slices.Repeat([]*Series{&s}, 100))
	}
	var c Scorer
	out, fresh := make([]float64, 1), Series{}
	high := 0
	for range 500 {
		row := next()
		row[0] += 5
		if c.Score(l.Evaluator(), out, row, []*Series{&fresh}); fresh.Rows > FirstRows && l.Evaluator().P(out[0], fresh.Rows) < 0.01 {
			high++
		}
	}
	if high > 25 {
		t.Errorf("of a stream that began at rest %d of 450 rows are unusual after %d rows", high, at)
	}
}

// A stretch that is known to be normal is learnt whole, also where it changes for long: such a change is unusual to a learner that does not know.
func TestNormalStretchIsLearntWhole(t *testing.T) {
	const d = 8
	for _, normal := range []bool{false, true} {
		next, l := law("white", d, rand.New(rand.NewPCG(7, 8))), NewLearner(d)
		l.Normal(normal)
		var s Series
		changed := func(at int) []float64 {
			row := next()
			if at >= 2000 && at < 2500 {
				row[0] += 8
			}
			return row
		}
		for at := 0; at < 4000; at += 100 {
			var x []float64
			for i := range 100 {
				x = append(x, changed(at+i)...)
			}
			l.Learn(x, slices.Repeat([]*Series{&s}, 100))
		}
		l.Settle()
		var c Scorer
		high, out := 0, []float64{0}
		for i := range 400 {
			c.Score(l.Evaluator(), out, changed(2000+i), []*Series{&s})
			if i >= 100 && l.Evaluator().P(out[0], s.Rows) < 0.01 {
				high++
			}
		}
		if high > 30 == normal {
			t.Errorf("normal %v: %d of 300 rows are unusual that are like a stretch of 500 in 4000", normal, high)
		}
	}
}

// A level is where the two laws say: the half of the peaks passes the one of half of them, and what is far beyond follows the heavier law.
func TestLevel(t *testing.T) {
	tail := Tail{Above: 1, Peaks: 40, Rows: 1000, Heavy: 0.5, Light: 2, Share: 0}
	if got, young := tail.Level(20. / 1000); young || math.Abs(got-(1+0.5*30*math.Expm1(math.Ln2/30))) > 1e-9 {
		t.Errorf("heavy: level %v, young %v", got, young)
	}
	tail.Share = 1
	if got, _ := tail.Level(20. / 1000); math.Abs(math.Exp(got)-(math.E+2*30*math.Expm1(math.Ln2/30))) > 1e-9 {
		t.Errorf("light: level %v", got)
	}
	if _, young := tail.Level(9. / 1000); !young {
		t.Error("nine peaks wanted in all rows: not young")
	}
	if got, young := (Tail{Above: 1, Rows: 100}).Level(0.01); !math.IsInf(got, 1) || !young {
		t.Errorf("no peak: level %v, young %v", got, young)
	}
	few := Tail{Above: 0.5, Peaks: 1, Rows: 180, Heavy: 0.2, Light: 0.4, Most: 0.3}
	if got, _ := few.Level(1e-6); math.Abs(got-(0.5+0.2*math.Log(1e6/31))) > 1e-9 {
		t.Errorf("one peak, and a rate of 1e-6: level %v", got)
	}
	few.Most = 3
	if got, _ := few.Level(1e-6); math.Abs(got-3.7) > 1e-9 {
		t.Errorf("one high peak: level %v", got)
	}
	if got, _ := tail.Level(1); got > tail.Above+1e-9 {
		t.Errorf("more wanted than there are: level %v, want u", got)
	}
}

// What is learnt of peaks is that of the laws that they come from, and a quarter of faults among them changes it little.
func TestTailOfPeaks(t *testing.T) {
	for _, c := range []struct {
		kind string
		make func(e float64) float64 // of an exponential excess
	}{
		{"heavy", func(e float64) float64 { return 1 + 0.8*e }},
		{"light", func(e float64) float64 { return math.Log(math.E + 9*e) }},
	} {
		var p, faulty peaks
		rng := rand.New(rand.NewPCG(5, 6))
		for i := range 4000 {
			p.judged, faulty.judged = uint64(100*i), uint64(100*i)
			s := c.make(rng.ExpFloat64())
			if p.add(&run{peak: s - leastScore}, 1); i%300 == 0 {
				s = 15
			}
			faulty.add(&run{peak: s - leastScore}, 1)
		}
		tail, other := p.tail(1, nil, scoreOf), faulty.tail(1, nil, scoreOf)
		rate := tail.Peaks / tail.Rows / 20
		h, _ := tail.Level(rate)
		hFaulty, _ := other.Level(rate)
		if want := c.make(math.Log(float64(len(p.kept)) / tail.Peaks * 20)); math.Abs(h-want) > 0.35*(want-tail.Above) {
			t.Errorf("%s: a twentieth of the peaks at %.3f, want %.3f (%+v)", c.kind, h, want, tail)
		}
		if math.Abs(hFaulty-h) > 0.3*(h-tail.Above) {
			t.Errorf("%s: with faults %.3f, without %.3f", c.kind, hFaulty, h)
		}
	}
}

// A run counts from its first high row on, as high as it is so far, and is over after runEnds rows that are not high. One that is withdrawn counts when it is over,
// as no more than is given, and the row that it was withdrawn with never.
func TestRunsOfHighScores(t *testing.T) {
	p := peaks{judged: 1000}
	var r, other run
	is := func(what string, want ...peak) {
		t.Helper()
		if !slices.Equal(p.kept, want) {
			t.Errorf("%s: peaks %v, want %v", what, p.kept, want)
		}
	}
	p.follow(&r, 3, 1, 6)
	is("it begins", peak{3, 1, 1001})
	p.follow(&other, 2, 1, 6)
	p.follow(&r, 5, 1, 6)
	p.follow(&r, 4, 1, 6)
	is("another one is not as high", peak{5, 1, 1001}, peak{2, 1, 1002})
	for range runEnds {
		p.follow(&r, 0, 1, 6)
	}
	if is("it is over", peak{5, 1, 1001}, peak{2, 1, 1002}); r != (run{}) {
		t.Errorf("%+v", r)
	}
	p.follow(&r, 7, 1, 6)
	is("the next one", peak{5, 1, 1001}, peak{2, 1, 1002}, peak{7, 1, 1035})
	p.withdraw(&r)
	p.follow(&r, 8, 1, 6)
	is("it may be a fault", peak{5, 1, 1001}, peak{2, 1, 1002})
	for range runEnds {
		p.follow(&r, 0, 1, 6)
	}
	is("the fault is over", peak{5, 1, 1001}, peak{2, 1, 1002}, peak{6, 1, 1065})
	p.kept = p.kept[2:] // the first are too long ago
	p.follow(&other, 2, 1, 6)
	is("no higher", peak{6, 1, 1065})
	p.follow(&other, 3, 1, 6)
	is("higher lately", peak{6, 1, 1065}, peak{3, 1, 1067})
	p.kept[1].score = 9 // of another learner
	p.follow(&other, 4, 1, 6)
	is("not its own", peak{6, 1, 1065}, peak{9, 1, 1067}, peak{4, 1, 1068})
}

// A run of rows that are not usual is judged by the level at which it began, until 30 rows in a row are usual, or by the present one, if that is lower.
func TestLevelOfARun(t *testing.T) {
	var w Watch
	is := func(what string, want float64) {
		t.Helper()
		if got := w.Judges(9); got != want || w.Open || (want < 9) != w.PossibleRun() {
			t.Errorf("%s: judged by %g, want %g: %+v", what, got, want, w)
		}
	}
	w.Step(0.5, 5, 1)
	is("usual rows", 9)
	w.Step(2, math.Inf(1), 1)
	is("no level is known", 9)
	w.Step(2, 5, 1)
	is("it begins", 5)
	w.Step(4, 6, 1)
	is("the level is higher now", 5)
	w.Step(3, 4, 1)
	is("it is lower now", 4)
	for range 29 {
		w.Step(0, 8, 1)
	}
	is("29 usual rows", 4)
	w.Step(2, 8, 1)
	for range 29 {
		w.Step(0, 8, 1)
	}
	is("a row that is not usual, and 29", 4)
	w.Step(0, 8, 1)
	is("30 usual rows", 9)
	w.Step(2, 5, 1)
	if w.Step(5.5, 8, 1); w != (Watch{Open: true}) {
		t.Errorf("above the level at which it began: %+v", w)
	}
}

// A series is unusual until 30 rows in a row are usual, or more than half of 200.
func TestWatch(t *testing.T) {
	var w Watch
	step := func(score float64) bool { return w.Step(score, 5, 1) }
	if step(4.9) || !step(6) {
		t.Error("it opens above the level, and not before")
	}
	for i := range quietRows - 1 {
		if !step(0.5) {
			t.Fatalf("closed after %d usual rows", i+1)
		}
	}
	if step(0.5) {
		t.Errorf("open after %d usual rows", quietRows)
	}
	if step(2) {
		t.Error("a row below the level opens it again")
	}
	step(6)
	rows := 0
	for step([]float64{0.5, 0.5, 0.5, 3, 3}[rows%5]) {
		rows++
	}
	if rows < 160 || rows > 175 {
		t.Errorf("three usual rows of five: closed after %d", rows)
	}
	step(6)
	for i := range 1000 {
		if !step([]float64{0.5, 3, 3}[i%3]) {
			t.Fatalf("a third of usual rows: closed after %d", i)
		}
	}
}

// A learner that goes on from an evaluator has about its tail until it has peaks of its own.
func TestTailGoesOn(t *testing.T) {
	l := NewLearner(2)
	next := law("white", 2, rand.New(rand.NewPCG(1, 2)))
	var x []float64
	var s Series
	for range 5000 {
		x = append(x, next()...)
	}
	for at := 0; at < len(x); at += 200 {
		l.Learn(x[at:at+200], slices.Repeat([]*Series{&s}, 100))
	}
	e := l.Evaluator()
	want, _ := e.Tail.Level(1. / 2000)
	got, young := Resume(e).peaks.tail(e.Scores.runStart(), &e.Scores, scoreOf).Level(1. / 2000)
	if math.Abs(got-want) > 0.2*(want-e.Tail.Above) || !young {
		t.Errorf("level %.3f, want %.3f", got, want)
	}
}

func scoreOf(p peak) float64 { return p.score }

// A stream of four regimes, some of which came late, is what all of them are: those that its first rows do not have would be unusual for good, if their rows were left out for good.
func TestRegimesThatCameLater(t *testing.T) {
	const d, n, seeds = 8, 40_000, 12
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			var levels, spreads [4][d]float64
			for k := range d {
				for one := range levels {
					levels[one][k], spreads[one][k] = 4*rng.NormFloat64(), math.Exp(rng.NormFloat64()/2)
				}
			}
			now := 0
			regimes := func() []float64 {
				if rng.IntN(400) == 0 {
					now = rng.IntN(4)
				}
				row := make([]float64, d)
				for k := range row {
					row[k] = levels[now][k] + spreads[now][k]*rng.NormFloat64()
				}
				return row
			}
			opened, closed := episodesIn(regimes, d, n, 1./20_000)
			inside := 0
			for i, from := range opened {
				to := n
				if i < len(closed) {
					to = closed[i]
				}
				inside += to - from
			}
			if inside > n/5 {
				t.Errorf("%d episodes, with %d of %d rows", len(opened), inside, n)
			}
		})
	}
}
