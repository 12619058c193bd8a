package learn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// checkpoint encodes a checkpoint of the provisional state as messages.
func (l *Learn) checkpoint() ([]sink.Message, error) {
	c, err := l.saved()
	if err != nil {
		return nil, err
	}
	msgs, err := l.Checkpoints.Messages(c)
	if err != nil {
		return nil, err
	}
	l.state.Sequence = c.Sequence
	return msgs, nil
}

// saved is the next checkpoint, of the provisional state.
func (l *Learn) saved() (*checkpoint.Checkpoint, error) {
	c := l.state
	c.Sequence++
	c.Offsets, c.Slots, c.Digest, c.Owner = l.offsets, l.slots, l.digest(), l.Checkpoints.Owner
	if !l.oneOfMany { // otherwise they are those of the partition
		c.Commands = l.hearing.next
	}
	var err error
	if c.Learner, err = l.learner.AppendBinary(nil); err != nil {
		return nil, fmt.Errorf("pipeline: checkpoint: %w", err)
	}
	if c.Batcher, err = l.batcher.AppendBinary(nil); err != nil {
		return nil, fmt.Errorf("pipeline: checkpoint: %w", err)
	}
	return &c, nil
}

// restore adopts a checkpoint, unless the configuration asks for something that the learnt state cannot become.
func (l *Learn) restore(c *checkpoint.Checkpoint) error {
	if err := l.continues(c); err != nil {
		return err
	}
	features := c.Features
	empty := !minibatch.Chosen(l.Columns, features) // continues allows other features where no row is learnt
	if empty {
		features = l.Columns
	}
	learner, batcher, err := l.newLearner(len(features))
	if err != nil {
		return err
	}
	if !empty {
		if err := l.decode(c, learner, batcher); err != nil {
			return err
		}
	}
	maps.Copy(l.offsets, c.Offsets) // also those of partitions that this learner does not read, because another one may read them again
	if _, changed := l.changed(c); len(changed) > 0 {
		l.Log.Warn("the configuration has changed since the checkpoint; learning goes on from its state", "changed", strings.Join(changed, "; "))
	}
	if o, err := online.StateOrigin(c.Learner); err == nil && !o.SameBits() {
		l.Log.Warn("the checkpoint was written by a build for another architecture or of another Go version; learning goes on, "+
			"but a replay may differ in its last bits", "arch", o.Arch, "go", o.Go)
	}
	if l.learner != nil {
		l.learner.Close()
	}
	l.learner, l.batcher, l.features = learner, batcher, minibatch.Features{Names: features}
	l.slots = c.Slots
	l.state, l.hearing.next = *c, c.Commands
	l.state.Features = features
	l.state.Learner, l.state.Batcher, l.state.Offsets, l.state.Commands = nil, nil, nil, nil
	l.note()
	return nil
}

// decode sets a learner and its batcher to what a checkpoint holds.
func (l *Learn) decode(c *checkpoint.Checkpoint, learner *online.Learner, batcher *minibatch.Batcher) error {
	if err := learner.UnmarshalBinary(c.Learner); errors.As(err, new(*online.ShapeError)) {
		return l.otherPool(fmt.Errorf("lca.neighbours has changed, and the checkpoint of model %q cannot follow: %w", l.ModelID, err))
	} else if err != nil {
		return &reject.Stop{Err: fmt.Errorf("checkpoint of model %q: %w", l.ModelID, err), Remedy: "set another snapshot.model_id to learn a new model"}
	}
	if err := batcher.UnmarshalBinary(c.Batcher); err != nil {
		return &reject.Stop{Err: fmt.Errorf("checkpoint of model %q: %w", l.ModelID, err)}
	}
	return nil
}

// continues refuses to go on from a checkpoint of other features or of another model.
func (l *Learn) continues(c *checkpoint.Checkpoint) error {
	if err := l.sameFeatures(c.Features); err != nil && !l.empty(c) {
		return err
	}
	return l.sameModel(c)
}

// empty reports whether a checkpoint has learnt no row, and holds none: as a rule, a name in source.features was misspelt.
func (l *Learn) empty(c *checkpoint.Checkpoint) bool {
	learner, batcher, err := l.newLearner(len(c.Features))
	if err != nil {
		return false
	}
	defer learner.Close()
	return l.decode(c, learner, batcher) == nil && learner.Info().Rows == 0 && batcher.Len() == 0
}

