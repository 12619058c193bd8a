package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// checkKeyed refuses flags that mean nothing where there is a model for each value.
func (f *replayFlags) checkKeyed(c *config.Config) error {
	by := c.Model.By
	switch {
	case len(f.inputs) > 0 && by.Place != modelkey.Column:
		return app.UsageError("--input: model.by is %s, and rows of files have no %s: set model.by to column:NAME, or to none", by, strings.TrimSuffix(by.String(), ":"+by.Name))
	case f.output == "-":
		return app.UsageError("--output -: model.by is %s, and there is a model for each value: name a directory, into which each gets a file", by)
	case f.tune && f.modelID == "":
		return app.UsageError("--tune chooses settings by the rows of one model, and model.by is %s: name it with --model-id, such as --model-id %s", by, modelkey.ID(c.Snapshot.ModelID, 0, []byte("NAME")))
	}
	return directory(f.output)
}

// directory refuses an output that is there and is no directory.
func directory(path string) error {
	info, err := os.Stat(path)
	switch {
	case path == "" || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no directory, and with model.by each model gets a file in the one of --output: name another", path)
	}
	return nil
}

// keyedReplay makes a model for each value of a range.
type keyedReplay struct {
	*replay
	stage   *learn.KeyedRange
	learner online.Config
	scratch online.Scratch

	results []keyedResult
	files   map[string]string // ids of models, by their files in lower case
	waiting []*waitingModel   // to be published together: models of one partition
	bytes   int               // of them
}

// waitingModel is a model that is made, and not yet published.
type waitingModel struct {
	snapshot *snapshot.Snapshot
	result   int
}

// newKeyedReplay returns a keyedReplay with nothing read.
func (r *replay) newKeyedReplay() (*keyedReplay, error) {
	c := r.config
	k := &keyedReplay{replay: r}
	var err error
	if k.learner, err = c.Learner(c.LCA.Metric.Rank() + 1); err != nil { // the number of features is that of each value's rows
		return nil, err
	}
	if k.learner.Finite = len(r.flags.inputs) > 0; k.learner.Finite { // perhaps sorted; the memory may grow to all rows of a value
		k.learner.PassRowsCap = math.MaxInt32
	}
	k.stage = &learn.KeyedRange{
		By: c.Model.By, Base: c.Snapshot.ModelID, Columns: c.Source.Features, Memory: min(int64(c.Model.Memory), app.MemoryLimit(c.Memory, r.log)/2), Begin: k.begin, Log: r.log,
		Facts: r.facts,
		Part: func(p source.Partition) int32 {
			if len(r.flags.inputs) > 0 { // files are one after the other
				return 0
			}
			return p.ID
		},
	}
	if k.learns() {
		k.stage.OnInvalid = r.onInvalid()
	}
	if id := r.flags.modelID; id != "" {
		k.stage.Wanted = system.GlobOf(id).MatchString
	}
	return k, nil
}

// learns reports whether the rows are for the live learner, and not for a sample: of a batch algorithm, or to choose settings by.
func (k *keyedReplay) learns() bool {
	return k.flags.algorithm == stochastic && (k.tuning != nil || !k.flags.tune)
}

// begin returns what takes the rows of a model.
func (k *keyedReplay) begin(id string, _ source.Partition) (learn.RangeModel, error) {
	if !k.learns() {
		return learn.NewSampleRange(k.flags.rows(), k.stats), nil
	}
	return learn.NewLearnRange(learn.LearnConfig{
		ModelID: id, Topic: k.config.Snapshot.Topic, Keep: 1, LearnOneIn: k.flags.every, Columns: k.config.Source.Features,
		Learner: k.learner, OnInvalid: k.stage.OnInvalid, Producer: app.Producer(), Stats: k.stats, Log: k.log, Now: time.Now,
	}, &k.scratch), nil
}

