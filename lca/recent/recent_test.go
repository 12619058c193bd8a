package recent

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// stream makes rows of d columns whose consecutive values are correlated by phi, with the noise that is asked for.
func stream(seed uint64, n, d int, phi float64, noise func(*rand.Rand) float64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float64, n*d)
	for i := range x {
		x[i] = noise(r)
		if i >= d {
			x[i] = phi*x[i-d] + math.Sqrt(1-phi*phi)*x[i]
		}
	}
	return x
}

func normal(r *rand.Rand) float64 { return r.NormFloat64() }

// student has three degrees of freedom.
func student(r *rand.Rand) float64 {
	squares := 0.
	for range 3 {
		g := r.NormFloat64()
		squares += g * g
	}
	return r.NormFloat64() / math.Sqrt(squares/3)
}

// walk puts noise on levels that wander.
func walk(seed uint64, n, d int) []float64 {
	x, noise := make([]float64, n*d), stream(seed, n, d, 0, normal)
	steps := stream(seed+1000, n, d, 0, normal)
	for i := range x {
		if i >= d {
			steps[i] = steps[i-d] + 0.01*steps[i]
		}
		x[i] = steps[i] + noise[i]
	}
	return x
}

// series is one series for each of n rows.
func one(s *Series, n int) []*Series {
	all := make([]*Series, n)
	for i := range all {
		all[i] = s
	}
	return all
}

// preq is a stream as a live pair goes through it: scored by the newest evaluator, then learnt.
type preq struct {
	learner      *Learner
	scored, seen Series
	scorer       Scorer
	dim          int
}

func newPreq(d int) *preq { return &preq{learner: NewLearner(d), dim: d} }

// pass returns scores and p, NaN where there is no evaluator yet.
func (q *preq) pass(x []float64, minibatch int) (scores, p []float64) {
	n := len(x) / q.dim
	scores, p = make([]float64, n), make([]float64, n)
	for i := 0; i < n; i += minibatch {
		j := min(i+minibatch, n)
		rows := x[i*q.dim : j*q.dim]
		e := q.learner.Evaluator()
		for k := i; k < j; k++ {
			scores[k], p[k] = math.NaN(), math.NaN()
		}
		if e != nil {
			q.scorer.Score(e, scores[i:j], rows, one(&q.scored, j-i))
			for k := i; k < j; k++ {
				p[k] = e.P(scores[k], q.scored.Rows)
			}
		} else {
			q.scored = Series{}
		}
		q.learner.Learn(rows, one(&q.seen, j-i))
	}
	return scores, p
}

func share(p []float64, below float64) float64 {
	n := 0.
	for _, v := range p {
		if v < below {
			n++
		}
	}
	return n / float64(len(p))
}

// oracle is the score by the formulas of doc.go, from all rows so far, where all have equal weights and none is cut.
func oracle(rows []float64, d, learnt int, row []float64) float64 {
	n := len(rows) / d
	z := mat.NewDense(n+1, 3*d, nil)
	for k := range d {
		short, long, v := 0., 0., 0.
		for i := range n + 1 {
			x := row[k]
			if i < n {
				x = rows[i*d+k]
			}
			first := 1 / float64(i+1)
			short += max(1./5, first) * (x - short)
			long += max(1./20, first) * (x - long)
			v += max(1./50, first) * (math.Abs(x-short) - v)
			z.Set(i, k, short)
			z.Set(i, d+k, long)
			z.Set(i, 2*d+k, v)
		}
	}
	scale := make([]float64, d)
	for k := range d {
		sum, squares := 0., 0.
		for i := range learnt {
			sum += rows[i*d+k]
		}
		for i := range learnt {
			squares += (rows[i*d+k] - sum/float64(learnt)) * (rows[i*d+k] - sum/float64(learnt))
		}
		scale[k] = math.Sqrt(squares / float64(learnt))
	}
	distance := func(from, to int) float64 {
		p := to - from
		count := float64(learnt - 20)
		mean, c := make([]float64, p), mat.NewSymDense(p, nil)
		for i := 20; i < learnt; i++ {
			for k := range p {
				mean[k] += z.At(i, from+k) / count
			}
		}
		for i := 20; i < learnt; i++ {
			for a := range p {
				for b := a; b < p; b++ {
					c.SetSym(a, b, c.At(a, b)+(z.At(i, from+a)-mean[a])*(z.At(i, from+b)-mean[b])/count/scale[(from+a)%d]/scale[(from+b)%d])
				}
			}
		}
		trace, norm, away := mat.Trace(c), 0., 0.
		for a := range p {
			for b := range p {
				v := c.At(a, b)
				norm += v * v
				if a == b {
					v -= trace / float64(p)
				}
				away += v * v
			}
		}
		shrink := min(1, max(0.002, (trace*trace+norm)/(count*away)))
		var shrunk mat.SymDense
		shrunk.ScaleSym(1-shrink, c)
		for a := range p {
			shrunk.SetSym(a, a, shrunk.At(a, a)+shrink*trace/float64(p))
		}
		u := mat.NewVecDense(p, nil)
		for k := range p {
			u.SetVec(k, (z.At(n, from+k)-mean[k])/scale[(from+k)%d])
		}
		var chol mat.Cholesky
		chol.Factorize(&shrunk)
		var y mat.VecDense
		if err := chol.SolveVecTo(&y, u); err != nil {
			panic(err)
		}
		return mat.Dot(u, &y)
	}
	return 0.8*math.Log(distance(0, 3*d)/float64(3*d)) + 0.2*math.Log(distance(2*d, 3*d)/float64(d))
}

