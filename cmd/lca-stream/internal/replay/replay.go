// Package replay refits models from the history of a topic or from files, one of all rows or one of each value of
// model.by, and chooses ν and ν_g by rows that are held out.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// replayFlags are the flags of `lca-stream replay`.
type replayFlags struct {
	from, to  string
	first     system.Place // of from
	end       system.Place // of to
	algorithm string
	passes    int
	every     uint64
	inputs    []string
	output    string
	modelID   string
	live      string // the id of the live learner's model, or what its models' ids begin with
	batch     batchFlags
	tune      bool
	dryRun    bool
	json      bool
	force     bool
}

const replayLong = `Learns from a range of the source topic, or from .arrow, .arrows, .parquet and .csv files, writes one
snapshot and exits. The snapshot goes to the snapshot topic under a model id, or to a file. With --input and
--output no Kafka is needed, and no configuration. The same range gives the same snapshot: its
fingerprint is printed.

A place in the topic is earliest, latest, a time such as 2026-01-31, 2026-01-31T12:00:00Z or 2h (ago), or
PARTITION=OFFSET[,...]; --to is exclusive and resolved once, at the start, so a replay ends. Partitions
that such a list does not name are left out. A time without a zone is UTC; it is the place of the first record at or after it, as the broker's index has it: the
mark of a transaction counts, with the time of its commit. Records that cannot be used are passed over and counted.

Transforms of the model follow the new snapshot at once. A learner of that model is stopped with exit
code 3, as by a second learner: started again, it goes on from the new snapshot, at the place in the
stream where it was. To leave it alone, give the snapshot an id of its own (--model-id). An interrupt leaves the topic as it was, and exit code 2.

The partitions of a topic are merged in the order of (timestamp, partition, offset). On them stochastic, the default, is the
learner of the live stream: it sets aside what is far from all others, and changes that do not last for lca.accept_after, and
starts again from one that does. Episodes that people have accepted are accepted at the same place, as far as alarms.topic still says so. Files may be sorted: there, a change that lasts is learnt with the rest. What was left out
is printed. The others leave nothing out: the batch algorithms of the paper, on a uniform sample of at most --sample rows: lca, lca-gauss, lca-gauss-red, and gaussian, the single
Gaussian. lca-gauss-search goes beyond the paper: LCA-Gauss-Red and starts from directions of low
kurtosis compete, and the rows held back by --fresh choose. lca-local is the paper's extension with a
covariance for each point, found in at most 50 steps, or --passes. It has no metric to whiten with, so it makes
no snapshot: --output gets an Arrow table of the points with their covariances. Time grows with the square of the
rows and of the columns.

--tune chooses ν and ν_g before, for any of them but lca-gauss-search. Each candidate is fitted to a part of the rows
and judged by the others: every fourth of some blocks in the order of time, with rows left out between
and without near copies. It prints what each scored, and the best as a line of configuration. Nothing
is published, and only with --output is a snapshot made, of all rows with the best ν and ν_g.

With model.by each value gets its model, of its rows alone: the same bytes as from a topic that holds no others. They go to the topic,
some of a partition in each transaction, or into files PARTITION/VALUE.arrows in the directory of --output, with the value as in the
model's id. Models, or their samples of rows, take at most model.memory: what does not fit follows with another reading of the range. A value whose rows
are too few is listed and left out. --model-id chooses models, and --tune takes the rows of one.`

