package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/status"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/internal/tracing"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

// Topics reads and writes the topics of a configuration.
type Topics struct {
	config   *config.Config
	cluster  *kafkaconn.Cluster
	registry *registry.Client // nil: none is configured
	stats    *pipeline.Stats
	log      *slog.Logger
	memory   *source.Memory // of all readers; nil: each has its own
	link     *sink.Link     // of all producers; nil: each has its own
	said     sync.Map       // names of schemas of which leftOut has said what is left out
}

// Models finds the models of a configuration: snapshots on their topic, and the checkpoints of their learners.
type Models struct {
	*Topics

	owner *pipeline.ModelsOwner // of models by value; for one goroutine at a time
}

// Publisher publishes models that were not made by the live learner.
type Publisher struct {
	*Models
}

// Positions decides where partitions are read from.
type Positions struct {
	*Models

	starts      *pipeline.Starts // start markers, shared by learner and transform
	keyedStarts keyedStarts      // … of each partition, with a model for each key
}

// system is what a command can do with a configuration and its brokers.
type system struct {
	*Topics
	*Models
	*Publisher
	*Positions
}

// Process is a system that stays: with one link, one memory and one set of counters for all of its stages, a status
// server, and traces if they are configured.
type Process struct {
	*system
	status  *status.Server
	traces  *tracing.Tracing
	engines *pipeline.Engines // of all transforms
	limit   int64             // bytes that the process may use
	rate    *source.Rate      // of the transform's transactions

	instance atomic.Pointer[string]            // name of this member of the group; nil: it has none
	sharing  atomic.Pointer[[]status.Instance] // members of the group in its latest generation; nil: not known
	labels   atomic.Pointer[labels]            // true labels, in the demo; nil elsewhere
}

// labels returns the true label of a row, where it is known.
type labels func(row []float64) (label int, ok bool)

// openProcess connects for that number of stages, checks that the topics exist, and starts the status server.
func openProcess(ctx context.Context, c *config.Config, log *slog.Logger, stages int, needed ...string) (*Process, error) {
	last := &logs.Last{}
	log = slog.New(last.Handler(log.Handler()))
	cold, err := newSystem(c, log, pipeline.NewStats())
	if err != nil {
		return nil, err
	}
	s := &Process{system: cold}
	sayRisks(c, log)
	paceCollector()
	s.limit = memoryLimit(c.Memory, log)
	s.memory, s.rate = source.NewMemory(s.limit, stages), source.NewRate(mostTransactions)
	s.link, s.engines = sink.NewLink(s.memory.SpareRequests()), pipeline.NewEngines(runtime.GOMAXPROCS(0), s.memory.Spare())
	if s.traces, err = tracing.Start(ctx, buildInfo().Version, log); err != nil {
		s.cluster.Close()
		return nil, usageError("%w", err)
	}
	s.stats.SetReady(pipeline.Readiness{Reason: "connecting"})
	if c.HTTP.Listen != "" {
		s.status, err = status.Start(status.Config{
			Listen: c.HTTP.Listen, Hosts: c.HTTP.AllowedHosts, Debug: c.HTTP.DebugEndpoints, Build: statusBuild(buildInfo()), Stats: s.stats, Log: log,
			Names: s.names, Model: s.finder(), Label: s.label, Trouble: last.Trouble, Masked: func() any { return config.Print(c) },
		})
		if err != nil {
			s.close()
			return nil, err
		}
		log.Info("status page", "url", "http://"+s.status.Addr()+"/")
	}
	if err := s.reach(ctx, startFor); err != nil {
		s.close()
		return nil, err
	}
	for _, topic := range needed {
		if _, err := s.partitions(ctx, topic); err != nil {
			s.close()
			return nil, missing(c, topic, err)
		}
	}
	return s, nil
}

// stagesOf returns how many stages of a command read the source.
func stagesOf(command string) int {
	if command == "run" {
		return 2
	}
	return 1
}

// missingTopic is the error for a topic that does not exist.
type missingTopic struct {
	topic    string
	question string // asks whether another topic was meant; "": none has a similar name
}

