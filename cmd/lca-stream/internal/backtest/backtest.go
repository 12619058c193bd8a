// Package backtest is `lca-stream backtest`: files in order, as the live pair would have them, each row scored with the newest
// model and then learnt.
package backtest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink/rowfile"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// flags are the flags of `lca-stream backtest`.
type flags struct {
	inputs         []string
	time, key      string
	features       []string
	labels, until  string
	rows, episodes string
	page, config   string                                       // config: the file of the configuration; "": there is none
	set            func(setting string) bool                    // whether --set names it
	load           func(setting string) (*config.Config, error) // the configuration with one more of --set
	timeTold       bool                                         // --time stands on the command line
	keyTold        bool                                         // --key does
	kind           rowfile.Kind                                 // of rows
	force, json    bool
}

// Command is `lca-stream backtest`.
func Command(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "backtest FILE...",
		Short: "Tell what a live stream would have told of files, as a page",
		Long: `Goes through files in order (.arrow, .arrows, .parquet, .csv, .csv.gz) as the learner and the transform of a live stream
would go through the messages of a partition, each row a message: every minibatch is scored with the newest model, and
then learnt. A model is published when there is a first one, at every doubling of its rows, and from then on every 1,000
rows. No broker is needed. The scores are those of a live pipeline, to the bit, for rows that have the same version.

What came of it is a page, one file of HTML: the episodes, their causes, what another budget would give, and the
configuration to run it live. The page may replace an earlier one. With --rows, --episodes or --json it is written where
-o names it.

What is not told is chosen by the first rows, as init does it, and the page says so: the columns that are learnt, the one
with the time (--time= is none), and the one that says whose row it is (--key= is none), whose values then are series.
Without -c the preset is density.

--until says where the normal stretch ends: what comes before is learnt, however little it is, before the first row is
scored. Without it the first rows of the stream are the normal stretch, and scores begin with the first model. A time
without a zone is UTC.

A stretch of a series whose last rows are unusual is an episode. How many false ones you can live with is alarms.budget,
1/day where --time says when rows are, or else 1/2000 rows. --episodes writes each with its first and last unusual row.

--labels names a column of 0 and 1, or a CSV file with the columns from and to: rows, counted from 0, or times, both
inclusive. A third column, key, says whose fault it is; without it a time is one of all series. Labels judge, and nothing
is learnt from them. No label is moved or widened (no point adjustment).

-c and --set say how, as for a pipeline. With model.by the rows of each value have a model of their own, with
transform.series they are a series of one model; the key of a row is what the column of --key has. A series goes on from
its rows in the normal stretch.`,
		Example: `  lca-stream backtest pump.csv
  lca-stream backtest pump.parquet --time at --until 2026-03-01 --rows scored.parquet
  lca-stream backtest train.csv test.csv --until 20000 --labels faulty --set lca.preset=density --json
  lca-stream backtest fleet.arrow --key machine --set model.by=key --labels faults.csv`,
		Args: app.Takes(1, app.AnyNumber),
	}
	o := p.ConfigFlags(c)
	f := &flags{}
	c.Flags().StringVar(&f.time, "time", "", "`COLUMN` with the time of each row: a time, a date, a text such as 2026-01-31T12:00:00Z, or a number of seconds since 1970 (or of ms, µs, ns)")
	c.Flags().StringVar(&f.key, "key", "", "`COLUMN` with the key of each row, which says whose row it is")
	c.Flags().StringSliceVar(&f.features, "features", nil, "`COLUMNS` that are learnt, A,B,…; default source.features")
	c.Flags().StringVar(&f.labels, "labels", "", "`COLUMN` of 0 and 1, or CSV file of from,to or from,to,key, by which the scores are judged")
	c.Flags().StringVar(&f.until, "until", "", "`ROWS` of the normal stretch, or the time at which it ends")
	c.Flags().StringVar(&f.rows, "rows", "", "write the rows with what the transform adds to `FILE` (.arrow, .arrows, .parquet); - is an Arrow IPC stream on standard output")
	c.Flags().StringVarP(&f.page, "output", "o", "", "write the page to `FILE`; default: the name of the first file, with .html, unless --rows, --episodes or --json is there")
	c.Flags().StringVar(&f.episodes, "episodes", "", "write the episodes to `FILE`, a JSON array")
	c.Flags().BoolVar(&f.force, "force", false, "overwrite the files of --rows, --episodes and --output")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object at the end")
	return app.Command(c, func(ctx context.Context, args []string) error {
		f.inputs, f.config, f.set = args, o.Path(), o.Sets
		f.load = func(setting string) (*config.Config, error) { o.Set(setting); return p.Load(o) }
		f.timeTold, f.keyTold = c.Flags().Changed("time"), c.Flags().Changed("key")
		if err := f.check(); err != nil {
			return err
		}
		cfg, err := p.Load(o)
		if err != nil {
			return err
		}
		return run(ctx, p, f, cfg)
	})
}

