// Package models is where a transform has its models from: the snapshot topic.
//
// Begin with [Follow], which keeps the newest whole snapshot of one model current, or with [KeyedModels], which finds the models of many
// values: an index of where each newest snapshot is, read to the end before the first output, and a cache of models in memory.
//
// A snapshot that does not fit, is damaged or is of a newer release is passed over and said; the current model stays. The index has one
// entry for each value, and the cache as many bytes as it is given.
package models

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// Follow keeps the current model: the newest whole snapshot of one model id on the snapshot topic, swapped
// atomically. Its readers never wait.
type Follow struct {
	Open     func(ctx context.Context, from int64) (checkpoint.TopicReader, error) // a reader from an offset, or from the beginning if that is later
	End      func(context.Context) (int64, error)                                  // the topic's last stable offset
	Topic    string                                                                // snapshot topic
	ModelID  string
	Source   string   // the topic whose rows are whitened: models learnt from another topic are ignored; "" = any
	Group    string   // source.group: once it has published models, those of other groups are ignored; "" = any
	Features []string // source.features: models of other features are ignored; empty: the features of the current model count
	Learns   bool     // this process learns the model: a newer version of another group ends Run, because two learners write the same model
	Pin      uint64   // follow this version only; 0 = the newest
	Most     int      // bytes that a version may take on the topic, see snapshot.Assembler
	Stats    *stats.Stats
	Log      *slog.Logger

	current atomic.Pointer[stats.PublishedModel]

	// The state of Run: what has been read.
	read   *snapshot.Assembler // nil: nothing has been read yet
	at     int64               // offset to read next
	back   int64               // how many records before the end Run began; 0: at the beginning
	whole  bool                // the start has been read, so that the newest version is known
	stop   error               // two learners write the model
	passed uint64              // the newest version that was not used
	misfit *reject.Stop        // why the newest version with other features cannot be used
	unfit  uint64              // that version
	said   time.Time           // when a model was logged

	follower
	started bool // the start of the topic has been read once; guarded by the mutex of follower
}

// Run reads the snapshot topic until ctx ends, and then returns nil. A faulty chunk is logged and ignored: the last
// whole snapshot stays current. Run returns errors that no retry can cure, such as a missing right.
func (f *Follow) Run(ctx context.Context) error {
	log := f.Log.With("topic", f.Topic)
	return f.follow(ctx, log, func(ctx context.Context) error { return f.tail(ctx, log) }, func() { f.read, f.passed = nil, 0 })
}

// tail reads on from where it stopped, or from near the end, because only the newest version counts.
func (f *Follow) tail(ctx context.Context, say *slog.Logger) error {
	end, err := f.End(ctx)
	if err != nil {
		return err
	}
	if f.read == nil {
		f.begin(end, checkpoint.TailRecords)
		f.advance(0)
	}
	log, err := f.Open(ctx, f.at)
	if err != nil {
		return err
	}
	for {
		again, err := f.take(end)
		if err == nil && again {
			log, err = f.Open(ctx, f.at)
		}
		if err != nil {
			return err
		}
		got, err := f.fetch(ctx, say, log)
		if err != nil {
			return err
		}
		for _, r := range got.Records {
			if id := source.LastHeader(r.Headers, "lca-model-id"); r.Value != nil && checkpoint.OfValue(id, f.ModelID) {
				return checkpoint.ValuesThere(f.Topic, id, f.ModelID)
			}
			if err := f.read.Add(r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)); err != nil {
				f.Log.Error("a snapshot chunk is unusable; the current model stays", "offset", r.Offset, "error", err)
			}
		}
		f.at = got.Next
	}
}

// begin forgets what was read, and begins back records before the end. A pinned version may be anywhere.
func (f *Follow) begin(end, back int64) {
	f.read = &snapshot.Assembler{Retain: 2, Most: f.Most, Pin: f.Pin, Only: f.ModelID, Accept: f.Accept}
	f.at, f.back, f.whole = end-back, back, false
	if f.at <= 0 || f.Pin != 0 {
		f.at, f.back = 0, 0
	}
}

// take makes the newest version current once the start has been read, and none of the versions on the way there. If
// the last records hold no whole version, it begins again farther back.
func (f *Follow) take(end int64) (again bool, err error) {
	if !f.whole && f.at < end {
		return false, nil
	}
	if _, ok := f.read.Newest(f.ModelID); !ok && f.stop == nil && !f.whole && f.back > 0 {
		f.begin(end, f.back*checkpoint.TailGrows)
		return true, nil
	}
	f.whole = true
	if err := f.newer(); err != nil {
		return false, err
	}
	if err := f.choose(); err != nil {
		return false, err
	}
	if err := f.begun(); err != nil {
		return false, err
	}
	f.advance(f.at)
	return false, nil
}

// Accept refuses snapshots that rows must not be whitened with.
func (f *Follow) Accept(s *snapshot.Snapshot) error {
	if err := f.ours(s); err != nil {
		return err
	}
	return f.fits(s)
}

