package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/status"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// Models finds the models of a configuration: snapshots on their topic, and the checkpoints of their learners.
type Models struct {
	*Topics

	owner *learn.ModelsOwner // of models by value; for one goroutine at a time
}

// Snapshots reads the snapshot topic up to source.Latest, as a writer that goes on from it must (see
// pipeline.ReadBack), or up to source.LatestStable, which suffices for a look and waits for no open transaction.
func (s *Models) Snapshots(ctx context.Context, to source.At) (*snapshot.Assembler, error) {
	a := &snapshot.Assembler{Most: s.VersionBytes()}
	return a, s.assemble(ctx, source.Partition{Topic: s.Config.Snapshot.Topic}, to, a, func(string) bool { return true })
}

// newestVersion returns the newest snapshot of the model, nil if there is none. It does not wait for other producers'
// open transactions.
func (s *Models) newestVersion(ctx context.Context) (*snapshot.Snapshot, error) {
	return s.newestIn(ctx, 0, s.Config.Snapshot.ModelID)
}

// newestIn returns the newest snapshot of a model in a partition, which it reads from its end backwards; nil if there is none.
func (s *Models) newestIn(ctx context.Context, partition int32, id string) (*snapshot.Snapshot, error) {
	var a *snapshot.Assembler
	reset := func() { a = &snapshot.Assembler{Retain: 1, Most: s.VersionBytes(), Only: id} }
	reset()
	add := func(got *source.Fetched) error {
		for _, r := range got.Records {
			if of, ok := modelIDOf(r); !ok || of == id {
				_ = a.Add(r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)) // half a snapshot at the beginning, or one that others complain of
			}
		}
		return nil
	}
	log := s.ReadBackOf(source.Partition{Topic: s.Config.Snapshot.Topic, ID: partition}, source.LatestStable)
	if err := log.ReadTail(ctx, reset, add, func() bool { _, ok := a.NewestVersion(id); return ok }); err != nil {
		return nil, err
	}
	newest, _ := a.Newest(id)
	return newest, nil
}

// newestOf returns the newest version of a model, nil if there is none. It refuses to go back before one of a newer
// release.
func newestOf(a *snapshot.Assembler, modelID string) (*snapshot.Snapshot, error) {
	if _, err := a.Newer(modelID); err != nil {
		return nil, &reject.Stop{Err: err, Remedy: "use that release, or another snapshot.model_id"}
	}
	newest, _ := a.Newest(modelID)
	return newest, nil
}

// Published returns a version on the snapshot topic.
func (s *Models) Published(ctx context.Context, version uint64) (*snapshot.Snapshot, error) {
	a, err := s.Snapshots(ctx, source.LatestStable)
	if err != nil {
		return nil, err
	}
	snap, err := a.Version(s.Config.Snapshot.ModelID, version)
	if err != nil {
		return nil, fmt.Errorf("--from-snapshot %d: %w: see `lca-stream snapshot list`", version, err)
	}
	return snap, nil
}

// publishedModel reads the newest version of the model of an id, nil if there is none. It reads the partition of the id alone.
func (s *Models) publishedModel(ctx context.Context, id string) (*stats.PublishedModel, error) {
	base, partition, _, ok := modelkey.Split(id)
	all, err := s.Partitions(ctx, s.Config.Snapshot.Topic)
	if err != nil || !ok || base != s.Config.Snapshot.ModelID || int(partition) >= len(all) {
		return nil, err
	}
	newest, err := s.newestIn(ctx, partition, id)
	if err != nil || newest == nil {
		return nil, s.Cluster.Explain(err)
	}
	return &stats.PublishedModel{Snapshot: newest}, nil
}

// finder returns what finds the model of one value; nil where there is one model for all rows.
func (s *Models) finder() status.Finder {
	if !s.Config.Model.By.Keyed() {
		return nil
	}
	return s.publishedModel
}

// NewestByValue hands over the newest model of ours in each partition of the snapshot topic, without its neighbours.
func (s *Models) NewestByValue(ctx context.Context, each func(*snapshot.Snapshot) error) error {
	topic := s.Config.Snapshot.Topic
	parts, err := s.Partitions(ctx, topic)
	if err != nil {
		return err
	}
	for _, p := range parts {
		newest, err := learn.NewestByKey(ctx, s.ReadBackOf(p, source.LatestStable), s.ofThisPipeline)
		if err == nil && newest != nil {
			err = each(newest)
		}
		if err != nil {
			return s.mayRead(topic, err)
		}
	}
	return nil
}

