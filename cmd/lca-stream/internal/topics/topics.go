// Package topics knows what the topics of a configuration must be like, creates those that are
// missing, and says what is wrong with those that are there.
//
//	report, err := topics.Init(ctx, cl, topics.Wanted(cfg), topics.Creation{Partitions: 3})
//	report, err := topics.Check(ctx, cl, topics.Wanted(cfg))
//
// It never alters a topic that exists: its retention, say, may be somebody's decision. A Finding's
// Remedy says how to.
package topics

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/cluster"
)

const (
	// largestChunk is what one record of a snapshot or a checkpoint may take, with headers and batch
	// around it: chunks are cut at 900 kB.
	largestChunk = 1_000_000
	// headers is room for what we add to a message, bytes.
	headers = 64 << 10
	// brokerDefault lets the broker choose (KIP-464, Kafka 2.4).
	brokerDefault = -1
)

// Want is what one topic must be like.
type Want struct {
	Path         string // the key that names it, such as snapshot.topic
	Topic        string
	Partitions   int  // how many; 0: as many as the source has
	Compact      bool // cleanup.policy must be compact: the newest value of each key is the state
	MessageBytes int  // least max.message.bytes; 0: any
	FromSource   int  // or this many times the source topic's max.message.bytes, plus headers
}

// Wanted lists the topics of a configuration, the source first.
func Wanted(c *config.Config) []Want {
	wants := []Want{
		{Path: "source.topic", Topic: c.Source.Topic},
		// A whitened row may be as long again as the row: float32 coordinates beside float32 columns.
		{Path: "transform.topic", Topic: c.Transform.Topic, FromSource: 2},
		{Path: "snapshot.topic", Topic: c.Snapshot.Topic, Partitions: 1, Compact: true, MessageBytes: largestChunk},
		{Path: "checkpoint.topic", Topic: c.Checkpoint.Topic, Partitions: 1, Compact: true, MessageBytes: largestChunk},
	}
	if c.DeadLetter.Topic != "" {
		wants = append(wants, Want{Path: "dead_letter.topic", Topic: c.DeadLetter.Topic, FromSource: 1})
	}
	return wants
}

// Finding is what was found of one topic.
type Finding struct {
	Path         string   `json:"path"`
	Topic        string   `json:"topic"`
	Created      bool     `json:"created"`
	Partitions   int      `json:"partitions"` // 0: the topic is missing
	Policy       string   `json:"cleanup_policy"`
	MessageBytes int      `json:"max_message_bytes"`
	Faults       []string `json:"faults"` // empty: as it must be
	Remedy       string   `json:"remedy,omitempty"`
}

// OK reports whether the topic is as it must be.
func (f Finding) OK() bool { return len(f.Faults) == 0 }

// String is the finding on one line.
func (f Finding) String() string {
	verdict := "ok     "
	if f.Created {
		verdict = "created"
	}
	if !f.OK() {
		return fmt.Sprintf("FAULT   %s (%s): %s; %s", f.Topic, f.Path, strings.Join(f.Faults, ", "), f.Remedy)
	}
	return fmt.Sprintf("%s %s (%s): %d partitions, %s, max.message.bytes %d", verdict, f.Topic, f.Path, f.Partitions, f.Policy, f.MessageBytes)
}

// Check compares the topics with what they must be like. Its error is one of reaching the brokers.
func Check(ctx context.Context, cl *cluster.Cluster, wants []Want) ([]Finding, error) {
	found, err := describe(ctx, cl, wants)
	if err != nil {
		return nil, err
	}
	source := found[wants[0].Topic]
	findings := make([]Finding, len(wants))
	for i, w := range wants {
		findings[i] = compare(w, found[w.Topic], source)
	}
	return findings, nil
}

// topic is what the brokers say of a topic.
type topic struct {
	partitions   int // 0: missing
	policy       string
	messageBytes int
}