// sameFeatures refuses to go on from a model of other features: their number and order count.
func (l *Learn) sameFeatures(learnt []string) error {
	if minibatch.Chosen(l.Columns, learnt) {
		return nil
	}
	return &reject.Stop{
		Err:    fmt.Errorf("model %q %s", l.ModelID, checkpoint.OtherFeatures(learnt, "source.features now says", l.Columns)),
		Remedy: "set another snapshot.model_id to learn a new model, or the former features to go on",
	}
}

// digest identifies the settings that decide the bits of the model.
func (l *Learn) digest() string {
	c := l.Learner
	c.Dim = 0
	return fmt.Sprintf("%+v", c)
}

// Check returns whether this learner could go on from what is there, before the sink is opened and a working learner
// fenced. It waits for no open transaction, so it may miss what is being written: Rewind looks again.
func (l *Learn) Check(ctx context.Context) error {
	c, err := l.Checkpoints.Peek(ctx)
	if err != nil {
		return err
	}
	if c != nil {
		if l.WarmStart != nil {
			l.Log.Warn("there is a checkpoint: the learner goes on from there, and not from the snapshot that it was given; to have it go on from that one, import it", "model_id", l.ModelID)
		}
		return l.GoesOn(c, nil)
	}
	s := l.WarmStart
	if s == nil && l.Published != nil {
		if s, _, err = l.Published(ctx, false); err != nil {
			return err
		}
		if err := l.ours(s); err != nil {
			return err
		}
	}
	return l.GoesOn(nil, s)
}

// GoesOn returns whether this learner could go on from a checkpoint, or without one from a snapshot; both may be nil.
func (l *Learn) GoesOn(c *checkpoint.Checkpoint, s *snapshot.Snapshot) error {
	switch {
	case c != nil:
		return l.continues(c)
	case s == nil:
		return nil
	}
	if err := l.sameFeatures(s.Features); err != nil || s == l.WarmStart {
		return err
	}
	return l.sameMetric(s)
}

// ours applies if there is no checkpoint. It refuses to go on from what the learner of another topic or group has
// published, unless a start was configured. That learner may be at work, with a checkpoint topic of its own.
func (l *Learn) ours(s *snapshot.Snapshot) error {
	if l.WarmStart != nil || l.Checkpoints == nil {
		return nil
	}
	return Belongs(s, l.Topic, l.Checkpoints.Owner)
}

// Belongs refuses a snapshot on a topic that the learner of another topic or group than those of an owner has published; nil: there is none.
func Belongs(s *snapshot.Snapshot, topic string, ours checkpoint.Owner) error {
	if s == nil || ours == (checkpoint.Owner{}) {
		return nil
	}
	if from := s.LearntFrom(); from != "" && from != ours.Topic {
		return checkpoint.Foreign(s.ModelID, topic, checkpoint.Owner{Topic: from}, ours)
	}
	if s.Group != "" && s.Group != ours.Group {
		return checkpoint.Foreign(s.ModelID, topic, checkpoint.Owner{Group: s.Group, Topic: ours.Topic}, ours)
	}
	return nil
}

// adopt applies if there is no checkpoint. It goes on from what a replay or an import has published: a version only
// grows, and the learner's snapshots take the slots after theirs.
func (l *Learn) adopt(ctx context.Context) error {
	if l.Published == nil {
		return nil
	}
	newest, slots, err := l.Published(ctx, true)
	if err != nil {
		return err
	}
	if err := l.ours(newest); err != nil {
		return err
	}
	l.slots, l.before = slots, newest
	if newest != nil {
		if err := l.sameMetric(newest); err != nil {
			return err
		}
		l.state.Snapshots, l.state.Published = newest.Number+1, newest.Version
		if !newest.Model.Young() {
			l.state.Parent = newest.Version
		}
	}
	return nil
}

