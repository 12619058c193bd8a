// Package run holds the commands that work on a stream: run, learn, and transform of a topic or of files.
package run

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/pipeline/start"
)

// Command is `lca-stream run`.
func Command(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "Learn and whiten in one process",
		Long: `Runs the learner and the transform in one process: records are whitened live with a metric that is
learnt from the same topic. The two use groups of their own (source.group and <source.group>.learn), and
the learner never waits for the transform. In the first backlog, the transform waits until the rows have
been learnt while the model knows fewer than 3,000, or with model.by always. With --from-history nothing
is whitened at the first start of a model, and no row is skipped, until all records that are there have
been learnt.

The first start creates the topics that are missing, except the source, if the user may: otherwise someone
who may runs topics init. A pipeline that has begun and misses a topic has lost it, and is not started.`,
		Example: "  lca-stream run -c stream.yaml\n  lca-stream run -c stream.yaml --from-history",
	}
	history := historyFlag(c.Flags())
	topics := func(c *config.Config) (names []string, err error) {
		if *history {
			err = checkHistory(c)
		}
		return withOptional(c, c.Source.Topic, c.Transform.Topic, c.Snapshot.Topic, c.Checkpoint.Topic), err
	}
	return system.Command(p, c, topics, func(ctx context.Context, s *system.Process) error {
		return Both(ctx, s, *history)
	})
}

// Both runs the learner and the transform together; the first that fails stops the other. What the learner refuses is
// refused before either takes work from another process.
func Both(ctx context.Context, process *system.Process, fromHistory bool) error {
	pace := newProgress(nil)
	s, t := &learning{process, fromHistory, pace}, &whitening{Process: process, progress: pace, fromHistory: fromHistory}
	if s.Config.Model.By.Keyed() {
		pace.elsewhere = committedAt{process}
		learns, err := s.KeyedLearns(ctx)
		if err != nil {
			return system.Stopped(ctx, err)
		}
		g, gctx := errgroup.WithContext(ctx)
		g.Go(func() error { return s.learnKeyed(gctx, learns, false) })
		g.Go(func() error { return t.transform(gctx) })
		return g.Wait()
	}
	l, err := s.prepareLearner(ctx, nil)
	if err != nil || l == nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.learn(gctx, l, nil) })
	g.Go(func() error { return t.transform(gctx) })
	return g.Wait()
}

// watched runs work until it ends, or until the source topic is another one.
func watched(ctx context.Context, positions *start.Positions, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return positions.Watch(gctx, topicEvery) })
	g.Go(func() error { defer stop(); return work(gctx) })
	return g.Wait()
}

// topicEvery is how often a process checks whether the source topic is still the one that it reads.
const topicEvery = 10 * time.Second

// spread returns a random wait of d on average.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// ownerCheck is how long a learner or a static transform may have nothing to put before it checks whether another
// process has taken its work.
const ownerCheck = 5 * time.Second

// learnIdle is the interval of the learner's empty batches while nothing comes.
const learnIdle = time.Second

// transformIdle is the longest interval of the empty batches of a quiet partition.
const transformIdle = 10 * time.Second

// transformGather is how much one Read of the transform gathers: a transaction should be worth its round trips, and worth
// the pause after each, after which the Go runtime's monitor restarts at its highest rate.
const transformGather = 2 << 20

// withOptional adds the topics that a configuration may leave out.
func withOptional(c *config.Config, names ...string) []string {
	for _, topic := range []string{c.DeadLetter.Topic, c.Alarms.Topic, c.StateTopic()} {
		if topic != "" {
			names = append(names, topic)
		}
	}
	return names
}