// Error names the topic, and the one that may have been meant, or else what to do.
func (e *missingTopic) Error() string {
	question := strings.TrimSpace(e.question)
	if question == "" {
		question = "correct its name, or have its producers create it"
	}
	return fmt.Sprintf("topic %s: %v; %s", e.topic, source.ErrNoTopic, question)
}

// Unwrap returns the brokers' answer.
func (e *missingTopic) Unwrap() error { return source.ErrNoTopic }

// missing names the key of a missing topic, and the command that creates it.
func missing(c *config.Config, topic string, err error) error {
	var gone *missingTopic
	if !errors.As(err, &gone) {
		return err
	}
	for _, w := range topics.Wanted(c) {
		if w.Topic == topic {
			question := gone.question
			if w.Path != "source.topic" { // a similar name is that of another stream's topic, which this one must not write to
				question = ""
			}
			return fmt.Errorf("%s (%s): %w: %s%s", topic, w.Path, source.ErrNoTopic, question, w.CreateIt())
		}
	}
	return err
}

// systemCommand makes c a command that works on the configuration's cluster. The topics that it needs must exist
// there.
func systemCommand(p *program, c *cobra.Command, needed func(*config.Config) ([]string, error), work func(context.Context, *Process) error) *cobra.Command {
	o := p.configFlags(c)
	return command(c, func(ctx context.Context, _ []string) error { return onTopics(ctx, p, c, o, needed, work) })
}

// onTopics opens the system of a configuration, whose topics must be there, and works on them.
func onTopics(ctx context.Context, p *program, c *cobra.Command, o *options, needed func(*config.Config) ([]string, error), work func(context.Context, *Process) error) error {
	o.needed = true
	cfg, err := p.load(o)
	if err != nil {
		return err
	}
	names, err := needed(cfg) // or why these flags do not go with the configuration, for which no broker is asked
	if err != nil {
		return err
	}
	p.log = p.logger(cfg.Logger)
	s, err := openProcess(ctx, cfg, p.log, stagesOf(c.Name()), names...)
	if err != nil {
		return stopped(ctx, err)
	}
	defer s.close()
	wants := topics.Of(topics.Wanted(cfg), names)
	if err := s.checkTopics(ctx, wants); err != nil {
		return stopped(ctx, err)
	}
	return s.alive(ctx, c.Name(), func(ctx context.Context) error {
		return s.guarded(ctx, c.Name(), wants, func(ctx context.Context) error { return work(ctx, s) })
	})
}

// ours is the pipeline that models of this configuration belong to.
func (s *Topics) ours() pipeline.Owner {
	return pipeline.Owner{Group: s.config.Source.Group, Topic: s.config.Source.Topic}
}

// close ends the process's connections.
func (s *Process) close() {
	if s.status != nil {
		if err := s.status.Close(); err != nil {
			s.log.Debug("closing the status server", "error", err)
		}
	}
	s.traces.Close()
	s.Topics.close()
}

// names says what the pipeline works on.
func (s *Process) names() status.Names {
	c := s.config
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
	if known := s.labels.Load(); known != nil {
		return (*known)(row)
	}
	return 0, false
}

// partitions lists a topic's partitions, with a remedy when it is missing or cannot be reached.
func (s *Topics) partitions(ctx context.Context, topic string) ([]source.Partition, error) {
	parts, err := source.Partitions(ctx, s.cluster, topic)
	if errors.Is(err, source.ErrNoTopic) {
		return nil, &missingTopic{topic: topic, question: topics.Meant(ctx, s.cluster, topic)}
	}
	if err != nil {
		return nil, s.cluster.Explain(err)
	}
	return parts, nil
}

// input returns the partitions that this process works on: the static list, or all.
func (s *Topics) input(ctx context.Context) ([]source.Partition, error) {
	c := s.config.Source
	all, err := s.partitions(ctx, c.Topic)
	if err != nil || c.Assignment != config.AssignStatic || len(c.Partitions) == 0 {
		return all, err
	}
	var own []source.Partition
	for _, id := range c.Partitions {
		if int(id) >= len(all) {
			return nil, fmt.Errorf("source.partitions: topic %s has no partition %d: it has %d", c.Topic, id, len(all))
		}
		own = append(own, source.Partition{Topic: c.Topic, ID: id})
	}
	return own, nil
}

