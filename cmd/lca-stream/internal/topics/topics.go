// Package topics knows what the topics of a configuration must be like, creates missing ones, and reports what is
// wrong with existing ones.
//
//	report, err := topics.Init(ctx, cl, topics.Wanted(cfg), topics.Creation{Replication: 3})
//	report, err := topics.Check(ctx, cl, topics.Wanted(cfg))
//
// A fault is a setting that would lose something or that cannot work: run, learn and transform do not start with one.
// A warning is a risk that may be an administrator's decision: it is only reported.
//
// It never alters the settings of an existing topic: its retention, for example, may be an administrator's decision. A
// Finding's Remedy says how to change it. With a model for each value it adds partitions to topics of ours, as many as the
// source has gained. It does not create the source, which other programs own.
package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/internal/typo"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

const (
	// largestChunk is the size of the largest record of a snapshot or a checkpoint, with headers and batch: chunks
	// are cut at 900 kB.
	largestChunk = 1_000_000
	// headers is room for what we add to a message, in bytes.
	headers = 64 << 10
	// sourcePath is the key of the one topic that other programs own.
	sourcePath = "source.topic"
	// alarmsPath is the key of the topic that may also be compacted: then it holds the last word on each series.
	alarmsPath = "alarms.topic"
	// brokerDefault lets the broker choose (KIP-464, Kafka 2.4).
	brokerDefault = -1
)

// Want is what one topic must be like.
type Want struct {
	Path         string // the key that names it, such as snapshot.topic
	Topic        string
	Partitions   int       // number of partitions in use; 0: as many as the source has
	Fewer        bool      // fewer than the source has suffice: partition p goes to p mod their number
	Least        int       // enough if not all partitions of the source are read; 0: as many as those
	Compact      bool      // cleanup.policy must be compact: the newest value of each key is the state
	MessageBytes int       // least max.message.bytes; 0: any
	FromSource   int       // least max.message.bytes as a multiple of the source topic's, plus headers
	Grows        bool      // Init adds partitions where it has fewer than the source
	Lag          bool      // compaction must leave overwritten records for some time: see compactionLag
	Keyed        bool      // there is to be a model for each value of model.by
	Other        string    // model that the topic holds of the other kind: for all rows, or for a value; "": none
	Kept         retention // of a topic that is created, at least; 0: the brokers' default
	SourceTimes  bool      // its records have the times of the source's: kept for less, old ones are deleted soon after they are written
}

// Wanted lists the topics of a configuration, the source first.
func Wanted(c *config.Config) []Want {
	wants := []Want{
		{Path: sourcePath, Topic: c.Source.Topic},
		// A whitened row may double a row's size: float32 coordinates next to float32 columns.
		{Path: "transform.topic", Topic: c.Transform.Topic, FromSource: 2, SourceTimes: true, Least: leastOutput(c)},
		{Path: "snapshot.topic", Topic: c.Snapshot.Topic, Partitions: 1, Compact: true, MessageBytes: largestChunk},
		{Path: "checkpoint.topic", Topic: c.Checkpoint.Topic, Partitions: 1, Compact: true, MessageBytes: largestChunk},
	}
	if c.Model.By.Keyed() {
		copartitioned(wants, leastOutput(c))
	}
	if c.DeadLetter.Topic != "" {
		// What the topic does not take is cut, and what is left must fit.
		wants = append(wants, Want{Path: "dead_letter.topic", Topic: c.DeadLetter.Topic, Fewer: true, FromSource: 1, SourceTimes: true, MessageBytes: reject.DeadLetterBytes})
	}
	if c.Alarms.Topic != "" { // all events of a model have one key
		wants = append(wants, Want{Path: alarmsPath, Topic: c.Alarms.Topic, Fewer: true, SourceTimes: true, Kept: alarmsKept, MessageBytes: transform.AlarmBytes})
	}
	if states := c.StateTopic(); states != "" {
		wants = append(wants, Want{Path: "transform.state_topic", Topic: states, Compact: true, Least: leastOutput(c), MessageBytes: transform.StateBytes, Grows: true})
	}
	return wants
}

// leastOutput returns how many partitions of the output a static list of partitions reaches; 0: all.
func leastOutput(c *config.Config) int {
	if len(c.Source.Partitions) == 0 {
		return 0
	}
	return int(slices.Max(c.Source.Partitions)) + 1
}

// Of returns the wants for the named topics: the source, and what else a command needs.
func Of(wants []Want, names []string) []Want {
	var some []Want
	for i, w := range wants {
		if i == 0 || slices.Contains(names, w.Topic) {
			some = append(some, w)
		}
	}
	return some
}

// Finding is the result for one topic.
type Finding struct {
	Path         string   `json:"path"`
	Topic        string   `json:"topic"`
	Created      bool     `json:"created"`
	Denied       bool     `json:"denied,omitempty"` // the user may not see the topic
	Partitions   int      `json:"partitions"`       // 0: the topic is missing, or denied
	Replication  int      `json:"replication"`      // of the partition with the fewest replicas
	Policy       string   `json:"cleanup_policy"`
	MessageBytes int      `json:"max_message_bytes"`
	Leaderless   []int32  `json:"leaderless,omitempty"` // partitions without a leader: they can be neither read nor written
	Faults       []string `json:"faults"`               // none: the topic can be used
	Remedy       string   `json:"remedy,omitempty"`
	Warnings     []string `json:"warnings"`
	Advice       string   `json:"advice,omitempty"` // what to do about the warnings
}