// Command is `lca-stream replay`.
func Command(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "replay",
		Short: "Refit from topic history or from files, into a new snapshot",
		Long:  replayLong,
		Example: `  lca-stream replay -c stream.yaml --from 2026-01-01T00:00:00Z --to latest --model-id january
  lca-stream replay --algorithm lca-gauss --passes 0 --input rows.arrow --output model.arrows --json
  lca-stream replay --algorithm lca-gauss --tune --input rows.arrow
  lca-stream replay --algorithm lca-local --input rows.arrow --output points.arrows`,
	}
	o := p.ConfigFlags(c)
	f := replayFlags{}
	c.Flags().StringVar(&f.from, "from", "earliest", "first `PLACE` of the range")
	c.Flags().StringVar(&f.to, "to", "latest", "`PLACE` the range ends before")
	c.Flags().StringVar(&f.algorithm, "algorithm", stochastic, "`NAME`: "+app.Either(algorithms()...))
	app.Choices(c, "algorithm", algorithms()...)
	c.Flags().IntVar(&f.passes, "passes", -1, "`N` passes over the range (stochastic; default 1), or at most N EM iterations (batch; default 0: to convergence)")
	c.Flags().Lookup("passes").DefValue = "0" // help would show -1, which means nothing to a reader
	c.Flags().Uint64Var(&f.every, "every", 1, "learn one of `K` minibatches and leave out the rest (stochastic): as good an average, of fewer rows. Of a long range of a topic one of K messages is read, in stretches, and the rest is not fetched")
	c.Flags().StringArrayVar(&f.inputs, "input", nil, "read `FILE` instead of the topic, or all files of a directory or a quoted pattern; may be repeated")
	app.OutputFlags(c, &f.output, &f.force, app.ContentModel, "write the snapshot to `FILE` instead of the topic; - is standard output")
	c.Flags().StringVar(&f.modelID, "model-id", "", "model `ID` of the snapshot; default snapshot.model_id. With model.by it chooses models by id or glob, such as '*/press-7'; default all")
	f.batch.add(c.Flags())
	app.Choices(c, "precision", lca.Precisions()...)
	c.Flags().BoolVar(&f.tune, "tune", false, "choose lca.nu, of both parts, by rows that are held out, and print them; no snapshot without --output")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be read, and stop")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object at the end")
	c.PreRunE = func(c *cobra.Command, _ []string) error { return f.check(o.Path()) }
	return app.Command(c, func(ctx context.Context, _ []string) error {
		cfg, err := p.Load(o)
		if err != nil {
			return err
		}
		if cfg.Model.By.Keyed() {
			if err := f.checkKeyed(cfg); err != nil {
				return err
			}
		}
		if f.live = cfg.Snapshot.ModelID; f.modelID != "" && !cfg.Model.By.Keyed() {
			cfg.Snapshot.ModelID = f.modelID
		}
		err = runReplay(ctx, p, cfg, f)
		if err != nil && ctx.Err() != nil && cfg.Model.By.Keyed() {
			return fmt.Errorf("replay interrupted: models that were written stay, and starting it over leaves them as they are: %w", context.Cause(ctx))
		}
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("replay interrupted, and nothing was written: start it over: %w", context.Cause(ctx))
		}
		return err
	})
}

func (f *replayFlags) check(configFile string) error {
	if _, ok := batchKind(f.algorithm); !ok && f.algorithm != stochastic {
		return fmt.Errorf("--algorithm is %q; want %s", f.algorithm, app.Either(algorithms()...))
	}
	if f.passes < -1 || (f.passes == 0 && f.algorithm == stochastic) {
		return fmt.Errorf("--passes is %d; want at least 1 (stochastic), or 0 for convergence (batch)", f.passes)
	}
	if f.every < 1 || (f.every > 1 && f.algorithm != stochastic) {
		return fmt.Errorf("--every is %d; want at least 1, and 1 for a batch algorithm, which takes a --sample", f.every)
	}
	if err := f.batch.check(f.algorithm, f.passes); err != nil {
		return err
	}
	if f.output == "-" && f.json {
		return errors.New("--json and --output - would both go to standard output")
	}
	if f.tune && f.algorithm == search {
		return fmt.Errorf("--tune is not for %s, whose candidates have rows of their own to judge them; tune lca-gauss-red", search)
	}
	if f.algorithm == local && f.output == "" && !f.tune && !f.dryRun {
		return fmt.Errorf("--algorithm %s makes no snapshot for the topic, because it has a covariance for each point: name a file with --output", local)
	}
	var err error
	now := time.Now()
	if f.first, err = system.ParsePlace("--from", f.from, now); err != nil {
		return err
	}
	if f.end, err = system.ParsePlace("--to", f.to, now); err != nil {
		return err
	}
	if configFile == "" && (len(f.inputs) == 0 || f.publishes()) {
		return app.UsageError("%w; only --input together with --output or --tune needs none", app.ErrNoConfig)
	}
	return nil
}