// The score is the one of doc.go, whatever the number of rows behind it.
func TestScoreIsTheFormula(t *testing.T) {
	const d = 3
	x := stream(1, 1200, d, 0.5, normal)
	for k := range x { // columns of other units and levels, which depend on each other
		switch k % d {
		case 1:
			x[k] = 1000 + 30*(x[k]+x[k-1])
		case 2:
			x[k] *= 1e-6
		}
	}
	for _, learnt := range []int{128, 256, 512, 1000} {
		q := newPreq(d)
		q.learner.Learn(x[:learnt*d], one(&q.seen, learnt)) // one minibatch: no evaluator has scored or cut before
		e := q.learner.Evaluator()
		if e == nil || e.Learnt != uint64(learnt) {
			t.Fatalf("after %d rows the evaluator is %v", learnt, e)
		}
		s := q.seen
		for i := learnt; i < learnt+20; i++ {
			var got [1]float64
			row := x[i*d : (i+1)*d]
			q.scorer.Score(e, got[:], row, []*Series{&s})
			if want := oracle(x[:i*d], d, learnt, row); math.Abs(got[0]-want) > 1e-4 {
				t.Errorf("after %d rows, row %d: score %v, want %v", learnt, i, got[0], want)
			}
		}
	}
}

// How rows come in batches changes no bit of a score.
func TestBatchesDoNotMatter(t *testing.T) {
	const d, n = 5, 3000
	q := newPreq(d)
	x := stream(2, n, d, 0.9, normal)
	q.pass(x, 100)
	e := q.learner.Evaluator()
	var want []float64
	for _, batch := range []int{500, 1, 3, 7, 8, 64} {
		var s, other Series
		got := make([]float64, 500)
		for i := 0; i < 500; i += batch {
			j := min(i+batch, 500)
			between := one(&s, j-i)
			if batch == 64 { // rows of another series lie between
				var dst [1]float64
				q.scorer.Score(e, dst[:], x[:d], []*Series{&other})
			}
			q.scorer.Score(e, got[i:j], x[i*d:j*d], between)
		}
		if want == nil {
			want = got
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("batches of %d: row %d has score %v, want %v", batch, i, got[i], want[i])
			}
		}
	}
}