func compare(w Want, have, source topic) Finding {
	f := Finding{Path: w.Path, Topic: w.Topic, Partitions: have.partitions, Policy: have.policy, MessageBytes: have.messageBytes, Faults: []string{}}
	if have.partitions == 0 {
		f.Faults, f.Remedy = append(f.Faults, "is missing"), "create it with `lca-stream topics init`"
		return f
	}
	var remedies []string
	fault := func(remedy, format string, args ...any) {
		f.Faults = append(f.Faults, fmt.Sprintf(format, args...))
		remedies = append(remedies, remedy)
	}
	switch {
	case w.Partitions > 0 && have.partitions != w.Partitions:
		fault("name another topic, or delete this one", "has %d partitions, must have %d", have.partitions, w.Partitions)
	case w.Partitions == 0 && have.partitions < source.partitions:
		fault(fmt.Sprintf("kafka-topics.sh --alter --topic %s --partitions %d", w.Topic, source.partitions),
			"has %d partitions, the source has %d", have.partitions, source.partitions)
	}
	switch {
	case w.Compact && have.policy != "compact":
		fault(alter(w.Topic, "cleanup.policy=compact"), "has cleanup.policy %s, must be compact: the newest model would be deleted", have.policy)
	case !w.Compact && w.Path != "source.topic" && strings.Contains(have.policy, "compact"):
		fault(alter(w.Topic, "cleanup.policy=delete"), "has cleanup.policy %s: messages of one key would replace each other", have.policy)
	}
	if least := w.leastBytes(source); have.messageBytes < least {
		fault(alter(w.Topic, fmt.Sprintf("max.message.bytes=%d", least)), "has max.message.bytes %d, must be at least %d", have.messageBytes, least)
	}
	f.Remedy = strings.Join(remedies, "; ")
	return f
}

func alter(topic, setting string) string {
	return fmt.Sprintf("kafka-configs.sh --alter --topic %s --add-config %s", topic, setting)
}

func (w Want) leastBytes(source topic) int {
	if w.FromSource > 0 && source.messageBytes > 0 {
		return w.FromSource*source.messageBytes + headers
	}
	return w.MessageBytes
}

// describe asks for partitions and settings of all topics; a topic that is missing is zero.
func describe(ctx context.Context, cl *cluster.Cluster, wants []Want) (map[string]topic, error) {
	names := make([]string, len(wants))
	for i, w := range wants {
		names[i] = w.Topic
	}
	metadata, err := cl.Metadata(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("topics: describe: %w", cl.Explain(err))
	}
	found := map[string]topic{}
	var resources []kafka.DescribeConfigRequestResource
	for _, name := range names {
		t := metadata[name]
		switch {
		case errors.Is(t.Err, kafka.UnknownTopicOrPartition):
			continue
		case t.Err != nil && !errors.Is(t.Err, kafka.LeaderNotAvailable):
			return nil, fmt.Errorf("topics: describe %s: %w", name, cl.Explain(t.Err))
		case len(t.Partitions) == 0:
			continue
		}
		found[name] = topic{partitions: len(t.Partitions)}
		resources = append(resources, kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: name, ConfigNames: []string{"cleanup.policy", "max.message.bytes"},
		})
	}
	if len(resources) == 0 {
		return found, nil
	}
	return found, describeConfigs(ctx, cl, resources, found)
}

func describeConfigs(ctx context.Context, cl *cluster.Cluster, resources []kafka.DescribeConfigRequestResource, found map[string]topic) error {
	answer, err := cl.Client().DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Addr: cl.Addr(), Resources: resources})
	if err != nil {
		return fmt.Errorf("topics: describe settings: %w", cl.Explain(err))
	}
	for _, r := range answer.Resources {
		if r.Error != nil {
			return fmt.Errorf("topics: describe settings of %s: %w", r.ResourceName, cl.Explain(r.Error))
		}
		t := found[r.ResourceName]
		for _, e := range r.ConfigEntries {
			switch e.ConfigName {
			case "cleanup.policy":
				t.policy = e.ConfigValue
			case "max.message.bytes":
				if t.messageBytes, err = strconv.Atoi(e.ConfigValue); err != nil {
					return fmt.Errorf("topics: max.message.bytes of %s: %w", r.ResourceName, err)
				}
			}
		}
		found[r.ResourceName] = t
	}
	return nil
}