// publishes reports whether the result goes to the snapshot topic.
func (f *replayFlags) publishes() bool { return f.output == "" && !f.dryRun && !f.tune }

// Result is the JSON object of --json.
type Result struct {
	Rows         uint64   `json:"rows"` // usable rows of the range, or of what --every reads of it; counted once for all passes
	Passes       int      `json:"passes"`
	NLL          *float64 `json:"nll"` // of the finished model, see lca.Info; null if too few rows are independent
	Gaussian     int      `json:"d_gaussian"`
	Parzen       int      `json:"d_parzen"`
	ModelVersion uint64   `json:"model_version"`
	Fingerprint  string   `json:"fingerprint"`
	Seconds      float64  `json:"seconds"`
	LearntRows   uint64   `json:"learnt_rows"`      // handed to the algorithm, over all passes
	Rejected     uint64   `json:"rejected_records"` // skipped: not decodable, or without a feature
	Invalid      uint64   `json:"invalid_rows"`     // skipped: a feature is null, NaN or infinite

	SingleNLL   *float64 `json:"gaussian_nll"`     // of a single Gaussian
	Outliers    uint64   `json:"outlier_rows"`     // not learnt: each is far from all others
	Passing     uint64   `json:"passing_rows"`     // not learnt: of changes that did not last for lca.accept_after
	Unconfirmed uint64   `json:"unconfirmed_rows"` // not learnt: of a change that the range ends with
	Restarts    uint64   `json:"restarts"`         // changes that lasted: the model is of the rows since the last one

	RowsPerFeature float64  `json:"rows_per_feature"`      // of features that vary: with fewer than youngRows the model is young
	Wanted         uint64   `json:"rows_wanted,omitempty"` // that a stream's first model takes, if there were fewer: the model is young
	Constant       []string `json:"constant_features"`     // they have not moved

	Tuning *Tuning `json:"tuning,omitempty"`
}

// refit is the result of an algorithm for the range.
type refit struct {
	snapshot     *snapshot.Snapshot
	passes       int
	rows, learnt uint64
	unusable     learn.Unusable
	setAside     learn.SetAside
}

func runReplay(ctx context.Context, p *app.Program, cfg *config.Config, f replayFlags) error {
	keyed := cfg.Model.By.Keyed()
	if !keyed { // otherwise it is a directory
		if err := app.MayWriteStream(f.output, app.ContentModel, f.force); err != nil {
			return err
		}
	}
	start, said := time.Now(), p.Stdout
	if f.output == "-" {
		said = p.Stderr
	}
	r := &replay{program: p, flags: f, config: cfg, log: p.Logger(cfg.Logger), stats: stats.NewStats()}
	defer r.close()
	if err := r.open(ctx); err != nil {
		return err
	}
	if err := r.mayPublish(ctx); err != nil {
		return err
	}
	if f.dryRun {
		return r.describe(said)
	}
	r.progress = newReplayScreen(p, r)
	if f.tune {
		if err := r.tuned(ctx, said); err != nil || f.output == "" {
			return err
		}
		r.stats = stats.NewStats()
		r.progress = newReplayScreen(p, r)
	}
	if keyed {
		return r.keyed(ctx, said, start)
	}
	if f.algorithm == local {
		return r.local(ctx, said, start)
	}
	fit := r.stochastic
	if f.algorithm != stochastic {
		fit = r.batch
	}
	made, err := fit(ctx)
	if err == nil {
		err = ctx.Err() // an interrupted loop ends in order
	}
	if err != nil {
		return err
	}
	r.progress.end()
	if !f.tune {
		r.warnUnusable(made.unusable)
	}
	snap := made.snapshot
	if err := r.write(ctx, snap); err != nil {
		return err
	}
	r.sayWhereLearnersAre()
	fingerprint, err := snapshot.Fingerprint(snap)
	if err != nil {
		return err
	}
	m := snap.Model
	result := Result{
		Rows: made.rows, Passes: made.passes, NLL: app.Finite(m.Info.NLL), SingleNLL: app.Finite(m.Info.GaussianNLL), Gaussian: m.Gaussian(), Parzen: m.Parzen(),
		ModelVersion: snap.Version, Fingerprint: fingerprint, Seconds: time.Since(start).Seconds(),
		LearntRows: made.learnt, Rejected: made.unusable.Records, Invalid: made.unusable.Rows, Tuning: r.tuning,
		Outliers: made.setAside.Outliers, Passing: made.setAside.Passing, Unconfirmed: made.setAside.Unconfirmed, Restarts: m.Info.Alarms,
	}
	result.judge(snap)
	return r.report(said, result)
}

