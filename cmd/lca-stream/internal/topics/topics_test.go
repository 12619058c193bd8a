package topics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

func configured(name string) *config.Config {
	c := config.Default()
	c.Source.Topic, c.Transform.Topic, c.DeadLetter.Topic = name+"-in", name+"-out", name+"-dead"
	c.Snapshot.Topic, c.Checkpoint.Topic, c.Alarms.Topic = name+"-snapshots", name+"-checkpoints", name+"-alarms"
	return c
}

func TestInitThenCheck(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs(), ClientID: "topics"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)

		t.Run("missing", func(t *testing.T) {
			wants := Wanted(configured("missing"))
			findings, err := Check(t.Context(), cl, wants)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if f.OK() || f.Faults[0] != "is missing" {
					t.Errorf("%v", f)
				}
			}
			if len(findings) != 7 {
				t.Errorf("%d findings", len(findings))
			}
		})
		t.Run("init creates once", func(t *testing.T) { initOnce(t, b, cl) })
		t.Run("the source exists", func(t *testing.T) {
			b.CreateTopic(t, "given-in", 2, map[string]string{"max.message.bytes": "3000000"})
			findings, err := Init(t.Context(), cl, Wanted(configured("given")), Creation{})
			if err != nil {
				t.Fatal(err)
			}
			out := findings[1]
			if findings[0].Created || out.Partitions != 2 || out.MessageBytes != 2*3000000+headers || !out.OK() {
				t.Errorf("%v", findings)
			}
		})
		t.Run("the source is kept for long", func(t *testing.T) { keptForLong(t, b, cl) })
		t.Run("a model for each value", func(t *testing.T) { copartition(t, b, cl) })
		t.Run("wrong topics", func(t *testing.T) { wrongTopics(t, b, cl) })
	})
}

// The source is never created; without it nothing else is.
func initOnce(t *testing.T, b *kafkatest.Broker, cl *kafkaconn.Cluster) {
	wants := Wanted(configured("new"))
	alone, err := Init(t.Context(), cl, wants, Creation{})
	if err != nil || len(alone) != 1 || alone[0].OK() || !strings.Contains(alone[0].Remedy, "--create --topic new-in") {
		t.Fatalf("without a source: %v, %v", alone, err)
	}
	b.CreateTopic(t, "new-in", 3, nil)
	findings, err := Init(t.Context(), cl, wants, Creation{Replication: 1})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		got = append(got, fmt.Sprintf("%v %v %s %d %s", f.OK(), f.Created, f.Topic, f.Partitions, f.Policy))
	}
	want := []string{"true false new-in 3 delete", "true true new-out 3 delete", "true true new-snapshots 1 compact", "true true new-checkpoints 1 compact", "true true new-dead 3 delete", "true true new-alarms 3 delete", "true true new-out-state 3 compact"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, findings)
	}
	again, err := Init(t.Context(), cl, wants, Creation{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range again {
		if f.Created || !f.OK() {
			t.Errorf("second init: %v", f)
		}
	}
}

// With a model for each value our topics follow the source's partitions, when they are created and when it gains some; a
// static list of partitions asks for as many as it reaches.
func copartition(t *testing.T, b *kafkatest.Broker, cl *kafkaconn.Cluster) {
	c := configured("keyed")
	c.Model.By = modelkey.By{Place: modelkey.Key}
	b.CreateTopic(t, "keyed-in", 2, nil)
	partitions := func(findings []Finding, err error) (all []int) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			all = append(all, f.Partitions)
		}
		return all
	}
	if got := partitions(Init(t.Context(), cl, Wanted(c), Creation{})); !slices.Equal(got, []int{2, 2, 2, 2, 2, 2, 2}) {
		t.Fatalf("created: %v partitions", got)
	}
	have, err := describe(t.Context(), cl, Wanted(c))
	if err != nil || have["keyed-snapshots"].lag != compactionLag || have["keyed-checkpoints"].lag != 0 {
		t.Errorf("compaction waits for %d ms on snapshots, %d on checkpoints: %v", have["keyed-snapshots"].lag, have["keyed-checkpoints"].lag, err)
	}
	answer, err := cl.Client().CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{Addr: cl.Addr(), Topics: []kafka.TopicPartitionsConfig{{Name: "keyed-in", Count: 5}}})
	if err == nil {
		err = answer.Errors["keyed-in"]
	}
	if err == nil {
		err = until(t.Context(), cl, Wanted(c)[:1], func(have map[string]topic) bool { return have["keyed-in"].partitions == 5 })
	}
	if err != nil {
		t.Fatal(err)
	}
	lacking := func(c *config.Config) (paths []string) {
		findings, err := Check(t.Context(), cl, Wanted(c))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if !f.OK() {
				paths = append(paths, f.Path)
				if want := "has 2 partitions, the source has 5; run `lca-stream topics init`, which adds them"; !strings.Contains(f.Fault(), want) {
					t.Errorf("%s does not say %q", f.Fault(), want)
				}
			}
		}
		return paths
	}
	if got, want := lacking(c), []string{"transform.topic", "snapshot.topic", "checkpoint.topic", "transform.state_topic"}; !slices.Equal(got, want) {
		t.Errorf("after the source has grown: faults of %v, want %v", got, want)
	}
	static := *c
	static.Source.Partitions = []int32{0, 1}
	if got := lacking(&static); got != nil {
		t.Errorf("partitions 0 and 1 alone: faults of %v", got)
	}
	foreign := Wanted(c)
	foreign[2].Other = "default"
	findings, err := Init(t.Context(), cl, foreign, Creation{})
	if got := partitions(findings, err); !slices.Equal(got, []int{5, 2, 2, 2, 2, 2, 2}) || !strings.Contains(findings[2].Fault(), `holds model "default", which is one for all rows`) || !strings.Contains(findings[2].Fault(), "name new topics") {
		t.Errorf("over the topics of one model: %v partitions, %v", got, findings[2])
	}
	if got := partitions(Init(t.Context(), cl, Wanted(c), Creation{})); !slices.Equal(got, []int{5, 5, 5, 5, 2, 2, 5}) {
		t.Errorf("after init: %v partitions", got)
	}
	if got := lacking(c); got != nil {
		t.Errorf("after init: faults of %v", got)
	}
}

