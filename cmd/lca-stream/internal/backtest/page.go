package backtest

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/pipeline/episode"
)

var (
	//go:embed page/report.css
	reportCSS string
	//go:embed page/report.js
	reportJS string
)

const (
	mostOthers = 200 // episodes that are named and not drawn
	mostLanes  = 24  // series whose episodes have a line of their own
	mostName   = 80  // characters of a name from the files
	mostRows   = 400 // columns that are named
)

// page is what is shown. Text is text (html.go); pictures are drawn of facts.
type page struct {
	Title, Made string
	Verdict     []string
	Episodes    []pageEpisode
	Others      []string
	Budgets     []pageBudget
	Apart       string
	Calibration []pageCalibration
	How         []named
	Columns     []named
	YAML, Run   string
	Facts       facts
}

type named struct{ Name, Text string }

type pageEpisode struct {
	Title, About, More string
	Columns            []struct{ Name, Change string }
}

type pageBudget struct {
	Name                 string
	Episodes, False, Met int
	Taken                bool
}

type pageCalibration struct{ P, Expected, Found, Times, All string }

// facts is what pictures are drawn of.
type facts struct {
	Bins            []bin
	Timed, Labelled bool
	LastAt, LastRow int64
	Labels          [][2]int64
	Spans           []pageSpan
	Lanes           []string
	Drawn           []drawnEpisode
	Budgets         []pageBudget
}

// pageSpan is an episode on the timeline.
type pageSpan struct {
	From, To   int64
	Lane, Card int // −1: none
	Text       string
}

// drawnEpisode has stretches of rows, of which From to To are the episode's, and for each column what they reach.
type drawnEpisode struct {
	Row, Rows []int64
	From, To  int
	Low, High [][]*float64
}

// writePage writes the page.
func (b *backtest) writePage(ctx context.Context, p *app.Program, r *Result, m meeting) error {
	drawings := b.drawingsOf(b.told.last)
	if err := b.draw(ctx, drawings); err != nil {
		return err
	}
	made, err := b.page(r, m, drawings).html()
	if err != nil {
		return err
	}
	return p.WriteOutput(b.flags.page, func(w io.Writer) error {
		_, err := io.WriteString(w, made)
		return err
	})
}

func (b *backtest) page(r *Result, m meeting, drawings []*drawing) *page {
	p := &page{
		Title: brief(filepath.Base(b.flags.inputs[0])), Made: app.Producer() + " backtest",
		Verdict: b.verdict(r), Run: "lca-stream run -c stream.yaml",
	}
	if n := len(b.flags.inputs) - 1; n > 0 {
		p.Title += fmt.Sprintf(" and %s", plural.Count(n, "other file"))
	}
	f := &p.Facts
	f.Bins, f.Labelled, f.LastRow = b.timeline.Bins, b.judge.labelled, b.row-1
	if f.Timed = b.timed(); f.Timed {
		f.LastAt = b.told.latest.UnixMilli()
	}
	f.Labels = b.labelSpans(f.Timed)
	b.showEpisodes(p, m, drawings)
	b.showBudgets(p, r)
	b.showCalibration(p)
	b.showColumns(p)
	b.showLive(p)
	return p
}

// timed reports whether the rows are in the order of their times, so that a page can draw these.
func (b *backtest) timed() bool {
	return b.told.early <= b.row/100 && b.told.rates.Clock.Elapsed > 0 && !slices.ContainsFunc(b.timeline.Bins, func(one bin) bool { return one.At == nil })
}

// verdict is the answer in plain sentences.
func (b *backtest) verdict(r *Result) []string {
	elapsed, clock := b.told.rates.Clock.Elapsed, b.flags.time != ""
	in := plural.Count(r.Rows, "row")
	if clock && elapsed > 0 {
		in = lasting(elapsed) + " (" + in + ")"
	}
	switch {
	case r.Scored == 0 && (b.lanes.published > 0 || b.columns.model != ""):
		return []string{"No row was scored: " + r.Unscored + "."}
	case r.Scored == 0:
		return []string{fmt.Sprintf("No row was scored: %s of %s make no model yet.", plural.Count(r.Rows, "row"), plural.Count(len(b.lanes.features), "column"))}
	case r.Episodes == nil:
		return []string{fmt.Sprintf("%s of %s were scored. No episodes are told: %s.", plural.Count(r.Scored, "row"), in, r.Silent)}
	}
	all := []string{fmt.Sprintf("%s in %s, at a budget of %s.", plural.Count(*r.Episodes, "episode"), in, b.told.rates.Budget)}
	if r.Met != nil {
		text := fmt.Sprintf("With your labels: %d of %s met, %s", *r.Met, plural.Count(*r.Faults, "fault"), b.falseOnes(*r.FalseEpisodes, r))
		if r.DelayRows != nil {
			text += ", met " + late(*r.DelayRows)
		}
		all = append(all, text+".")
		if said := b.besides(r); said != "" {
			all = append(all, said+".")
		}
	}
	if len(b.told.last) > 0 {
		clearest := slices.MaxFunc(b.told.last, func(x, y *episode.Record) int {
			if x.Young != y.Young { // by a level that was a guess
				return map[bool]int{true: -1, false: 1}[x.Young]
			}
			return cmp.Compare(x.Peak.Score, y.Peak.Score)
		})
		all = append(all, "The clearest: "+title(clearest)+", "+b.span(clearest)+".")
	}
	if state := b.state(); state != "" && len(b.told.last) > 1 {
		all = append(all, fmt.Sprintf("If %s says how the machine runs, a start may look like a fault: --set model.by=column:%s gives each state a model of its own.", state, state))
	}
	if why := b.told.fault(b.row); why != "" {
		all = append(all, "Hardly any episode could open: "+why+".")
	}
	return all
}

