package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

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
func (g *guard) led(findings []topics.Finding) pipeline.Readiness {
	r, l := pipeline.Readiness{Ready: true}, &g.leaders
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
				r = pipeline.Readiness{Reason: fmt.Sprintf("partition %s (%s) has had no leader for %v: the brokers that have its replicas are away, or their disks have failed",
					p, f.Path, time.Since(began).Round(time.Second))}
			}
		}
	}
	l.without = now
	switch {
	case len(long) > 0:
		l.said = oldest
		g.system.log.Warn("partitions have no leader: they are neither read nor written", "number", len(long), "partitions", strings.Join(long[:min(len(long), mostNamed)], ", "),
			"for", time.Since(oldest).Round(time.Second), "remedy", "start the brokers that have their replicas, or see to their disks")
	case !l.said.IsZero() && len(now) == 0:
		g.system.log.Info("all partitions have a leader again", "after", time.Since(l.said).Round(time.Second))
		l.said = time.Time{}
	}
	return r
}

// needs reports whether the work stands still without a partition. Of dead letters and alarms it is not known: if it
// does, records wait for a commit, and that is reported.
func (g *guard) needs(path string, id int32) bool {
	mine := slices.Contains(g.system.stats.Owned("transform"), source.Partition{Topic: g.system.config.Source.Topic, ID: id})
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
