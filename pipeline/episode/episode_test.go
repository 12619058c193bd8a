package episode

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/lca/recent"
)

var begin = time.Date(2026, 5, 3, 10, 0, 0, 0, time.UTC)

// run steps through scores, a row every pause, and returns what was said and at which rows.
func run(o *Open, pause time.Duration, scores ...float64) (said []string, at []int) {
	for i, s := range scores {
		p := Place{Offset: int64(i), Row: 3}
		if pause > 0 {
			stamp := begin.Add(time.Duration(i) * pause)
			p.Time = &stamp
		}
		if say := o.Step(p, s, math.Exp(-s), Level{Height: 5, Usual: 2}); say != "" {
			said, at = append(said, say), append(at, i)
		}
	}
	return said, at
}

func quiet(n int) []float64 { return make([]float64, n) }

// One that opens is told once, and again when it is over: with its rows up to the last that was not usual.
func TestOpenAndClosed(t *testing.T) {
	var o Open
	said, at := run(&o, 0, slices.Concat(quiet(10), []float64{6, 3, 8, 1, 4}, quiet(40))...)
	if !slices.Equal(said, []string{Opened, Closed}) || !slices.Equal(at, []int{10, 44}) {
		t.Errorf("%v at %v", said, at)
	}
	if o.Watch.Open || o.From.Offset != 10 || o.To.Offset != 12 || o.Rows != 3 || o.Over != 2 || o.Peak.Score != 8 || o.Peak.Offset != 12 || *o.Peak.P != math.Exp(-8) {
		t.Errorf("%+v", o)
	}
}

// Its last unusual row is none in which means alone remember the fault: their scores fade faster than those of rows that are unusual.
func TestLastUnusualRow(t *testing.T) {
	fall := func(from, to, by float64) (scores []float64) {
		for s := from; s > to; s -= by {
			scores = append(scores, s)
		}
		return scores
	}
	for name, c := range map[string]struct {
		scores []float64
		last   int64
	}{
		"a step":                  {slices.Concat(slices.Repeat([]float64{6}, 100), fall(6, 2, 0.04)), 99 + 1},
		"that gets less":          {slices.Concat(fall(7, 5, 0.01), fall(4.96, 2, 0.04)), 200},
		"that goes on less":       {slices.Concat(slices.Repeat([]float64{6}, 100), fall(6, 3, 0.04), slices.Repeat([]float64{3}, 200), fall(2.96, 2, 0.04)), 374},
		"another one behind it":   {slices.Concat(slices.Repeat([]float64{6}, 100), fall(6, 3, 0.04), []float64{5.5, 5}, fall(5, 2, 0.04)), 175},
		"rows that are one alone": {[]float64{6}, 0},
	} {
		var o Open
		said, _ := run(&o, 0, slices.Concat(c.scores, quiet(40))...)
		if !slices.Equal(said[:1], []string{Opened}) || o.Watch.Open || o.To.Offset != c.last {
			t.Errorf("%s: %v, the last unusual row is %d, want %d", name, said, o.To.Offset, c.last)
		}
	}
}

