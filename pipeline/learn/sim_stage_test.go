package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

const (
	simMessages, simRows = 10, 20
	simBad               = 5 // the message that cannot be decoded
	simChanged           = 3 // messages after it that are of another stream
)

// simBudget is of one episode in two rows: twenty come in a millisecond.
var simBudget = episode.Budget{Episodes: 10 * 3_600_000, Per: time.Hour}

// simPipe is one pipeline: a learner, and transforms that follow its model.
type simPipe struct {
	name, topic, group, model, out, dead string
	told                                 string         // topic of its alarms
	begun, learnt                        source.Offsets // where its transforms and its learner read first
	stopped                              []string       // what its processes have stopped for
	bereft                               string         // what it finds instead of what it had, which it must not go on with
	learner                              *proc          // that has fenced last
}

// owner is the transactional id of its learner.
func (p *simPipe) owner() string { return p.group + "/" + p.topic + "/learn/" + p.model }

// simFeed is the input: it is the same for all seeds. In the middle of it the stream is another one, and then what it was.
var simFeed = sync.OnceValue(func() []simMessage {
	w := newWorld()
	events := source.Partition{Topic: "events"}
	w.events(&testing.T{}, 1, simMessages, simRows)
	w.changed(1, simChanged, simRows)
	feed := w.topics[events][:simMessages]
	for i, other := range w.topics[events][simMessages:] {
		feed[simBad+1+i].Value = other.Value
	}
	var all []simMessage
	for i, m := range feed {
		if i == simBad {
			m.Value = []byte("no Arrow")
		}
		all = append(all, simMessage{m, fixtures.Decoded(source.Partition{}, 0, m)})
	}
	return all
})

// simMessage is a message of the input, and what becomes of it by decoding.
type simMessage struct {
	sink.Message
	decoded source.Message
}

func (s *sim) feed() []simMessage {
	if s.fleet != nil {
		return simFleetFeed()
	}
	return simFeed()
}

// decoded is an entry of the input as a source hands it over.
func (s *sim) decoded(at source.Partition, offset int64, e *simEntry) source.Message {
	m := s.feed()[e.feed].decoded
	m.Partition, m.Offset = at, offset
	if m.Record != nil {
		m.Record.Retain()
	}
	if m.Err != nil {
		fault := *m.Err
		fault.Partition, fault.Offset = at, offset
		m.Err = &fault
	}
	return m
}

// simLearner is what a world chooses of its learner.
type simLearner struct {
	chooses bool // it compares forms of its model: much work, so few worlds do
	late    bool // its first versions are young
}

func (w simLearner) learner() online.Config {
	c := online.DefaultConfig(1)
	c.Neighbours, c.Minibatch, c.WarmupRows, c.DriftRows, c.Precision = 30, 4, 20, 20, lca.Float64
	if !w.chooses {
		c.Kind = lca.KindLCAGauss
	}
	if w.late {
		c.WarmupRows = 140
	}
	return c
}

// early is a stage whose past was read before the former owner was fenced.
type early struct {
	pipeline.Stage
	at source.Offsets
}

func (e *early) Rewind(ctx context.Context) (at source.Offsets, err error) {
	if at, e.at = e.at, nil; at != nil {
		return at, nil
	}
	return e.Stage.Rewind(ctx)
}

// forgetful is a transform that does not go back, except to the committed offsets.
type forgetful struct {
	*transform.Transform
	begun bool
}

func (f *forgetful) Rewind(ctx context.Context) (source.Offsets, error) {
	if !f.begun {
		f.begun = true
		return f.Transform.Rewind(ctx)
	}
	return f.Committed(ctx)
}

// hasty makes the mistake of a take-over in another order.
func hasty(ctx context.Context, t *pipeline.Takeover) error {
	stage, err := t.Stage(nil)
	if err != nil {
		return err
	}
	at, err := stage.Rewind(ctx)
	t.Stage = func(pipeline.Sink) (pipeline.Stage, error) { return &early{stage, at}, nil }
	return err
}

