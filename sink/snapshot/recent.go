package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/recent"
)

// recentJSON is lca.recent: what the numbers of the parts recent and factors are, and what is not among them.
type recentJSON struct {
	Learnt   uint64        `json:"learnt"`
	Settled  bool          `json:"settled"`
	Constant []int         `json:"constant"` // columns
	Scores   histogramJSON `json:"scores"`
	First    histogramJSON `json:"first"`
	Tail     peaksJSON     `json:"tail"`

	Turn     uint64           `json:"turn"`
	Accepted []acceptanceJSON `json:"accepted"`
}

// acceptanceJSON is recent.Acceptance.
type acceptanceJSON struct {
	Series string `json:"series"` // 16 hexadecimal digits
	Turn   uint64 `json:"turn"`
	Until  int64  `json:"until,omitempty"`
	Reason string `json:"reason"`
}

// histogramJSON is a distribution without its weights.
type histogramJSON struct {
	Low  int     `json:"low"`
	Bins int     `json:"bins"`
	Sum  float64 `json:"sum"`
}

// peaksJSON is recent.Tail.
type peaksJSON struct {
	Above float64 `json:"above"`
	Peaks float64 `json:"peaks"`
	Rows  float64 `json:"rows"`
	Heavy float64 `json:"heavy"`
	Light float64 `json:"light"`
	Share float64 `json:"share"`
	Most  float64 `json:"most"`
}

func (h histogramJSON) distribution() (recent.Distribution, error) {
	d := recent.Distribution{Low: h.Low, Sum: h.Sum}
	if h.Bins < 0 || h.Low < 0 || h.Bins > recent.MostBins-h.Low {
		return d, fmt.Errorf("%d bins from number %d on, and there are %d", h.Bins, h.Low, recent.MostBins)
	}
	d.Weights = make([]float64, h.Bins)
	return d, nil
}

// recentText writes lca.recent.
func recentText(e *recent.Evaluator) string {
	if e == nil {
		return leftOut
	}
	of := func(d recent.Distribution) histogramJSON { return histogramJSON{d.Low, len(d.Weights), d.Sum} }
	r := recentJSON{Learnt: e.Learnt, Settled: e.Settled, Constant: []int{}, Turn: e.Turn, Accepted: []acceptanceJSON{}, Scores: of(e.Scores), First: of(e.First), Tail: peaksJSON(e.Tail)}
	for _, a := range e.Accepted {
		r.Accepted = append(r.Accepted, acceptanceJSON{fmt.Sprintf("%016x", a.Series), a.Turn, a.Until, a.Reason})
	}
	for k, constant := range e.Constant {
		if constant {
			r.Constant = append(r.Constant, k)
		}
	}
	return mustJSON(r)
}

// parseRecent gives a model an evaluator whose numbers are yet to be filled in.
func parseRecent(m *lca.Model, text string) error {
	var r recentJSON
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	d := m.Dim
	if d < 1 || d > recent.MostColumns {
		return fmt.Errorf("it is of %d columns, and at most %d are", d, recent.MostColumns)
	}
	e := &recent.Evaluator{Dim: d, Learnt: r.Learnt, Settled: r.Settled, Turn: r.Turn, Constant: make([]bool, d), Tail: recent.Tail(r.Tail)}
	for _, k := range r.Constant {
		if k < 0 || k >= d {
			return fmt.Errorf("column %d of %d is constant", k, d)
		}
		e.Constant[k] = true
	}
	for _, a := range r.Accepted {
		series, err := strconv.ParseUint(a.Series, 16, 64)
		if err != nil {
			return fmt.Errorf("series %q is accepted: %w", a.Series, err)
		}
		e.Accepted = append(e.Accepted, recent.Acceptance{Series: series, Turn: a.Turn, Until: a.Until, Reason: a.Reason})
	}
	var errScores, errFirst error
	e.Scores, errScores = r.Scores.distribution()
	e.First, errFirst = r.First.distribution()
	m.Recent = e
	return errors.Join(errScores, errFirst)
}

// numbersOf are the numbers of the part recent, and factorsOf those of the part factors, in the order of their documentation. In an evaluator that has been
// read, they are where what is missing goes.
func numbersOf(e *recent.Evaluator) [][]float64 {
	return [][]float64{e.Centre, e.Scale, e.Charts.Mean, e.Row.Mean, e.Scores.Weights, e.First.Weights}
}

func factorsOf(e *recent.Evaluator) [][]float32 {
	return [][]float32{e.Charts.Factor, e.Deviations.Factor, e.Row.Factor}
}

func recentPart(s *Snapshot) part {
	numbers := slices.Concat(numbersOf(s.Model.Recent)...)
	return s.numbersPart(PartRecent, "number", arrow.PrimitiveTypes.Float64, arrow.Float64Traits.CastToBytes(numbers))
}

func factorsPart(s *Snapshot) part {
	factors := slices.Concat(factorsOf(s.Model.Recent)...)
	return s.numbersPart(PartFactors, "factor", arrow.PrimitiveTypes.Float32, arrow.Float32Traits.CastToBytes(factors))
}

// fillRecent gives the model's evaluator its numbers. Nothing is left of it where both parts are missing, as an older program copies a snapshot.
func (d *decoder) fillRecent(m *lca.Model) error {
	e := m.Recent
	if e == nil || len(d.numbers) == 0 && len(d.factors) == 0 {
		m.Recent = nil
		return nil
	}
	n := e.Dim
	e.Centre, e.Scale, e.Charts.Mean, e.Row.Mean = make([]float64, n), make([]float64, n), make([]float64, 3*n), make([]float64, n)
	triangle := func(p int) []float32 { return make([]float32, p*(p+1)/2) }
	e.Charts.Factor, e.Deviations.Factor, e.Row.Factor = triangle(3*n), triangle(n), triangle(n)
	if err := deal("recent", d.numbers, numbersOf(e)); err != nil {
		return err
	}
	if err := deal("factors", d.factors, factorsOf(e)); err != nil {
		return err
	}
	e.Deviations.Mean = e.Charts.Mean[2*n:]
	for k, s := range e.Scale {
		if !(s > 0) {
			return fmt.Errorf("snapshot: part recent: the scale of column %d is %v", k, s)
		}
	}
	return nil
}

// deal copies numbers to where they belong.
func deal[T float32 | float64](part string, numbers []T, to [][]T) error {
	wanted := 0
	for _, list := range to {
		wanted += len(list)
	}
	if len(numbers) != wanted {
		return fmt.Errorf("snapshot: %d numbers in part %s, want %d: something is missing", len(numbers), part, wanted)
	}
	for _, list := range to {
		copy(list, numbers)
		numbers = numbers[len(list):]
	}
	return nil
}

// mostNumbers bounds the rows of the parts recent and factors.
func (d *decoder) mostNumbers() int {
	n := min(d.table.d, recent.MostColumns)
	return 6*n*(n+1) + 2*recent.MostBins
}