// Output and dead letters have the times of the source's records. Where these are kept for longer than the brokers' default,
// a topic with that default would lose the history as soon as it is whitened.
func keptForLong(t *testing.T, b *kafkatest.Broker, cl *kafkaconn.Cluster) {
	for i, c := range []struct {
		source map[string]string
		want   retention // of output and dead letters; 0: the brokers' default
	}{
		{nil, 0},
		{map[string]string{"retention.ms": "3600000"}, 0},
		{map[string]string{"retention.ms": "-1"}, forever},
		{map[string]string{"retention.ms": "31536000000"}, 365 * day},
		{map[string]string{"cleanup.policy": "compact"}, forever},
	} {
		name := fmt.Sprintf("kept%d", i)
		b.CreateTopic(t, name+"-in", 1, c.source)
		wants := Wanted(configured(name))
		findings, err := Init(t.Context(), cl, wants, Creation{})
		if err != nil {
			t.Fatal(err)
		}
		have, err := describe(t.Context(), cl, wants)
		if err != nil {
			t.Fatal(err)
		}
		for j, f := range findings[1:] {
			if !f.OK() || strings.Contains(f.Warning(), "keeps records") {
				t.Errorf("%v: %v", c.source, f)
			}
			if wants[j+1].Path == alarmsPath {
				if got := have[f.Topic].retention; got != c.want && (c.want != 0 || got != 90*day) {
					t.Errorf("%v: %s keeps for %v", c.source, f.Topic, got)
				}
				continue
			}
			if got := have[f.Topic].retention; wants[j+1].SourceTimes && c.want != 0 && got != c.want || !wants[j+1].SourceTimes && got == c.want {
				t.Errorf("%v: %s keeps for %v, want %v", c.source, f.Topic, got, c.want)
			}
		}
	}
}

// Each of these would lose models or messages, silently.
func wrongTopics(t *testing.T, b *kafkatest.Broker, cl *kafkaconn.Cluster) {
	b.CreateTopic(t, "wrong-in", 3, nil)
	b.CreateTopic(t, "wrong-out", 2, nil)
	b.CreateTopic(t, "wrong-snapshots", 2, map[string]string{"segment.bytes": "1073741824"})
	b.CreateTopic(t, "wrong-checkpoints", 1, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "500000", "segment.bytes": "1073741824"})
	b.CreateTopic(t, "wrong-dead", 3, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "9000000"})
	findings, err := Check(t.Context(), cl, Wanted(configured("wrong")))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{
		nil,
		{"has 2 partitions, the source has 3", "has max.message.bytes", "--partitions 3"},
		{"warning ", "has 2 partitions, of which 1 is used", "has cleanup.policy delete, must be compact", "name a topic of its own in snapshot.topic"},
		{"has max.message.bytes 500000, must be at least 1000000", "--add-config max.message.bytes=1000000", "has segment.bytes 1073741824", "segment.bytes=33554432,segment.ms=3600000,min.cleanable.dirty.ratio=0.1"},
		{"has cleanup.policy compact: messages of one key would replace each other"},
		{"is missing", "alarms.topic"},
		{"is missing", "transform.state_topic"},
	} {
		got := findings[i].String()
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s\ndoes not say %q", got, part)
			}
		}
		if findings[i].OK() != (want == nil) {
			t.Errorf("%v", got)
		}
	}
}