// mayPublish refuses what could not be published in the end, before a row is read.
func (r *replay) mayPublish(ctx context.Context) (err error) {
	switch keyed := r.config.Model.By.Keyed(); {
	case keyed && r.flags.publishes():
		if err = r.system.KeyedTopics(ctx); err == nil {
			err = r.system.OwnsModels(ctx)
		}
	case !keyed && r.flags.output == "" && !r.flags.tune && r.system != nil: // without it, what files hold is only counted
		if r.flags.publishes() {
			err = r.system.OwnsModel(ctx)
		}
		if err == nil {
			r.must, err = r.system.FitsAtStart(ctx)
		}
	}
	return err
}

func (r *replay) warnUnusable(u learn.Unusable) {
	if u.First != nil {
		r.log.Warn("records were passed over", "records", u.Records, "first", u.First)
	}
}

// onInvalid is source.on_invalid as the live learner applies it; files have no messages to set aside. Under the other policies bad rows are left out, and counted.
func (r *replay) onInvalid() reject.OnInvalid {
	switch invalid := r.config.Source.OnInvalid; {
	case invalid == reject.ImputeRow, invalid == reject.RejectRow && len(r.flags.inputs) == 0:
		return invalid
	}
	return reject.NullRow
}

// stochastic runs the live learner over the range, pass after pass.
func (r *replay) stochastic(ctx context.Context) (*refit, error) {
	passes := max(r.flags.passes, 1)
	var last *snapshot.Snapshot
	learner, err := r.config.Learner(r.config.LCA.Metric.Rank() + 1)
	if err != nil {
		return nil, err
	}
	learner.Finite = len(r.flags.inputs) > 0 // the rows of a topic come in the order of time, those of files perhaps sorted
	if rows := r.rows / int64(r.flags.every); rows > 0 {
		learner.PassRowsCap = int(max(min(rows, 1<<31-1), 1)) // on a finite range the memory may grow to all of it
	}
	oneIn := r.flags.every
	if r.sampled { // already: all that is read is learnt
		oneIn = 1
	}
	stage := &learn.Learn{LearnConfig: learn.LearnConfig{
		ModelID: r.config.Snapshot.ModelID, Topic: r.config.Snapshot.Topic, Keep: 1, LearnRest: true, LearnOneIn: oneIn,
		SnapshotRows: 1 << 62, Columns: r.config.Source.Features, Learner: learner, Series: system.SeriesOf(r.config), Producer: app.Producer(),
		Start:      func(context.Context, source.Offsets) (source.Offsets, error) { return r.start, nil },
		OnSnapshot: func(s *snapshot.Snapshot) { last = s },
		Stats:      r.stats, Log: r.log, Now: time.Now,
		OnInvalid: r.onInvalid(), CheckpointRows: 1 << 62, Facts: r.facts[r.flags.live],
	}}
	if _, err := stage.Rewind(ctx); err != nil {
		return nil, err
	}
	for pass := range passes {
		if pass > 0 {
			if err := r.source.Seek(ctx, r.start); err != nil {
				return nil, err
			}
			if err := stage.Restart(ctx, r.start); err != nil {
				return nil, err
			}
		}
		stage.LearnRest = pass == passes-1
		loop := &pipeline.Loop{Source: r.watched(), Stage: stage, Sink: discard{}, Stats: r.stats, Log: r.log}
		if err := errors.Join(loop.Run(ctx), ctx.Err()); err != nil {
			return nil, err
		}
	}
	last.Number, last.Parent = 0, 0 // the snapshots before it were not published
	last.Offsets = r.end.Clone()    // the range, not the last record that had rows; of files none, whose names do not matter
	learnt := r.stats.LearntRows.Load()
	return &refit{
		snapshot: last, passes: passes, rows: (learnt + r.stats.SkippedRows.Load()) / uint64(passes), learnt: learnt,
		unusable: stage.Unusable(), setAside: stage.SetAside(),
	}, nil
}