// As learnt from rows: of faults of whatever height and kind, the last row is told to some rows.
func TestLastRowOfAFault(t *testing.T) {
	const d, before, behind = 8, 8000, 500
	glitch := 0
	for name, fault := range map[string]func(v, last float64) float64{
		"4 sd higher":        func(v, _ float64) float64 { return v + 4 },
		"50 sd higher":       func(v, _ float64) float64 { return v + 50 },
		"five times as wide": func(v, _ float64) float64 { return 5 * v },
		"frozen":             func(_, last float64) float64 { return last },
		"a glitch, then 5 sd higher": func(v, _ float64) float64 {
			if glitch--; glitch > 0 {
				return v + 1e9
			}
			return v + 5
		},
	} {
		for _, rows := range []int{80, 300} {
			rng := rand.New(rand.NewPCG(1, uint64(rows)))
			if glitch = 4; rows < 100 && strings.HasPrefix(name, "a glitch") {
				continue // for some 80 rows the fall of its scores hides what is behind it
			}
			var o Open
			var s, of recent.Series
			l, c := recent.NewLearner(d), recent.Scorer{}
			row, score, frozen := make([]float64, d), make([]float64, 1), 0.
			for i := range before + rows + behind {
				for k := range row {
					row[k] = rng.NormFloat64()
				}
				switch {
				case i < before:
					frozen = row[2]
					l.Learn(row, []*recent.Series{&s})
					of = s.Clone()
					continue
				case i < before+rows:
					row[2] = fault(row[2], frozen)
				}
				e := l.Evaluator()
				c.Score(e, score, row, []*recent.Series{&of})
				height, young := e.Tail.Level(1. / 20_000)
				if o.Step(Place{Offset: int64(i)}, score[0], math.NaN(), Level{height, e.Usual(), young}) == Closed {
					break
				}
			}
			if late := o.To.Offset - int64(before+rows-1); o.Peak.Score == 0 || late < -20 || late > 20 {
				t.Errorf("%s for %d rows: told up to %d rows behind its end", name, rows, late)
			}
		}
	}
}

// One that is kept as JSON behind each row says the same, and ends at the same row, as one that never was.
func TestKeptBehindEachRow(t *testing.T) {
	scores := slices.Concat([]float64{4, 6, 8}, slices.Repeat([]float64{6}, 50))
	for s := 5.96; s > 2; s -= 0.04 { // means that fade
		scores = append(scores, s)
	}
	scores = append(scores, quiet(40)...)
	var o, kept Open
	for i, score := range scores {
		b, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		kept = Open{}
		if err := json.Unmarshal(b, &kept); err != nil {
			t.Fatal(err)
		}
		at, l := Place{Offset: int64(i)}, Level{Height: 5, Usual: 2}
		if say, said := o.Step(at, score, math.Exp(-score), l), kept.Step(at, score, math.Exp(-score), l); say != said {
			t.Fatalf("row %d: said %q, and %q of one that was kept", i, say, said)
		}
		is, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := json.Marshal(o); err != nil || !bytes.Equal(is, want) || o.To != kept.To || o.End != kept.End {
			t.Fatalf("row %d: %s, %+v, want %s, %+v", i, is, kept.End, want, o.End)
		}
	}
	if o.Watch.Open || o.Rows == 0 {
		t.Errorf("%+v", o)
	}
}

// An episode that an earlier build has kept does not say where it ends. Rows that are usual from there on end it at its last that was not.
func TestOpenWithoutAnEnd(t *testing.T) {
	for _, unusual := range []int{0, 1} {
		var o, kept Open
		run(&o, 0, 6, 6, 6, 7)
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(b, &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "end")
		if b, err = json.Marshal(fields); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &kept); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			score := 1.
			if i < unusual {
				score = 7
			}
			if o.Step(Place{Offset: int64(4 + i)}, score, 0.5, Level{Height: 5, Usual: 2}) != kept.Step(Place{Offset: int64(4 + i)}, score, 0.5, Level{Height: 5, Usual: 2}) {
				t.Fatal("said at other rows")
			}
		}
		if kept.Watch.Open || kept.To != o.To || kept.Rows != o.Rows || kept.Over != o.Over || kept.Rows != int64(4+unusual) {
			t.Errorf("%d rows more: to %+v, %d rows, %d over, want %+v, %d, %d", unusual, kept.To, kept.Rows, kept.Over, o.To, o.Rows, o.Over)
		}
	}
}