// Of normal rows, one in a hundred has p < 0.01, whatever their noise, their memory and whether their level stays; of thirty columns in a slow stream
// fewer, because the scores that are known are those of younger evaluators, too, which are higher. No law errs to the other side while few rows are known.
func TestCalibrated(t *testing.T) {
	const n, seeds = 40_000, 3
	for name, make := range map[string]func(seed uint64, n, d int) []float64{
		"white":      func(seed uint64, n, d int) []float64 { return stream(seed, n, d, 0, normal) },
		"AR(1) .9":   func(seed uint64, n, d int) []float64 { return stream(seed, n, d, 0.9, normal) },
		"AR(1) .99":  func(seed uint64, n, d int) []float64 { return stream(seed, n, d, 0.99, normal) },
		"AR(1) .998": func(seed uint64, n, d int) []float64 { return stream(seed, n, d, 0.998, normal) },
		"heavy":      func(seed uint64, n, d int) []float64 { return stream(seed, n, d, 0, student) },
		"lognormal": func(seed uint64, n, d int) []float64 {
			return stream(seed, n, d, 0, func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) })
		},
		"wandering": walk,
		"daily":     daily,
	} {
		for _, d := range []int{1, 4, 8, 30} {
			t.Run(fmt.Sprintf("%s, %d columns", name, d), func(t *testing.T) {
				t.Parallel()
				rare, young, rows := [seeds]float64{}, 0., n
				if name == "AR(1) .998" && d > 1 && d < 30 {
					rows *= 3 // 100 correlation times come first
				}
				for seed := range uint64(seeds) {
					_, p := newPreq(d).pass(make(seed+1, rows, d), 100)
					rare[seed] = share(p[len(p)/2:], 0.01)
					young += share(p[:2000], 0.01) / seeds
				}
				slices.Sort(rare[:]) // a level that wanders off for good is a fault, for which p is small
				least, most := 0.005, 0.015
				switch {
				case d == 30 && name == "AR(1) .998":
					least = 0 // 80 correlation times for 90 numbers
				case d == 30:
					least = 0.002
				case d == 1 && name == "wandering":
					most = 0.03 // it has no bounds, and is again and again where it has never been
				}
				t.Logf("p < 0.01 for a share of %.4f of the rows, for each seed, and of %.4f of the first 2000", rare, young)
				if is := rare[seeds/2]; is < least || is > most {
					t.Errorf("p < 0.01 for a share of %.4f of the rows, want %.4f to %.3f", is, least, most)
				}
				if young > 0.002 {
					t.Errorf("p < 0.01 for a share of %.4f of the first 2000 rows, want at most 0.002", young)
				}
			})
		}
	}
}

// daily puts noise on the cycles of a day, of 1440 rows.
func daily(seed uint64, n, d int) []float64 {
	x := stream(seed, n, d, 0.5, normal)
	for i := range x {
		k := float64(i % d)
		x[i] += (1 + math.Mod(k, 3)) * math.Sin(2*math.Pi*float64(i/d)/1440+k)
	}
	return x
}

// A stream of eight columns has its first score after a hundred rows, with a probability, and of its next 300 rows hardly more than one in a hundred has p < 0.01.
func TestYoungIsCalibrated(t *testing.T) {
	const d, rows, seeds = 8, 300, 100
	for name, phi := range map[string]float64{"white": 0, "AR(1) .9": 0.9} {
		for _, minibatch := range []int{50, 100, 128} {
			rare, first := 0., (99/minibatch+1)*minibatch
			for seed := range uint64(seeds) {
				scores, p := newPreq(d).pass(stream(seed+1, first+rows, d, phi, normal), minibatch)
				for i, v := range p {
					if v != v != (i < first) || scores[i] != scores[i] != (i < first) {
						t.Fatalf("%s, minibatches of %d: row %d has the score %v with p %v, and the first score is that of row %d", name, minibatch, i, scores[i], v, first)
					}
				}
				rare += share(p[first:], 0.01) / seeds
			}
			t.Logf("%s, minibatches of %d: p < 0.01 for a share of %.4f", name, minibatch, rare)
			if rare > 0.03 {
				t.Errorf("%s, minibatches of %d: p < 0.01 for a share of %.4f of rows %d to %d, want at most 0.03", name, minibatch, rare, first, first+rows)
			}
		}
	}
}

// passTurns scores and learns a stream in which series take turns, each with burst rows at once. It returns the score and p of each row.
func passTurns(d, n, series, burst int, seed uint64) (scores, p []float64) {
	l, scorer, scored, seen := NewLearner(d), Scorer{}, make([]Series, series), make([]Series, series)
	x := make([][]float64, series) // each is a stream of its own
	scores, p = make([]float64, n), make([]float64, n)
	for i := 0; i < n; i += 100 {
		var rows []float64
		var by, of []*Series
		for k := i; k < i+100; k++ {
			s := k / burst % series
			if len(x[s]) == 0 {
				x[s] = stream(seed<<20+uint64(s), n/series+burst, d, 0.9, normal)
			}
			rows, x[s] = append(rows, x[s][:d]...), x[s][d:]
			by, of = append(by, &scored[s]), append(of, &seen[s])
			scores[k], p[k] = math.NaN(), math.NaN()
		}
		if e := l.Evaluator(); e != nil {
			scorer.Score(e, scores[i:i+100], rows, by)
			for k := range 100 {
				p[i+k] = e.P(scores[i+k], scorer.Rows(k))
			}
		}
		l.Learn(rows, of)
	}
	return scores, p
}