// ofThisPipeline reports whether a record of the snapshot topic is of a model of ours, which our group has published.
func (s *Models) ofThisPipeline(r *source.Record) bool {
	group := source.LastHeader(r.Headers, "lca-group")
	return s.ofModel(source.LastHeader(r.Headers, "lca-model-id")) && cmp.Or(group, s.Config.Source.Group) == s.Config.Source.Group
}

// ofModel reports whether an id is that of our model, or of one value's.
func (s *Models) ofModel(id string) bool { return isOrOf(id, s.Config.Snapshot.ModelID) }

func isOrOf(id, base string) bool {
	of, _, _, ok := modelkey.Split(id)
	return id == base || ok && of == base
}

// newestID returns the id of the model of a base, or of one of its values, that is the newest in a partition; "" if there is none.
func (s *Models) newestID(ctx context.Context, p source.Partition, base string) (newest string, err error) {
	_, err = s.ReadBackOf(p, source.LatestStable).ReadNewest(ctx, 0, func(r *source.Record) bool {
		id := source.LastHeader(r.Headers, "lca-model-id")
		if r.Value == nil || !isOrOf(id, base) {
			return false
		}
		newest = id
		return true
	})
	return newest, err
}

// heldModel returns the id of a model of the other kind if the newest record of a model id in a partition of one of our topics is of
// one, its own or that of a value; "" if not. A topic that is missing, or that this user may not read, has none: others report that.
func (s *Models) heldModel(ctx context.Context, topic, base string) (string, error) {
	parts, err := s.Partitions(ctx, topic)
	var gone *MissingTopic
	switch {
	case errors.As(err, &gone):
		return "", nil
	case err != nil:
		return "", err
	}
	for _, p := range parts {
		newest, err := s.newestID(ctx, p, base)
		switch {
		case errors.Is(err, kafka.TopicAuthorizationFailed):
			return "", nil
		case err != nil:
			return "", err
		case newest != "" && (newest == base) == s.Keyed():
			return newest, nil
		}
	}
	return "", nil
}

// NoValues refuses topics that hold models of values, in any partition, for the model of all rows. Its own checkpoint would keep these from going on.
func (s *Models) NoValues(ctx context.Context, id string) error {
	for _, topic := range []string{s.Config.Checkpoint.Topic, s.Config.Snapshot.Topic} {
		switch held, err := s.heldModel(ctx, topic, id); {
		case err != nil:
			return err
		case held != "":
			return checkpoint.ValuesThere(topic, held, id)
		}
	}
	return nil
}

// Wanted lists the topics of the configuration, with what is in them that its models must not be put next to: the model of all rows next
// to one for each value, or the reverse.
func (s *Models) Wanted(ctx context.Context) ([]topics.Want, error) {
	wants := topics.Wanted(s.Config)
	for i := range wants {
		if w := &wants[i]; w.Compact {
			var err error
			if w.Other, err = s.heldModel(ctx, w.Topic, s.Config.Snapshot.ModelID); err != nil {
				return wants, err
			}
		}
	}
	return wants, nil
}

// KeyedTopics refuses snapshot and checkpoint topics that are not laid out for models by value.
func (s *Models) KeyedTopics(ctx context.Context) error {
	wants, err := s.Wanted(ctx)
	if err != nil {
		return s.Cluster.Explain(err)
	}
	names := []string{s.Config.Snapshot.Topic, s.Config.Checkpoint.Topic}
	for _, name := range names {
		if _, err := s.Partitions(ctx, name); err != nil {
			return missing(s.Config, name, err)
		}
	}
	return s.checkTopics(ctx, topics.Of(wants, names))
}

// OwnsModel refuses to publish a version of a model whose newest version is another pipeline's: that one's learner would end, and be refused at
// each start.
func (s *Models) OwnsModel(ctx context.Context) error {
	newest, err := s.newestVersion(ctx)
	if err != nil {
		return s.mayRead(s.Config.Snapshot.Topic, err)
	}
	return learn.Belongs(newest, s.Config.Snapshot.Topic, s.Ours())
}