// learn is what the command's learner does: see whether it may, take the work over, then make the model
// its own, then read the checkpoint, then go on.
func (s *sim) learn(me *proc, pipe *simPipe) error {
	parts, err := me.metadata(me.ctx, "", pipe.topic)
	if err != nil {
		return err
	}
	stage := s.learnStage(me, pipe)
	if err := stage.Check(me.ctx); err != nil {
		return err
	}
	positions := s.positions(me, pipe, pipe.group+".learn", pipe.model)
	claim := source.Claim{Group: positions.Group, Generation: -1}
	t := &pipeline.Takeover{
		Fence: func(ctx context.Context) (pipeline.Sink, error) { return me.open(ctx, "", pipe.owner()) },
		Stage: func(k pipeline.Sink) (pipeline.Stage, error) {
			stage.Start = func(ctx context.Context, saved source.Offsets) (source.Offsets, error) {
				if s.mistake == "offsets of others are dropped" {
					maps.DeleteFunc(saved, func(p source.Partition, _ int64) bool { return !slices.Contains(parts, p) })
				}
				start, err := positions.Resume(ctx, s.commits(k), claim, parts, saved)
				if pipe.learner == me && saved == nil {
					pipe.learnt = start.Clone() // nothing is kept of what may have been learnt before
				}
				return start, err
			}
			if k == nil { // the mistake of a take-over in another order
				return stage, nil
			}
			pipe.learner = me
			return stage, stage.Checkpoints.Own(me.ctx, k)
		},
		Read: func(_ context.Context, start source.Offsets) (pipeline.Source, error) {
			claim := claim
			claim.Metadata = positions.Metadata(parts)
			m := &simSource{p: me, next: start.Clone(), epochs: positions.Epochs(start), ids: positions.TopicIDs(), claim: claim, bound: true, idle: time.Second}
			m.gaps = s.gaps(me, positions, pipe)
			return m, nil
		},
	}
	if s.mistake == "learner reads before the fence" {
		if err := hasty(me.ctx, t); err != nil {
			return err
		}
	}
	loop, err := t.Open(me.ctx)
	if err != nil {
		return err
	}
	loop.Stats, loop.Log, loop.Grace = stage.Stats, fixtures.Quiet(), simGrace
	loop.Renew, loop.Epochs = &pipeline.Renewal{Every: time.Hour, Markers: positions.Markers}, positions.Epochs(loop.Start)
	return watched(me.ctx, positions, loop.Run)
}

// watched is the command's: it works until the end of the work, or until the input is another topic.
func watched(ctx context.Context, positions *start.Positions, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return positions.Watch(context.WithValue(gctx, simThread{}, " watch"), 30*time.Second) })
	g.Go(func() error { defer stop(); return work(gctx) })
	return g.Wait()
}

const simGrace = 2 * time.Second

func (s *sim) learnStage(me *proc, pipe *simPipe) *Learn {
	end := source.Latest
	if s.mistake == "the end hides the own checkpoint" {
		end = source.LatestStable
	}
	stage := &Learn{LearnConfig: LearnConfig{
		ModelID: pipe.model, Topic: "snapshots", Keep: 3, SnapshotRows: 40, CheckpointRows: 30, Learner: s.learner(), Producer: "test",
		Checkpoints: &checkpoint.Checkpoints{
			ReadBack: checkpoint.ReadBack{Topic: "checkpoints", Open: me.log("", "checkpoints"), End: me.end("", "checkpoints", end)},
			ModelID:  pipe.model, Owner: checkpoint.Owner{Group: pipe.group, Topic: pipe.topic}, Stable: me.end("", "checkpoints", source.LatestStable),
		},
		Published: func(ctx context.Context, settled bool) (*snapshot.Snapshot, snapshot.Slots, error) {
			return s.newestOf(ctx, me, pipe, settled)
		},
		Alarms: pipe.alarms(), Commands: s.hears(me, pipe, ""), Stats: stats.NewStats(), Log: fixtures.Quiet(), Now: time.Now,
	}}
	if s.mistake == "pipelines are mixed" {
		stage.Checkpoints.Owner = checkpoint.Owner{}
	}
	if s.byClock {
		stage.SnapshotEvery, stage.CheckpointEvery = 60*time.Millisecond, 100*time.Millisecond
	}
	return stage
}

// newestOf reads what the snapshot topic holds of a model, as the command does.
func (s *sim) newestOf(ctx context.Context, me *proc, pipe *simPipe, settled bool) (*snapshot.Snapshot, snapshot.Slots, error) {
	to := source.LatestStable
	if settled {
		to = source.Latest
	}
	a := &snapshot.Assembler{}
	back := checkpoint.ReadBack{Topic: "snapshots", Open: me.log("", "snapshots"), End: me.end("", "snapshots", to)}
	err := back.Read(ctx, func(got *source.Fetched) error {
		for _, r := range got.Records {
			_ = a.Add(r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)) // what is not a snapshot is passed over
		}
		return nil
	})
	newest, _ := a.Newest(pipe.model)
	return newest, a.Slots(pipe.model), err
}