// read reads the range once for each pass.
func (k *keyedReplay) read(ctx context.Context, passes int) error {
	for pass := range passes {
		if pass > 0 {
			if err := k.again(ctx); err != nil {
				return err
			}
			if err := k.stage.NextPass(); err != nil {
				return err
			}
		}
		loop := &pipeline.Loop{Source: k.watched(), Stage: k.stage, Sink: discard{}, Stats: k.stats, Log: k.log}
		if err := errors.Join(loop.Run(ctx), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

func (k *keyedReplay) again(ctx context.Context) error { return k.source.Seek(ctx, k.start) }

// sampleOfOne reads the rows of the one model that is named.
func (r *replay) sampleOfOne(ctx context.Context) (*sampled, error) {
	k, err := r.newKeyedReplay()
	if err != nil {
		return nil, err
	}
	if err := k.read(ctx, 1); err != nil {
		return nil, err
	}
	all := k.stage.Models()
	switch {
	case len(all) == 0:
		return nil, k.none()
	case len(all) > 1:
		return nil, app.UsageError("--model-id %s stands for several models, such as %s and %s: name one", r.flags.modelID, all[0].ID, all[1].ID)
	}
	key := all[0]
	x, features, seen, err := key.Model.(*learn.SampleRange).Matrix()
	if err != nil {
		return nil, key.Nothing()
	}
	n, _ := x.Dims()
	return &sampled{x: x, partitions: make([]int32, n), features: features, seen: seen, unusable: key.Unusable}, nil
}

// keyed reads the range, as often as it takes to have all models with the memory that they may take, and makes them.
func (r *replay) keyed(ctx context.Context, said io.Writer, start time.Time) error {
	k, err := r.newKeyedReplay()
	if err != nil {
		return err
	}
	passes := 1
	if r.flags.algorithm == stochastic {
		passes = max(r.flags.passes, 1)
	}
	for {
		if err := k.read(ctx, passes); err != nil {
			return err
		}
		for _, key := range k.stage.Models() {
			if err := k.finish(ctx, key); err != nil {
				return err
			}
		}
		if err := k.publish(ctx); err != nil {
			return err
		}
		if !k.stage.More() {
			break
		}
		r.progress.more(passes)
		k.stage.NextRound()
		if err := k.again(ctx); err != nil {
			return err
		}
	}
	r.progress.end()
	r.warnUnusable(k.stage.Unusable)
	if len(k.results) == 0 {
		return k.none()
	}
	k.sayWhereLearnersAre()
	return k.reportKeyed(said, time.Since(start))
}

// none is the error about a range without a model.
func (k *keyedReplay) none() error {
	if k.flags.modelID != "" {
		return fmt.Errorf("the range has no rows of a model with an id like %q: with model.by an id is %s/PARTITION/VALUE, and --model-id chooses among them; snapshot.model_id is what they begin with",
			k.flags.modelID, k.config.Snapshot.ModelID)
	}
	return k.stage.Nothing()
}

// finish makes the model of a value, and writes or publishes it. A value whose rows make none is noted.
func (k *keyedReplay) finish(ctx context.Context, key *learn.RangeKey) error {
	start := time.Now()
	result := keyedResult{ID: key.ID, Result: Result{
		Rows: key.Rows, Passes: max(k.flags.passes, 1), Rejected: key.Unusable.Records, Invalid: key.Unusable.Rows,
	}}
	made, err := k.make(ctx, key, &result)
	key.Model = nil // its memory is free for those that are published
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		result.fail(err)
		k.results = append(k.results, result)
		return nil
	}
	if k.flags.output != "" {
		err = k.toFile(&result, key.Partition, made)
	}
	result.Seconds = time.Since(start).Seconds()
	if k.results = append(k.results, result); err != nil || k.flags.output != "" {
		return err
	}
	return k.wait(ctx, key.Partition, made.snapshot)
}

// madeModel is what an algorithm makes of the rows of a value: a snapshot, or with lca-local a table of points.
type madeModel struct {
	snapshot *snapshot.Snapshot
	local    *snapshot.Local
}

// make makes the model of a value, and says of it what the result says.
func (k *keyedReplay) make(ctx context.Context, key *learn.RangeKey, result *keyedResult) (madeModel, error) {
	if key.Rows == 0 {
		return madeModel{}, key.Nothing()
	}
	if learnt, ok := key.Model.(*learn.LearnRange); ok {
		s, aside, err := learnt.Result(ctx)
		if err != nil {
			return madeModel{}, err
		}
		result.Outliers, result.Passing, result.Unconfirmed = aside.Outliers, aside.Passing, aside.Unconfirmed
		s.Offsets = k.rangeOf(key.Partition)
		return madeModel{snapshot: s}, result.of(s)
	}
	rows := key.Model.(*learn.SampleRange)
	x, features, seen, err := rows.Matrix()
	if err != nil {
		return madeModel{}, err
	}
	n, d := x.Dims()
	fit, err := k.fitConfig(d)
	if err != nil {
		return madeModel{}, err
	}
	result.LearntRows = uint64(n)
	if k.flags.algorithm == local {
		c := lca.LocalConfig{Smoothing: k.flags.batch.smoothing, Shared: fit, MaxIter: fit.MaxIter, Tol: fit.Tol}
		c.Shared.MaxIter = 0 // --passes is for what comes after
		m, err := lca.FitLocal(ctx, x, c)
		if err != nil {
			return madeModel{}, err
		}
		result.Passes, result.NLL, result.Parzen = m.Iter, app.Finite(m.NLL), m.Shared.Parzen()
		return madeModel{local: &snapshot.Local{Model: m, Rows: x, Features: features, Seen: seen, Producer: app.Producer()}}, nil
	}
	result.Passes = 0
	fit.Trace = func(i lca.Iteration) { result.Passes = max(result.Passes, i.Iter) }
	m, err := k.fit(ctx, x, fit)
	if err != nil {
		return madeModel{}, err
	}
	m.Info.Rows = seen
	s := &snapshot.Snapshot{Model: m, ModelID: key.ID, Version: seen, Features: features, Offsets: k.rangeOf(key.Partition), Producer: app.Producer()}
	return madeModel{snapshot: s}, result.of(s)
}

// rangeOf returns the end of the range in a partition; nil of files, whose names do not matter.
func (k *keyedReplay) rangeOf(partition int32) source.Offsets {
	for p, end := range k.end {
		if p.ID == partition {
			return source.Offsets{p: end}
		}
	}
	return nil
}

// toFile writes a model to a file of its own.
func (k *keyedReplay) toFile(result *keyedResult, partition int32, made madeModel) error {
	path := k.fileOf(partition, result.ID)
	result.File = path
	if err := app.MayWrite(path, app.ContentModel, k.flags.force); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return k.program.WriteOutput(path, func(w io.Writer) (err error) {
		if made.local != nil {
			result.Fingerprint, err = snapshot.WriteLocal(w, made.local)
			return err
		}
		return snapshot.WriteFile(w, made.snapshot)
	})
}

// mostName is the longest name of a file, less the ending and the sum of a longer one.
const mostName = 200

// fileOf is the file of a model of this replay. Where another model's name differs in case alone, it has a hash: some file systems take the two names for one.
func (k *keyedReplay) fileOf(partition int32, id string) string {
	path := modelFile(k.flags.output, partition, id, false)
	folded := strings.ToLower(path)
	if of, taken := k.files[folded]; taken && of != id {
		return modelFile(k.flags.output, partition, id, true)
	}
	if k.files == nil {
		k.files = map[string]string{}
	}
	k.files[folded] = id
	return path
}

// modelFile is the file of a model: DIRECTORY/PARTITION/VALUE.arrows, with the value as in the model's id. Of a value that is
// too long for a file's name it is the beginning and a hash; ~ is in no id. hashed: of any value.
func modelFile(dir string, partition int32, id string, hashed bool) string {
	name := id[strings.LastIndexByte(id, '/')+1:]
	switch {
	case name == "":
		name = "~"
	case hashed || len(name) > mostName:
		sum := sha256.Sum256([]byte(name))
		name = name[:min(len(name), mostName)] + "~" + hex.EncodeToString(sum[:8])
	}
	return filepath.Join(dir, strconv.Itoa(int(partition)), name+".arrows")
}

// togetherBytes is about how much a transaction with the models of a replay holds, and so how much waits for it.
const togetherBytes = 8 << 20

// wait keeps a model until enough of its partition are made to be published.
func (k *keyedReplay) wait(ctx context.Context, partition int32, s *snapshot.Snapshot) error {
	if n := len(k.waiting); n > 0 {
		if _, before, _, _ := modelkey.Split(k.waiting[0].snapshot.ModelID); before != partition {
			if err := k.publish(ctx); err != nil {
				return err
			}
		}
	}
	k.waiting = append(k.waiting, &waitingModel{s, len(k.results) - 1})
	d := s.Model.Dim
	if k.bytes += 4*len(s.Model.Neighbours) + 24*d*d + 4<<10; k.bytes >= togetherBytes {
		return k.publish(ctx)
	}
	return nil
}

// publish publishes the models that wait. What cannot take the place of a model that is there is noted.
func (k *keyedReplay) publish(ctx context.Context) error {
	if len(k.waiting) == 0 {
		return nil
	}
	all := make([]*snapshot.Snapshot, len(k.waiting))
	for i, w := range k.waiting {
		all[i] = w.snapshot
	}
	faults, err := k.system.PublishModels(ctx, all)
	if err != nil {
		return err
	}
	for i, w := range k.waiting {
		result := &k.results[w.result]
		if result.ModelVersion = w.snapshot.Version; faults[i] != nil {
			result.fail(faults[i])
			continue
		}
		if result.Fingerprint, err = snapshot.Fingerprint(w.snapshot); err != nil {
			return err
		}
	}
	k.waiting, k.bytes = nil, 0
	return nil
}

// keyedResult is what a replay made of one value's rows.
type keyedResult struct {
	ID    string `json:"id"`
	File  string `json:"file,omitempty"`  // with --output
	Fault string `json:"fault,omitempty"` // why there is no model
	Result
}

// of says what a snapshot is.
func (r *keyedResult) of(s *snapshot.Snapshot) (err error) {
	m := s.Model
	r.NLL, r.SingleNLL, r.Gaussian, r.Parzen = app.Finite(m.Info.NLL), app.Finite(m.Info.GaussianNLL), m.Gaussian(), m.Parzen()
	r.ModelVersion, r.Restarts = s.Version, m.Info.Alarms
	r.judge(s)
	if r.LearntRows == 0 {
		r.LearntRows = s.Version
	}
	r.Fingerprint, err = snapshot.Fingerprint(s)
	return err
}

// fail says why there is no model.
func (r *keyedResult) fail(err error) {
	r.Fault, r.Fingerprint, r.ModelVersion = strings.TrimPrefix(err.Error(), "pipeline: "), "", 0
}

// KeyedSummary is the JSON object of --json with model.by.
type KeyedSummary struct {
	Models   []keyedResult `json:"models"`
	Made     int           `json:"made"`
	Without  int           `json:"without_model"`    // values whose rows made none
	Rows     uint64        `json:"rows"`             // usable rows of all values
	NoKey    uint64        `json:"no_key_rows"`      // rows without a value
	Rejected uint64        `json:"rejected_records"` // messages that no model could learn from
	Invalid  uint64        `json:"invalid_rows"`
	Readings int           `json:"readings"` // how often the range was read, because of model.memory
	Seconds  float64       `json:"seconds"`
	Tuning   *Tuning       `json:"tuning,omitempty"`
}

// reportKeyed prints what came of each value, sorted by id.
func (k *keyedReplay) reportKeyed(w io.Writer, took time.Duration) error {
	slices.SortFunc(k.results, func(a, b keyedResult) int { return strings.Compare(a.ID, b.ID) })
	all := KeyedSummary{
		Models: k.results, NoKey: k.stage.NoKey, Rejected: k.stage.Unusable.Records, Readings: k.stage.Rounds(), Seconds: took.Seconds(), Tuning: k.tuning,
	}
	for _, r := range k.results {
		all.Rows += r.Rows
		all.Rejected += r.Rejected
		all.Invalid += r.Invalid
		if r.Fault != "" {
			all.Without++
		} else {
			all.Made++
		}
	}
	write := func() error { return all.write(w, k.target()) }
	if k.flags.json {
		write = func() error { return json.NewEncoder(w).Encode(all) }
	}
	if err := write(); err != nil || all.Made > 0 {
		return err
	}
	return fmt.Errorf("none of %s has a model", plural.Count(uint64(all.Without), "value"))
}

func (s *KeyedSummary) write(w io.Writer, target string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tROWS\tNLL\tSINGLE GAUSSIAN\tPARZEN\tGAUSSIAN\tVERSION\tSTATE")
	for _, r := range s.Models {
		if r.Fault != "" {
			fmt.Fprintf(t, "%s\t%d\t–\t–\t–\t–\t–\tnone: %s\n", terminal.Name(r.ID), r.Rows, terminal.Line(r.Fault))
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%d\t%d\t%s\n", terminal.Name(r.ID), r.Rows, app.Maybe(r.NLL), app.Maybe(r.SingleNLL), r.Parzen, r.Gaussian, r.ModelVersion, r.state())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s of %s to %s in %.1f s, in %s of the range\n%s",
		plural.Count(uint64(s.Made), "model"), plural.Count(s.Rows, "row"), target, s.Seconds, plural.Count(uint64(s.Readings), "reading"), s.notes())
	return err
}

// state says what is to be known of a model.
func (r *keyedResult) state() string {
	if note := strings.TrimSpace(r.notes()); note != "" {
		return strings.ReplaceAll(note, "\n", "; ")
	}
	return "ok"
}

func (s *KeyedSummary) notes() string {
	var b strings.Builder
	unknown := 0
	for _, r := range s.Models {
		if r.Fault == "" && r.NLL == nil {
			unknown++
		}
	}
	if unknown > 0 {
		fmt.Fprintf(&b, "NLL of %s %s\n", plural.Count(unknown, "model"), unknownNLL)
	}
	if s.Without > 0 {
		fmt.Fprintf(&b, "%s without a model\n", plural.Count(uint64(s.Without), "value"))
	}
	if s.NoKey > 0 {
		fmt.Fprintf(&b, "%s without a value of model.by\n", plural.Count(s.NoKey, "row"))
	}
	if s.Rejected+s.Invalid > 0 {
		fmt.Fprintf(&b, "passed over: %s, and %s with a null, NaN or infinity\n", plural.Count(s.Rejected, "record"), plural.Count(s.Invalid, "row"))
	}
	return b.String()
}