// In a stream of many series the first score comes after a hundred rows of the stream too, although each of its series is young for a long time.
func TestFirstScoreOfManySeries(t *testing.T) {
	for name, c := range map[string]struct{ series, rows, burst int }{
		"fleet": {500, 20_000, 1}, "ten": {10, 3000, 1}, "fifty": {50, 4000, 1}, "one after the other": {50, 10_000, 200}, "in runs": {400, 20_000, 25},
	} {
		const d = 4
		early, late := 0., 0.
		for seed := range uint64(10) {
			scores, p := passTurns(d, c.rows, c.series, c.burst, seed+1)
			for i, s := range scores {
				if known := i >= 100; (s == s) != known || (p[i] == p[i]) != known {
					t.Fatalf("%s: row %d has the score %v, p %v", name, i, s, p[i])
				}
			}
			early, late = early+share(p[100:400], 0.01)/10, late+share(p[400:], 0.01)/10
		}
		t.Logf("%s: p < 0.01 for a share of %.4f of rows 100 to 400, %.4f of those behind", name, early, late)
		if early > 0.03 || late > 0.02 {
			t.Errorf("%s: p < 0.01 for a share of %.4f of rows 100 to 400, and %.4f of those behind", name, early, late)
		}
	}
}

// The first fifty rows of a series are scored as the first of a series is, and with its probability; the next one is not.
func TestFirstRowsAreScoredAlone(t *testing.T) {
	const d = 3
	q := newPreq(d)
	x := stream(19, 2000+2*FirstRows, d, 0.5, normal)
	q.pass(x[:2000*d], 100)
	e := q.learner.Evaluator()
	var s Series
	for i := range 2 * FirstRows {
		var got, alone [1]float64
		row := x[(2000+i)*d:][:d]
		q.scorer.Score(e, got[:], row, []*Series{&s})
		q.scorer.Score(e, alone[:], row, []*Series{new(Series)})
		first := i < 50
		if (got == alone) != first || (e.P(got[0], s.Rows) == e.First.P(got[0])) != first {
			t.Errorf("row %d of a series has score %v with p %v; by itself %v with %v", i+1, got[0], e.P(got[0], s.Rows), alone[0], e.First.P(got[0]))
		}
	}
}

// Rows that are passed move their series on as rows that are learnt do, a wild one too, and are not learnt.
func TestPass(t *testing.T) {
	const d = 3
	q := newPreq(d)
	x := stream(23, 600, d, 0.5, normal)
	q.pass(x[:500*d], 100)
	x[500*d] = 1e6
	passed, learnt, before := q.seen.Clone(), q.seen.Clone(), q.learner.Learnt()
	q.learner.Pass(x[500*d:], one(&passed, 100))
	if got := q.learner.Learnt(); got != before {
		t.Errorf("%d rows are learnt that were passed", got-before)
	}
	q.learner.Learn(x[500*d:], one(&learnt, 100))
	if passed.Rows != learnt.Rows || !slices.Equal(passed.Short, learnt.Short) || !slices.Equal(passed.Long, learnt.Long) || !slices.Equal(passed.Deviation, learnt.Deviation) {
		t.Errorf("means are %v after %d rows that were passed, and %v after %d that were learnt", passed.Short, passed.Rows, learnt.Short, learnt.Rows)
	}
}

// A fault that lasts is hardly learnt, once the stream has settled: it does not become the normal.
func TestFaultIsNotLearnt(t *testing.T) {
	const d = 6
	q := newPreq(d)
	x := stream(3, 45_000, d, 0.9, normal)
	q.pass(x[:5000*d], 100)
	q.learner.Settle()
	fault := x[10_000*d:]
	for i := 0; i < len(fault); i += d {
		fault[i] += 6
		fault[i+1] -= 6
	}
	before, _ := q.pass(x[5000*d:10_000*d], 100)
	scores, _ := q.pass(fault, 100)
	slices.Sort(before)
	above, u := 0, before[len(before)*99/100]
	for _, v := range scores[len(scores)-5000:] {
		if v > u {
			above++
		}
	}
	if above < 4900 {
		t.Errorf("after 30,000 rows of a fault %d of 5000 rows are above the 99 %% quantile from before it, want nearly all", above)
	}
}

