package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/status"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/internal/tracing"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Process is a system that stays: with one link, one memory and one set of counters for all of its stages, a status
// server, and traces if they are configured.
type Process struct {
	*System
	Status  *status.Server
	Traces  *tracing.Tracing
	Engines *transform.Engines // of all transforms
	limit   int64              // bytes that the process may use
	Rate    *source.Rate       // of the transform's transactions

	instance atomic.Pointer[string]            // name of this member of the group; nil: it has none
	sharing  atomic.Pointer[[]status.Instance] // members of the group in its latest generation; nil: not known
	Labels   atomic.Pointer[Labels]            // true labels, in the demo; nil elsewhere
}

// Labels returns the true label of a row, where it is known.
type Labels func(row []float64) (label int, ok bool)

// OpenProcess connects for that number of stages, and starts the status server.
func OpenProcess(ctx context.Context, c *config.Config, log *slog.Logger, stages int) (*Process, error) {
	last := &logs.Last{}
	log = slog.New(last.Handler(log.Handler()))
	cold, err := New(c, log, stats.NewStats())
	if err != nil {
		return nil, err
	}
	s := &Process{System: cold}
	SayRisks(c, log)
	app.PaceCollector()
	s.limit = app.MemoryLimit(c.Memory, log)
	s.memory, s.Rate = source.NewMemory(s.limit, stages), source.NewRate(MostTransactions)
	s.link, s.Engines = sink.NewLink(s.memory.SpareRequests()), transform.NewEngines(runtime.GOMAXPROCS(0), s.memory.Spare())
	if s.Traces, err = tracing.Start(ctx, app.BuildInfo().Version, log); err != nil {
		s.Cluster.Close()
		return nil, app.UsageError("%w", err)
	}
	s.Stats.SetReady(stats.Readiness{Reason: "connecting"})
	if c.HTTP.Listen != "" {
		s.Status, err = status.Start(status.Config{
			Listen: c.HTTP.Listen, Hosts: c.HTTP.AllowedHosts, Debug: c.HTTP.DebugEndpoints, Build: statusBuild(app.BuildInfo()), Stats: s.Stats, Log: log,
			Names: s.names, Model: s.finder(), Label: s.label, Trouble: last.Trouble, Masked: func() any { return config.Print(c) },
		})
		if err != nil {
			s.Close()
			return nil, err
		}
		log.Info("status page", "url", "http://"+s.Status.Addr()+"/")
	}
	if err := s.Reach(ctx, startFor); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// MostTransactions bounds the transactions per second that the partitions of a process begin together, which wait for nothing else: a transaction
// takes what came while the one before it ran, so that its size follows the load. A transaction takes 1.7 ms of a broker's core, so these are most of one core. With 50
// partitions or more, which all have output all the time, they wait longer than 100 ms for their turn.
const MostTransactions = 500

// statusBuild returns what the status page shows of the build.
func statusBuild(b app.Build) status.Build {
	return status.Build{Version: b.Version, Revision: b.Revision, GoVersion: b.Go}
}

// Close ends the process's connections.
func (s *Process) Close() {
	if s.Status != nil {
		if err := s.Status.Close(); err != nil {
			s.Log.Debug("closing the status server", "error", err)
		}
	}
	s.Traces.Close()
	s.Topics.Close()
}

// names says what the pipeline works on.
func (s *Process) names() status.Names {
	c := s.Config
	n := status.Names{Source: c.Source.Topic, Output: c.Transform.Topic, Group: c.Source.Group, ModelID: c.Snapshot.ModelID, Instances: []status.Instance{}}
	if id := s.instance.Load(); id != nil {
		n.Instance = *id
	}
	if all := s.sharing.Load(); all != nil {
		n.Members, n.Instances = len(*all), (*all)[:min(len(*all), mostInstances)]
	}
	return n
}

// label returns the true label of a row, where it is known.
func (s *Process) label(row []float64) (label int, ok bool) {
	if known := s.Labels.Load(); known != nil {
		return (*known)(row)
	}
	return 0, false
}

// ShutdownTimeout is the longest stop after a signal: what is in flight is committed, and the group is left. It is what Kubernetes gives a pod unless
// told otherwise. A longer one would not be worth waiting for, because what is given up is only done again.
const ShutdownTimeout = 30 * time.Second

// alive runs work, and logs its beginning and its end. What cannot be finished within a time after a signal, because no broker answers or because it
// takes longer to compute, is no fault: it was not committed, and the next start does it again.
func (s *Process) alive(ctx context.Context, command string, within time.Duration, work func(context.Context) error) error {
	c := s.Config
	s.Log.Info("starting", "command", command, "version", app.BuildInfo().Version, "topic", c.Source.Topic, "group", c.Source.Group, "model_id", c.Snapshot.ModelID)
	said := make(chan struct{})
	unsaid := context.AfterFunc(ctx, func() {
		defer close(said)
		s.Stats.SetStopping()
		s.Log.Info("stopping: what is in progress is finished first", "within", within.String())
	})
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-after(ctx, within):
		s.Log.Warn("what was in progress takes longer and is given up; none of it is committed, and the next start does it again", "within", within.String())
		return nil
	}
	if !unsaid() {
		<-said
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		s.Log.Warn("what was in progress could not be finished; none of it is committed, and the next start does it again", "error", err)
		err = nil
	}
	if err == nil {
		s.Log.Info("stopped", s.left(context.WithoutCancel(ctx), command)...)
	}
	return err
}

