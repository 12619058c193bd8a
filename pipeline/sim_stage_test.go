package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

const (
	simMessages, simRows = 10, 20
	simBad               = 5 // the message that cannot be decoded
)

// simPipe is one pipeline: a learner, and transforms that follow its model.
type simPipe struct {
	name, topic, group, model, out, dead string
	begun, learnt                        source.Offsets // where its transforms and its learner read first
	stopped                              []string       // what its processes have stopped for
}

// simFeed is the input: it is the same for all seeds.
var simFeed = sync.OnceValue(func() []simMessage {
	w := newWorld()
	w.events(&testing.T{}, 1, simMessages, simRows)
	var all []simMessage
	for i, m := range w.topics[source.Partition{Topic: "events"}] {
		if i == simBad {
			m.Value = []byte("no Arrow")
		}
		all = append(all, simMessage{m, decoded(source.Partition{}, 0, m)})
	}
	return all
})

// simMessage is a message of the input, and what becomes of it by decoding.
type simMessage struct {
	sink.Message
	decoded source.Message
}

func (s *sim) feed() []simMessage { return simFeed() }

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

func simLearner() lca.Config {
	c := lca.DefaultConfig(1)
	c.Neighbours, c.Minibatch, c.WarmupRows, c.Precision = 30, 10, 20, lca.Float64
	return c
}

// early is a stage whose past was read before the former owner was fenced.
type early struct {
	Stage
	at source.Offsets
}

func (e *early) Rewind(ctx context.Context) (at source.Offsets, err error) {
	if at, e.at = e.at, nil; at != nil {
		return at, nil
	}
	return e.Stage.Rewind(ctx)
}

// forgetful is a transform that does not go back, except to the committed offsets.
type forgetful struct{ *Transform }

func (f forgetful) Rewind(ctx context.Context) (source.Offsets, error) { return f.Committed(ctx) }

// hasty makes the mistake of a take-over in another order.
func hasty(ctx context.Context, t *Takeover) error {
	stage, err := t.Stage(nil)
	if err != nil {
		return err
	}
	at, err := stage.Rewind(ctx)
	t.Stage = func(Sink) (Stage, error) { return &early{stage, at}, nil }
	return err
}

// nowhere is the sink of who has opened none yet.
type nowhere struct{}

func (nowhere) Put(context.Context, []sink.Message, source.Claim) error { return nil }
func (nowhere) Close() error                                            { return nil }

