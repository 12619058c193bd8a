package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Creation is the choices for topics that are created.
type Creation struct {
	Replication int // 0: the broker's default
}

// Settings of compacted topics that are created. A start reads such a topic from its beginning, so it should hold
// little more than the newest value of each key. Brokers compact only closed segments, and only when enough of them
// is outdated: with their defaults (1 GiB, a week, half) a start may read gigabytes.
const (
	segmentBytes  = 32 << 20
	segmentMillis = 3_600_000 // an hour, so that a topic with few writes has a closed segment to compact, too
	dirtyRatio    = "0.1"

	// compactionLag is how long snapshots of models by key stay when they are overwritten, in milliseconds. A transform that takes a
	// partition over reads the topic up to the end that it asked for. Compaction removes a record once one that overwrites it is
	// older than this: with less, all snapshots of a model may be gone before the reader comes to them, and those in their place
	// be behind that end. Two minutes are many times what reading takes, and at most a few more versions of each model.
	compactionLag = 120_000
	// leastLag is the shortest time of an existing topic without a warning: more than a group waits for a member.
	leastLag = 60_000

	// largestSegment is the largest segment.bytes of an existing topic without a warning.
	largestSegment = 256 << 20
)

// Init creates the topics that are missing, adds partitions to those that follow the source, then checks all of them. It never creates the source, because that belongs to
// its producers, and a misspelt one would stay empty: without it nothing is created, and the one finding says so. The
// number of partitions and the sizes of the others follow from it.
func Init(ctx context.Context, cl *kafkaconn.Cluster, wants []Want, c Creation) ([]Finding, error) {
	have, err := describe(ctx, cl, wants)
	if err != nil {
		return nil, err
	}
	if have[wants[0].Topic].partitions == 0 {
		return Check(ctx, cl, wants[:1])
	}
	created := map[string]bool{}
	if err := create(ctx, cl, missing(wants, have), have[wants[0].Topic], c, created); err != nil {
		return nil, err
	}
	if err := grow(ctx, cl, wants, have); err != nil {
		return nil, err
	}
	findings, err := Check(ctx, cl, wants)
	for i := range findings {
		findings[i].Created = created[findings[i].Topic]
	}
	return findings, err
}

// Make creates the topics that are missing, as Init does, if they are the first that the pipeline has: begun reports whether it has worked before. One that has, has
// lost what is missing, and an empty topic would be taken for a beginning. It returns the names of those that it has created.
func Make(ctx context.Context, cl *kafkaconn.Cluster, wants []Want, begun func() (bool, error)) (names []string, err error) {
	have, err := describe(ctx, cl, wants)
	if err != nil {
		return nil, err
	}
	absent := missing(wants, have)
	if len(absent) == 0 || have[wants[0].Topic].partitions == 0 {
		return nil, nil
	}
	if worked, err := begun(); worked || err != nil {
		return nil, err
	}
	created := map[string]bool{}
	err = create(ctx, cl, absent, have[wants[0].Topic], Creation{}, created)
	return slices.Sorted(maps.Keys(created)), err
}

// missing are those that are not there, except the source.
func missing(wants []Want, have map[string]topic) (absent []Want) {
	for _, w := range wants[1:] {
		if one := have[w.Topic]; one.partitions == 0 && one.denied == nil {
			absent = append(absent, w)
		}
	}
	return absent
}

// create creates topics and waits until all brokers know them. A topic that another process creates at the same time
// is as good.
func create(ctx context.Context, cl *kafkaconn.Cluster, wants []Want, source topic, c Creation, created map[string]bool) error {
	if len(wants) == 0 {
		return nil
	}
	topics := make([]kafka.TopicConfig, len(wants))
	for i, w := range wants {
		topics[i] = w.creation(source, c)
	}
	answer, err := cl.Client().CreateTopics(ctx, &kafka.CreateTopicsRequest{Addr: cl.Addr(), Topics: topics})
	if err != nil {
		return fmt.Errorf("topics: create: %w", cl.Explain(err))
	}
	for _, w := range wants {
		switch err := answer.Errors[w.Topic]; {
		case err == nil:
			created[w.Topic] = true
		case !errors.Is(err, kafka.TopicAlreadyExists):
			return fmt.Errorf("topics: create %s: %w", w.Topic, cl.Explain(err))
		}
	}
	return appear(ctx, cl, wants)
}

func (w Want) creation(source topic, c Creation) kafka.TopicConfig {
	t := kafka.TopicConfig{Topic: w.Topic, NumPartitions: orDefault(w.Partitions), ReplicationFactor: orDefault(c.Replication)}
	if w.Partitions == 0 {
		t.NumPartitions = orDefault(source.partitions)
	}
	if w.Compact {
		t.ConfigEntries = append(t.ConfigEntries,
			kafka.ConfigEntry{ConfigName: "cleanup.policy", ConfigValue: "compact"},
			kafka.ConfigEntry{ConfigName: "segment.bytes", ConfigValue: strconv.Itoa(segmentBytes)},
			kafka.ConfigEntry{ConfigName: "segment.ms", ConfigValue: strconv.Itoa(segmentMillis)},
			kafka.ConfigEntry{ConfigName: "min.cleanable.dirty.ratio", ConfigValue: dirtyRatio})
	}
	if w.Lag {
		t.ConfigEntries = append(t.ConfigEntries, kafka.ConfigEntry{ConfigName: "min.compaction.lag.ms", ConfigValue: strconv.Itoa(compactionLag)})
	}
	kept := w.Kept
	if w.SourceTimes && source.keeps().longerThan(cmp.Or(kept, usualRetention)) {
		kept = source.keeps()
	}
	if kept != 0 {
		t.ConfigEntries = append(t.ConfigEntries, kafka.ConfigEntry{ConfigName: "retention.ms", ConfigValue: kept.setting()})
	}
	if least := w.leastBytes(source); least > largestChunk { // every broker's default meets a smaller need
		t.ConfigEntries = append(t.ConfigEntries, kafka.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: strconv.Itoa(least)})
	}
	return t
}

func orDefault(n int) int {
	if n == 0 {
		return brokerDefault
	}
	return n
}

// appear waits until metadata shows the topics, because a broker answers the creation before all brokers know of it.
func appear(ctx context.Context, cl *kafkaconn.Cluster, wants []Want) error {
	return until(ctx, cl, wants, func(have map[string]topic) bool { return len(have) == len(wants) })
}

// until waits until what the brokers say of topics is as it was made.
func until(ctx context.Context, cl *kafkaconn.Cluster, wants []Want, made func(map[string]topic) bool) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaconn.RequestTimeout)
	defer cancel()
	for {
		have, err := describe(ctx, cl, wants)
		if err == nil && made(have) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topics: created, but not seen after %v: %w", kafkaconn.RequestTimeout, errors.Join(err, ctx.Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