// after returns a channel that is closed some time after ctx has ended.
func after(ctx context.Context, d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(d, func() { close(over) }) })
	return over
}

// leftWithin is how long the brokers have to say what is left.
const leftWithin = 2 * time.Second

// left asks what is left of the partitions that this process has had: records that are not committed.
func (s *Process) left(ctx context.Context, command string) []any {
	ctx, cancel := context.WithTimeout(ctx, leftWithin)
	defer cancel()
	lag, err := s.uncommitted(ctx, command)
	if err != nil {
		return []any{"records_left", "not known: no broker says it"}
	}
	if len(lag) == 0 {
		return nil // it has had no partition
	}
	left, by := leftOf(lag)
	about := []any{"records_left", left}
	if by != "" {
		about = append(about, "by_partition", by)
	}
	return about
}

func (s *Process) uncommitted(ctx context.Context, command string) (map[source.Partition]int64, error) {
	group, parts := s.Config.Source.Group, s.Stats.Owned("transform")
	if command == "learn" {
		all, err := s.Input(ctx)
		if err != nil {
			return nil, err
		}
		group, parts = LearnGroup(s.Config), all
	}
	committed, err := source.CommittedSoFar(ctx, s.Cluster, group, parts)
	if err != nil {
		return nil, err
	}
	ends, err := source.ListOffsets(ctx, s.Cluster, parts, source.Latest)
	lag := map[source.Partition]int64{}
	for _, p := range parts {
		lag[p] = max(ends[p]-max(committed[p].Next, 0), 0)
	}
	return lag, err
}

// leftOf returns the number of records left, and that of each partition that has any.
func leftOf(lag map[source.Partition]int64) (left int64, by string) {
	const shown = 40
	var each []string
	for _, p := range slices.SortedFunc(maps.Keys(lag), source.Partition.Compare) {
		if left += lag[p]; lag[p] > 0 {
			each = append(each, fmt.Sprintf("%d=%d", p.ID, lag[p]))
		}
	}
	if more := len(each) - shown; more > 0 {
		each = append(each[:shown], fmt.Sprintf("and %d more partitions", more))
	}
	return left, strings.Join(each, ", ")
}

// Watch keeps the metrics of a stage's unread records up to date until ctx ends. In a process with two stages, the
// lag is that of only one of them. What a transform has read and not committed is lag too, because it may hang there.
func (s *Process) Watch(ctx context.Context, stage string, first bool, lag func() map[source.Partition]source.Lag) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			behind, readable, open := map[source.Partition]int64{}, map[source.Partition]int64{}, int64(0)
			uncommitted := s.Stats.Uncommitted("transform")
			for p, l := range lag() {
				next, held := uncommitted[p]
				if !held {
					next = l.Next
				}
				behind[p], readable[p] = max(l.High-min(next, l.Next), 0), l.Stable-l.Next
				if l.Stable < l.High {
					open++
				}
			}
			if ctx.Err() != nil { // the partitions are given back, and their last lag is what is left
				return
			}
			s.Stats.SetBehind(stage, readable)
			if first {
				s.Stats.SetLag(behind, open)
			}
		}
	}
}

// Grace returns the shutdown timeout less some time for leaving the group and closing connections.
func (s *Process) Grace() time.Duration { return ShutdownTimeout * 8 / 10 }

// ModelMemory is the most that the models of a stage take: model.memory, or half of memory.limit if that is less. Garbage beyond
// garbageOfModels is counted in, as are the buffers around it, so that a process stays below model.memory and 256 MiB.
func (s *Process) ModelMemory() int {
	const garbageOfModels, buffers = 256 << 20, 64 << 20
	most := min(s.Config.Model.Memory, int(s.limit/2))
	return min(most, (most+garbageOfModels)*100/(100+app.GarbageLeast)-buffers)
}