// While it lasts, what is usual is what was usual when it opened: models that have learnt its scores do not end it.
func TestWhatWasUsual(t *testing.T) {
	var o Open
	later := Level{Height: 9, Usual: 7}
	for i, l := range []Level{{Height: 5, Usual: 2}, later, later} {
		o.Step(Place{Offset: int64(i)}, 6, 0.01, l)
	}
	for i := range int64(500) {
		if say := o.Step(Place{Offset: 3 + i}, 6, 0.01, later); say == Closed {
			t.Fatalf("closed after %d rows as unusual as the first", i)
		}
	}
	if o.To.Offset != 502 || o.Rows != 503 {
		t.Errorf("its last unusual row is %d, of %d rows", o.To.Offset, o.Rows)
	}
	said, at := run(&o, 0, quiet(40)...)
	if !slices.Equal(said, []string{Closed}) || at[0] != 29 {
		t.Errorf("%v at %v", said, at)
	}
}

// A score that passes the level again is told at once, but not within a minute of the last record; one that lasts is told of when it has become twice as long, and once a day.
func TestUpdates(t *testing.T) {
	for _, c := range []struct {
		name   string
		pause  time.Duration
		scores []float64
		at     []int
	}{
		{"once more after thirty rows", time.Minute, slices.Repeat([]float64{6}, 60), []int{0, 30}},
		{"and a minute", time.Second, slices.Repeat([]float64{6}, 100), []int{0, 60}},
		{"again within a minute", time.Second, []float64{6, 3, 6, 3, 6}, []int{0}},
		{"again after a minute", 30 * time.Second, []float64{6, 3, 6, 3, 6}, []int{0, 2, 4}},
		{"when it is twice as long", time.Minute, slices.Repeat([]float64{6}, 200), []int{0, 30, 62, 126}},
		{"again after a thousand rows without a time", 0, slices.Concat([]float64{6}, slices.Repeat([]float64{3}, 3049), []float64{6, 3, 6}), []int{0, 30, 62, 126, 254, 510, 1022, 2046, 3050}},
		{"above it for three days", 30 * time.Second, slices.Repeat([]float64{6}, 3*2880+2), []int{0, 30, 62, 126, 254, 510, 1022, 2046, 4094, 6974}},
	} {
		var o Open
		if _, at := run(&o, c.pause, c.scores...); !slices.Equal(at, c.at) {
			t.Errorf("%s: told at %v, want %v", c.name, at, c.at)
		}
	}
}

// What else has changed is told at a row that is not usual, ten rows and a minute after the last record.
func TestTellable(t *testing.T) {
	for _, c := range []struct {
		name  string
		pause time.Duration
		at    []int
	}{
		{"a row each second", time.Second, []int{61, 121, 181}},
		{"a row each minute", time.Minute, []int{10, 20, 30}},
		{"no times", 0, []int{10, 20, 30}},
	} {
		var o Open
		var told []int
		for i := range 200 {
			score, p := 3., Place{Offset: int64(i)}
			if i == 0 {
				score = 6
			}
			if i%31 == 29 {
				score = 1 // usual
			}
			if c.pause > 0 {
				at := begin.Add(time.Duration(i) * c.pause)
				p.Time = &at
			}
			say := o.Step(p, score, 0.01, Level{Height: 5, Usual: 2})
			if o.Said = o.Seen; say == "" && o.Tellable(score) {
				told = append(told, i)
				if say := o.Tell(); say != Updated {
					t.Fatalf("%s: %q", c.name, say)
				}
			}
		}
		if !slices.Equal(told[:3], c.at) {
			t.Errorf("%s: at %v, want %v", c.name, told, c.at)
		}
	}
}