// A dead letter that is cut still says where its message is: a topic without room for that is refused, unless the process
// is to stop at a dead letter that does not fit.
func TestRoomForDeadLetters(t *testing.T) {
	for _, c := range []struct {
		bytes int
		fault string
	}{
		{100, "has max.message.bytes 100, must be at least 1024; run `kafka-configs.sh --bootstrap-server BROKER --alter --topic room-dead --add-config max.message.bytes=1024`"},
		{1023, "must be at least 1024"}, {1024, ""},
	} {
		w := Wanted(configured("room"))[4]
		f := compare(w, topic{partitions: 1, replication: 1, policy: "delete", messageBytes: c.bytes}, topic{partitions: 1, messageBytes: 1000}, 1)
		if f.OK() != (c.fault == "") || !strings.Contains(f.Fault(), c.fault) {
			t.Errorf("%d bytes: %v", c.bytes, f)
		}
	}
}

// What is a risk, or costs something, and works.
func TestWarnings(t *testing.T) {
	source := topic{partitions: 3, replication: 3, policy: "delete", messageBytes: 1 << 20, inSync: 2, retention: 7 * day}
	sound := topic{partitions: 3, replication: 3, policy: "delete", messageBytes: 4 << 20, inSync: 2}
	compacted := topic{partitions: 1, replication: 3, policy: "compact", messageBytes: 1 << 20, inSync: 2, segmentBytes: segmentBytes}
	out := Want{Path: "transform.topic", Topic: "out", FromSource: 2, SourceTimes: true}
	dead := Want{Path: "dead_letter.topic", Topic: "dead", Fewer: true, FromSource: 1, SourceTimes: true}
	alarms := Want{Path: "alarms.topic", Topic: "alarms", Fewer: true, SourceTimes: true, Kept: alarmsKept}
	snap := Want{Path: "snapshot.topic", Topic: "snap", Partitions: 1, Compact: true, MessageBytes: largestChunk}
	keyed := snap
	keyed.Partitions, keyed.Fewer, keyed.Lag = 0, true, true
	with := func(have topic, change func(*topic)) topic { change(&have); return have }
	for _, c := range []struct {
		name    string
		want    Want
		have    topic
		brokers int
		says    []string // "": nothing
	}{
		{"as it must be", out, sound, 3, nil},
		{"compacted, as init makes it", snap, compacted, 3, nil},
		{"fewer dead-letter partitions than the source has", dead, with(sound, func(t *topic) { t.partitions = 1 }), 3, nil},
		{"one replica on the only broker", out, with(sound, func(t *topic) { t.replication, t.inSync = 1, 1 }), 1, nil},
		{"one replica of three brokers", out, with(sound, func(t *topic) { t.replication, t.inSync = 1, 1 }), 3, []string{"replication factor 1 in a cluster of 3", "gives topic out 3 replicas"}},
		{"acknowledged by one broker alone", snap, with(compacted, func(t *topic) { t.inSync = 1 }), 3, []string{"min.insync.replicas 1", "min.insync.replicas=2"}},
		{"more in sync than there are", out, with(sound, func(t *topic) { t.replication = 2; t.inSync = 3 }), 3, []string{"may refuse every write", "min.insync.replicas=1"}},
		{"unclean election", out, with(sound, func(t *topic) { t.unclean = true }), 3, []string{"unclean.leader.election.enable", "=false"}},
		{"unclean election of one broker", out, with(sound, func(t *topic) { t.unclean, t.replication = true, 1 }), 1, nil},
		{"settings that may not be read", out, topic{partitions: 3, replication: 3, unknown: kafka.TopicAuthorizationFailed}, 3, []string{"were not checked", "--operation DescribeConfigs --topic out"}},
		{"little room for large messages", out, with(sound, func(t *topic) { t.messageBytes = 1 << 20 }), 3, []string{"may need 2162688", "max.message.bytes=2162688"}},
		{"segments of a gigabyte", snap, with(compacted, func(t *topic) { t.segmentBytes = 1 << 30 }), 3, []string{"each start reads all of it", "segment.bytes=33554432"}},
		{"snapshots by key, as init makes them", keyed, with(compacted, func(t *topic) { t.lag = compactionLag }), 3, nil},
		{"snapshots by key that wait long enough", keyed, with(compacted, func(t *topic) { t.lag = leastLag }), 3, nil},
		{"snapshots by key that are compacted at once", keyed, compacted, 3, []string{"min.compaction.lag.ms 0: a transform", "min.compaction.lag.ms=120000"}},
		{"kept for as long as the source", out, with(sound, func(t *topic) { t.retention = 7 * day }), 3, nil},
		{"kept for longer", out, with(sound, func(t *topic) { t.retention = forever }), 3, nil},
		{"kept for less", out, with(sound, func(t *topic) { t.retention = 90 * 60 * 1000 }), 3, []string{"keeps records for 1h30m0s, the source for 7 days", "--add-config retention.ms=604800000"}},
		{"dead letters kept for less", dead, with(sound, func(t *topic) { t.retention = day }), 3, []string{"keeps records for 1 day, the source for 7 days"}},
		{"kept for less, by times of its own", out, with(sound, func(t *topic) { t.retention, t.ownTimes = day, true }), 3, nil},
		{"alarms kept for less", alarms, with(sound, func(t *topic) { t.retention = day }), 3, []string{"keeps records for 1 day, the source for 7 days"}},
		{"alarms kept for as long as rows", alarms, with(sound, func(t *topic) { t.retention = 7 * day }), 3, nil},
		{"alarms of which the last of a key stays", alarms, with(sound, func(t *topic) { t.policy = "compact,delete" }), 3, []string{"has cleanup.policy compact,delete: of the alarms of one key only the last stays"}},
		{"a partition without a leader", out, with(sound, func(t *topic) { t.leaderless = []int32{2} }), 3, []string{"has no leader for partition 2:", "--unavailable-partitions --topic out"}},
		{"partitions without leaders", snap, with(compacted, func(t *topic) { t.leaderless = []int32{0, 1} }), 3, []string{"has no leader for 2 partitions (0 and others):"}},
		{"more partitions than are used", snap, with(compacted, func(t *topic) { t.partitions = 3 }), 3, []string{"has 3 partitions, of which 1 is used"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := compare(c.want, c.have, source, c.brokers)
			if !f.OK() || (len(f.Warnings) > 0) != (len(c.says) > 0) {
				t.Errorf("%v", f)
			}
			for _, part := range c.says {
				if !strings.Contains(f.Warning(), part) {
					t.Errorf("%s\ndoes not say %q", f.Warning(), part)
				}
			}
		})
	}
}

