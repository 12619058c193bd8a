package backtest

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/transform"
)

// budgetGrid is the budgets that are tried next to the one that was asked for, as multiples of it.
var budgetGrid = [...]struct{ number, of int }{{1, 30}, {1, 10}, {1, 3}, {1, 1}, {3, 1}, {10, 1}, {30, 1}}

// budgets tells, with the scores of one run, which episodes there would be at other budgets. Scores do not depend on the budget.
type budgets struct {
	all    map[string]*triedSeries
	opened [len(budgetGrid)]int
	told   [len(budgetGrid)][]*episode.Record // the first mostTried of them: whose they are, from where to where
	level  triedLevels
}

// triedSeries is a series with an episode, or none, at each budget.
type triedSeries struct {
	name *string // nil: there is one series
	open [len(budgetGrid)]struct {
		watch recent.Watch
		usual float64 // at its opening
		told  *episode.Record
	}
}

// triedLevels are those of a version at a rate. A rate that moves by less than sameRate has the same: they take a while to find.
type triedLevels struct {
	of     *recent.Evaluator
	rate   float64
	height [len(budgetGrid)]float64
	usual  float64
}

const sameRate = 0.02

// mostTried bounds the episodes at a budget that are compared with labels.
const mostTried = 1 << 15

func (l *triedLevels) at(e *recent.Evaluator, rate float64) {
	if l.of == e && math.Abs(rate-l.rate) <= sameRate*l.rate {
		return
	}
	l.of, l.rate, l.usual = e, rate, e.Usual()
	for k, times := range budgetGrid {
		l.height[k] = math.Inf(1)
		if rate > 0 {
			l.height[k], _ = e.Tail.Level(float64(times.number) / float64(times.of) * rate)
		}
	}
}

// row takes a row of a lane, whose model is that of a value, or of all rows.
func (b *budgets) row(lane string, value *string, r transform.Judged) {
	one := b.all[lane+"/"+r.Series]
	if one == nil {
		if b.all == nil {
			b.all = map[string]*triedSeries{}
		}
		one = &triedSeries{name: value}
		if decoded, ok := modelkey.Unescape(r.Series); ok && r.Series != "~" {
			text := string(decoded)
			one.name = &text
		}
		b.all[lane+"/"+r.Series] = one
	}
	b.level.at(r.By, r.Rate)
	for k := range one.open {
		o := &one.open[k]
		was, usual := o.watch.Open, b.level.usual
		if was {
			usual = o.usual
		}
		is := o.watch.Step(r.Score, b.level.height[k], usual)
		switch {
		case !is && !was:
			continue
		case !was:
			o.usual, o.told = usual, &episode.Record{Series: one.name, From: r.At, To: r.At}
			if b.opened[k]++; len(b.told[k]) < mostTried {
				b.told[k] = append(b.told[k], o.told)
			}
		case r.Score > usual:
			o.told.To = r.At
		}
	}
}