// A night without rows, and a wrong stamp, are little time.
func TestClocks(t *testing.T) {
	var c RowClock
	at := begin
	for i := range 8 {
		if at = at.Add(10 * time.Second); i == 6 {
			at = at.Add(12 * time.Hour)
		}
		stamp := at
		if i == 3 {
			stamp = at.AddDate(100, 0, 0)
		}
		if changed := c.Step(stamp); changed != slices.Contains([]int{1, 3, 7}, i) {
			t.Errorf("after %d rows: changed %v", i+1, changed)
		}
	}
	if c.Rows != 8 || c.In > 3*time.Minute {
		t.Errorf("%d rows in %v", c.Rows, c.In)
	}
	for _, c := range []struct {
		name string
		at   func(row int) int // seconds
		want int
	}{
		{"a stamp a hundred years ahead", func(i int) int { return i + map[bool]int{true: 3e9}[i == 500] }, 999},
		{"twenty rows of one message with it", func(i int) int { return i + map[bool]int{true: 3e9 - i}[i/20 == 25] }, 999},
		{"two messages with it: time stands still for a hundred rows", func(i int) int { return i + map[bool]int{true: 3e9}[i/2 == 250] }, 959},
		{"a night", func(i int) int { return i + map[bool]int{true: 43200}[i > 500] }, 998 + 60 - 1},
		{"the stream is written again", func(i int) int { return i % 500 }, 499 + 400 - 1},
		{"rows out of order", func(i int) int { return i - 30*(i%2) }, 999},
		{"the first row's stamp, and each tenth, ten days ahead: time stands still for a hundred others", func(i int) int {
			return i*120 + map[bool]int{true: 864_000}[i%10 == 0]
		}, 105_240}, // of 106,680 after the hundredth other
		{"the same of each second", func(i int) int { return i*120 + map[bool]int{true: 864_000}[i%2 == 0] }, 90_960},
	} {
		var clock RowClock
		for i := range 1000 {
			clock.Step(begin.Add(time.Duration(c.at(i)) * time.Second))
		}
		if got := int(clock.Elapsed.Seconds()); got < c.want-2 || got > c.want+2 {
			t.Errorf("%s: %d s of 1000, want %d", c.name, got, c.want)
		}
	}
	for _, rows := range []int{8, 20, 100} { // of one stamp, each five minutes
		var clock RowClock
		for i := range rows * 2000 {
			clock.Step(begin.Add(time.Duration(i/rows) * 5 * time.Minute))
		}
		if part := clock.Elapsed.Minutes() / (1999 * 5); part < 0.97 || part > 1 {
			t.Errorf("%d rows of one stamp: %.2f of their time", rows, part)
		}
		told := clock
		clock.Steps, clock.Stepped = 0, 0 // as a version wrote it that did not count them
		for i := range rows * 1000 {
			clock.Step(begin.Add(time.Duration(2000+i/rows) * 5 * time.Minute))
		}
		if more := (clock.Elapsed - told.Elapsed).Minutes() / 5000; more < 0.18 || more > 1 {
			t.Errorf("%d rows of one stamp, by an earlier version's state: %.2f of their time", rows, more)
		}
	}
	var long RowClock
	for i := range 20_000 {
		long.Step(begin.Add(time.Duration(i) * time.Second))
	}
	if long.Rows != 16_384 || long.In != 16_383*time.Second {
		t.Errorf("%d rows in %v", long.Rows, long.In)
	}
}

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		text string
		rate float64 // of 86,400 rows a day
	}{
		{"1/day", 1. / 86400}, {"2/hour", 2. / 3600}, {"7/week", 1. / 86400}, {"1/30 days", 1. / 30 / 86400}, {"2/10 days", 1. / 5 / 86400}, {"3/2 weeks", 3. / 14 / 86400}, {"1/5 hours", 1. / 5 / 3600},
		{"1/9999 weeks", 1. / 9999 / 7 / 86400}, {"1/2000 rows", 1. / 2000}, {"3/100 rows", 0.03},
	} {
		b, err := ParseBudget(c.text)
		if err != nil || math.Abs(b.Rate(86400, 24*time.Hour)-c.rate) > 1e-12 || b.String() != c.text {
			t.Errorf("%s: rate %v, %v", c.text, b.Rate(86400, 24*time.Hour), err)
		}
	}
	for _, text := range []string{"1/" + strings.Repeat("9", 400) + " rows", "", "1", "0/day", "1/month", "1/0 rows", "2/1 rows", "-1/day", "1/2000", "1 / day", "1/3days", "1/days", "1/0 days", "1/3", "0.5/day", "1/10000 weeks"} {
		if _, err := ParseBudget(text); err == nil {
			t.Errorf("%q is a budget", text)
		}
	}
	if b, _ := ParseBudget("1/day"); b.Rate(0, 0) != 0 {
		t.Error("a rate without rows")
	}
	for text, want := range map[string]string{"1/72 hours": "1/3 days", "1/1 day": "1/day", "2/7 days": "2/week"} {
		if b, err := ParseBudget(text); err != nil || b.String() != want {
			t.Errorf("%s: %v, %v", text, b, err)
		}
	}
}

