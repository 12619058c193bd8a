// Package system connects a configuration with its brokers.
//
// Commands that look begin with Connect, and get a System:
//
//   - Topics reads and writes the topics of the configuration.
//   - Models finds snapshots and checkpoints.
//   - Publisher publishes models that no live learner has made.
//   - Positions decides where partitions are read from.
//
// Commands that stay begin with Command, and get a Process: a System with a status page, members of groups, and a guard
// that stops the work when a topic that it needs is gone.
package system

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

// System is what a command can do with a configuration and its brokers.
type System struct {
	*Topics
	*Models
	*Publisher
	*Positions
}

// New prepares the connections, and connects to nothing yet.
func New(c *config.Config, log *slog.Logger, counts *stats.Stats) (*System, error) {
	cl, err := kafkaconn.Open(c.Cluster(log))
	if err != nil {
		return nil, err
	}
	t := &Topics{Config: c, Cluster: cl, Stats: counts, Log: log}
	if settings, ok := c.SchemaRegistry(log, t.registryChanged); ok {
		settings.MostText = app.SchemaBytes(c.Memory)
		if t.Registry, err = registry.Open(settings); err != nil {
			cl.Close()
			return nil, err
		}
	}
	m := &Models{Topics: t, owner: &learn.ModelsOwner{Base: c.Snapshot.ModelID, Ours: t.Ours()}}
	p := &Positions{Models: m}
	p.starts.topics = t
	return &System{Topics: t, Models: m, Publisher: &Publisher{m}, Positions: p}, nil
}

const (
	// LookFor is how long a command that only looks tries to reach a broker.
	LookFor = 5 * time.Second

	// PersistFor is how long it then asks again where brokers close connections: within the 15 s that a request may take.
	PersistFor = 10 * time.Second

	// startFor is the same for a process that stays: longer than a broker takes to start next to it.
	startFor = time.Minute
)

// Open returns a system without a status server, for commands that only look.
func Open(p *app.Program, o *app.Options) (*System, error) {
	cfg, err := p.Load(o)
	if err != nil {
		return nil, err
	}
	return New(cfg, app.QuietLogger(p, cfg.Logger), stats.NewStats())
}

// Connect is Open, once a broker answers.
func Connect(ctx context.Context, p *app.Program, o *app.Options) (*System, error) {
	s, err := Open(p, o)
	if err != nil {
		return nil, err
	}
	if err := s.Reach(ctx, LookFor); err != nil {
		s.Close()
		return nil, err
	}
	s.Cluster.Persist(PersistFor)
	return s, nil
}

// Command makes c a command that works on the configuration's cluster. The topics that it needs must exist
// there.
func Command(p *app.Program, c *cobra.Command, needed func(*config.Config) ([]string, error), work func(context.Context, *Process) error) *cobra.Command {
	o := p.ConfigFlags(c)
	return app.Command(c, func(ctx context.Context, _ []string) error { return OnTopics(ctx, p, c, o, needed, work) })
}

// OnTopics opens the system of a configuration, whose topics must be there, and works on them.
func OnTopics(ctx context.Context, p *app.Program, c *cobra.Command, o *app.Options, needed func(*config.Config) ([]string, error), work func(context.Context, *Process) error) error {
	o.Needed = true
	cfg, err := p.Load(o)
	if err != nil {
		return err
	}
	names, err := needed(cfg) // or why these flags do not go with the configuration, for which no broker is asked
	if err != nil {
		return err
	}
	p.Log = p.Logger(cfg.Logger)
	s, err := OpenProcess(ctx, cfg, p.Log, StagesOf(c.Name()))
	if err != nil {
		return Stopped(ctx, err)
	}
	defer s.Close()
	wants := topics.Of(topics.Wanted(cfg), names)
	if StagesOf(c.Name()) > 1 { // a stage by itself has others, and those who set them up
		s.makeTopics(ctx, wants)
	}
	for _, topic := range names {
		if _, err := s.Partitions(ctx, topic); err != nil {
			return Stopped(ctx, missing(cfg, topic, err))
		}
	}
	if err := s.checkTopics(ctx, wants); err != nil {
		return Stopped(ctx, err)
	}
	return s.alive(ctx, c.Name(), ShutdownTimeout, func(ctx context.Context) error {
		return s.guarded(ctx, c.Name(), wants, func(ctx context.Context) error { return work(ctx, s) })
	})
}

// StagesOf returns how many stages of a command read the source.
func StagesOf(command string) int {
	if command == "run" {
		return 2
	}
	return 1
}

// Stopped returns nil if the process was asked to stop before it began.
func Stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