// ours refuses models of another pipeline with the same model id on the same topic.
func (f *Follow) ours(s *snapshot.Snapshot) error {
	topic, group := s.LearntFrom(), s.Group
	var err error
	switch {
	case topic != "" && f.Source != "" && topic != f.Source:
		err = fmt.Errorf("version %d of model %q was learnt from topic %q, and this transform reads %q", s.Version, f.ModelID, topic, f.Source)
	case group == "" || f.Group == "" || group == f.Group:
		return nil
	case f.Learns:
		f.stop = checkpoint.Foreign(f.ModelID, f.Topic, checkpoint.Owner{Group: group, Topic: f.Source}, checkpoint.Owner{Group: f.Group, Topic: f.Source})
		return f.stop
	case f.read.Has(f.ModelID, f.Group):
		err = fmt.Errorf("version %d of model %q was published by group %q, and group %q has published versions of its own", s.Version, f.ModelID, group, f.Group)
	default: // another transform of that group's model
		return nil
	}
	err = fmt.Errorf("%w: set another snapshot.model_id; to use that model here, export it and import it under an id of its own", err)
	return f.passOver("a model of another pipeline is passed over", s.Version, err)
}

// choose makes the newest whole snapshot current. Versions never go back.
func (f *Follow) choose() error {
	if f.stop != nil {
		return f.stop
	}
	now := f.current.Load()
	version, ok := f.read.NewestVersion(f.ModelID)
	if !ok || (now != nil && now.Version >= version) || (now != nil && f.Pin != 0) {
		return nil
	}
	s, ok := f.read.Newest(f.ModelID)
	if f.stop != nil {
		return f.stop
	}
	if f.Pin != 0 {
		var err error
		if s, err = f.read.Version(f.ModelID, f.Pin); errors.Is(err, errOtherFeatures) || errors.Is(err, snapshot.ErrNewer) {
			return &reject.Stop{Err: fmt.Errorf("transform.pin_version: %w", err), Remedy: "or pin another version"}
		}
		if err != nil {
			return f.pinned(version)
		}
	}
	if !ok || (now != nil && now.Version >= s.Version) {
		return nil
	}
	if s.Version > f.passed {
		f.Stats.SetPassedOver("")
	}
	in := &stats.PublishedModel{Snapshot: s}
	f.current.Store(in)
	f.Stats.SetCurrentModel(in, turned(now, in))
	f.sayModel(now, in)
	if s.Model.Scores == nil && !s.Model.Young() {
		f.Log.Warn("the current model was published without the scores of its neighbours, as in snapshot format 1: lca_p is null until the next model", "version", s.Version)
	}
	return nil
}

// ModelEvery is the least time between two lines about newer models.
const ModelEvery = time.Minute

// sayModel logs the first model, and then at most one newer model per minute.
func (f *Follow) sayModel(before, now *stats.PublishedModel) {
	text := "a model is here"
	grown := before != nil && before.Model.Young() && !now.Model.Young()
	switch {
	case before != nil && time.Since(f.said) < ModelEvery && !grown:
		return
	case before != nil:
		text = "a newer model is here"
	}
	f.said = time.Now()
	m := now.Model
	if young := now.Young(); young != "" {
		f.Log.Info(text, "model_id", now.ModelID, "version", now.Version, "published", now.Time, "because", young)
		return
	}
	about := []any{"model_id", now.ModelID, "version", now.Version, "published", now.Time, "d_parzen", m.Parzen(), "d_gaussian", m.Gaussian()}
	if nll := m.Info.NLL; nll == nll { // not of a first model: no row has come after those that it was made of
		about = append(about, "nll", fmt.Sprintf("%.4g", nll), "gaussian_nll", fmt.Sprintf("%.4g", m.Info.GaussianNLL))
	}
	f.Log.Info(text, about...)
}

// pinned decides about a pinned version that is not there: it may still come, unless newer versions have.
func (f *Follow) pinned(newest uint64) error {
	if newest < f.Pin {
		return nil
	}
	var there []uint64
	for _, e := range f.read.List(f.ModelID) {
		there = append(there, e.Version)
	}
	return &reject.Stop{
		Err:    fmt.Errorf("version %d of model %q is not on the topic any more, which has %v", f.Pin, f.ModelID, there),
		Remedy: "set transform.pin_version to one of those, or to 0 for the newest",
	}
}

// Contested returns why Run ended if another learner publishes the model too.
func (f *Follow) Contested() error { return f.stop }

// Current returns the current model, or nil before the first.
func (f *Follow) Current() *stats.PublishedModel { return f.current.Load() }

// CatchUp waits until everything that was committed to the snapshot topic at the time of the call has been read. A
// partition's new owner does this before its first output, so that versions never go back within a partition.
//
// The last stable offset is the right end here. The former owner saw nothing behind an open transaction either,
// because that offset only grows. So no process has whitened with a hidden model, and a partition need not stop while
// another producer's transaction is open.
func (f *Follow) CatchUp(ctx context.Context) error {
	return f.awaitEnd(ctx, f.End)
}