// OwnsModels refuses models by value that another pipeline has published last.
func (s *Models) OwnsModels(ctx context.Context) error {
	topic := s.Config.Snapshot.Topic
	parts, err := s.Partitions(ctx, topic)
	if err != nil {
		return err
	}
	var all []*checkpoint.ReadBack
	for _, p := range parts {
		all = append(all, s.ReadBackOf(p, source.LatestStable))
	}
	return s.mayRead(topic, s.owner.Check(ctx, all))
}

// IsGlob reports whether an id stands for several.
func IsGlob(id string) bool { return strings.ContainsAny(id, "*?") }

// GlobOf returns what the ids match that a glob stands for: * is any text, / included, and ? is one character.
func GlobOf(glob string) *regexp.Regexp {
	text := regexp.QuoteMeta(glob)
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\*`, ".*"), `\?`, ".")
	return regexp.MustCompile("^(?s:" + text + ")$")
}

// WithSnapshots reads the whole of a snapshot topic of one partition.
func (s *Models) WithSnapshots(ctx context.Context, use func(*snapshot.Assembler) error) error {
	a, err := s.Snapshots(ctx, source.LatestStable)
	if err != nil {
		return err
	}
	return use(a)
}

// EachSnapshots reads the models whose ids match, partition by partition, so that no more than those of one are in memory.
// An empty glob matches all.
func (s *Models) EachSnapshots(ctx context.Context, glob string, use func(id string, a *snapshot.Assembler) error) error {
	parts, err := s.snapshotPartitions(ctx, glob)
	if err != nil {
		return err
	}
	matches := GlobOf(cmp.Or(glob, "*"))
	for _, p := range parts {
		a := &snapshot.Assembler{Most: s.VersionBytes()}
		if err := s.assemble(ctx, p, source.LatestStable, a, matches.MatchString); err != nil {
			return err
		}
		for _, id := range a.Models() {
			if err := use(id, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// snapshotPartitions returns the partitions of the snapshot topic that may hold a model: that of its id, or all.
func (s *Models) snapshotPartitions(ctx context.Context, id string) ([]source.Partition, error) {
	all, err := s.Partitions(ctx, s.Config.Snapshot.Topic)
	if err != nil || IsGlob(id) || id == "" || !s.Config.Model.By.Keyed() {
		return all, err
	}
	if _, partition, _, ok := modelkey.Split(id); ok {
		return slices.DeleteFunc(all, func(p source.Partition) bool { return p.ID != partition }), nil
	}
	return all, nil
}

// assemble reads the snapshots of a partition whose ids are wanted.
func (s *Models) assemble(ctx context.Context, p source.Partition, to source.At, a *snapshot.Assembler, wanted func(id string) bool) error {
	return s.ReadBackOf(p, to).Read(ctx, func(got *source.Fetched) error {
		for _, r := range got.Records {
			if id, ok := modelIDOf(r); ok && !wanted(id) {
				continue
			}
			if err := a.Add(r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)); err != nil {
				s.Log.Warn("a snapshot chunk is unusable", "partition", p.ID, "offset", r.Offset, "error", err)
			}
		}
		return nil
	})
}

// modelIDOf returns the model that a record of ours is of, by its header, or by its key where it is a tombstone.
func modelIDOf(r source.Record) (id string, ok bool) {
	for _, h := range r.Headers {
		if h.Key == "lca-model-id" {
			return string(h.Value), true
		}
	}
	return "", false
}

// Pick returns a version, or the newest for 0.
func Pick(a *snapshot.Assembler, modelID string, version uint64) (*snapshot.Snapshot, error) {
	if version != 0 {
		s, err := a.Version(modelID, version)
		if err != nil {
			return nil, fmt.Errorf("%w: see `lca-stream snapshot list`", err)
		}
		return s, nil
	}
	s, ok := a.Newest(modelID)
	if !ok {
		return nil, fmt.Errorf("no whole snapshot of model %q; %s", modelID, app.OtherModels(a.Models()))
	}
	return s, nil
}

// WithTopic reads the whole snapshot topic of a configuration.
func WithTopic(ctx context.Context, p *app.Program, o *app.Options, use func(modelID string, a *snapshot.Assembler) error) error {
	return WithSystem(ctx, p, o, func(s *System) error {
		return s.WithSnapshots(ctx, func(a *snapshot.Assembler) error { return use(s.Config.Snapshot.ModelID, a) })
	})
}

// WithSystem connects to the brokers of a configuration, whose snapshot topic must be there.
func WithSystem(ctx context.Context, p *app.Program, o *app.Options, use func(*System) error) error {
	s, err := Connect(ctx, p, o)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Partitions(ctx, s.Config.Snapshot.Topic); err != nil {
		return err
	}
	return s.Cluster.Explain(use(s))
}

// Checkpoints are those of the model of all rows.
func (s *Models) Checkpoints() *checkpoint.Checkpoints {
	p := source.Partition{Topic: s.Config.Checkpoint.Topic}
	return &checkpoint.Checkpoints{
		ReadBack: *s.ReadBackOf(p, source.Latest), ModelID: s.Config.Snapshot.ModelID, Owner: s.Ours(),
		Stable: func(ctx context.Context) (int64, error) { return s.EndOf(ctx, p, source.LatestStable) },
	}
}

// CheckpointOf returns the checkpoint of the model's learner, nil if there is none or no topic for it. read is Peek
// if no open transaction is to be waited for, and Load once the learner is fenced.
func (s *Models) CheckpointOf(ctx context.Context, modelID string, read func(*checkpoint.Checkpoints, context.Context) (*checkpoint.Checkpoint, error)) (*learn.Learn, *checkpoint.Checkpoint, error) {
	learner, err := s.Config.Learner(s.Config.LCA.Metric.Rank() + 1)
	if err != nil {
		return nil, nil, err
	}
	stage := &learn.Learn{LearnConfig: learn.LearnConfig{
		ModelID: modelID, Learner: learner, Checkpoints: s.Checkpoints(), Log: s.Log,
	}}
	if _, err := s.Partitions(ctx, s.Config.Checkpoint.Topic); errors.Is(err, kafka.UnknownTopicOrPartition) {
		return stage, nil, nil // no learner has worked here yet
	}
	c, err := read(stage.Checkpoints, ctx)
	return stage, c, err
}

// KeyedClaims say whose the models by key are.
func (s *Models) KeyedClaims() *checkpoint.Checkpoints {
	c := s.Checkpoints()
	c.By = s.Config.Model.By.String()
	return c
}

// KeyedStates returns the checkpoints of a partition's models, which are read up to an end.
func (s *Models) KeyedStates(partition int32, to source.At) *learn.KeyedStates {
	c, ours := s.Config, source.Partition{Topic: s.Config.Checkpoint.Topic, ID: partition}
	return &learn.KeyedStates{ReadBack: *s.ReadBackOf(ours, to), Partition: partition, ModelID: c.Snapshot.ModelID, Owner: s.Ours(), By: c.Model.By}
}

// versionsKept returns how many versions of a model its topic keeps: of one model some minutes' worth, to hold a transform at an older one
// (transform.pin_version) or to publish it again; of thousands the newest and the one that readers may still be reading.
func versionsKept(c *config.Config) int {
	if c.Model.By.Keyed() {
		return 2
	}
	return 16
}

// A learner saves its state with every snapshot. Before there is a first one, what it has gathered is saved so often that a restart reads some seconds
// again, and so seldom that it costs nothing; where snapshots are made more seldom than that, because writing is dear, so are checkpoints.
const (
	checkpointEvery = 30 * time.Second
	checkpointRows  = 50_000
)

// LearnStage returns the learner of this configuration, which begins with warm where it has no checkpoint.
func (s *Models) LearnStage(ctx context.Context, warm *snapshot.Snapshot) (*learn.Learn, error) {
	c := s.Config
	learner, err := c.Learner(c.LCA.Metric.Rank() + 1) // the number of features is known only with the first record
	if err != nil {
		return nil, err
	}
	alarms, err := s.Alarms(ctx)
	if err != nil {
		return nil, err
	}
	rejects := s.thresholds()
	return &learn.Learn{LearnConfig: learn.LearnConfig{
		ModelID: c.Snapshot.ModelID, Topic: c.Snapshot.Topic, Keep: versionsKept(c),
		SnapshotRows: c.Snapshot.EveryRows, SnapshotEvery: c.Snapshot.Every,
		CheckpointRows: max(checkpointRows, c.Snapshot.EveryRows), CheckpointEvery: max(checkpointEvery, c.Snapshot.Every),
		Columns: c.Source.Features, Learner: learner, SkipWhenBehind: c.LCA.SkipWhenBehind,
		Alarms: alarms, Rejects: &rejects, OnInvalid: c.Source.OnInvalid, Series: SeriesOf(c), Producer: app.Producer(),
		Checkpoints: s.Checkpoints(), Newest: s.newestVersion, Commands: s.commands(),
		Published: func(ctx context.Context, settled bool) (*snapshot.Snapshot, snapshot.Slots, error) {
			to := source.LatestStable
			if settled {
				to = source.Latest
			}
			a, err := s.Snapshots(ctx, to)
			if err != nil {
				return nil, nil, err
			}
			newest, err := newestOf(a, c.Snapshot.ModelID)
			return newest, a.Slots(c.Snapshot.ModelID), err
		},
		WarmStart: warm, Stats: s.Stats, Log: s.Log, Now: time.Now,
	}}, nil
}

// KeyedLearns returns what the learners of all partitions have in common. It refuses, before a partition is taken, what KeyedFits does, and settings with
// which the models that were saved last in each partition cannot go on: nothing is learnt with them.
func (s *Models) KeyedLearns(ctx context.Context) (learn.LearnConfig, error) {
	stage, err := s.LearnStage(ctx, nil)
	if err != nil {
		return learn.LearnConfig{}, s.Cluster.Explain(err)
	}
	if err := s.OwnsModels(ctx); err != nil {
		return learn.LearnConfig{}, err
	}
	if err := s.KeyedFits(ctx); err != nil {
		return learn.LearnConfig{}, err
	}
	return stage.LearnConfig, s.KeyedGoesOn(ctx, stage.LearnConfig, (*learn.KeyedLearn).Check)
}

// KeyedFits refuses, before a partition is taken from another process, a model.by or features that are not those of the models by value: the learner could
// not go on, and until it found out the transform would write null results. It compares the newest model of each partition that this
// pipeline has published. Without source.features each model has those of its own first message.
func (s *Models) KeyedFits(ctx context.Context) error {
	columns := s.Config.Source.Features
	return s.NewestByValue(ctx, func(newest *snapshot.Snapshot) error {
		if err := checkpoint.OtherBy(s.Config.Snapshot.Topic, newest.ModelID, newest.By, s.Config.Model.By); err != nil {
			return err
		}
		if len(columns) == 0 || minibatch.Chosen(columns, newest.Features) {
			return nil
		}
		return &reject.Stop{
			Err:    fmt.Errorf("model %q %s", newest.ModelID, checkpoint.OtherFeatures(newest.Features, "source.features now says", columns)),
			Remedy: "set another snapshot.model_id to learn new models, or the former features to go on",
		}
	})
}

// KeyedGoesOn checks each partition's models that were saved: whether they can go on with these settings.
func (s *Models) KeyedGoesOn(ctx context.Context, learns learn.LearnConfig, check func(*learn.KeyedLearn, context.Context) error) error {
	parts, err := s.Partitions(ctx, s.Config.Checkpoint.Topic)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(checkedTogether)
	for _, p := range parts {
		k := &learn.KeyedLearn{KeyedLearnConfig: learn.KeyedLearnConfig{
			LearnConfig: learns, Partition: source.Partition{Topic: s.Config.Source.Topic, ID: p.ID}, States: s.KeyedStates(p.ID, source.LatestStable),
			Snapshots: s.ReadBackOf(source.Partition{Topic: s.Config.Snapshot.Topic, ID: p.ID}, source.LatestStable),
		}}
		g.Go(func() error { return check(k, gctx) })
	}
	return s.Cluster.Explain(g.Wait())
}

// checkedTogether is of how many partitions the newest checkpoints are read at once.
const checkedTogether = 8