// A column that never moved is seen at its first move, and a wild cell is forgotten.
func TestWildColumns(t *testing.T) {
	const d = 4
	for _, level := range []float64{0, 1, -250, 1e6} {
		t.Run(fmt.Sprint(level), func(t *testing.T) {
			q := newPreq(d)
			x := stream(4, 6000, d, 0.9, normal)
			for i := 3; i < len(x); i += d {
				x[i] = level
			}
			before, _ := q.pass(x[:5000*d], 100)
			highest := math.Inf(-1)
			for _, s := range before[1000:] {
				highest = max(highest, s)
			}
			moved := append([]float64(nil), x[5000*d:5020*d]...)
			for i := 3; i < len(moved); i += d {
				moved[i] += max(0.05*math.Abs(level), 0.01)
			}
			after, _ := q.pass(moved, 100)
			if after[3] <= highest {
				t.Errorf("four rows after the first move the score is %.2f, and %.2f was reached before", after[3], highest)
			}
			wild := append([]float64(nil), x[5020*d:5400*d]...)
			wild[0] = 1e100
			after, p := q.pass(wild, 100)
			if s := after[0]; s <= highest || math.IsInf(s, 0) || s != s {
				t.Errorf("a cell of 1e100 has score %v, and %.2f was reached before", s, highest)
			}
			if rare := share(p[300:], 0.01); rare > 0.2 {
				t.Errorf("300 rows after a cell of 1e100, p < 0.01 for a share of %.2f of the rows", rare)
			}
		})
	}
}

// A null leaves its column as it was, and is scored without it.
func TestNull(t *testing.T) {
	const d = 3
	q := newPreq(d)
	x := stream(5, 2000, d, 0.5, normal)
	for i := 0; i < len(x); i += 7 {
		x[i] = math.NaN()
	}
	x[0], x[1], x[2] = math.NaN(), math.NaN(), math.NaN()
	scores, p := q.pass(x, 100)
	for i := 1000; i < len(p); i++ {
		if scores[i] != scores[i] || p[i] != p[i] {
			t.Fatalf("row %d: score %v, p %v", i, scores[i], p[i])
		}
	}
	s := q.scored
	s.Short, s.Long, s.Deviation = append([]float64(nil), s.Short...), append([]float64(nil), s.Long...), append([]float64(nil), s.Deviation...)
	var dst [1]float64
	q.scorer.Score(q.learner.Evaluator(), dst[:], []float64{1, math.NaN(), 1}, []*Series{&q.scored})
	if q.scored.Short[1] != s.Short[1] || q.scored.Long[1] != s.Long[1] || q.scored.Deviation[1] != s.Deviation[1] || q.scored.Short[0] == s.Short[0] {
		t.Errorf("from %v to %v with a null in column 1", s, q.scored)
	}
}

// A column that is null when its series begins is the mean until it has a value.
func TestNullsAtTheBeginning(t *testing.T) {
	const d = 3
	x := stream(14, 4000, d, 0.5, normal)
	for k := 1; k < len(x); k += d {
		x[k] += 1e4
	}
	q := newPreq(d)
	before, _ := q.pass(x[:3000*d], 100)
	for _, rows := range []int{1, 20, 80} {
		var s Series
		late := append([]float64(nil), x[3000*d:]...)
		for i := range rows {
			late[i*d+1] = math.NaN()
		}
		scores := make([]float64, 1000)
		q.scorer.Score(q.learner.Evaluator(), scores, late, one(&s, 1000))
		if most := slices.Max(scores); most > slices.Max(before[500:])+0.5 {
			t.Errorf("null for %d rows: a score of %.2f, where others are %.2f at most", rows, most, slices.Max(before[500:]))
		}
	}
}

