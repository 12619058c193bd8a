package topics

import (
	"fmt"
	"strings"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
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
		return "run `lca-stream topics init`, which adds them: the models of keys that have moved to a new partition begin again there"
	}
	return fmt.Sprintf("run `kafka-topics.sh --bootstrap-server BROKER --alter --topic %s --partitions %d`", w.Topic, n)
}

func compareSettings(w Want, have, source topic, faults, warnings *verdict) {
	switch {
	case w.Compact && have.policy != "compact":
		faults.add(fmt.Sprintf("name a topic of its own in %s; only where nothing else was ever written to this one, %s", w.Path, alter(w.Topic, "cleanup.policy=compact")),
			"has cleanup.policy %s, must be compact: the newest model would be deleted", have.policy)
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