// Adopt makes a model current that came another way than by the topic.
func (f *Follow) Adopt(m *stats.PublishedModel) {
	f.current.Store(m)
	f.advance(f.position())
}

// AwaitModel waits until there is a current model.
func (f *Follow) AwaitModel(ctx context.Context) error {
	return f.await(ctx, func() bool { return f.current.Load() != nil })
}

// errOtherFeatures is wrapped by the error about a model whose features are not those that are whitened.
var errOtherFeatures = errors.New("other features")

const otherFeaturesRemedy = "set another snapshot.model_id, because another space needs another model, or source.features to those of the model"

// fits refuses a model whose features are not those of source.features or, if that is empty, of the current model:
// output rows would change their width in the middle of a topic, or none would have the features any more.
func (f *Follow) fits(s *snapshot.Snapshot) error {
	now := f.current.Load()
	var err error
	switch {
	case !minibatch.Chosen(f.Features, s.Features):
		err = fmt.Errorf("%w: version %d of model %q %s", errOtherFeatures, s.Version, f.ModelID, checkpoint.OtherFeatures(s.Features, "source.features now says", f.Features))
	case len(f.Features) == 0 && now != nil && !slices.Equal(now.Features, s.Features):
		err = fmt.Errorf("%w: version %d of model %q %s", errOtherFeatures, s.Version, f.ModelID,
			checkpoint.OtherFeatures(s.Features, fmt.Sprintf("version %d, which is current, has", now.Version), now.Features))
	default:
		return nil
	}
	if f.misfit == nil || s.Version > f.unfit {
		f.misfit, f.unfit = &reject.Stop{Err: err, Remedy: otherFeaturesRemedy}, s.Version
	}
	return f.passOver("a model of other features is passed over", s.Version, fmt.Errorf("%w: %s", err, otherFeaturesRemedy))
}

// newer is about a newest version that a newer release has written. At the start it ends the process: with an older
// version rows would go back, and one that can be read may never come. A process that has a model keeps it.
func (f *Follow) newer() error {
	version, err := f.read.Newer(f.ModelID)
	if err == nil || f.Pin != 0 {
		return nil
	}
	if !f.started {
		return &reject.Stop{Err: err, Remedy: "use that release; or go on under another snapshot.model_id from an export that this one has made"}
	}
	_ = f.passOver("a model of a newer release is passed over", version, err)
	return nil
}

// passOver notes a version that is not used. The newest such version is logged, once.
func (f *Follow) passOver(what string, version uint64, err error) error {
	if version > f.passed {
		f.passed = version
		f.Log.Error(what, "error", err)
		f.Stats.SetPassedOver(what + ": " + err.Error())
	}
	return err
}

// begun is called when the start of the topic has been read. If it holds models, but only with other features, the
// configuration has changed: waiting would not help, because no learner goes on from one to the other.
func (f *Follow) begun() error {
	if f.started {
		return nil
	}
	if f.current.Load() == nil && f.misfit != nil && f.Pin == 0 {
		return f.misfit
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = true
	return nil
}

// AwaitStart waits until Run has read enough of the topic to know the newest model, or until ctx or Run ends.
func (f *Follow) AwaitStart(ctx context.Context) error {
	return f.await(ctx, func() bool { return f.started })
}

// maxTurning bounds the number of directions whose rotation is measured.
const maxTurning = 32

// turned returns the principal angles, in radians and ascending, by which the most structured directions have rotated
// from one model to the next. These are the directions before the widest gap of the spectrum, not all of B_L. If
// every direction is Parzen, B_L spans the whole space, and there is no angle between the whole space and itself,
// however the structure moves in it.
func turned(before, now *stats.PublishedModel) []float64 {
	if before == nil || before.Model.Dim != now.Model.Dim || !slices.Equal(before.Features, now.Features) {
		return nil
	}
	k := structured(now.Model)
	if k == 0 || before.Model.Parzen() < k {
		return nil
	}
	return leading(now.Model, k).Angles(leading(before.Model, k))
}

// structured returns the number of Parzen directions before the widest gap, as a ratio of eigenvalues. At least one
// direction is left behind the gap.
func structured(m *lca.Model) int {
	k, widest := 0, 0.0
	for i := 1; i <= min(m.Parzen(), len(m.Ratio)-1, maxTurning); i++ {
		if gap := math.Log(m.Ratio[i] / m.Ratio[i-1]); gap > widest {
			k, widest = i, gap
		}
	}
	return k
}

// leading returns a model of only the k most structured directions, for measuring angles.
func leading(m *lca.Model, k int) *lca.Model {
	part := *m
	part.BL = mat.DenseCopyOf(m.BL.Slice(0, m.Dim, 0, k))
	return &part
}