// discard is the sink of a replay, which writes its one snapshot at the very end.
type discard struct{}

// Put drops the messages, because OnSnapshot takes a replay's snapshot.
func (discard) Put(context.Context, []sink.Message, source.Claim) error { return nil }

// Close does nothing.
func (discard) Close() error { return nil }

// replay is one refit: where it reads, and where its snapshot goes.
type replay struct {
	program  *app.Program
	flags    replayFlags
	config   *config.Config
	log      *slog.Logger
	stats    *stats.Stats
	progress *replayScreen

	system     *system.System // nil without Kafka
	source     pipeline.Source
	start, end source.Offsets
	rows       int64                   // rows in the range; 0 if not known beforehand
	facts      map[string]*learn.Facts // what was accepted, by id of the live model
	must       []string                // features that the rows must have for the snapshot to be published; nil: any
	messages   int64                   // messages in the range, counting the gaps that compaction and transactions left
	sampled    bool                    // one in --every of it is read, in stretches, instead of one minibatch in --every learnt

	tuning *Tuning // with --tune
}

func (r *replay) open(ctx context.Context) error {
	if len(r.flags.inputs) == 0 || r.flags.publishes() {
		var err error
		if r.system, err = system.New(r.config, r.log, r.stats); err == nil {
			system.SayRisks(r.config, r.log)
			err = r.system.Reach(ctx, system.LookFor)
			r.system.Cluster.Persist(system.PersistFor)
		}
		if err != nil {
			return err
		}
	}
	if len(r.flags.inputs) > 0 {
		return r.openFiles()
	}
	return r.openRange(ctx)
}

func (r *replay) openFiles() error {
	var err error
	if r.flags.inputs, err = app.RowInputs(r.flags.inputs); err != nil {
		return err
	}
	c := app.FileLimits(r.config.Memory, r.log)
	series := system.SeriesOf(r.config)
	c.Need = app.Needs(r.config.Source.Features, r.config.Model.By.ColumnName(), series.ColumnName())
	files, err := source.OpenFiles(r.flags.inputs, c)
	if err != nil {
		return err
	}
	r.source, r.rows = files, files.Rows()
	return system.HasSeries(r.flags.inputs[0], files.Schema(), series)
}

