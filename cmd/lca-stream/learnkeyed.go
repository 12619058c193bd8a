package main

import (
	"context"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// keyedGather is how much one Read of a keyed learner gathers: of more messages more are of the same model, which then comes
// into memory once for all of them.
const keyedGather = 1 << 20

// learnKeyed learns a model for each value of model.by until ctx ends, of the partitions that the group of the learners gives
// this process; learns is what keyedLearns returned. alone: there is no transform in this process, which counts what is read and says whether it is ready.
func (s *learning) learnKeyed(ctx context.Context, learns pipeline.LearnConfig, alone bool) error {
	if alone {
		s.stats.SetReady(pipeline.Readiness{Reason: "waiting for partitions"})
	}
	members, leave, err := s.membersOf(ctx, learnGroup(s.config), alone)
	if err != nil {
		return stopped(ctx, err)
	}
	defer leave()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	l := &keyedLearners{
		learning: s, alone: alone, lags: newLags(), config: learns, positions: s.keyedPositions(0),
		memory: pipeline.NewModelMemory(int64(s.modelMemory()), s.stats.ModelCounts("learn")),
	}
	l.renew = s.renewal(ctx, l.positions)
	go s.watch(watching, "learn", alone, l.lags.read)
	t := &pipeline.Transforms{Members: members, Log: s.log.With("stage", "learn"), Stage: "learn", Open: l.open}
	if alone {
		t.Stats = s.stats
	}
	return watched(ctx, l.positions, t.Run)
}

// keyedLearners opens the learners of partitions, and holds what they share.
type keyedLearners struct {
	*learning
	alone     bool
	config    pipeline.LearnConfig
	memory    *pipeline.ModelMemory
	positions *pipeline.Positions // of all partitions
	renew     *pipeline.Renewal
	lags      *lags

	owner   sync.Mutex // guards what follows
	claimed bool
	asked   time.Time
}

// ownsEvery is how often a process looks whether another pipeline publishes its models, while it publishes.
const ownsEvery = 5 * time.Second

// owns is ownsModels for all partitions, now and then.
func (l *keyedLearners) owns(ctx context.Context) error {
	l.owner.Lock()
	defer l.owner.Unlock()
	if time.Since(l.asked) < ownsEvery {
		return nil
	}
	if err := l.ownsModels(ctx); err != nil {
		return err
	}
	l.asked = time.Now()
	return nil
}

// claim claims the models for this pipeline, once for all partitions.
func (l *keyedLearners) claim(ctx context.Context, k pipeline.Sink) error {
	l.owner.Lock()
	defer l.owner.Unlock()
	if l.claimed {
		return nil
	}
	if err := l.keyedClaims().Own(ctx, k); err != nil {
		return err
	}
	l.claimed = true
	return nil
}

// open opens one partition's learner, in the order of a takeover.
func (l *keyedLearners) open(ctx context.Context, p source.Partition, claim source.Claim) (*pipeline.Loop, error) {
	c, parts := l.system.config, []source.Partition{p}
	positions := l.keyedPositions(p.ID)
	takeover := &pipeline.Takeover{
		Fence: func(ctx context.Context) (pipeline.Sink, error) {
			return l.openKeyedSink(ctx, p.ID)
		},
		Stage: func(k pipeline.Sink) (pipeline.Stage, error) {
			return l.stage(p, k, func(ctx context.Context) (source.Offsets, error) { return positions.Open(ctx, k, claim, parts) }), nil
		},
		Read: func(ctx context.Context, start source.Offsets) (pipeline.Source, error) {
			claim := claim
			claim.Metadata = positions.Metadata(parts)
			src, err := l.reader(ctx, source.KafkaConfig{
				Start: start, Epochs: positions.Epochs(start), TopicIDs: positions.TopicIDs(), Claim: claim, GatherBytes: keyedGather,
				IdleWait: learnIdle, OnGap: l.learnerGaps(positions, !l.alone).Pass,
			}, withValues(l.featuresOnly(), c.Model.By))
			if err != nil {
				return nil, err
			}
			l.lags.add(ctx, p, src)
			return src, nil
		},
	}
	loop, err := takeover.Open(ctx)
	if err != nil {
		return nil, l.cluster.Explain(err)
	}
	loop.Name, loop.Stats, loop.Log, loop.Grace = "learn", l.stats, l.log.With("stage", "learn", "partition", p.String()), min(l.grace(), rebalanceTimeout*8/10)
	loop.Spread, loop.Uncounted, loop.Epochs = spread, !l.alone, positions.Epochs(loop.Start)
	loop.Renew = &pipeline.Renewal{Every: l.renew.Every, Markers: positions.Markers}
	if claim.Member == "" { // otherwise the group says who owns the partition
		loop.Check = ownerCheck
	}
	loop.Trace = l.traces.Loop("learn", p.Topic, claim.Group)
	return loop, nil
}

// stage is the stage of one partition.
func (l *keyedLearners) stage(p source.Partition, k pipeline.Sink, committed func(context.Context) (source.Offsets, error)) *pipeline.KeyedLearn {
	c, own := l.system.config, l.config
	own.Lag = func() (behind int64) {
		lag := l.lags.read()[p]
		return max(lag.Stable-lag.Next, 0)
	}
	claim := func(ctx context.Context) error { return l.claim(ctx, k) }
	return &pipeline.KeyedLearn{KeyedLearnConfig: pipeline.KeyedLearnConfig{
		LearnConfig: own, By: c.Model.By, Partition: p, Memory: l.memory, Idle: c.Model.Idle, Committed: committed, Owns: l.owns, Claim: claim,
		States: l.keyedStates(p.ID, source.Latest), Snapshots: l.readBackOf(source.Partition{Topic: c.Snapshot.Topic, ID: p.ID}, source.Latest),
	}}
}

// openKeyedSink opens the producer of a partition's learner.
func (s *Topics) openKeyedSink(ctx context.Context, partition int32) (*sink.Kafka, error) {
	producer := s.sinkConfig(keyedLearnID(s.config.Source, s.config.Snapshot.ModelID, partition))
	producer.BatchBytes = pipeline.KeyedBatch
	return sink.OpenKafka(ctx, producer)
}

// keyedStates returns the checkpoints of a partition's models, which are read up to an end.
func (s *Models) keyedStates(partition int32, to source.At) *pipeline.KeyedStates {
	c, ours := s.config, source.Partition{Topic: s.config.Checkpoint.Topic, ID: partition}
	return &pipeline.KeyedStates{
		Topic: ours.Topic, Partition: partition, ModelID: c.Snapshot.ModelID, Owner: s.ours(), By: c.Model.By, Log: s.log,
		OpenAt: func(ctx context.Context, at int64) (pipeline.TopicReader, error) {
			return s.openPartition(ctx, ours, at)
		},
		End: func(ctx context.Context) (int64, error) { return s.endOf(ctx, ours, to) },
		TopicID: func(ctx context.Context) (string, error) {
			topic, err := source.LookUp(ctx, s.cluster, ours.Topic)
			return topic.ID, err
		},
	}
}