// A row with a null moves its series on as it does for a Scorer, and is not learnt.
func TestNullsAreNotLearnt(t *testing.T) {
	const d = 3
	x := stream(11, 3000, d, 0.5, normal)
	holes := append([]float64(nil), x...)
	for i := 2000; i < 3000; i++ {
		holes[i*d+i%d] = math.NaN()
	}
	q := newPreq(d)
	q.pass(holes[:2000*d], 100)
	before, _ := q.learner.AppendBinary(nil)
	q.pass(holes[2000*d:], 100)
	if after, _ := q.learner.AppendBinary(nil); !slices.Equal(before, after) {
		t.Error("rows with nulls were learnt")
	}
	if a, b := fmt.Sprint(q.seen.Short, q.seen.Long, q.seen.Deviation), fmt.Sprint(q.scored.Short, q.scored.Long, q.scored.Deviation); a != b {
		t.Errorf("the learner's series is %s, a scorer's %s", a, b)
	}
}

// A learner goes on from an evaluator: with the same scores at once, and with the moments behind it.
func TestResume(t *testing.T) {
	const d = 4
	x := stream(12, 30_000, d, 0.9, normal)
	for k := 1; k < len(x); k += d {
		x[k] = 1e6 + 50*x[k]
	}
	for _, rows := range []int{128, 1000, 10_000} {
		q := newPreq(d)
		q.pass(x[:rows*d], 100)
		e := q.learner.Evaluator()
		again := newPreq(d)
		again.learner = Resume(e)
		if got := again.learner.Evaluator(); got != e {
			t.Fatalf("after %d rows: evaluator %v", rows, got)
		}
		for k, v := range again.learner.rows.cov {
			if want := q.learner.rows.cov[k]; k%d <= k/d && math.Abs(v-want) > 0.2*math.Sqrt(q.learner.rows.cov[k/d*(d+1)]*q.learner.rows.cov[k%d*(d+1)]) {
				t.Errorf("after %d rows: covariance %d is %v, want %v", rows, k, v, want)
			}
		}
		_, p := again.pass(x[rows*d:], 100)
		if rare := share(p[100:], 0.01); rare < 0.003 || rare > 0.03 {
			t.Errorf("after %d rows: p < 0.01 for a share of %.4f of the rows", rows, rare)
		}
		if e := again.learner.Evaluator(); e.Learnt != 30_000 {
			t.Errorf("from %d rows on: %d rows learnt", rows, e.Learnt)
		}
	}
	broken := *newPreq(d).learner
	broken.Learn(x[:500*d], one(new(Series), 500))
	e := *broken.Evaluator()
	e.Row.Factor = make([]float32, len(e.Row.Factor))
	if l := Resume(&e); l.Learnt() != 0 || l.Evaluator() != nil {
		t.Error("went on from a factor of zeros")
	}
}

// Numbers as large as there are do not break a series, with and without an evaluator.
func TestLargestNumbers(t *testing.T) {
	const d = 2
	x := stream(13, 3000, d, 0.5, normal)
	for i := range x {
		x[i] *= 1e-9
	}
	x[0], x[1] = math.MaxFloat64, -math.MaxFloat64
	x[2000*d], x[2000*d+1] = math.MaxFloat64, -math.MaxFloat64
	q := newPreq(d)
	scores, _ := q.pass(x, 100)
	for i := 1000; i < len(scores); i++ {
		if s := scores[i]; s-s != 0 {
			t.Fatalf("row %d: score %v", i, s)
		}
	}
	if scores[2000] < scores[1999]+2 {
		t.Errorf("the largest numbers have score %v, those before %v", scores[2000], scores[1999])
	}
}

// The unit of a column, and what its level is next to its spread, change no score: a current in amperes may have a standard deviation of 1e-13.
func TestUnitsDoNotMatter(t *testing.T) {
	const d, n, from = 3, 3000, 2500
	x := stream(17, n, d, 0.5, normal)
	for i := from; i < n; i++ {
		x[i*d] += 4
	}
	want, _ := newPreq(d).pass(x, 100)
	sameInUnits(t, x, d, want, 60, 20, -20, -38, -45, -70, -250)
}

// Nor does the unit of a column that has not moved yet: its first move is as far.
func TestFirstMoveInAnyUnit(t *testing.T) {
	const d, n, from = 3, 2400, 2000
	x := stream(18, n, d, 0.5, normal)
	for i := range n {
		if x[i*d] = 0.7; i >= from {
			x[i*d] += 0.035
		}
	}
	want, _ := newPreq(d).pass(x, 100)
	if usual := slices.Max(want[1000:from]); want[from] < usual+2 {
		t.Fatalf("the first move has score %v, and %v was reached before", want[from], usual)
	}
	sameInUnits(t, x, d, want, 60, -7, -13, -30, -130)
}

