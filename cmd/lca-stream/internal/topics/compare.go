package topics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// verdict collects what is wrong with a topic, and what to do about it.
type verdict struct {
	what, remedies []string
}

func (v *verdict) add(remedy, format string, args ...any) {
	v.what = append(v.what, fmt.Sprintf(format, args...))
	v.remedies = append(v.remedies, remedy)
}

func (v *verdict) remedy() string { return strings.Join(v.remedies, "; ") }

// CreateIt is the remedy for a topic that is missing.
func (w Want) CreateIt() string {
	if w.Path == sourcePath {
		return "correct source.topic, or have it created with as many partitions as its producers need, because `lca-stream topics init` never creates the source: " +
			fmt.Sprintf("`kafka-topics.sh --bootstrap-server BROKER --create --topic %s --partitions N`", w.Topic)
	}
	return "create it with `lca-stream topics init`, or correct " + w.Path
}

// compare reports what is wrong with a topic in a cluster of that many brokers.
func compare(w Want, have, source topic, brokers int) Finding {
	f := Finding{
		Path: w.Path, Topic: w.Topic, Partitions: have.partitions, Replication: have.replication, Policy: have.policy, MessageBytes: have.messageBytes, Leaderless: have.leaderless,
		Faults: []string{}, Warnings: []string{},
	}
	if have.denied != nil {
		f.Denied = true
		f.Faults, f.Remedy = append(f.Faults, fmt.Sprintf("may not be seen by this user: %v", have.denied)), "`lca-stream doctor` prints the command for each right that is missing"
		return f
	}
	if have.partitions == 0 {
		f.Faults, f.Remedy = append(f.Faults, "is missing"), w.CreateIt()
		return f
	}
	var faults, warnings verdict
	compareLeaders(w, have, &warnings)
	if w.Other != "" {
		w.otherLayout(&faults)
	} else {
		comparePartitions(w, have, source, &faults, &warnings)
	}
	if have.unknown != nil {
		warnings.add(fmt.Sprintf("kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:NAME --operation DescribeConfigs --topic %s", w.Topic),
			"its settings are not known and were not checked: %v", have.unknown)
	} else {
		compareSettings(w, have, source, &faults, &warnings)
	}
	compareReplicas(w, have, brokers, &warnings)
	f.Faults, f.Remedy = append(f.Faults, faults.what...), faults.remedy()
	f.Warnings, f.Advice = append(f.Warnings, warnings.what...), warnings.remedy()
	return f
}

// compareLeaders warns of partitions without a leader. That is no fault of the topic, and the work waits for its end.
func compareLeaders(w Want, have topic, warnings *verdict) {
	if n := len(have.leaderless); n > 0 {
		which := fmt.Sprint("partition ", have.leaderless[0])
		if n > 1 {
			which = fmt.Sprintf("%d partitions (%d and others)", n, have.leaderless[0])
		}
		warnings.add(fmt.Sprintf("start the brokers that have its replicas, or see to their disks: `kafka-topics.sh --bootstrap-server BROKER --describe --unavailable-partitions --topic %s`", w.Topic),
			"has no leader for %s: neither read nor written until there is one", which)
	}
}

func comparePartitions(w Want, have, source topic, faults, warnings *verdict) {
	least := source.partitions
	if w.Least > 0 {
		least = min(w.Least, least)
	}
	switch {
	case w.Partitions > 0 && have.partitions > w.Partitions:
		warnings.add("name another topic, or leave it so", "has %d partitions, of which %d is used", have.partitions, w.Partitions)
	case w.Partitions == 0 && !w.Fewer && have.partitions < least: // least is 0 where the source may not be seen
		faults.add(w.addPartitions(source.partitions),
			"has %s, the source has %d", plural.Count(have.partitions, "partition"), source.partitions)
	}
}

// addPartitions is the remedy for a topic that has fewer partitions than the source.
func (w Want) addPartitions(n int) string {
	if w.Grows {
		return "run `lca-stream topics init`, which adds them: what was known of keys that have moved to a new partition begins again there"
	}
	return fmt.Sprintf("run `kafka-topics.sh --bootstrap-server BROKER --alter --topic %s --partitions %d`", w.Topic, n)
}