// openRange resolves --from and --to once, and opens a reader for each partition, merged by time.
func (r *replay) openRange(ctx context.Context) error {
	parts, err := r.system.Input(ctx)
	if err != nil {
		return err
	}
	if err := r.resolve(ctx, parts); err != nil {
		return r.system.Cluster.Explain(err)
	}
	from := source.Offsets{}
	for p, start := range r.start {
		if start < r.end[p] {
			from[p] = start
			r.messages += r.end[p] - start
		}
	}
	k := source.KafkaConfig{GatherBytes: replayGather}
	if every := int64(min(r.flags.every, 1<<62)); len(from) > 0 && !r.config.Model.By.Keyed() && source.WorthSampling(r.messages/int64(len(from)), every) {
		k.OneIn, r.sampled = every, true
		r.messages /= every
	}
	merged, _, err := r.system.Merged(ctx, k, from, r.end)
	if err != nil {
		return err
	}
	r.source = merged
	return r.readFacts(ctx)
}

// replayGather is how much one Read of a partition gathers: a replay has no latency to keep, so that few large
// fetches are best.
const replayGather = 1 << 20

// resolve returns the range of --from and --to: the partitions that both name, within the available offsets. A read
// would wait for an end beyond the last record.
func (r *replay) resolve(ctx context.Context, parts []source.Partition) error {
	from, err := r.system.At(ctx, parts, r.flags.first)
	if err != nil {
		return fmt.Errorf("--from %s: %w", r.flags.from, err)
	}
	to, err := r.system.At(ctx, parts, r.flags.end)
	if err != nil {
		return fmt.Errorf("--to %s: %w", r.flags.to, err)
	}
	first, err := r.system.At(ctx, parts, system.Place{Text: "earliest"})
	if err != nil {
		return err
	}
	last, err := r.system.At(ctx, parts, system.Place{Text: "latest"})
	if err != nil {
		return err
	}
	r.start, r.end = source.Offsets{}, source.Offsets{}
	for _, p := range parts {
		start, named := from[p]
		end, bounded := to[p]
		if !named || !bounded {
			continue
		}
		r.start[p] = r.within(p, "--from", start, first[p], last[p])
		r.end[p] = max(r.within(p, "--to", end, first[p], last[p]), r.start[p])
	}
	return nil
}

// within warns if an offset on the command line is not available.
func (r *replay) within(p source.Partition, flag string, offset, first, last int64) int64 {
	is := min(max(offset, first), last)
	if is != offset {
		r.log.Warn("the partition does not reach there", "partition", p.String(), flag, offset, "taken", is, "first", first, "end", last)
	}
	return is
}

