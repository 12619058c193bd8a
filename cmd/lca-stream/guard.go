package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline"
)

const (
	// guardEvery is the interval of checks of the cluster, each of which may take guardWait.
	guardEvery = 2 * time.Second
	guardWait  = 5 * time.Second

	// silentAfter is how long no broker may answer before the process reports that it is not ready.
	silentAfter = 5 * time.Second

	// goneAfter is how long brokers may say that a topic is gone before the process stops: longer than a broker that
	// restarts takes to learn of all topics.
	goneAfter = 15 * time.Second
)

// checkTopics compares the topics that a command needs with what they must be like. A fault ends the start, a warning
// is logged. Brokers that do not answer now are left to the work itself, which waits for them.
func (s *Topics) checkTopics(ctx context.Context, wants []topics.Want) error {
	ctx, cancel := context.WithTimeout(ctx, 3*guardWait)
	defer cancel()
	findings, err := topics.Check(ctx, s.cluster, wants)
	if err != nil {
		s.log.Warn("the settings of the topics were not checked", "error", err)
		return nil
	}
	var faults []string
	for _, f := range findings {
		switch {
		case f.Denied: // the work itself needs more than to see it, and stops with the name of the right
			s.log.Warn("a topic was not checked", "topic", f.Topic, "key", f.Path, "reason", strings.Join(f.Faults, ", "))
		case !f.OK():
			faults = append(faults, f.Fault())
		}
		if len(f.Warnings) > 0 {
			s.log.Warn("a topic is at risk", "topic", f.Topic, "key", f.Path, "warnings", strings.Join(f.Warnings, ", "), "remedy", f.Advice)
		}
	}
	if len(faults) > 0 {
		return &pipeline.Stop{Err: errors.New(strings.Join(faults, "; ")), Remedy: "`lca-stream topics check` says the same"}
	}
	return nil
}

// guarded does the work, and ends it when a topic that it needs is gone. The work itself cannot tell a deleted topic
// from one whose leader moves, and would retry forever.
func (s *Process) guarded(ctx context.Context, command string, wants []topics.Want, work func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	g := &guard{system: s, wants: wants, learns: command != "transform", gone: map[string]time.Time{}}
	watching, leave := context.WithCancel(ctx)
	watched := make(chan struct{})
	var gone error
	go func() {
		defer close(watched)
		if gone = g.watch(watching); gone != nil {
			stop(gone)
		}
	}()
	err := work(ctx)
	leave()
	<-watched
	if gone != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return gone
	}
	return err
}

// guard watches brokers and topics while the work goes on.
type guard struct {
	system *Process
	wants  []topics.Want
	learns bool // it reads all partitions of the source

	silent  time.Time            // since when no broker has answered; zero: one has
	gone    map[string]time.Time // topic → since when brokers say that it is not as needed
	leaders leaders
}

// watch returns nil when ctx ends, and earlier only with a reason to stop.
func (g *guard) watch(ctx context.Context) error {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		if err := g.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (g *guard) look(ctx context.Context) error {
	one, cancel := context.WithTimeout(ctx, guardWait)
	defer cancel()
	began := time.Now()
	findings, err := topics.Present(one, g.system.cluster, g.wants)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		g.silence(began, err)
		return nil
	}
	if !g.silent.IsZero() && time.Since(g.silent) > silentAfter {
		g.system.log.Info("brokers answer again", "after", time.Since(g.silent).Round(time.Second))
	}
	g.silent = time.Time{}
	g.system.stats.SetBroker(pipeline.Readiness{Ready: true})
	there := g.led(findings)
	for _, f := range findings {
		if err := g.missing(f); err != nil {
			return err
		}
		if !f.OK() && there.Ready {
			there = pipeline.Readiness{Reason: fmt.Sprintf("topic %s (%s) %s", f.Topic, f.Path, strings.Join(f.Faults, ", "))}
		}
	}
	g.system.stats.SetTopics(there)
	return nil
}

// silence notes that no broker has answered.
func (g *guard) silence(began time.Time, err error) {
	if g.silent.IsZero() {
		g.silent = began
	}
	since := time.Since(g.silent)
	if since < silentAfter {
		return
	}
	g.system.stats.SetBroker(pipeline.Readiness{Reason: fmt.Sprintf("no broker has answered for %v: %s", since.Round(time.Second), logs.Plain(err.Error()))})
	g.system.log.Warn("no broker answers", "for", since.Round(time.Second), "error", err)
}

// missing returns the reason to stop once brokers have said for long enough that a topic is not as needed.
func (g *guard) missing(f topics.Finding) error {
	if f.OK() {
		delete(g.gone, f.Topic)
		return nil
	}
	since, known := g.gone[f.Topic]
	if !known {
		g.gone[f.Topic] = time.Now()
		g.system.log.Warn("a topic is not as it must be", "topic", f.Topic, "key", f.Path, "fault", strings.Join(f.Faults, ", "), "stop_in", goneAfter)
		return nil
	}
	if time.Since(since) < goneAfter {
		return nil
	}
	return &pipeline.Stop{Err: errors.New(f.Fault())}
}