// A budget that is more or less than another is one that can be set, of the same meaning.
func TestScaled(t *testing.T) {
	for _, c := range []struct {
		text       string
		number, of int
		want       string
	}{
		{"1/day", 1, 30, "1/30 days"}, {"1/day", 1, 3, "1/3 days"}, {"1/day", 30, 1, "30/day"}, {"5/day", 1, 3, "5/3 days"}, {"6/hour", 1, 3, "2/hour"},
		{"1/30 days", 10, 1, "1/3 days"}, {"1/week", 1, 10, "1/10 weeks"}, {"7/100 rows", 1, 1, "7/100 rows"}, {"1/2000 rows", 3, 1, "1/667 rows"}, {"1/1 rows", 30, 1, "1/1 rows"},
		{"123456/day", 30, 1, "3703680/day"}, {"1/9999 weeks", 1, 30, "1/9999 weeks"},
	} {
		b, err := ParseBudget(c.text)
		if err != nil {
			t.Fatal(err)
		}
		got := b.Scaled(c.number, c.of)
		if again, err := ParseBudget(got.String()); err != nil || again != got || got.String() != c.want {
			t.Errorf("%s × %d/%d: %v, want %s; %v", c.text, c.number, c.of, got, c.want, err)
		}
	}
}

// An episode that is open is one that rows can lead to; numbers that would end a program are none of it.
func TestPossible(t *testing.T) {
	var o Open
	if o.Possible() {
		t.Error("none is open, and possible")
	}
	for i, score := range slices.Concat([]float64{6}, quiet(29), slices.Repeat([]float64{6, 6, 1}, 200)) {
		run(&o, time.Duration(i%2)*time.Minute, score)
		if o.Seq = 1; !o.Possible() { // of the next record
			t.Fatalf("row %d: %+v", i, o)
		}
	}
	for name, spoil := range map[string]func(o *Open){
		"place beyond the last rows": func(o *Open) { o.Watch.At = 200 },
		"place before the last rows": func(o *Open) { o.Watch.At = -1 },
		"over already":               func(o *Open) { o.Watch.Quiet = 30 },
		"no row":                     func(o *Open) { o.Seen = 0 },
		"not told":                   func(o *Open) { o.Seq = 0 },
		"no row of the clock":        func(o *Open) { o.Clock.Steps = -1 },
		"time that runs back":        func(o *Open) { o.Clock.Elapsed = -1 },
	} {
		p := o
		if spoil(&p); p.Possible() {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A budget in time tells nothing where no time passes by the rows.
func TestTimeless(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for name, c := range map[string]struct {
		budget string
		stamp  func(i int) *time.Time
		want   bool
	}{
		"no timestamps":    {"1/day", func(int) *time.Time { return nil }, true},
		"one timestamp":    {"1/day", func(int) *time.Time { return &now }, true},
		"backwards":        {"1/day", func(i int) *time.Time { at := now.Add(-time.Duration(i) * time.Second); return &at }, true},
		"forwards":         {"1/day", func(i int) *time.Time { at := now.Add(time.Duration(i) * time.Microsecond); return &at }, false},
		"a budget of rows": {"1/2000 rows", func(int) *time.Time { return nil }, false},
	} {
		b, err := ParseBudget(c.budget)
		if err != nil {
			t.Fatal(err)
		}
		r := Rates{Budget: b}
		for i := range 4100 {
			if r.Timeless() && i < 4096 {
				t.Fatalf("%s: after %d rows", name, i)
			}
			r.Message(int64(i), c.stamp(i), 1)
		}
		if got := r.Timeless(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