// positions decides for a group where to read from, and gaps what to pass over, as the command's do.
func (s *sim) positions(me *proc, pipe *simPipe, group, model string) *start.Positions {
	starts := &start.Starts{ReadBack: checkpoint.ReadBack{Topic: "checkpoints", Open: me.log(" starts", "checkpoints"), End: me.end(" starts", "checkpoints", source.Latest)}}
	if s.mistake == "a loss is a first start" || s.mistake == "latest is resolved again" {
		starts.End = func(context.Context) (int64, error) { return 0, nil }
	}
	p := &start.Positions{Places: simPlaces{me, ""}, Starts: starts, Group: group, Topic: pipe.topic, Start: source.Earliest, Model: model, Log: fixtures.Quiet()}
	if s.latest {
		p.Start = source.Latest
	}
	return p
}

// written looks at the ends of outputs and of dead letters, which have one partition.
func (s *sim) written(me *proc, group, out, dead string) *start.Written {
	switch s.mistake {
	case "no look at the outputs", "offsets lost", "stale offsets", "a loss is a first start": // it makes up for the others
		return nil
	}
	place := func(topic string, of source.Partition) int32 {
		if topic == dead {
			return 0
		}
		return of.ID
	}
	return &start.Written{Group: group, Topics: []string{out, dead}, Place: place, Read: func(topic string, partition int32, of source.Partition) *checkpoint.ReadBack {
		p := source.Partition{Topic: topic, ID: partition}
		fallback := " " + of.String()
		return &checkpoint.ReadBack{
			Topic: topic,
			Open: func(ctx context.Context, from int64) (checkpoint.TopicReader, error) {
				return me.logOf(ctx, fallback, p, from), nil
			},
			End:   func(ctx context.Context) (int64, error) { return me.endOf(ctx, fallback, p, source.Latest) },
			Begin: func(ctx context.Context) (int64, error) { return me.endOf(ctx, fallback, p, source.Earliest) },
			TopicID: func(ctx context.Context) (string, error) {
				topic, err := simPlaces{me, fallback}.Topic(ctx, topic)
				return topic.ID, err
			},
		}
	}}
}

func (s *sim) gaps(me *proc, positions *start.Positions, pipe *simPipe) *start.Gaps {
	g := &start.Gaps{Skip: s.skips || s.mistake == "gaps are passed over", Check: positions.Check, Stats: stats.NewStats(), Log: fixtures.Quiet()}
	if positions.Model != "" && s.inRun {
		g.Done = func(ctx context.Context, p source.Partition) (int64, error) {
			found, err := simPlaces{me, ""}.Committed(ctx, pipe.group, []source.Partition{p})
			return found[p].Next, err
		}
	}
	return g
}

// Split passes on how a batch is divided.
func (t threaded) Split(work pipeline.Work, most int) (first, rest pipeline.Work, next source.Offsets) {
	if s, ok := t.Stage.(pipeline.Splitter); ok {
		return s.Split(work, most)
	}
	return work, pipeline.Work{}, nil
}

// nowhere is the sink of who does not commit.
type nowhere struct{}

func (nowhere) Put(context.Context, []sink.Message, source.Claim) error { return nil }

func (nowhere) Close() error { return nil }

// commits is the sink that a first position is committed through.
func (s *sim) commits(k pipeline.Sink) pipeline.Sink {
	if k == nil || s.mistake == "latest is resolved again" {
		return nowhere{}
	}
	return k
}

// threaded is a stage whose questions are those of a thread.
type threaded struct {
	pipeline.Stage
	thread string
}

func (t threaded) Rewind(ctx context.Context) (source.Offsets, error) {
	return t.Stage.Rewind(context.WithValue(ctx, simThread{}, t.thread))
}

