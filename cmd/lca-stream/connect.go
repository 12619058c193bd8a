package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

const (
	// lookFor is how long a command that only looks tries to reach a broker.
	lookFor = 5 * time.Second

	// persistFor is how long it then asks again where brokers close connections: within kafka.request_timeout.
	persistFor = 10 * time.Second

	// startFor is the same for a process that stays: longer than a broker takes to start next to it.
	startFor = time.Minute
)

// newSystem prepares the connections, and connects to nothing yet.
func newSystem(c *config.Config, log *slog.Logger, stats *pipeline.Stats) (*system, error) {
	cl, err := kafkaconn.Open(c.Cluster(log))
	if err != nil {
		return nil, err
	}
	t := &Topics{config: c, cluster: cl, stats: stats, log: log}
	if settings, ok := c.SchemaRegistry(log, t.registryChanged); ok {
		settings.MostText = schemaBytes(c.Memory)
		if t.registry, err = registry.Open(settings); err != nil {
			cl.Close()
			return nil, err
		}
	}
	m := &Models{Topics: t, owner: &pipeline.ModelsOwner{Base: c.Snapshot.ModelID, Ours: t.ours()}}
	p := &Positions{Models: m}
	p.starts, p.keyedStarts.markers = p.startMarkers(), p.startMarkersOf
	return &system{Topics: t, Models: m, Publisher: &Publisher{m}, Positions: p}, nil
}

// close ends all connections.
func (s *Topics) close() {
	if s.registry != nil {
		s.registry.Close()
	}
	s.cluster.Close()
}

// open returns a system without a status server, for commands that only look.
func openOnly(p *program, o *options) (*system, error) {
	cfg, err := p.load(o)
	if err != nil {
		return nil, err
	}
	return newSystem(cfg, quietLogger(p, cfg.Logger), pipeline.NewStats())
}

// connect is open, once a broker answers.
func connect(ctx context.Context, p *program, o *options) (*system, error) {
	s, err := openOnly(p, o)
	if err != nil {
		return nil, err
	}
	if err := s.reach(ctx, lookFor); err != nil {
		s.close()
		return nil, err
	}
	s.cluster.Persist(persistFor)
	return s, nil
}

// reach waits until a broker answers. Until then the process is not ready, and says why.
func (s *Topics) reach(ctx context.Context, limit time.Duration) error {
	err := source.Reach(ctx, s.cluster, limit, func(err error) {
		s.stats.SetBroker(pipeline.Readiness{Reason: fmt.Sprintf("no broker has answered yet: %s", logs.Plain(err.Error()))})
	})
	if err == nil {
		s.stats.SetBroker(pipeline.Readiness{Ready: true})
	}
	return err
}

// registryChanged stores whether the schema registry answers. While it does not, values may have to wait for it.
func (s *Topics) registryChanged(cause error) {
	r := pipeline.Readiness{Ready: cause == nil}
	if cause != nil {
		r.Reason = "the schema registry does not answer: " + logs.Plain(cause.Error())
	}
	s.stats.SetRegistry(r)
}

// quietLogger logs warnings and worse, unless the configuration asks for more: commands that print
// an answer should print nothing else.
func quietLogger(p *program, c config.Logger) *slog.Logger {
	if c.Level == config.LevelInfo {
		c.Level = config.LevelWarn
	}
	return p.logger(c)
}