// warm starts a learner from the chosen snapshot, or else from the newest one on the topic.
func (l *Learn) warm(learner *online.Learner, features []string) error {
	s := l.WarmStart
	if s == nil {
		s = l.before
	}
	if s == nil {
		return nil
	}
	if !slices.Equal(s.Features, features) {
		return fmt.Errorf("version %d of model %q %s", s.Version, s.ModelID, checkpoint.OtherFeatures(s.Features, "the stream has", features))
	}
	model := *s.Model
	model.Info.Rows = max(s.Version, l.state.Published)
	if err := learner.WarmStart(&model); err != nil {
		return fmt.Errorf("snapshot %d of model %q: %w", s.Version, s.ModelID, err)
	}
	if l.state.Published = model.Info.Rows; !model.Young() {
		l.state.Parent = model.Info.Rows
	}
	l.Log.Info("going on from a snapshot", "model_id", s.ModelID, "version", s.Version)
	return nil
}

// sayStart logs where learning begins, and why there. After that a return to the last commit is detail.
func (l *Learn) sayStart(start source.Offsets) {
	if l.Checkpoints == nil {
		return
	}
	level, because, rows := slog.LevelInfo, "the model has no checkpoint", uint64(0)
	if l.started {
		level = slog.LevelDebug
	}
	l.started = true
	if l.learner != nil {
		because, rows = fmt.Sprintf("checkpoint %d is the newest", l.state.Sequence), l.learner.Info().Rows
	}
	l.Log.Log(context.Background(), level, "the learner reads on", "model_id", l.ModelID, "offsets", pipeline.OffsetList(start), "because", because,
		"rows_learnt", rows, "version", l.state.Published)
}

// note stores the learner's latest figures in the statistics.
func (l *Learn) note() {
	if l.oneOfMany {
		return
	}
	i := l.learner.Info()
	held, heldRows := l.learner.HeldSeries()
	l.sayConstant(i.Constant)
	l.curve.Add(stats.Point{Rows: i.Rows, NLL: i.NLL, Gaussian: i.GaussianNLL}, curvePoints)
	l.Stats.SetLearning(&stats.Learning{
		Version: i.Rows, NLL: i.NLL, GaussianNLL: i.GaussianNLL, Effective: i.Effective,
		Alarms: i.Alarms, Lockouts: l.learner.AlarmsOf(online.AlarmLockout), Refusals: l.learner.AlarmsOf(online.AlarmRefused), Returns: l.learner.AlarmsOf(online.AlarmRegimeReturned),
		Gated: i.Gated, Copies: i.Copies, Constant: l.constant, PassRows: i.PassRows,
		HeldSeries: held, HeldRows: heldRows,
		Curve: l.curve.Points,
	})
}

const curvePoints = 512 // of the NLL

// newLearner returns a learner of dim features, and the batcher that cuts its minibatches. A minibatch has at least a
// quarter as many rows as features, so that enough rows share the cost of a factorisation.
func (l *Learn) newLearner(dim int) (*online.Learner, *minibatch.Batcher, error) {
	c := l.Learner
	c.Dim, c.Unaligned = dim, l.coordinates() != lca.CoordinatesAligned
	c.Minibatch = max(c.Minibatch, (dim+3)/4)
	if least, _, _ := checkpoint.CheckpointBytes(c.Neighbours, c.Dim); l.Checkpoints != nil && least > checkpoint.CheckpointLimit { // better now than after the rows have been learnt
		return nil, nil, checkpoint.LargeCheckpoint(l.ModelID, least)
	}
	if err := learnerFits(c.Neighbours, dim); err != nil {
		return nil, nil, err
	}
	learner, err := online.NewLearner(c)
	if err != nil {
		return nil, nil, &reject.Stop{Err: err, Remedy: "see the lca section of the configuration"}
	}
	return learner, minibatch.NewBatcher(dim, c.Minibatch), nil
}

// learnerFits refuses so many features that the first fit alone would take more than the memory of the process: four matrices of float64. Their number comes
// with the data.
func learnerFits(neighbours, dim int) error {
	takes, limit := 4*int64(neighbours)*int64(dim)+4*8*int64(dim)*int64(dim), debug.SetMemoryLimit(-1) // that of memory.limit
	if takes <= limit {
		return nil
	}
	return &reject.Stop{
		Err:    fmt.Errorf("a model of %s takes at least %d MiB, and the process may take %d (memory.limit)", plural.Count(dim, "feature"), takes>>20, limit>>20),
		Remedy: "name fewer features in source.features, or raise memory.limit",
	}
}