func compareSettings(w Want, have, source topic, faults, warnings *verdict) {
	switch {
	case w.Compact && have.policy != "compact":
		faults.add(fmt.Sprintf("name a topic of its own in %s; only where nothing else was ever written to this one, %s", w.Path, alter(w.Topic, "cleanup.policy=compact")),
			"has cleanup.policy %s, must be compact: the newest record of a key would be deleted", have.policy)
	case w.Path == alarmsPath && strings.Contains(have.policy, "compact"):
		warnings.add(alter(w.Topic, "cleanup.policy=delete"), "has cleanup.policy %s: of the alarms of one key only the last stays", have.policy)
	case !w.Compact && w.Path != sourcePath && strings.Contains(have.policy, "compact"):
		faults.add(alter(w.Topic, "cleanup.policy=delete"), "has cleanup.policy %s: messages of one key would replace each other", have.policy)
	}
	if have.messageBytes < w.MessageBytes {
		faults.add(alter(w.Topic, fmt.Sprintf("max.message.bytes=%d", w.MessageBytes)), "has max.message.bytes %d, must be at least %d", have.messageBytes, w.MessageBytes)
	}
	// Only messages near the source's limit are affected, and compressed ones seldom: there may be none.
	if least := w.leastBytes(source); have.messageBytes < least && least > w.MessageBytes {
		warnings.add(alter(w.Topic, fmt.Sprintf("max.message.bytes=%d", least)),
			"has max.message.bytes %d: what is made of the largest messages of the source may need %d", have.messageBytes, least)
	}
	if w.SourceTimes && !have.ownTimes && source.keeps().longerThan(have.keeps()) {
		warnings.add(alter(w.Topic, "retention.ms="+source.keeps().setting()),
			"keeps records for %v, the source for %v: rows have the times of their input, so what is made of older ones is deleted soon after it is written", have.keeps(), source.keeps())
	}
	if w.Compact && have.policy == "compact" && have.segmentBytes > largestSegment {
		warnings.add(alter(w.Topic, fmt.Sprintf("segment.bytes=%d,segment.ms=%d,min.cleanable.dirty.ratio=%s", segmentBytes, segmentMillis, dirtyRatio)),
			"has segment.bytes %d: the newest segment is never compacted, and each start reads all of it", have.segmentBytes)
	}
	if w.Lag && have.policy == "compact" && have.lag < leastLag {
		warnings.add(alter(w.Topic, fmt.Sprintf("min.compaction.lag.ms=%d", compactionLag)),
			"has min.compaction.lag.ms %d: a transform that takes a partition over may miss a model that is overwritten while it reads", have.lag)
	}
}

// compareReplicas reports what would be lost with a node. A cluster of one node has no choice.
func compareReplicas(w Want, have topic, brokers int, warnings *verdict) {
	switch {
	case brokers < 2:
		return
	case have.replication < 2:
		warnings.add(fmt.Sprintf("kafka-reassign-partitions.sh gives topic %s %d replicas", w.Topic, min(brokers, 3)),
			"has replication factor %d in a cluster of %s: a disk that is lost takes its records", have.replication, plural.Count(brokers, "broker"))
		return
	case have.unknown != nil || have.inSync == 0:
	case have.inSync < 2:
		warnings.add(alter(w.Topic, "min.insync.replicas=2"),
			"has min.insync.replicas %d: what was acknowledged may be on one broker alone, and lost with it", have.inSync)
	case have.inSync > have.replication:
		warnings.add(alter(w.Topic, fmt.Sprintf("min.insync.replicas=%d", max(have.replication-1, 1))),
			"has min.insync.replicas %d and replication factor %d: brokers may refuse every write", have.inSync, have.replication)
	}
	if have.unclean {
		warnings.add(alter(w.Topic, "unclean.leader.election.enable=false"),
			"has unclean.leader.election.enable: a broker that was behind may become the leader, and acknowledged records are lost")
	}
}

func alter(topic, setting string) string {
	return fmt.Sprintf("run `kafka-configs.sh --bootstrap-server BROKER --alter --topic %s --add-config %s`", topic, setting)
}

// retention is how long a topic keeps a record, by the record's time, in milliseconds as retention.ms has it: negative is
// forever, 0 is not known.
type retention int64

const (
	forever retention = -1
	day               = retention(24 * time.Hour / time.Millisecond)
	// usualRetention is Kafka's default. Topics that are created get a setting of their own where the source is kept
	// for longer.
	usualRetention = 7 * day
	// alarmsKept is how long a topic of alarms keeps them: people ask what has happened in the last weeks, and alarms are few.
	alarmsKept = 90 * day
)

func parseRetention(value string) (retention, error) {
	ms, err := strconv.ParseInt(value, 10, 64)
	return max(retention(ms), forever), err
}