// transform is what the command's transform does: join the group or take what is given to it, and for each
// partition take the work over, then read the committed offsets, then catch up with the snapshots, then go
// on, from the first model on.
func (s *sim) transform(me *proc, pipe *simPipe, members pipeline.Members) error {
	counts := stats.NewStats()
	follow := &models.Follow{
		Open: me.log(simFollow, "snapshots"), End: me.end(simFollow, "snapshots", source.LatestStable),
		Topic: "snapshots", ModelID: pipe.model, Source: pipe.topic, Group: pipe.group, Stats: counts, Log: fixtures.Quiet(),
	}
	if s.mistake == "pipelines are mixed" {
		follow.Source = ""
	}
	following := make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(me.ctx))
	defer context.AfterFunc(me.ctx, func() {
		if me.dead {
			cancel()
		}
	})()
	go func() { defer close(following); _ = follow.Run(ctx) }()
	defer func() { cancel(); <-following }()
	shared := s.simTransform(pipe, follow)
	s.keepsStates(me, pipe, &shared)
	positions := s.positions(me, pipe, pipe.group, "")
	positions.Written = s.written(me, pipe.group, pipe.out, pipe.dead)
	t := &pipeline.Transforms{Members: members, Log: fixtures.Quiet(), Open: func(ctx context.Context, p source.Partition, claim source.Claim) (*pipeline.Loop, error) {
		return s.openTransform(ctx, me, pipe, positions, shared, p, claim)
	}}
	return watched(me.ctx, positions, t.Run)
}

// simMaxRejects is how many bad messages of the last ten are taken for granted: there is one in all.
const simMaxRejects = 1

func (w *simWorld) simTransform(pipe *simPipe, follow *models.Follow) transform.TransformConfig {
	return transform.TransformConfig{
		Group: pipe.group, Topic: pipe.out, Output: encode.OutputConfig{Column: "lca", Score: true, Recent: w.states, Episode: w.states, Passthrough: true},
		Series: w.series, Budget: simBudget, Components: lca.ComponentsAll,
		DeadLetter: reject.DeadLetter{Topic: pipe.dead, Group: pipe.group, Window: 10, MaxRejects: simMaxRejects, Partitions: 1},
		Alarms:     pipe.alarms(), Follow: follow, Stats: follow.Stats, Log: fixtures.Quiet(), Now: time.Now,
	}
}

func (s *sim) openTransform(ctx context.Context, me *proc, pipe *simPipe, positions *start.Positions, shared transform.TransformConfig, p source.Partition, claim source.Claim) (*pipeline.Loop, error) {
	thread := " " + p.String()
	ctx = context.WithValue(ctx, simThread{}, thread)
	parts := []source.Partition{p}
	t := &pipeline.Takeover{
		Fence: func(ctx context.Context) (pipeline.Sink, error) {
			return me.open(ctx, thread, fmt.Sprintf("%s/%s/transform/%d", pipe.group, p.Topic, p.ID))
		},
		Stage: func(k pipeline.Sink) (pipeline.Stage, error) {
			committed := func(ctx context.Context) (source.Offsets, error) {
				return positions.Open(ctx, s.commits(k), claim, parts)
			}
			stage := &transform.Transform{TransformConfig: shared, Committed: committed, Pace: func() int { return s.link }}
			switch s.mistake {
			case "rejects counted again", "states: kept over an abort":
				return threaded{&forgetful{Transform: stage}, thread}, nil
			case statesOfAll, noStates:
				return threaded{&misparted{stage, s}, thread}, nil
			}
			return threaded{stage, thread}, nil
		},
		CatchUp: shared.Follow.CatchUp,
		Read: func(_ context.Context, start source.Offsets) (pipeline.Source, error) {
			claim, idle := claim, 10*time.Second
			claim.Metadata = positions.Metadata(parts)
			read := func(_ context.Context, start source.Offsets) (pipeline.Source, error) {
				m := &simSource{p: me, thread: thread, next: start.Clone(), epochs: positions.Epochs(start), ids: positions.TopicIDs(), claim: claim, idle: idle}
				m.gaps, m.first = s.gaps(me, positions, pipe), pipe.begun
				return m, nil
			}
			claim.Next, claim.Epochs = start, positions.Epochs(start)
			return transform.HoldSource(shared.Follow, read, claim, idle), nil
		},
	}
	switch s.mistake {
	case "offsets before the fence":
		if err := hasty(ctx, t); err != nil {
			return nil, err
		}
	case "no catching up":
		t.CatchUp = nil
	}
	loop, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	loop.Stats, loop.Log, loop.Grace = shared.Stats, fixtures.Quiet(), simGrace
	loop.Renew, loop.Epochs = &pipeline.Renewal{Every: time.Hour, Markers: positions.Markers}, positions.Epochs(loop.Start)
	loop.Outputs = &start.Outputs{Positions: positions, Partition: p}
	return loop, nil
}

// simOutput is the input message that an output or a dead letter was made of.
func simOutput(m sink.Message) (feed int, err error) {
	i := slices.IndexFunc(simFeed(), func(f simMessage) bool { return bytes.Equal(f.Key, m.Key) })
	if i < 0 {
		return i, errors.New("no input message has this key")
	}
	return i, nil
}