// check refuses flags that contradict each other, and finds the inputs.
func (f *flags) check() (err error) {
	if f.inputs, err = app.RowInputs(f.inputs); err != nil {
		return err
	}
	if err := app.NamedOnce(f.inputs); err != nil {
		return err
	}
	if f.rows == "-" && f.json {
		return app.UsageError("--json and --rows - would both go to standard output")
	}
	if f.rows != "" {
		if f.kind, err = app.RowOutput("--rows", f.rows, f.inputs, f.force); err != nil {
			return err
		}
	}
	if f.episodes != "" {
		if _, err = app.MayOverwrite("--episodes", f.episodes, f.inputs, f.force); err != nil {
			return err
		}
	}
	if err := f.pageFile(); err != nil {
		return err
	}
	return f.writable()
}

// writable refuses outputs of one name, and those that could not be written after hours of work.
func (f *flags) writable() error {
	outputs := slices.DeleteFunc([]string{f.rows, f.episodes, f.page}, func(path string) bool { return path == "" })
	for i, path := range outputs {
		if slices.ContainsFunc(outputs[:i], func(other string) bool { return filepath.Clean(other) == filepath.Clean(path) }) {
			return app.UsageError("%s is named twice, for two outputs", path)
		}
		if err := app.Writable(path); err != nil {
			return err
		}
	}
	return nil
}

// pageMark is in the head of every page.
const pageMark = `<meta name="generator" content="lca-stream backtest">`

// pageFile finds out where the page goes. One may take the place of another.
func (f *flags) pageFile() error {
	if f.page == "" && f.rows == "" && f.episodes == "" && !f.json {
		name := strings.TrimSuffix(filepath.Base(f.inputs[0]), ".gz")
		f.page = strings.TrimSuffix(name, filepath.Ext(name)) + ".html"
	}
	if f.page == "" || f.page == "-" {
		if f.page == "-" && (f.json || f.rows == "-") {
			return app.UsageError("--output - and %s would both go to standard output", map[bool]string{true: "--json", false: "--rows -"}[f.json])
		}
		return nil
	}
	head := make([]byte, 1024)
	if file, err := os.Open(f.page); err == nil {
		n, _ := io.ReadFull(file, head)
		_ = file.Close()
		if bytes.Contains(head[:n], []byte(pageMark)) {
			return nil
		}
	}
	_, err := app.MayOverwrite("--output", f.page, f.inputs, f.force)
	return err
}

// Result is the JSON object of --json. What is not known is null.
type Result struct {
	Rows          int64    `json:"rows"`
	Scored        int64    `json:"scored"`
	Episodes      *int     `json:"episodes"`
	FalseEpisodes *int     `json:"false_episodes"`
	Faults        *int     `json:"faults"` // stretches of labelled rows after the normal stretch, in the series of each key
	Met           *int     `json:"met"`
	DelayRows     *float64 `json:"delay_rows"`
	AP            *float64 `json:"ap"`
	AUC           *float64 `json:"auc"`
	Seconds       float64  `json:"seconds"`
	Silent        string   `json:"no_episodes,omitempty"` // why there are none
	Unscored      string   `json:"no_scores,omitempty"`   // why no row was scored
	Unjudged      string   `json:"no_ap,omitempty"`       // why there is neither AP nor AUC
}

