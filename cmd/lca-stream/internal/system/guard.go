package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
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
	findings, err := topics.Present(one, g.system.Cluster, g.wants)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		g.silence(began, err)
		return nil
	}
	if !g.silent.IsZero() && time.Since(g.silent) > silentAfter {
		g.system.Log.Info("brokers answer again", "after", time.Since(g.silent).Round(time.Second))
	}
	g.silent = time.Time{}
	g.system.Stats.SetBroker(stats.Readiness{Ready: true})
	there := g.led(findings)
	for _, f := range findings {
		if err := g.missing(f); err != nil {
			return err
		}
		if !f.OK() && there.Ready {
			there = stats.Readiness{Reason: fmt.Sprintf("topic %s (%s) %s", f.Topic, f.Path, strings.Join(f.Faults, ", "))}
		}
	}
	g.system.Stats.SetTopics(there)
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
	g.system.Stats.SetBroker(stats.Readiness{Reason: fmt.Sprintf("no broker has answered for %v: %s", since.Round(time.Second), logs.Plain(err.Error()))})
	g.system.Log.Warn("no broker answers", "for", since.Round(time.Second), "error", err)
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
		g.system.Log.Warn("a topic is not as it must be", "topic", f.Topic, "key", f.Path, "fault", strings.Join(f.Faults, ", "), "stop_in", goneAfter)
		return nil
	}
	if time.Since(since) < goneAfter {
		return nil
	}
	return &reject.Stop{Err: errors.New(f.Fault())}
}

const (
	// leaderlessAfter is how long a partition may have no leader before that is reported: longer than an election.
	leaderlessAfter = 10 * time.Second
	// mostNamed bounds the partitions that one line of the log names.
	mostNamed = 10
)

// leaders knows since when partitions have had no leader.
type leaders struct {
	without map[source.Partition]time.Time
	said    time.Time // since when, as the log says; zero: it says nothing
}

// led reports which partitions have had no leader for longer than an election takes, and that all have one again.
// Brokers answer all the while, and a source that cannot be written has no records that wait: nothing else would show
// it. The process is not ready while it needs one of them.
func (g *guard) led(findings []topics.Finding) stats.Readiness {
	r, l := stats.Readiness{Ready: true}, &g.leaders
	now, oldest, long := map[source.Partition]time.Time{}, time.Now(), []string(nil)
	for _, f := range findings {
		for _, id := range f.Leaderless {
			p := source.Partition{Topic: f.Topic, ID: id}
			began, known := l.without[p]
			if !known {
				began = time.Now()
			}
			now[p] = began
			if time.Since(began) < leaderlessAfter {
				continue
			}
			long = append(long, fmt.Sprintf("%s (%s)", p, f.Path))
			if began.Before(oldest) {
				oldest = began
			}
			if r.Ready && g.needs(f.Path, id) {
				r = stats.Readiness{Reason: fmt.Sprintf("partition %s (%s) has had no leader for %v: the brokers that have its replicas are away, or their disks have failed",
					p, f.Path, time.Since(began).Round(time.Second))}
			}
		}
	}
	l.without = now
	switch {
	case len(long) > 0:
		l.said = oldest
		g.system.Log.Warn("partitions have no leader: they are neither read nor written", "number", len(long), "partitions", strings.Join(long[:min(len(long), mostNamed)], ", "),
			"for", time.Since(oldest).Round(time.Second), "remedy", "start the brokers that have their replicas, or see to their disks")
	case !l.said.IsZero() && len(now) == 0:
		g.system.Log.Info("all partitions have a leader again", "after", time.Since(l.said).Round(time.Second))
		l.said = time.Time{}
	}
	return r
}

// needs reports whether the work stands still without a partition. Of dead letters and alarms it is not known: if it
// does, records wait for a commit, and that is reported.
func (g *guard) needs(path string, id int32) bool {
	mine := slices.Contains(g.system.Stats.Owned("transform"), source.Partition{Topic: g.system.Config.Source.Topic, ID: id})
	switch path {
	case "source.topic":
		return g.learns || mine
	case "transform.topic":
		return mine
	case "snapshot.topic", "checkpoint.topic":
		return id == 0
	}
	return false
}