// setting is a field of online.Config, and the key of the configuration that sets it.
type setting struct {
	field, key string
	shapes     bool // a state of another value is another model, from which learning cannot go on
}

var settings = []setting{
	{"Kind", "lca.model", true}, {"Metric", "lca.metric", true}, {"Rank", "the rank of lca.metric", true}, {"Kernel", "lca.kernel", true},
	{"Neighbours", "lca.neighbours", true},
	{"Preset", "lca.preset", false}, {"Nu", "lca.nu", false}, {"NuGaussian", "the second number of lca.nu", false}, {"NuUnit", "lca.nu_unit", false},
	{"Gamma", "lca.gamma", false}, {"PassRows", "lca.pass_rows", false},
	{"Minibatch", "minibatch.rows", false},
	{"WarmupRows", "lca.warmup_rows", false}, {"OutlierGate", "lca.outlier_gate", false},
	{"Drift", "lca.accept_after", false}, {"DriftRows", "lca.accept_after", false}, {"AcceptRows", "lca.accept_after", false}, {"AcceptSpan", "lca.accept_after", false},
	{"Components", "transform.components", false},
}

// auto is a value that follows from others, or from the data.
const auto = "auto"

// changedSettings compares two digests. refused are the changes to another model, and changed the others, in words. A
// field that one of them lacks was not there when it was written. kernel returns the kernel that the state of the former
// configuration has, which the data may have chosen: that one may be named afterwards, and any may be left to the data.
func changedSettings(was, is string, kernel func() string) (refused, changed []string) {
	before, now := digestFields(was), digestFields(is)
	for _, s := range settings {
		a, known := before[s.field]
		b, still := now[s.field]
		if !known || !still || a == b {
			continue
		}
		differs := s.shapes
		switch {
		case s.field == "Kind" && a == auto:
			differs, a = !isAutoKind(b), auto+" ("+lca.KindAuto.Resolve().String()+")"
		case s.field == "Kind" && b == auto:
			differs, b = !isAutoKind(a), auto+" ("+lca.KindAuto.Resolve().String()+")"
		case s.field == "Kernel" && a == auto:
			k := kernel()
			differs, a = b != k, auto+" ("+k+")"
		case s.field == "Kernel" && b == auto:
			differs = false
		}
		text := fmt.Sprintf("%s was %s and is now %s", s.key, a, b)
		if differs {
			refused = append(refused, text)
		} else {
			changed = append(changed, text)
		}
	}
	return refused, changed
}

// isAutoKind reports whether a model is the one that auto stands for, with or without the search that auto brings.
func isAutoKind(kind string) bool {
	return kind == lca.KindAuto.Resolve().String() || kind == lca.KindLCAGaussRed.String()
}

// kernelOf returns the kernel of a checkpoint's state.
func (l *Learn) kernelOf(c *checkpoint.Checkpoint) string {
	free := *l
	free.Learner.Kernel, free.Learner.DOF = lca.KernelAuto, 0
	learner, _, err := free.newLearner(len(c.Features))
	if err != nil {
		return auto // restore says why, by the same error
	}
	defer learner.Close()
	if err := learner.UnmarshalBinary(c.Learner); err != nil {
		return auto
	}
	return learner.Kernel().String()
}

// digestFields returns the values of a digest by the names of their fields.
func digestFields(digest string) map[string]string {
	values := map[string]string{}
	for _, field := range strings.Fields(strings.Trim(digest, "{}")) {
		name, value, _ := strings.Cut(field, ":")
		if value == "-1" { // lca.Auto
			value = auto
		}
		values[name] = value
	}
	return values
}

// sameModel refuses to go on from the state of another model, metric or kernel than is configured.
func (l *Learn) sameModel(c *checkpoint.Checkpoint) error {
	refused, _ := l.changed(c)
	if len(refused) == 0 {
		return nil
	}
	err := fmt.Errorf("the checkpoint of model %q is of another configuration: %s", l.ModelID, strings.Join(refused, "; "))
	if slices.ContainsFunc(refused, func(text string) bool { return !ofPool(text) }) {
		return otherModel(err)
	}
	return l.otherPool(err)
}