// state is the first column that may say how the machine runs, where nothing says whose row it is; "": there is none.
func (b *backtest) state() string {
	c := &b.columns
	if b.flags.config != "" || c.key != "" || c.model != "" || c.series != "" {
		return ""
	}
	for _, name := range b.choice.states {
		if _, err := config.ParseSeries("column:" + name); err == nil && name != b.flags.time && name != c.clock && name != c.labels {
			return brief(name)
		}
	}
	return ""
}

// besides says what a simpler detector makes of the same rows; "": labels know no fault.
func (b *backtest) besides(r *Result) string {
	if *r.Faults == 0 || len(b.rival.rows) == 0 {
		return ""
	}
	if b.rival.said == "" {
		met, wrong := b.rival.met(&b.judge, *r.FalseEpisodes)
		b.rival.said = fmt.Sprintf("A Mahalanobis distance of the same rows, its threshold chosen afterwards for at most as many false ones: %d met, %s", met, b.falseOnes(wrong, r))
	}
	return b.rival.said
}

// late says how many rows of a fault come before its episode.
func late(rows float64) string {
	if rows == 0 {
		return "at the first row at the median"
	}
	return fmt.Sprintf("after %g more rows at the median", rows)
}

// falseOnes says how many episodes meet no fault, in the unit of the budget.
func (b *backtest) falseOnes(n int, r *Result) string {
	budget := b.told.rates.Budget
	if budget.Per == 0 {
		return fmt.Sprintf("%d false (%.2g in %.0f rows)", n, float64(n)*budget.Rows/float64(max(r.Scored, 1)), budget.Rows)
	}
	elapsed := b.told.rates.Clock.Elapsed.Hours() * float64(r.Scored) / float64(max(r.Rows, 1))
	return fmt.Sprintf("%d false (%.2g per %s)", n, float64(n)*budget.Per.Hours()/elapsed, budget.Span())
}

// lasting is a time in one unit.
func lasting(d time.Duration) string {
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		if d >= 2*unit.of {
			return plural.Count(int64((d+unit.of/2)/unit.of), unit.name)
		}
	}
	return plural.Count(int64(d/time.Second), "second")
}

// brief is a name as far as a page shows it.
func brief(name string) string {
	if utf8.RuneCountInString(name) <= mostName {
		return name
	}
	return string([]rune(name)[:mostName]) + "…"
}

// title is what has changed, and of which series.
func title(e *episode.Record) string {
	what := "unusual"
	if len(e.Causes) > 0 {
		what = brief(e.Causes[0].Feature) + " " + e.Causes[0].Direction
	}
	if e.Series != nil {
		return brief(*e.Series) + ": " + what
	}
	return what
}

// span is when an episode was.
func (b *backtest) span(e *episode.Record) string {
	where := fmt.Sprintf("rows %d to %d", e.From.Offset, e.To.Offset)
	if e.From.Time == nil || e.To.Time == nil {
		return where
	}
	return fmt.Sprintf("%s to %s, %s", e.From.Time.Format(time.DateTime), e.To.Time.Format(time.DateTime), where)
}

// showEpisodes fills in the episodes and the timeline.
func (b *backtest) showEpisodes(p *page, m meeting, drawings []*drawing) {
	p.Facts.Drawn = []drawnEpisode{}
	cards, lanes := map[*episode.Record]int{}, map[string]int{}
	for i, d := range drawings {
		cards[d.told] = i
		p.Episodes = append(p.Episodes, b.card(d, m))
		p.Facts.Drawn = append(p.Facts.Drawn, d.stretches())
	}
	p.Facts.Spans = []pageSpan{}
	for _, e := range b.told.last {
		s := pageSpan{From: b.place(e.From), To: b.place(e.To), Lane: -1, Card: -1, Text: title(e) + ", " + b.span(e)}
		card, drawn := cards[e]
		if drawn {
			s.Card = card
		} else if len(p.Others) < mostOthers {
			p.Others = append(p.Others, s.Text)
		}
		if e.Series != nil {
			lane, known := lanes[*e.Series]
			if !known && len(lanes) < mostLanes {
				lane, known = len(lanes), true
				lanes[*e.Series] = lane
				p.Facts.Lanes = append(p.Facts.Lanes, brief(*e.Series))
			}
			if known {
				s.Lane = lane
			}
		}
		if len(p.Facts.Spans) < mostOthers+mostDrawn || drawn {
			p.Facts.Spans = append(p.Facts.Spans, s)
		}
	}
	if more := len(b.told.last) - len(drawings) - len(p.Others); more > 0 {
		p.Others = append(p.Others, fmt.Sprintf("… and %d more: --episodes FILE writes all", more))
	}
}