// backtest is one run over files.
type backtest struct {
	flags  *flags
	config *config.Config
	log    *slog.Logger
	screen *app.FileScreen
	lanes  lanes
	series modelkey.By // whose values are series, where there is one model
	out    *output     // nil: rows are not written

	until   until
	passed  bool // the normal stretch has ended
	columns columns
	judge   judge
	rival   *rival        // nil: nothing is judged
	schema  *arrow.Schema // of the inputs; nil: none has been read
	learnt  *arrow.Schema // the features alone
	chunk   int64         // rows that are written together
	row     int64         // of the next row
	scored  int64
	first   int64 // the first row with a score; −1: there is none
	told    episodes

	budgets    budgets
	timeline   timeline
	calibrated calibration
	choice     choice
	bad        badLines
	leftOut    []minibatch.Judgement // columns of numbers that are not learnt
}

func run(ctx context.Context, p *app.Program, f *flags, cfg *config.Config) error {
	b := &backtest{flags: f, config: cfg, log: app.QuietLogger(p, cfg.Logger), first: -1, series: system.SeriesOf(cfg)}
	if len(f.features) > 0 {
		cfg.Source.Features = f.features
	}
	return b.run(ctx, p)
}

func (b *backtest) run(ctx context.Context, p *app.Program) error {
	if err := b.choose(); err != nil {
		return err
	}
	f, cfg := b.flags, b.config
	if err := b.prepare(); err != nil {
		return err
	}
	limits := b.limits()
	limits.Bad = b.bad.add
	if f.rows == "" {
		limits.Need = app.Needs(cfg.Source.Features, b.columns.names()...)
	}
	b.screen = app.NewFileScreen(p)
	b.screen.Says("looking through the files")
	in, err := source.OpenFiles(f.inputs, limits)
	if err != nil {
		b.screen.End()
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	in.Reuse()
	b.screen.Of(in.Rows())
	if err := b.write(p, func() error { return b.read(ctx, in) }); err != nil {
		return err
	}
	b.screen.End()
	b.lanes.end()
	for _, text := range b.bad.texts() {
		b.log.Warn("what is no row, or no number, was passed over", "what", text)
	}
	if b.judge.spans != nil {
		if keys := b.judge.spans.unseen(); len(keys) > 0 {
			b.log.Warn("--labels names keys that no row behind the normal stretch has", "keys", keys)
		}
	}
	if why := b.told.fault(b.row); why != "" {
		b.log.Warn("a budget in time needs times that go on", "because", why)
	}
	if f.episodes != "" {
		if err := p.WriteOutput(f.episodes, b.told.write); err != nil {
			return err
		}
	}
	said := p.Stdout
	if f.rows == "-" || f.page == "-" {
		said = p.Stderr
	}
	r, m := b.result()
	if err := b.report(said, &r); err != nil || f.page == "" {
		return err
	}
	if err := b.writePage(ctx, p, &r, m); err != nil || f.page == "-" || f.json {
		return err
	}
	_, err = fmt.Fprintf(said, "the page: %s\n", terminal.Line(f.page))
	return err
}

// prepare reads what the flags say.
func (b *backtest) prepare() (err error) {
	f := b.flags
	b.columns.time, b.columns.key = f.time, f.key
	if b.columns.model, err = f.columnOf("model.by", b.config.Model.By); err != nil {
		return err
	}
	if b.columns.series, err = f.columnOf("transform.series", b.series); err != nil {
		return err
	}
	if pinned := b.config.Transform.PinVersion; pinned != 0 {
		return app.UsageError("transform.pin_version is %d, and a backtest scores with the newest version: say --set transform.pin_version=0", pinned)
	}
	if b.until, err = parseUntil(f.until, f.time != ""); err != nil {
		return err
	}
	if f.labels != "" {
		b.judge.labelled = true
		if b.columns.labels, b.judge.spans, err = labelsOf(f.labels, f.time != "", f.key); err != nil {
			return err
		}
	}
	return nil
}

// columnOf is the column that has the values of a setting; "": there are none.
func (f *flags) columnOf(setting string, by modelkey.By) (column string, err error) {
	switch {
	case by.Place == modelkey.Header:
		return "", app.UsageError("%s is %s, and rows of files have no headers: say --set %[1]s=key, and with --key which column the key is in", setting, by)
	case by.Place == modelkey.Key && f.key == "":
		return "", app.UsageError("%s is %s, and rows of files have no key: say with --key which column it is in, or set another %[1]s", setting, by)
	case by.Place == modelkey.Key:
		return f.key, nil
	}
	return by.ColumnName(), nil
}

// write runs what makes rows, and writes those to the file of --rows.
func (b *backtest) write(p *app.Program, run func() error) error {
	if b.flags.rows == "" {
		return run()
	}
	var fault error // of what is read, which is no fault of the file
	err := p.WriteOutput(b.flags.rows, func(w io.Writer) error {
		buffered := bufio.NewWriterSize(w, 1<<16)
		b.out = &output{to: buffered, kind: b.flags.kind, several: len(b.flags.inputs) > 1}
		if err := run(); err != nil {
			if b.out.fault == nil {
				fault = err
			}
			return err
		}
		return errors.Join(b.out.close(), buffered.Flush())
	})
	return cmp.Or(fault, err)
}

// read goes through the files.
func (b *backtest) read(ctx context.Context, in *source.Files) error {
	err := app.EachMessage(ctx, in, func(m *source.Message) error {
		if m.Err != nil {
			return m.Err
		}
		if err := b.message(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", m.Partition.Topic, err)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case b.schema == nil:
		return errNoRows
	case !b.passed:
		return fmt.Errorf("--until %s is not before the end: the files have %s, and all are in the normal stretch", b.flags.until, plural.Count(b.row, "row"))
	}
	return nil
}

// message takes the rows of a message, as many at a time as are written together.
func (b *backtest) message(ctx context.Context, m *source.Message) error {
	rec := m.Record
	if rec.NumRows() == 0 {
		return nil
	}
	if b.schema == nil {
		if err := b.begin(rec); err != nil {
			return err
		}
	}
	if !rec.Schema().Equal(b.schema) {
		b.learnt = project(rec.Schema(), minibatch.ColumnsOf(b.lanes.features))
	}
	if err := b.sameColumns(rec.Schema()); err != nil {
		return fmt.Errorf("%w: all inputs need the columns of the first, %s", err, b.flags.inputs[0])
	}
	for from := int64(0); from < rec.NumRows(); from += b.chunk {
		part := rec.NewSlice(from, min(from+b.chunk, rec.NumRows()))
		err := b.rows(ctx, part)
		b.screen.Rows(part.NumRows())
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// limits are of what is read of files.
func (b *backtest) limits() format.FileConfig {
	limits := app.FileLimits(b.config.Memory, b.log)
	limits.Bad = func(format.Bad) {}
	return limits
}

// sameColumns refuses other columns than those of the first file. Numbers may be whole in one CSV file, have decimals in another, and be none in a third.
func (b *backtest) sameColumns(schema *arrow.Schema) error {
	like := func(s *arrow.Schema) *arrow.Schema {
		fields := slices.Clone(s.Fields())
		for i, f := range fields {
			if b.out == nil && slices.Contains([]arrow.Type{arrow.INT64, arrow.NULL}, f.Type.ID()) {
				fields[i].Type = arrow.PrimitiveTypes.Float64
			}
		}
		return arrow.NewSchema(fields, nil)
	}
	return app.SameColumns(like(b.schema), like(schema))
}

// chunkBytes is about what rows take that are written together.
const chunkBytes = 4 << 20

// begin chooses the features by the first rows.
func (b *backtest) begin(rec arrow.Record) error {
	b.schema = rec.Schema()
	if err := b.columns.find(b.schema); err != nil {
		return err
	}
	c, err := b.columns.of(rec, 0)
	if err != nil {
		return err
	}
	defer c.release()
	part := b.columns.without(rec)
	if n := int64(b.normal(c, int(rec.NumRows()))); n > 0 { // what comes later is not known when features are chosen
		part = part.NewSlice(0, n)
	}
	defer part.Release()
	features, leftOut, err := minibatch.Choose(part, b.config.Source.Features)
	if err != nil {
		return err
	}
	learn.WarnLeftOut(b.log, features, leftOut)
	b.leftOut = leftOut
	b.learnt = project(b.schema, minibatch.ColumnsOf(features.Names))
	if err := b.told.begin(b.config.Alarms.Budget, b.flags.time != ""); err != nil {
		return err
	}
	if b.judge.labelled {
		b.rival = &rival{features: minibatch.Features{Names: features.Names}, models: map[string]*ellipsoid{}, series: map[string]int32{}}
	}
	b.lanes = lanes{config: b.config, log: b.log, features: features.Names, told: &b.told}
	if b.flags.rows == "" {
		b.lanes.coords = lca.CoordinatesComponents // nothing shows any, and no score depends on them
	}
	if b.flags.page != "" {
		b.lanes.budgets = &b.budgets
	}
	if b.columns.series != "" {
		b.lanes.series = modelkey.By{Place: modelkey.Column, Name: b.columns.series}
	}
	if err := b.lanes.open(); err != nil {
		return err
	}
	each := int64(8*b.schema.NumFields() + 8*len(features.Names))
	b.chunk = min(max(chunkBytes/each, 1), 1<<16)
	if b.out != nil {
		out := system.OutputOf(b.config)
		out.Recent, out.Episode = b.lanes.learner.Recent, b.lanes.learner.Recent
		return b.out.begin(b.schema, out, len(features.Names), b.columns.model != "")
	}
	return nil
}

// rows takes rows that are written together.
func (b *backtest) rows(ctx context.Context, rec arrow.Record) error {
	c, err := b.columns.of(rec, b.row)
	if err != nil {
		return err
	}
	defer c.release()
	n := int(rec.NumRows())
	done := make([]scored, n)
	normal := b.normal(c, n)
	before := b.told.rates.Clock.Elapsed
	b.told.clock(c, n)
	if b.rival != nil {
		if err := b.rival.take(rec, c, normal); err != nil {
			return err
		}
	}
	if err := b.part(ctx, rec, c, 0, normal, done); err != nil {
		return err
	}
	if normal < n && !b.passed {
		b.passed = true
		if err := b.lanes.score(ctx, b.flags.until != ""); err != nil {
			return err
		}
	}
	for from := normal; from < n; {
		row, now := b.row+int64(from), before
		if from > 0 {
			now = b.told.rates.At(row - 1).Elapsed
		}
		if row%transform.SilenceRows == 0 {
			b.lanes.silence(now)
		}
		to := int(min(int64(n), int64(from)+transform.SilenceRows-row%transform.SilenceRows))
		if err := b.part(ctx, rec, c, from, to, done); err != nil {
			return err
		}
		from = to
	}
	if err := b.count(c, normal, done); err != nil {
		return err
	}
	b.row += int64(n)
	if b.out != nil {
		return b.out.write(rec, done)
	}
	return nil
}

// normal is how many of n rows are in the normal stretch.
func (b *backtest) normal(c *cells, n int) (count int) {
	for !b.passed && count < n && b.until.holds(b.row+int64(count), c.at(count)) {
		count++
	}
	return count
}

// part scores and learns some of the rows, each in the lane of its model, and notes what they have become.
func (b *backtest) part(ctx context.Context, rec arrow.Record, c *cells, from, to int, done []scored) error {
	if from == to {
		return nil
	}
	if b.columns.model == "" {
		part := rec.NewSlice(int64(from), int64(to))
		defer part.Release()
		return b.lanes.one.rows(ctx, part, func(i int) origin { return c.origin(from + i) }, func(first int, made scored) {
			for i := range int(made.rows.NumRows()) {
				done[from+first+i] = made.row(i)
			}
		})
	}
	groups, order := map[string][]int{}, []string{}
	for i := from; i < to; i++ {
		value, ok := c.model.At(i)
		if !ok {
			continue // a row without a value has no model
		}
		if groups[value] == nil {
			order = append(order, value)
		}
		groups[value] = append(groups[value], i)
	}
	for _, value := range order {
		l, err := b.lanes.of(value)
		if err != nil {
			return err
		}
		own, err := pick(rec, b.learnt, groups[value])
		if err != nil {
			return err
		}
		rows := groups[value]
		err = l.rows(ctx, own, func(i int) origin { return c.origin(rows[i]) }, func(first int, made scored) {
			for i := range int(made.rows.NumRows()) {
				done[rows[first+i]] = made.row(i)
			}
		})
		own.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// count counts the scores of rows, and judges those behind the normal stretch.
func (b *backtest) count(c *cells, normal int, done []scored) error {
	for i := range done {
		row := b.row + int64(i)
		if i < normal {
			b.timeline.add(row, c.at(i), 1, false)
			continue
		}
		score, ok := done[i].score()
		if ok {
			b.scored++
			if b.first < 0 {
				b.first = row
			}
		}
		is, err := b.judge.add(c, i, row, score, ok)
		if err != nil {
			return err
		}
		p, inEpisode := done[i].p()
		b.timeline.add(row, c.at(i), p, is == faulty)
		if ok {
			b.calibrated.add(p, is == faulty || is == unknown && inEpisode)
		}
	}
	return nil
}

// result is what came of it.
func (b *backtest) result() (r Result, m meeting) {
	r = Result{Rows: b.row, Scored: b.scored, Seconds: time.Since(b.screen.Start).Seconds(), Silent: b.lanes.silent()}
	if b.judge.labelled {
		r.Faults = new(int)
		*r.Faults = len(b.judge.faults)
		r.AP, r.AUC = b.judge.figures()
		r.Unjudged = b.judge.silent()
	}
	if r.Scored == 0 {
		r.Unscored = b.unscored()
	} else if r.Silent == "" {
		r.Silent = b.lanes.short()
	}
	if r.Scored > 0 && r.Silent == "" {
		r.Episodes = new(int)
		*r.Episodes = len(b.told.last)
		if b.judge.labelled {
			m = b.judge.met(b.told.last)
			r.FalseEpisodes, r.Met, r.DelayRows = &m.wrong, &m.met, m.delay
		}
	}
	return r, m
}

// unscored says why no row was scored, and what to do where each value has a model of its own.
func (b *backtest) unscored() string {
	by := b.columns.model
	switch {
	case b.lanes.published > 0:
		return "no row with a value of every feature came after the first version of its model"
	case by == "":
		return "there were too few rows for a model"
	}
	most := int64(0)
	for _, l := range b.lanes.order {
		most = max(most, l.row)
	}
	rows := plural.Count(most, "row")
	if b.lanes.learner.Recent {
		rows = fmt.Sprintf("%d of %d rows", most, recent.LeastRows(len(b.lanes.features)))
	}
	text := fmt.Sprintf("no value of %s has rows enough for a model of its own (%s, %s at most)", brief(by), plural.Count(len(b.lanes.order), "value"), rows)
	if b.choice.explained == "" {
		return text + "; without model.by there is one for all"
	}
	return text + fmt.Sprintf(". %s, so each has one; --set transform.series=column:%s makes one for all", b.choice.explained, brief(by))
}

// models says how many models there are, and how many values of model.by have too few rows for one.
func (b *backtest) models() string {
	without := 0
	for _, l := range b.lanes.order {
		if l.newest == nil {
			without++
		}
	}
	text, have := plural.Count(len(b.lanes.order)-without, "model"), "have"
	switch without {
	case 0:
		return text
	case 1:
		have = "has"
	}
	return text + fmt.Sprintf(" (%s of %s %s too few rows for one)", plural.Count(without, "value"), brief(b.columns.model), have)
}

// report says what came of it.
func (b *backtest) report(w io.Writer, r *Result) error {
	if b.flags.json {
		return json.NewEncoder(w).Encode(r)
	}
	text := fmt.Sprintf("%s of %s in %.1f s: %d scored", plural.Count(r.Rows, "row"), plural.Count(len(b.lanes.features), "feature"), r.Seconds, r.Scored)
	if r.Scored > 0 {
		text += fmt.Sprintf(", from row %d on, with %s", b.first, plural.Count(b.lanes.published, "version"))
		if b.columns.model != "" {
			text += " of " + b.models()
		}
	} else {
		text += ": " + r.Unscored
	}
	if r.Silent != "" {
		text += "\nno episodes are told: " + r.Silent
	}
	if r.Episodes != nil {
		text += fmt.Sprintf("\n%s at a budget of %s", plural.Count(*r.Episodes, "episode"), b.told.rates.Budget)
		if r.Met != nil {
			text += fmt.Sprintf(": %d of %s met, %d false", *r.Met, plural.Count(*r.Faults, "fault"), *r.FalseEpisodes)
			if r.DelayRows != nil {
				text += fmt.Sprintf(", %g rows late at the median", *r.DelayRows)
			}
			if said := b.besides(r); said != "" {
				text += "\n" + said
			}
		}
	}
	if r.Faults != nil {
		text += fmt.Sprintf("\n%s in the labels: AP %s, AUC %s of %s", plural.Count(*r.Faults, "fault"), app.Maybe(r.AP), app.Maybe(r.AUC), b.lanes.column)
		if r.Unjudged != "" {
			text += ": " + r.Unjudged
		}
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// until is where the normal stretch ends; the zero value is before the first row.
type until struct {
	rows   int64
	micros int64 // since 1970
	timed  bool
}

func parseUntil(text string, timed bool) (until, error) {
	if text == "" {
		return until{}, nil
	}
	if rows, err := strconv.ParseInt(text, 10, 64); err == nil && rows > 0 {
		return until{rows: rows}, nil
	}
	at, ok := format.ParseTime(text)
	switch {
	case !ok:
		return until{}, app.UsageError("--until %s: want a number of rows, or a time such as 2026-01-31 or 2026-01-31T12:00:00Z", text)
	case !timed:
		return until{}, app.UsageError("--until %s is a time: say with --time which column has the time of each row", text)
	}
	return until{micros: at.UnixMicro(), timed: true}, nil
}

// holds reports whether a row is in the normal stretch, if those before it are.
func (u *until) holds(row int64, at moment) bool {
	if u.timed {
		return !at.known || at.micros < u.micros
	}
	return row < u.rows
}

// project is a schema of some of the columns.
func project(schema *arrow.Schema, columns []string) *arrow.Schema {
	fields := slices.DeleteFunc(slices.Clone(schema.Fields()), func(f arrow.Field) bool {
		return !slices.ContainsFunc(columns, func(c string) bool { return c == f.Name || len(c) > len(f.Name) && c[:len(f.Name)+1] == f.Name+"." })
	})
	return arrow.NewSchema(fields, nil)
}

// pick is some rows of the columns of a schema.
func pick(rec arrow.Record, schema *arrow.Schema, rows []int) (arrow.Record, error) {
	columns := make([]arrow.Array, schema.NumFields())
	for k := range columns {
		col := rec.Column(rec.Schema().FieldIndices(schema.Field(k).Name)[0])
		var err error
		if columns[k], err = gathered(len(rows), func(i int) (arrow.Array, int) { return col, rows[i] }); err != nil {
			return nil, err
		}
		defer columns[k].Release()
	}
	return array.NewRecord(schema, columns, int64(len(rows))), nil
}