// spread returns a random wait of d on average.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// transformGather is how much one Read of the transform gathers: a transaction should be worth its round trips, and worth
// the pause after each, after which the Go runtime's monitor restarts at its highest rate.
const transformGather = 2 << 20

// learnGather is how much one Read of the learner gathers. It puts nothing between two batches, so small ones let a due
// snapshot out soon.
const learnGather = 64 << 10

// mostTransactions bounds the transactions per second that the partitions of a process begin together if
// transform.max_delay is auto. A transaction takes 1.7 ms of a broker's core, so these are most of one core. With 50
// partitions or more, which all have output all the time, they wait longer than 100 ms for their turn.
const mostTransactions = 500

// ownerCheck is how long a learner or a static transform may have nothing to put before it checks whether another
// process has taken its work.
const ownerCheck = 5 * time.Second

// learnIdle is the interval of the learner's empty batches while nothing comes.
const learnIdle = time.Second

// reader opens the input topic: k says where and for whom, f what of the values is needed, and the rest is the configuration's.
func (s *Topics) reader(ctx context.Context, k source.KafkaConfig, f format.Config) (*source.Kafka, error) {
	c := s.config.Source
	k.Cluster, k.Memory, k.RetryFor = s.cluster, s.memory, patience
	k.ReadUncommitted, k.MaxMessageBytes = c.IsolationLevel == config.ReadUncommitted, c.MaxMessageBytes
	var err error
	if k.Decoder, err = s.decoder(f); err != nil {
		return nil, err
	}
	return source.OpenKafka(ctx, k)
}

// featuresOnly asks for nothing but the features. Where none are named, the first values decide, so that all is needed.
func (s *Topics) featuresOnly() format.Config {
	names := s.config.Source.Features
	return format.Config{Columns: names, Only: len(names) > 0}
}

// leftOut says once what of a schema cannot be read, and so is in no output that is made of columns.
func (s *Topics) leftOut(l format.LeftOut) {
	if _, said := s.said.LoadOrStore(l.Of, true); said {
		return
	}
	about := []any{"schema", l.Of, "fields", strings.Join(l.Paths, ", ")}
	if l.More > 0 {
		about = append(about, "and_more", l.More)
	}
	s.log.Warn("fields of the source are left out, because a column cannot hold what contains itself", about...)
}

// decoder returns what reads the values of the input topic; c says what of them is needed.
func (s *Topics) decoder(c format.Config) (*format.Decoder, error) {
	c.Format, c.MaxBytes, c.LeftOut = format.Format(s.config.Source.Format), s.config.Source.MaxMessageBytes, s.leftOut
	if s.stats != nil {
		c.LeftOutValues = &s.stats.LeftOutValues
	}
	if s.registry != nil && c.Registry == nil {
		c.Registry = s.registry
	}
	file := s.config.Source.SchemaFile
	if file == "" {
		return format.NewDecoder(c)
	}
	schema, err := os.ReadFile(file)
	if err != nil {
		return nil, &kafkaconn.Error{Err: fmt.Errorf("source.schema_file: %w", err), Remedy: "correct the path, or let the process read the file"}
	}
	c.AvroSchema = string(schema)
	d, err := format.NewDecoder(c)
	if err != nil {
		return nil, &kafkaconn.Error{Err: fmt.Errorf("%s: %w", file, err), Remedy: "give source.schema_file a schema of Avro in JSON (.avsc), of one record or a union of records"}
	}
	return d, nil
}

// watch keeps the metrics of a stage's unread records up to date until ctx ends. In a process with two stages, the
// lag is that of only one of them. What a transform has read and not committed is lag too, because it may hang there.
func (s *Process) watch(ctx context.Context, stage string, first bool, lag func() map[source.Partition]source.Lag) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			behind, readable, open := map[source.Partition]int64{}, map[source.Partition]int64{}, int64(0)
			uncommitted := s.stats.Uncommitted("transform")
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
			s.stats.SetBehind(stage, readable)
			if first {
				s.stats.SetLag(behind, open)
			}
		}
	}
}
