package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// topic is what the brokers report about a topic. A setting that they do not tell is empty, or 0.
type topic struct {
	partitions  int   // 0: missing, or denied
	denied      error // why the user may not see the topic; nil: it may
	replication int   // of the partition with the fewest replicas
	leaderless  []int32

	unknown      error // why the settings are not known; nil: they are known
	policy       string
	messageBytes int
	segmentBytes int
	lag          int // min.compaction.lag.ms
	inSync       int // min.insync.replicas
	retention    retention
	ownTimes     bool // message.timestamp.type is LogAppendTime: records have the time at which they are appended
	unclean      bool // unclean.leader.election.enable
}

// settings maps the settings that are read to functions that store them.
var settings = map[string]func(t *topic, value string) error{
	"cleanup.policy":                 func(t *topic, v string) error { t.policy = v; return nil },
	"max.message.bytes":              func(t *topic, v string) (err error) { t.messageBytes, err = strconv.Atoi(v); return err },
	"segment.bytes":                  func(t *topic, v string) (err error) { t.segmentBytes, err = strconv.Atoi(v); return err },
	"min.compaction.lag.ms":          func(t *topic, v string) (err error) { t.lag, err = strconv.Atoi(v); return err },
	"min.insync.replicas":            func(t *topic, v string) (err error) { t.inSync, err = strconv.Atoi(v); return err },
	"message.timestamp.type":         func(t *topic, v string) error { t.ownTimes = v == "LogAppendTime"; return nil },
	"retention.ms":                   func(t *topic, v string) (err error) { t.retention, err = parseRetention(v); return err },
	"unclean.leader.election.enable": func(t *topic, v string) error { t.unclean = v == "true"; return nil },
}

func names(wants []Want) []string {
	all := make([]string, len(wants))
	for i, w := range wants {
		all[i] = w.Topic
	}
	return all
}

// describe returns partitions and settings of all topics; a missing topic is zero.
func describe(ctx context.Context, cl *kafkaconn.Cluster, wants []Want) (map[string]topic, error) {
	metadata, err := cl.Metadata(ctx, names(wants)...)
	if err != nil {
		return nil, fmt.Errorf("topics: describe: %w", cl.Explain(err))
	}
	found := map[string]topic{}
	var resources []kafka.DescribeConfigRequestResource
	for name, t := range metadata {
		switch {
		case errors.Is(t.Err, kafka.UnknownTopicOrPartition):
			continue
		case errors.Is(t.Err, kafka.TopicAuthorizationFailed):
			found[name] = topic{denied: t.Err}
			continue
		case t.Err != nil && !errors.Is(t.Err, kafka.LeaderNotAvailable):
			return nil, fmt.Errorf("topics: describe %s: %w", name, cl.Explain(t.Err))
		case len(t.Partitions) == 0:
			continue
		}
		found[name] = topic{partitions: len(t.Partitions), replication: fewest(t), leaderless: leaderless(t)}
		resource := kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: name}
		for setting := range settings {
			resource.ConfigNames = append(resource.ConfigNames, setting)
		}
		resources = append(resources, resource)
	}
	if len(resources) == 0 {
		return found, nil
	}
	return found, describeConfigs(ctx, cl, resources, found)
}

func fewest(t kafkaconn.Topic) int {
	least := 0
	for _, p := range t.Partitions {
		if least == 0 || p.Replicas < least {
			least = p.Replicas
		}
	}
	return least
}

// leaderless returns the partitions that no broker leads, in order.
func leaderless(t kafkaconn.Topic) (ids []int32) {
	for id, p := range t.Partitions {
		if p.Leader < 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// settingsWithin bounds how long a broker may not know a topic that another one has just shown. Brokers learn of a
// new topic one after the other, and the request goes to any of them.
const settingsWithin = 10 * time.Second

// describeConfigs fills in the settings. A user may lack the right to read them, which the work itself does not need;
// then topic.unknown says so.
func describeConfigs(ctx context.Context, cl *kafkaconn.Cluster, resources []kafka.DescribeConfigRequestResource, found map[string]topic) error {
	for until := time.Now().Add(settingsWithin); ; {
		answer, err := cl.Client().DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Addr: cl.Addr(), Resources: resources})
		if err != nil {
			return fmt.Errorf("topics: describe settings: %w", cl.Explain(err))
		}
		early := map[string]bool{}
		for _, r := range answer.Resources {
			if err := fill(found, &r); err != nil {
				return err
			}
			early[r.ResourceName] = errors.Is(r.Error, kafka.UnknownTopicOrPartition)
		}
		resources = slices.DeleteFunc(resources, func(r kafka.DescribeConfigRequestResource) bool { return !early[r.ResourceName] })
		if len(resources) == 0 || time.Now().After(until) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil // keep what is known; the other topics hold the broker's error
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// fill stores the settings of one topic.
func fill(found map[string]topic, r *kafka.DescribeConfigResponseResource) error {
	t := found[r.ResourceName]
	t.unknown = r.Error
	for _, e := range r.ConfigEntries {
		if set := settings[e.ConfigName]; set != nil {
			if err := set(&t, e.ConfigValue); err != nil {
				return fmt.Errorf("topics: %s of %s: %w", e.ConfigName, r.ResourceName, err)
			}
		}
	}
	found[r.ResourceName] = t
	return nil
}