// keeps is how long a topic keeps a record that no other replaces. One that is compacted alone deletes nothing by age.
func (t topic) keeps() retention {
	if t.policy != "" && !strings.Contains(t.policy, "delete") {
		return forever
	}
	return t.retention
}

// longerThan is false where either is not known.
func (r retention) longerThan(other retention) bool {
	return r != 0 && other > 0 && (r == forever || r > other)
}

// setting returns the value of retention.ms.
func (r retention) setting() string { return strconv.FormatInt(int64(r), 10) }

func (r retention) String() string {
	switch {
	case r == forever:
		return "ever"
	case r%day == 0, r > math.MaxInt64/retention(time.Millisecond): // a Duration ends at 292 years
		return plural.Count(int(r/day), "day")
	}
	return fmt.Sprint(time.Duration(r) * time.Millisecond)
}

// copartitioned changes what topics must be like where each value has a model of its own: partition p of snapshots and
// checkpoints is that of partition p of the source. least is that of the output.
func copartitioned(wants []Want, least int) {
	for i := range wants {
		wants[i].Keyed = true
		switch w := &wants[i]; w.Path {
		case "snapshot.topic", "checkpoint.topic":
			w.Partitions, w.Least, w.Grows = 0, least, true
			w.Lag = w.Path == "snapshot.topic"
		case "transform.topic":
			w.Grows = true
		}
	}
}

// otherLayout is the fault of a topic that holds the model of all rows where there is to be one for each value, or the reverse.
func (w Want) otherLayout(faults *verdict) {
	if w.Keyed {
		faults.add("name new topics in snapshot.topic and checkpoint.topic, or set model.by: none",
			"holds model %q, which is one for all rows: with model.by there is one for each value", w.Other)
		return
	}
	faults.add("name new topics in snapshot.topic and checkpoint.topic, or set model.by as it was",
		"holds model %q, which is that of one value: without model.by there is one for all rows", w.Other)
}

// grow adds partitions to the topics that follow the source. It adds none while one of them holds the model of all rows,
// because that model would lose its place.
func grow(ctx context.Context, cl *kafkaconn.Cluster, wants []Want, have map[string]topic) error {
	source := have[wants[0].Topic].partitions
	var more []kafka.TopicPartitionsConfig
	var grown []Want
	for _, w := range wants {
		if w.Other != "" {
			return nil
		}
		if n := have[w.Topic].partitions; w.Grows && n > 0 && n < source {
			more = append(more, kafka.TopicPartitionsConfig{Name: w.Topic, Count: int32(source)})
			grown = append(grown, w)
		}
	}
	if len(more) == 0 {
		return nil
	}
	answer, err := cl.Client().CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Addr: cl.Addr(), Topics: more})
	if err != nil {
		return fmt.Errorf("topics: add partitions: %w", cl.Explain(err))
	}
	for name, err := range answer.Errors {
		if err != nil && !errors.Is(err, kafka.InvalidPartitionNumber) { // another process has added them: the check that follows says so if not
			return fmt.Errorf("topics: add partitions to %s: %w", name, cl.Explain(err))
		}
	}
	return until(ctx, cl, grown, func(have map[string]topic) bool {
		for _, w := range grown {
			if have[w.Topic].partitions < source {
				return false
			}
		}
		return true
	})
}

// Inner checks the topics in which brokers keep offsets and the state of transactions, because exactly-once delivery
// depends on them. A topic that does not exist yet, or that the user may not see, has no finding.
func Inner(ctx context.Context, cl *kafkaconn.Cluster) ([]Finding, error) {
	var findings []Finding
	for _, name := range []string{"__consumer_offsets", "__transaction_state"} {
		w := Want{Path: "of the brokers", Topic: name, Compact: true}
		found, err := describe(ctx, cl, []Want{w})
		have := found[name]
		if err != nil || have.partitions == 0 || have.unknown != nil {
			continue
		}
		n, err := brokers(ctx, cl, name)
		if err != nil {
			return nil, err
		}
		f := Finding{Path: w.Path, Topic: name, Partitions: have.partitions, Replication: have.replication, Policy: have.policy, Leaderless: have.leaderless}
		var warnings verdict
		compareLeaders(w, have, &warnings)
		compareReplicas(w, have, n, &warnings)
		f.Warnings, f.Advice = warnings.what, warnings.remedy()
		findings = append(findings, f)
	}
	return findings, nil
}