// ofPool reports whether the text of a change is of the pool, which an exported model can take with it.
func ofPool(text string) bool {
	return strings.HasPrefix(text, "lca.neighbours ")
}

// changed compares the configuration with that of a checkpoint.
func (l *Learn) changed(c *checkpoint.Checkpoint) (refused, changed []string) {
	return changedSettings(c.Digest, l.digest(), func() string { return l.kernelOf(c) })
}

// sameMetric does so for a snapshot, which knows less of the configuration.
func (l *Learn) sameMetric(s *snapshot.Snapshot) error {
	c := l.Learner
	switch {
	case s.Model.Metric != c.Metric:
		return otherModel(fmt.Errorf("version %d of model %q has the metric %s, and lca.metric is now %s", s.Version, s.ModelID, s.Model.Metric, c.Metric))
	case c.Kernel.String() != auto && s.Model.Kernel != c.Kernel:
		return otherModel(fmt.Errorf("version %d of model %q has the kernel %s, and lca.kernel is now %s", s.Version, s.ModelID, s.Model.Kernel, c.Kernel))
	}
	return nil
}

func otherModel(err error) error {
	return &reject.Stop{Err: err, Remedy: "set it back to go on, or set another snapshot.model_id to learn a new model"}
}

func (l *Learn) otherPool(err error) error {
	if l.oneOfMany {
		return &reject.Stop{Err: err, Remedy: "set it back to go on; or `lca-stream replay --to TIME` learns all models again with it, from what source.topic has, and `lca-stream offsets reset --stage learn --to TIME` goes on after that; or set another snapshot.model_id to begin new ones"}
	}
	return &reject.Stop{
		Err: err,
		Remedy: "set it back to go on, or set another snapshot.model_id, under which learning starts over; to go on there from this model, first " +
			"`lca-stream snapshot export -o FILE` with the former configuration and `lca-stream snapshot import --file FILE` with the new one",
	}
}

// notOlder refuses a checkpoint from before the newest version that its own learner has published. The two are
// written in one transaction, so such a checkpoint is a stale copy: checkpoint.topic was changed and changed back, or
// restored. Going on from it would publish versions again with other content (invariant 3).
//
// It runs once, after the fence: later checkpoints are this process's own.
func (l *Learn) notOlder(ctx context.Context, c *checkpoint.Checkpoint) error {
	if l.Newest == nil || l.compared {
		return nil
	}
	newest, err := l.Newest(ctx)
	if err != nil {
		return err
	}
	l.compared = true
	if newest == nil || newest.Group == "" || newest.Group != l.Checkpoints.Owner.Group || newest.Version <= c.Published {
		return nil
	}
	return &reject.Stop{
		Err: fmt.Errorf("the checkpoint of model %q on topic %s was saved with version %d, and the same learner has published version %d on topic %s: this is an older checkpoint, and versions would be published again",
			l.ModelID, l.Checkpoints.Topic, c.Published, newest.Version, l.Topic),
		Remedy: "set checkpoint.topic to the one that was used last; or have the learner go on from the newest version: `lca-stream snapshot export -o model.arrows`, then `lca-stream snapshot import --file model.arrows`",
	}
}

// Replace returns the checkpoint with which a learner goes on from s, which another program has made, at the position
// of c. It belongs in the transaction that publishes s; slots are the topic's slots after that. Without it the
// learner would go on from its own model, and publish that again.
func (l *Learn) Replace(c *checkpoint.Checkpoint, s *snapshot.Snapshot, slots snapshot.Slots) ([]sink.Message, error) {
	next, err := l.replaced(c, s, slots)
	if err != nil {
		return nil, err
	}
	return l.Checkpoints.Messages(next)
}