// OK reports whether the topic can be used.
func (f Finding) OK() bool { return len(f.Faults) == 0 }

// String returns the finding on one line, and the warnings on another.
func (f Finding) String() string {
	var lines []string
	if !f.OK() {
		lines = append(lines, "FAULT   "+terminal.Line(f.Fault()))
	} else {
		verdict := "ok     "
		if f.Created {
			verdict = "created"
		}
		lines = append(lines, fmt.Sprintf("%s %s (%s): %s, %s, max.message.bytes %d", verdict, f.Topic, f.Path, plural.Count(f.Partitions, "partition"), terminal.Line(f.Policy), f.MessageBytes))
	}
	if len(f.Warnings) > 0 {
		lines = append(lines, "warning "+terminal.Line(f.Warning()))
	}
	return strings.Join(lines, "\n")
}

// Fault returns what is wrong and what to do about it.
func (f Finding) Fault() string { return f.says(f.Faults, f.Remedy) }

// Warning returns the same for the warnings.
func (f Finding) Warning() string { return f.says(f.Warnings, f.Advice) }

func (f Finding) says(what []string, remedy string) string {
	return fmt.Sprintf("%s (%s): %s; %s", f.Topic, f.Path, strings.Join(what, ", "), remedy)
}

// Check compares the topics with what they must be like. It returns an error if the brokers cannot be reached.
func Check(ctx context.Context, cl *kafkaconn.Cluster, wants []Want) ([]Finding, error) {
	found, err := describe(ctx, cl, wants)
	if err != nil {
		return nil, err
	}
	brokers, err := brokers(ctx, cl, wants[0].Topic)
	if err != nil {
		return nil, err
	}
	source := found[wants[0].Topic]
	findings := make([]Finding, len(wants))
	for i, w := range wants {
		findings[i] = compare(w, found[w.Topic], source, brokers)
	}
	if source.partitions == 0 && source.denied == nil {
		findings[0].Remedy = Meant(ctx, cl, wants[0].Topic) + findings[0].Remedy
	}
	return findings, nil
}

func brokers(ctx context.Context, cl *kafkaconn.Cluster, topic string) (int, error) {
	answer, err := cl.Client().Metadata(ctx, &kafka.MetadataRequest{Addr: cl.Addr(), Topics: []string{topic}})
	if err != nil {
		return 0, fmt.Errorf("topics: list the brokers: %w", cl.Explain(err))
	}
	return len(answer.Brokers), nil
}

func (w Want) leastBytes(source topic) int {
	if w.FromSource > 0 && source.messageBytes > 0 {
		return w.FromSource*source.messageBytes + headers
	}
	return w.MessageBytes
}

// Present checks whether the topics still exist, with as many partitions as they need, and which of these have no
// leader. It checks nothing else: one small request, which is repeated while the work goes on. It returns an error if the brokers cannot be reached.
func Present(ctx context.Context, cl *kafkaconn.Cluster, wants []Want) ([]Finding, error) {
	metadata, err := cl.Metadata(ctx, names(wants)...)
	if err != nil {
		return nil, fmt.Errorf("topics: %w", cl.Explain(err))
	}
	source := topic{partitions: len(metadata[wants[0].Topic].Partitions)}
	findings := make([]Finding, len(wants))
	for i, w := range wants {
		findings[i] = Finding{Path: w.Path, Topic: w.Topic}
		t := metadata[w.Topic]
		have := topic{partitions: len(t.Partitions)}
		var faults, warnings verdict
		switch {
		case errors.Is(t.Err, kafka.UnknownTopicOrPartition):
			faults.add(w.CreateIt(), "is missing")
		case errors.Is(t.Err, kafka.TopicAuthorizationFailed):
			// The client's own metadata leave the topic out, so that its requests cannot tell this case from a topic
			// that is still to come. They would be repeated forever.
			faults.add("`lca-stream doctor` says which right is missing", "is not for this user any more: %v", t.Err)
		case have.partitions > 0: // otherwise an election is under way, and the work itself waits for it
			comparePartitions(w, have, source, &faults, &warnings)
		}
		findings[i].Leaderless = leaderless(t)
		findings[i].Partitions, findings[i].Faults, findings[i].Remedy = have.partitions, faults.what, faults.remedy()
	}
	return findings, nil
}

// Meant asks whether a topic of a similar name was meant, and ends with a space. It returns "" if there is none, or if the brokers do not say
// which topics there are: a user sees those that it may describe.
func Meant(ctx context.Context, cl *kafkaconn.Cluster, name string) string {
	answer, err := cl.Client().Metadata(ctx, &kafka.MetadataRequest{Addr: cl.Addr()})
	if err != nil {
		return ""
	}
	var names []string
	for _, t := range answer.Topics {
		if !t.Internal && t.Name != name {
			names = append(names, t.Name)
		}
	}
	if question := typo.Question(name, names); question != "" {
		return question + " "
	}
	return ""
}