// sameInUnits fails the test where rows have other scores once their first column is in units of these powers of two.
func sameInUnits(t *testing.T, x []float64, d int, want []float64, exponents ...int) {
	t.Helper()
	for _, exponent := range exponents {
		unit := math.Ldexp(1, exponent)
		other := slices.Clone(x)
		for i := 0; i < len(x); i += d {
			other[i] *= unit
		}
		got, _ := newPreq(d).pass(other, 100)
		for i := 100; i < len(want); i++ {
			if !(math.Abs(got[i]-want[i]) <= 1e-6) {
				t.Errorf("unit %g, row %d: score %v, want %v", unit, i, got[i], want[i])
				break
			}
		}
	}
}

// A learner that is written and read goes on with the same bits, and what is damaged is refused.
func TestStateGoesOn(t *testing.T) {
	const d = 4
	x := stream(6, 8000, d, 0.9, normal)
	for _, settle := range []bool{false, true} {
		a, b := newPreq(d), newPreq(d)
		a.pass(x[:3500*d], 100)
		if settle {
			a.learner.Settle()
		}
		state, err := a.learner.AppendBinary([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		state, _ = a.seen.AppendBinary(state)
		state, _ = a.scored.AppendBinary(state)
		l, rest, err := ReadLearner(state[len("before"):], d)
		if err != nil {
			t.Fatal(err)
		}
		b.learner = l
		seen, rest, err := ReadSeries(rest)
		if err != nil {
			t.Fatal(err)
		}
		scored, rest, err := ReadSeries(rest)
		if err != nil || len(rest) > 0 {
			t.Fatal(err, len(rest))
		}
		b.seen, b.scored = *seen, *scored
		wantScores, wantP := a.pass(x[3500*d:], 100)
		scores, p := b.pass(x[3500*d:], 100)
		for i := range scores {
			if scores[i] != wantScores[i] || p[i] != wantP[i] {
				t.Fatalf("row %d: score %v and p %v, want %v and %v", i, scores[i], p[i], wantScores[i], wantP[i])
			}
		}
		for cut := len("before"); cut < len(state); cut += 1 + cut/50 {
			if _, rest, err := ReadLearner(state[len("before"):cut], d); err == nil {
				if _, rest, err = ReadSeries(rest); err == nil {
					if _, _, err = ReadSeries(rest); err == nil {
						t.Fatalf("a state cut at byte %d of %d was read", cut, len(state))
					}
				}
			}
		}
		if _, _, err := ReadLearner(state[len("before"):], d+1); err == nil {
			t.Error("the state of another number of columns was read")
		}
	}
}

// Evaluators are frozen at row counts, and given out once they are fit for use.
func TestEvaluatorsAreFrozenAtRowCounts(t *testing.T) {
	const d = 8
	l := NewLearner(d)
	var s Series
	var frozen []uint64
	x := stream(7, 3500, d, 0, normal)
	for i := 0; i < 3500; i += 4 {
		l.Learn(x[i*d:(i+4)*d], one(&s, 4))
		if e := l.Evaluator(); e != nil && (len(frozen) == 0 || frozen[len(frozen)-1] != e.Learnt) {
			frozen = append(frozen, e.Learnt)
		}
	}
	if got, want := fmt.Sprint(frozen), "[100 128 256 512 1000 2000 3000]"; got != want {
		t.Errorf("frozen after %s rows, want %s", got, want)
	}
}

func BenchmarkScore(b *testing.B) {
	for _, d := range []int{8, 64} {
		q := newPreq(d)
		x := stream(8, 2000, d, 0.9, normal)
		q.pass(x, 100)
		e, s, dst := q.learner.Evaluator(), one(&q.scored, 100), make([]float64, 100)
		b.Run(fmt.Sprintf("score/d=%d", d), func(b *testing.B) {
			for i := range b.N {
				at := i % 20 * 100
				q.scorer.Score(e, dst, x[at*d:(at+100)*d], s)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(100*b.N), "ns/row")
		})
		b.Run(fmt.Sprintf("learn/d=%d", d), func(b *testing.B) {
			for i := range b.N {
				at := i % 20 * 100
				q.learner.Learn(x[at*d:(at+100)*d], one(&q.seen, 100))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(100*b.N), "ns/row")
		})
	}
}