// learn is what the command's learner does: take the work over, then read the checkpoint, then go on.
func (s *sim) learn(me *proc, pipe *simPipe) error {
	group := pipe.group + ".learn"
	stats := NewStats()
	t := &Takeover{
		Fence: func(ctx context.Context) (Sink, error) { return me.open(ctx, "", group+"-"+pipe.model) },
		Stage: func(k Sink) (Stage, error) { return s.learnStage(me, pipe, k, stats) },
		Read: func(ctx context.Context, start source.Offsets) (Source, error) {
			return me.source(ctx, "", start, source.Claim{Group: group, Generation: -1}, true)
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
	loop.Stats, loop.Log, loop.Grace = stats, quiet(), simGrace
	return loop.Run(me.ctx)
}

const simGrace = 2 * time.Second

func (s *sim) learnStage(me *proc, pipe *simPipe, k Sink, stats *Stats) (Stage, error) {
	parts, err := me.metadata(me.ctx, "", pipe.topic)
	if err != nil {
		return nil, err
	}
	if k == nil {
		k = nowhere{}
	}
	positions := s.positions(me, "", pipe, pipe.group+".learn", pipe.model)
	end := source.Latest
	if s.mistake == "the end hides the own checkpoint" {
		end = source.LatestStable
	}
	stage := &Learn{LearnConfig: LearnConfig{
		ModelID: pipe.model, Topic: "snapshots", Keep: 3, SnapshotRows: 40, CheckpointRows: 30, Learner: simLearner(), Producer: "test",
		Start: func(ctx context.Context, saved source.Offsets) (source.Offsets, error) {
			start, err := positions.Resume(ctx, k, source.Claim{Group: positions.Group, Generation: -1}, parts, saved)
			if own, ok := k.(*simSink); ok && !own.fenced() && !s.checkpointed(pipe) {
				pipe.learnt = start.Clone() // nothing is kept of what may have been learnt before
			}
			return start, err
		},
		Checkpoints: &Checkpoints{Topic: "checkpoints", ModelID: pipe.model, Open: me.log("", "checkpoints"), End: me.end("", "checkpoints", end)},
		Stats:       stats, Log: quiet(), Now: time.Now,
	}}
	if s.byClock {
		stage.SnapshotEvery, stage.CheckpointEvery = 60*time.Millisecond, 100*time.Millisecond
	}
	return stage, nil
}

// checkpointed reports whether there is a checkpoint of a pipeline's model.
func (s *sim) checkpointed(pipe *simPipe) bool {
	return slices.ContainsFunc(s.part(source.Partition{Topic: "checkpoints"}).log, func(e simEntry) bool {
		return e.visible() && bytes.HasPrefix(e.Key, []byte(pipe.model+"/"))
	})
}

func (s *sim) positions(me *proc, thread string, pipe *simPipe, group, model string) *Positions {
	starts := &Starts{Topic: "checkpoints", Open: me.log(thread, "checkpoints"), End: me.end(thread, "checkpoints", source.Latest)}
	p := &Positions{Places: simPlaces{me, thread}, Starts: starts, Group: group, Topic: pipe.topic, Start: source.Earliest, Model: model, Log: quiet()}
	if s.latest {
		p.Start = source.Latest
	}
	return p
}

// transform is what the command's transform does: wait for a model, join the group or take what is
// given to it, and for each partition take the work over, then read the committed offsets, then catch up
// with the snapshots, then go on.
func (s *sim) transform(me *proc, pipe *simPipe, members Members) error {
	stats := NewStats()
	follow := &Follow{
		Open: me.log(" follow", "snapshots"), End: me.end("", "snapshots", source.LatestStable),
		ModelID: pipe.model, Stats: stats, Log: quiet(),
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
	if err := follow.AwaitModel(me.ctx); err != nil {
		return nil // it was asked to end before it began
	}
	shared := simTransform(pipe, follow)
	t := &Transforms{Members: members, Log: quiet(), Open: func(ctx context.Context, p source.Partition, claim source.Claim) (*Loop, error) {
		return s.openTransform(ctx, me, pipe, shared, p, claim)
	}}
	return t.Run(me.ctx)
}

// simMaxRejects is how many bad messages of the last ten are taken for granted: there is one in all.
const simMaxRejects = 1

func simTransform(pipe *simPipe, follow *Follow) TransformConfig {
	return TransformConfig{
		Topic: pipe.out, Output: OutputConfig{Column: "lca", Score: true, Passthrough: true},
		Coordinates: lca.CoordinatesAligned, Components: lca.ComponentsAll,
		DeadLetter: DeadLetter{Topic: pipe.dead, Window: 10, MaxRejects: simMaxRejects, Partitions: 1},
		Follow:     follow, Stats: follow.Stats, Log: quiet(), Now: time.Now,
	}
}

func (s *sim) openTransform(ctx context.Context, me *proc, pipe *simPipe, shared TransformConfig, p source.Partition, claim source.Claim) (*Loop, error) {
	thread := " " + p.String()
	ctx = context.WithValue(ctx, simThread{}, thread)
	parts, positions := []source.Partition{p}, s.positions(me, thread, pipe, pipe.group, "")
	t := &Takeover{
		Fence: func(ctx context.Context) (Sink, error) {
			return me.open(ctx, thread, fmt.Sprintf("%s-%s-%d", pipe.group, p.Topic, p.ID))
		},
		Stage: func(k Sink) (Stage, error) {
			if k == nil {
				k = nowhere{}
			}
			committed := func(ctx context.Context) (source.Offsets, error) { return positions.Open(ctx, k, claim, parts) }
			stage := &Transform{TransformConfig: shared, Committed: committed}
			if s.mistake == "rejects counted again" {
				return forgetful{stage}, nil
			}
			return stage, nil
		},
		CatchUp: shared.Follow.CatchUp,
		Read: func(ctx context.Context, start source.Offsets) (Source, error) {
			src, err := me.source(ctx, thread, start, claim, false)
			src.first = pipe.begun
			return src, err
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
	loop.Stats, loop.Log, loop.Grace = shared.Stats, quiet(), simGrace
	return loop, nil
}

// source opens the input.
func (p *proc) source(ctx context.Context, thread string, start source.Offsets, claim source.Claim, bound bool) (*simSource, error) {
	m := &simSource{p: p, thread: thread, next: start.Clone(), epochs: source.Epochs{}, claim: claim, bound: bound}
	if bound {
		m.idle = time.Second
	}
	return m, nil
}

// simOutput is the input message that an output or a dead letter was made of.
func simOutput(m sink.Message) (feed int, err error) {
	i := slices.IndexFunc(simFeed(), func(f simMessage) bool { return bytes.Equal(f.Key, m.Key) })
	if i < 0 {
		return i, errors.New("no input message has this key")
	}
	return i, nil
}