// place is where a row is on the timeline.
func (b *backtest) place(of episode.Place) int64 {
	if b.timed() && of.Time != nil {
		return of.Time.UnixMilli()
	}
	return of.Offset
}

// card is an episode in words.
func (b *backtest) card(d *drawing, m meeting) (e pageEpisode) {
	r := d.told
	e.Title, e.About = title(r), fmt.Sprintf("%s; %s, %d of them above the level", b.span(r), plural.Count(r.Rows, "row"), r.RowsOver)
	if r.Peak.P != nil {
		e.About += fmt.Sprintf("; at its peak rarer than p = %.2g", *r.Peak.P)
	}
	if r.Type != episode.Closed {
		e.About += "; still open at the end"
	} else if r.Reason != nil && *r.Reason != episode.Usual {
		e.About += "; closed: " + *r.Reason
	}
	if r.Young {
		e.About += "; the model was young, and its level a guess"
	}
	if at := slices.Index(b.told.last, r); at >= 0 && at < len(m.right) {
		if m.right[at] {
			e.About += "; it meets a fault of the labels"
		} else {
			e.About += "; by the labels it is false"
		}
	}
	var more []string
	for k, c := range r.Causes[:min(len(r.Causes), 8)] {
		change := fmt.Sprintf("%s, %s → %s", c.Direction, number(c.Before), number(c.Now))
		if k < len(d.columns) {
			e.Columns = append(e.Columns, struct{ Name, Change string }{brief(c.Feature), change})
		} else {
			more = append(more, brief(c.Feature)+" "+change)
		}
	}
	e.More = strings.Join(more, "; ")
	return e
}

func number(v *float64) string {
	if v == nil {
		return "?"
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}

// stretches are what is drawn.
func (d *drawing) stretches() drawnEpisode {
	e := drawnEpisode{Low: make([][]*float64, len(d.columns)), High: make([][]*float64, len(d.columns))}
	for i, s := range d.all {
		e.Row, e.Rows = append(e.Row, s.row), append(e.Rows, s.rows)
		if s.during {
			if e.To == 0 {
				e.From = i
			}
			e.To = i
		}
		for k := range d.columns {
			e.Low[k], e.High[k] = append(e.Low[k], app.Finite(shortened(s.low[k]))), append(e.High[k], app.Finite(shortened(s.high[k])))
		}
	}
	return e
}

// shortened is a number with as many digits as a picture shows.
func shortened(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return v
}

// labelSpans are the stretches with labelled rows.
func (b *backtest) labelSpans(timed bool) (all [][2]int64) {
	bins := b.timeline.Bins
	for i, one := range bins {
		if !one.Faulty {
			continue
		}
		from, to := one.Row, one.Row+b.timeline.each
		if timed {
			from, to = *one.At, *one.At
			if i+1 < len(bins) {
				to = *bins[i+1].At
			}
		}
		if n := len(all); n > 0 && all[n-1][1] == from {
			all[n-1][1] = to
			continue
		}
		all = append(all, [2]int64{from, to})
	}
	return all
}

// showBudgets fills in what other budgets would have given.
func (b *backtest) showBudgets(p *page, r *Result) {
	if r.Episodes == nil || b.lanes.published == 0 {
		return
	}
	for k, times := range budgetGrid {
		one := pageBudget{Name: b.told.rates.Budget.Scaled(times.number, times.of).String(), Episodes: b.budgets.opened[k], Taken: times.number == times.of}
		if b.judge.labelled {
			m := b.judge.met(b.budgets.told[k])
			one.Met, one.False = m.met, m.wrong+b.budgets.opened[k]-len(b.budgets.told[k])
		}
		if one.Taken { // it knows also which episodes were accepted by their age
			if one.Episodes = *r.Episodes; r.Met != nil {
				one.Met, one.False = *r.Met, *r.FalseEpisodes
			}
		}
		p.Budgets = append(p.Budgets, one)
	}
	p.Facts.Budgets = p.Budgets
}

// showCalibration compares how rare rows are with how rare they are said to be.
func (b *backtest) showCalibration(p *page) {
	c := &b.calibrated
	if c.apart == 0 {
		return
	}
	if p.Apart = "that are in no episode"; b.judge.labelled {
		p.Apart = "that the labels hold normal"
	}
	for k, below := range calibrated {
		expected := math.Round(10*below*float64(c.apart)) / 10
		p.Calibration = append(p.Calibration, pageCalibration{
			P: strconv.FormatFloat(below, 'g', -1, 64), Expected: strconv.FormatFloat(expected, 'f', -1, 64), Found: strconv.FormatInt(c.without[k], 10),
			Times: strconv.FormatFloat(float64(c.without[k])/(below*float64(c.apart)), 'f', 2, 64), All: strconv.FormatInt(c.below[k], 10),
		})
	}
}