// describe implements --dry-run.
func (r *replay) describe(w io.Writer) error {
	if len(r.flags.inputs) > 0 {
		_, err := fmt.Fprintf(w, "%s, %s\n", plural.Count(len(r.flags.inputs), "file"), plural.Count(r.rows, "row"))
		return err
	}
	for _, p := range r.start.Partitions() {
		if _, err := fmt.Fprintf(w, "%s from %d to %d: %s\n", p, r.start[p], r.end[p], plural.Count(max(r.end[p]-r.start[p], 0), "message")); err != nil {
			return err
		}
	}
	if r.sampled {
		if _, err := fmt.Fprintf(w, "one in %d of them is read, in stretches\n", r.flags.every); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("model %q", r.config.Snapshot.ModelID)
	if by := r.config.Model.By; by.Keyed() {
		what = fmt.Sprintf("a model for each %s", by)
	}
	_, err := fmt.Fprintf(w, "%s at most, for %s by %s, into %s\n", plural.Count(r.messages, "message"), what, r.flags.algorithm, r.target())
	return err
}

func (r *replay) target() string {
	switch r.flags.output {
	case "":
	case "-":
		return "standard output"
	default:
		return r.flags.output
	}
	return "topic " + r.config.Snapshot.Topic
}

// write writes the snapshot to a file, whole or not at all, or publishes it in one transaction.
func (r *replay) write(ctx context.Context, s *snapshot.Snapshot) error {
	if r.flags.output != "" {
		return r.program.WriteOutput(r.flags.output, func(w io.Writer) error { return snapshot.WriteFile(w, s) })
	}
	_, err := r.system.Publish(ctx, s)
	return err
}

// sayWhereLearnersAre tells how to start the learner of this model behind what was read here. A replay moves no position, and rows that are learnt twice count twice.
func (r *replay) sayWhereLearnersAre() {
	if !r.flags.publishes() || len(r.flags.inputs) > 0 || !r.config.Model.By.Keyed() && r.config.Snapshot.ModelID != r.flags.live {
		return
	}
	var to []string
	for _, p := range r.end.Partitions() {
		to = append(to, fmt.Sprintf("%d=%d", p.ID, r.end[p]))
	}
	r.log.Info("the learner goes on where it was, or begins at source.start_offset, and may learn again what was read here; the command lets it begin behind that",
		"command", "lca-stream offsets reset --stage learn --to "+strings.Join(to, ","))
}

func (r *replay) close() {
	if r.source != nil {
		_ = r.source.Close()
	}
	if r.system != nil {
		r.system.Cluster.Close()
	}
}

// local fits the paper's extension with a covariance for each point to a sample of the range, and writes them to the file of
// --output.
func (r *replay) local(ctx context.Context, stdout io.Writer, start time.Time) error {
	rows, err := r.sample(ctx)
	if err != nil {
		return err
	}
	shared, err := r.fitConfig(len(rows.features))
	if err != nil {
		return err
	}
	c := lca.LocalConfig{Smoothing: r.flags.batch.smoothing, Shared: shared, MaxIter: shared.MaxIter, Tol: shared.Tol, Trace: r.progress.iteration}
	c.Shared.MaxIter = 0 // --passes is for what comes after
	m, err := lca.FitLocal(ctx, rows.x, c)
	if err != nil {
		return err
	}
	r.progress.end()
	r.warnUnusable(rows.unusable)
	var fingerprint string
	err = r.program.WriteOutput(r.flags.output, func(w io.Writer) (err error) {
		fingerprint, err = snapshot.WriteLocal(w, &snapshot.Local{Model: m, Rows: rows.x, Features: rows.features, Seen: rows.seen, Producer: app.Producer()})
		return err
	})
	if err != nil {
		return err
	}
	points, _ := rows.x.Dims()
	result := Result{
		Rows: rows.seen, Passes: m.Iter, NLL: app.Finite(m.NLL), Parzen: m.Shared.Parzen(), Fingerprint: fingerprint, Seconds: time.Since(start).Seconds(),
		LearntRows: uint64(points), Rejected: rows.unusable.Records, Invalid: rows.unusable.Rows, Tuning: r.tuning,
	}
	if r.flags.json {
		return r.report(stdout, result)
	}
	_, err = fmt.Fprintf(stdout, "%d rows in %.1f s: NLL %s nats/row with a covariance for each of %d points, %s with one for all\npoints and covariances to %s\nfingerprint %s\n",
		result.Rows, result.Seconds, app.Maybe(result.NLL), points, app.Known(m.Shared.Info.NLL), r.target(), fingerprint)
	return err
}

// unknownNLL is what is said of an NLL that is not there.
const unknownNLL = "unknown, because too few rows are independent"

// report prints what a replay made of the range, and what it left out.
func (r *replay) report(w io.Writer, result Result) error {
	if r.flags.json {
		return json.NewEncoder(w).Encode(result)
	}
	nll := unknownNLL
	if result.NLL != nil {
		nll = app.Maybe(result.NLL) + " nats/row"
	}
	_, err := fmt.Fprintf(w, "%d rows in %.1f s: NLL %s, %d Parzen and %s\n%sversion %d to %s\nfingerprint %s\n",
		result.Rows, result.Seconds, nll, result.Parzen, plural.Count(result.Gaussian, "Gaussian direction"), result.notes(), result.ModelVersion, r.target(), result.Fingerprint)
	return err
}

// youngRows is the number of rows per feature below which a model is young: EM needs as many.
const youngRows = 20

// leastWorse is by how many nats per row a model must be worse than a single Gaussian to be called so, as on the status page.
const leastWorse = 0.05

// judge sets how good a model can be.
func (r *Result) judge(s *snapshot.Snapshot) {
	m := s.Model
	r.RowsPerFeature, r.Wanted, r.Constant = float64(r.Rows)/float64(max(1, m.Parzen()+m.Gaussian())), m.Info.Wanted, []string{}
	for _, k := range m.Info.Constant {
		r.Constant = append(r.Constant, s.Features[k])
	}
}

// young says that there were few rows.
func (r *Result) young() string {
	switch {
	case r.Wanted > 0:
		return fmt.Sprintf("young model: %d rows, %.3g for each feature that varies; a stream's first model takes %d. More rows make a better one\n", r.Rows, r.RowsPerFeature, r.Wanted)
	case r.RowsPerFeature > 0 && r.RowsPerFeature < youngRows:
		return fmt.Sprintf("young model: %d rows, %.3g for each feature that varies; from %d on a model knows more than their covariance\n", r.Rows, r.RowsPerFeature, youngRows)
	}
	return ""
}

// notes are the lines that a result has only if there is something to know, each with its newline.
func (r Result) notes() string {
	var b strings.Builder
	b.WriteString(r.young())
	if len(r.Constant) > 0 {
		fmt.Fprintf(&b, "constant: %s; a row in which one of them moves is an anomaly\n", app.SomeNames(r.Constant))
	}
	if r.NLL != nil && r.SingleNLL != nil && r.Parzen > 0 && *r.NLL-*r.SingleNLL >= leastWorse {
		fmt.Fprintf(&b, "worse than a single Gaussian, %s nats/row\n", app.Maybe(r.SingleNLL))
	}
	if r.Restarts > 0 {
		fmt.Fprintf(&b, "the stream changed %s: the model is of the rows since the last change\n", plural.Count(r.Restarts, "time"))
	}
	if aside := r.aside(); len(aside) > 0 {
		fmt.Fprintf(&b, "left out: %s\n", strings.Join(aside, "; "))
	}
	if r.Rejected+r.Invalid > 0 {
		fmt.Fprintf(&b, "passed over: %s, and %s with a null, NaN or infinity\n", plural.Count(r.Rejected, "record"), plural.Count(r.Invalid, "row"))
	}
	return b.String()
}

// aside says which rows were read and not learnt, and why.
func (r Result) aside() (parts []string) {
	for _, p := range []struct {
		rows uint64
		why  string
	}{
		{r.Outliers, "far from all others"},
		{r.Passing, "of changes that did not last (lca.accept_after)"},
		{r.Unconfirmed, "of a change that the range ends with (lca.accept_after)"},
	} {
		if p.rows > 0 {
			parts = append(parts, plural.Count(p.rows, "row")+" "+p.why)
		}
	}
	return parts
}

// readFacts reads what learners have accepted. Where the topic of alarms is not there, nothing was.
func (r *replay) readFacts(ctx context.Context) error {
	c := r.config
	if !c.Accepts() || r.flags.algorithm != stochastic {
		return nil
	}
	all, unread, owner := map[string][]*episode.Acceptance{}, 0, r.system.Ours()
	err := r.system.EachCommitted(ctx, c.Alarms.Topic, func(_ source.Partition, got *source.Fetched) {
		for i := range got.Records {
			switch a, err := episode.ReadAcceptance(got.Records[i].Value, episode.AcceptFact); {
			case err != nil:
				unread++
			case a != nil && a.Group == owner.Group && a.Topic == owner.Topic:
				all[a.ModelID] = append(all[a.ModelID], a)
			}
		}
	})
	if unread > 0 {
		r.log.Warn("records that say what was accepted cannot be read: they are passed over", "topic", c.Alarms.Topic, "records", unread)
	}
	r.facts = map[string]*learn.Facts{}
	for id, facts := range all {
		r.facts[id] = learn.NewFacts(facts, r.end)
	}
	if errors.Is(err, source.ErrNoTopic) {
		return nil
	}
	return err
}