func (l *Learn) replaced(c *checkpoint.Checkpoint, s *snapshot.Snapshot, slots snapshot.Slots) (*checkpoint.Checkpoint, error) {
	if !slices.Equal(c.Features, s.Features) {
		return nil, &reject.Stop{
			Err:    fmt.Errorf("model %q %s", l.ModelID, checkpoint.OtherFeatures(c.Features, "this one has", s.Features)),
			Remedy: "publish it under an id of its own",
		}
	}
	learner, batcher, err := l.newLearner(len(s.Features))
	if err != nil {
		return nil, err
	}
	defer learner.Close()
	model := *s.Model
	model.Info.Rows = s.Version
	if err := learner.WarmStart(&model); err != nil {
		return nil, &reject.Stop{Err: fmt.Errorf("the learner of model %q cannot go on from this one: %w", l.ModelID, err), Remedy: "publish it under an id of its own"}
	}
	next := *c
	next.Sequence++
	next.Base = 0 // the learner counts from the version
	next.Snapshots, next.Published, next.Parent = s.Number+1, s.Version, s.Version
	next.Slots, next.Digest, next.Owner = slots, l.digest(), l.Checkpoints.Owner
	if next.Learner, err = learner.AppendBinary(nil); err != nil {
		return nil, fmt.Errorf("pipeline: replace the model: %w", err)
	}
	if next.Batcher, err = batcher.AppendBinary(nil); err != nil {
		return nil, fmt.Errorf("pipeline: replace the model: %w", err)
	}
	return &next, nil
}

// Expect feeds the rows of files to an E-step under a model, part by part.
type Expect struct {
	Features []string // of the model
	Sums     *lca.Accumulator

	features minibatch.Features
	gathered minibatch.Rows
	identity minibatch.RowIDs
	narrow   []float32 // the rows that were gathered, if isNarrow
	isNarrow bool
	ids      []uint64
}

// expectRows is how many rows are gathered at a time: few enough that they are still near when they are projected.
const expectRows = 512

// Part begins a part. Its rows have the identities of rows of the file of that number, so that a replay of the files in the same order
// samples the same rows.
func (e *Expect) Part(number int32) {
	e.Sums.Begin(uint64(number))
	e.identity = minibatch.NewRowIDs("", number)
	e.features = minibatch.Features{}
}

// Take adds the rows of a message of the part. Any fault of the message is an error, after which the sums are of no use: they would be of fewer rows
// than the files hold. Rows with a feature that is missing or not finite are counted and left out.
func (e *Expect) Take(m *source.Message) error {
	if m.Err != nil {
		return m.Err
	}
	if m.Record.NumRows() == 0 {
		return nil
	}
	if len(e.features.Names) == 0 {
		var err error
		if e.features, err = FeaturesOf(m, e.Features); err != nil {
			return err
		}
	}
	_, offset, before := m.Identity()
	n := int(m.Record.NumRows())
	for from := 0; from < n; from += expectRows {
		to := min(from+expectRows, n)
		if err := e.gather(m.Record, from, to); err != nil {
			return encode.Refused(m, err)
		}
		e.ids = e.gathered.AppendIDs(e.ids[:0], e.identity, offset, before+from)
		e.add()
	}
	return nil
}

// gather reads rows of a record, as float32 where that is what they are.
func (e *Expect) gather(rec arrow.Record, from, to int) error {
	if e.narrow, e.isNarrow = e.features.GatherFloat32(&e.gathered, rec, from, to); e.isNarrow {
		return nil
	}
	part := rec.NewSlice(int64(from), int64(to))
	defer part.Release()
	return e.features.Gather(&e.gathered, part)
}

// add adds the rows that were gathered.
func (e *Expect) add() {
	rows, ids := &e.gathered, e.ids
	e.Sums.Leave(rows.Bad)
	for from, to := range rows.Runs() {
		if e.isNarrow {
			e.Sums.AddFloat32(e.narrow[from*rows.Dim:to*rows.Dim], ids[:to-from])
		} else {
			e.Sums.Add(rows.X[from*rows.Dim:to*rows.Dim], ids[:to-from])
		}
		ids = ids[to-from:]
	}
}

// FeaturesOf resolves the features of a model in the first record of some rows.
func FeaturesOf(m *source.Message, names []string) (minibatch.Features, error) {
	f, err := minibatch.ResolveRecord(m.Record, minibatch.ColumnsOf(names))
	if err != nil {
		return f, encode.Refused(m, err)
	}
	if len(f.Names) != len(names) {
		return f, &reject.Stop{Err: fmt.Errorf("the model has %s, and %s of the rows has %s", plural.Count(len(names), "feature"), minibatch.ColumnsOf(names)[0], plural.Count(len(f.Names), "element"))}
	}
	return f, nil
}