// What three brokers say of topics made in ways that lose records.
func TestThreeBrokers(t *testing.T) {
	b := kafkatest.StartN(t, kafkatest.Kafka41, 3)
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs(), ClientID: "topics"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	wants := Wanted(configured("three"))
	b.CreateTopic(t, wants[0].Topic, 2, nil)
	findings, err := Init(t.Context(), cl, wants, Creation{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if !f.OK() || len(f.Warnings) > 0 || f.Replication != 3 {
			t.Errorf("init: %v: %d replicas", f, f.Replication)
		}
	}
	b.AlterTopic(t, "__transaction_state", map[string]string{"min.insync.replicas": "1"})
	inner, err := Inner(t.Context(), cl)
	if err != nil || len(inner) != 2 {
		t.Fatalf("%v: %v", inner, err)
	}
	if offsets, state := inner[0], inner[1]; len(offsets.Warnings) > 0 || offsets.Replication != 3 || !strings.Contains(state.Warning(), "has min.insync.replicas 1") {
		t.Errorf("%v\n%v", offsets, state)
	}
	b.AlterTopic(t, "three-out", map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
	single := Wanted(configured("single"))
	b.CreateTopic(t, single[0].Topic, 2, nil)
	if _, err = Init(t.Context(), cl, single, Creation{Replication: 1}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		wants []Want
		says  []string
	}{
		{wants, []string{"has min.insync.replicas 1", "has unclean.leader.election.enable"}},
		{single, []string{"has replication factor 1 in a cluster of 3 brokers"}},
	} {
		findings, err := Check(t.Context(), cl, c.wants)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range c.says {
			if !strings.Contains(findings[1].Warning(), part) {
				t.Errorf("%s\ndoes not say %q", findings[1].Warning(), part)
			}
		}
	}
}

func TestNobodyThere(t *testing.T) {
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	_, err = Check(context.Background(), cl, Wanted(config.Default()))
	if err == nil || !strings.Contains(err.Error(), "kafka.brokers") {
		t.Errorf("got %v, want a remedy at kafka.brokers", err)
	}
}
