//go:build unix && chaos

package e2e_test

import (
	"bytes"
	le "encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// inQuiet names the group as the learner that is left alone has it: what both write differs in nothing else.
func inQuiet(b []byte) []byte { return bytes.ReplaceAll(b, []byte("rough"), []byte("quiet")) }

// Two learners read the same partition, and one of them is killed again and again: byte for byte the
// same snapshots, in the same order, and the same last checkpoint.
func TestChaosIdentical(t *testing.T) {
	const kills = 20
	b := kafkatest.Start(t, kafkatest.Kafka41)
	calm := newChaos(t, b, "quiet", settings{partitions: 1, rate: 600})
	struck := &chaos{stream: newStream(t, b, "rough", settings{partitions: 1, features: sensorColumns}), random: calm.random, seed: calm.seed}
	byRows := []string{"learn", "--set", "source.topic=quiet-in", "--set", "snapshot.every=1h"}
	steady, p := calm.begin(byRows...), struck.begin(byRows...)
	for range kills {
		struck.progress("rough.learn", 60, p)
		p.pauseInside(struck.topic("snap"), struck.topic("check"))
		before := struck.before("rough.learn")
		p.Kill()
		since := time.Now()
		p.start()
		struck.recovered("rough.learn", before, since, p)
	}
	calm.end()
	done := calm.wait()
	for _, s := range []*chaos{calm, struck} { // what is left of it is committed by an orderly stop
		s.await(s.name+".learn", int64(done.Messages+done.Bad)-100, s.programs...)
	}
	time.Sleep(5 * time.Second)
	steady.stop()
	p.stop()
	want, got := b.ReadCommitted(t, calm.topic("snap")), b.ReadCommitted(t, struck.topic("snap"))
	if len(want) != len(got) || len(want) < 20 {
		t.Fatalf("%d snapshot records without kills, %d with", len(want), len(got))
	}
	size := 0
	for i := range want {
		same := bytes.Equal(want[i].Key, got[i].Key) && bytes.Equal(want[i].Value, got[i].Value) && len(want[i].Headers) == len(got[i].Headers)
		for j := 0; same && j < len(want[i].Headers); j++ {
			same = want[i].Headers[j].Key == got[i].Headers[j].Key && bytes.Equal(want[i].Headers[j].Value, inQuiet(got[i].Headers[j].Value))
		}
		if !same {
			t.Fatalf("snapshot record %d (key %s, %s) differs", i, want[i].Key, got[i].Key)
		}
		size += len(want[i].Value)
	}
	checkpoint := lastCheckpoint(t, b, calm.topic("check"))
	if !bytes.Equal(checkpoint, inQuiet(lastCheckpoint(t, b, struck.topic("check")))) {
		t.Error("the last checkpoints differ")
	}
	struck.report("kill -9 of a learner, compared with one left alone", fmt.Sprintf("%d inside a transaction", kills),
		fmt.Sprintf("%d snapshot records (%d bytes) and the last checkpoint (%d bytes) are the same bytes", len(want), size, len(checkpoint)))
}

// lastCheckpoint is the newest checkpoint of a topic without its sequence number, which counts
// attempts to write and not what is learnt, and without the checksum over both. See
// pipeline.Checkpoint for the bytes.
func lastCheckpoint(t *testing.T, b *kafkatest.Broker, topic string) []byte {
	t.Helper()
	newest, chunks := int64(-1), map[int64][]byte{}
	for _, r := range b.ReadCommitted(t, topic) {
		for _, h := range r.Headers {
			if h.Key != "lca-checkpoint" {
				continue
			}
			n, err := strconv.ParseInt(string(h.Value), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			newest = max(newest, n)
			chunks[n] = append(chunks[n], r.Value...)
		}
	}
	c := chunks[newest]
	if len(c) < 100 || string(c[:4]) != "LCAC" || int64(le.LittleEndian.Uint64(c[6:])) != newest {
		t.Fatalf("%s has no checkpoint %d of %d bytes", topic, newest, len(c))
	}
	return slices.Concat(c[:6], c[14:len(c)-4])
}

// ends waits for the program to end by itself, with exit code 2 and a log that says something.
func (c *chaos) ends(p *program, says ...string) {
	c.t.Helper()
	select {
	case <-p.Done():
	case <-time.After(2 * time.Minute):
		c.t.Fatalf("%s goes on", p.args[0])
	}
	log, err := os.ReadFile(p.log)
	if err != nil {
		c.t.Fatal(err)
	}
	last := lastLine(log)
	for _, want := range says {
		if !strings.Contains(last, want) {
			c.t.Errorf("the last line does not say %q: %s", want, last)
		}
	}
	if code := p.ExitCode(); code != 2 {
		c.t.Errorf("exit code %d, want 2", code)
	}
	c.t.Logf("%s", last)
}

// The source topic is deleted under the program: it stops and says so, and never starts over from 0
// by itself, also not when a topic of that name exists again.
func TestChaosTopicDeleted(t *testing.T) {
	s := newChaos(t, kafkatest.Start(t, kafkatest.Kafka41), "deleted", settings{partitions: 2})
	p := s.begin("run")
	s.progress(s.name, 200, p)
	s.end()
	s.wait()
	s.DeleteTopic(t, s.topic("in"))
	s.ends(p, "deleted-in", "is missing; correct source.topic")
	before := len(s.ReadCommitted(t, s.topic("out")))
	s.CreateTopic(t, s.topic("in"), 2, nil)
	wait, _ := s.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 100, PerMessage: 20})
	wait()
	p.start()
	s.ends(p, "deleted-in", "deleted and created again")
	if after := len(s.ReadCommitted(t, s.topic("out"))); after != before {
		t.Errorf("%d records were written from another topic of the same name", after-before)
	}
	s.report("source topic deleted, then created again", "1 each", "exit code 2 with the topic and the reason; nothing written from the new topic")
}

// Partitions are added while records come: the transform takes them up by itself, from their first record on,
// wherever the group was told to begin.
func TestChaosPartitionsAdded(t *testing.T) {
	for _, begin := range []string{"earliest", "latest"} {
		t.Run(begin, func(t *testing.T) {
			s := newStream(t, kafkatest.Start(t, kafkatest.Kafka41), "grown", settings{partitions: 1, features: sensorColumns})
			p := s.program("run", "--set", "source.start_offset="+begin)
			s.positioned(s.name, 1, p) // so that the first record comes after the group has begun
			l := load
			l.Topic, l.Seed = s.topic("in"), 1
			wait, end := s.Load(t, l)
			s.await(s.name, 50, p)
			s.AlterPartitions(t, 3)
			l.Rows, l.Seed = 6000, 7
			more, _ := s.Load(t, l) // the producer of before does not know of them yet
			second := more()
			end()
			first := wait()
			s.await(s.name, int64(first.Messages+first.Bad+second.Messages+second.Bad), p)
			p.stop()
			v := s.check(first.Rows+second.Rows, 3)
			if v.Messages != first.Messages+second.Messages {
				t.Errorf("%d messages were judged, %d were written", v.Messages, first.Messages+second.Messages)
			}
			report(t, s.Kind, 0, "two partitions added to one, under load, start_offset "+begin, "1", fmt.Sprintf("%d rows", v.Rows))
		})
	}
}

// AlterPartitions raises the partitions of every topic that has one for each of the source's.
func (s *stream) AlterPartitions(t *testing.T, n int) {
	t.Helper()
	for _, topic := range []string{"out", "out-state", "dead", "in"} {
		s.AddPartitions(t, s.topic(topic), n)
	}
}

// Retention takes records that were not read while the program was down: it stops, says how many, and
// reads nothing past the gap.
func TestChaosRetention(t *testing.T) {
	s := newChaos(t, kafkatest.Start(t, kafkatest.Kafka41), "gone", settings{partitions: 1})
	p := s.begin("transform")
	l := s.begin("learn")
	s.progress(s.name, 100, p)
	p.stop()
	l.stop()
	next := s.committed(s.name)
	for deadline := time.Now().Add(time.Minute); s.ListOffsets(t, s.topic("in"), -1, 0)[0] < next+100; {
		if time.Now().After(deadline) {
			t.Fatal("no load")
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.end()
	s.wait()
	s.DeleteRecords(t, s.topic("in"), map[int32]int64{0: next + 42})
	before := len(s.ReadCommitted(t, s.topic("out")))
	p.start()
	s.ends(p, "gone-in", "retention has deleted 42 records that were not read")
	if after := len(s.ReadCommitted(t, s.topic("out"))); after != before {
		t.Errorf("%d records were written from behind the gap", after-before)
	}
	s.report("retention deletes 42 unread records", "1", "exit code 2; the message counts the 42; nothing read past them")
}

// The largest messages there may be, on eight partitions at once, under a memory limit.
func TestChaosMemory(t *testing.T) {
	const boundMiB = 1500
	b := kafkatest.StartWith(t, kafkatest.Kafka41, kafkatest.Setup{HeapMiB: 768})
	s := newStream(t, b, "large", settings{partitions: 8, features: sensorColumns})
	for _, topic := range []string{"in", "out", "dead"} {
		b.AlterTopic(t, s.topic(topic), map[string]string{"max.message.bytes": strconv.Itoa(40 << 20)})
	}
	wait, _ := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 24 * 220_000, PerMessage: 220_000})
	done := wait()
	t.Setenv("GOMEMLIMIT", "700MiB")
	p := s.program("run", "--set", "snapshot.every_rows=100000") // fewer versions than the topic keeps: the judge reads them all at the end
	s.await(s.name, int64(done.Messages), p)
	peak := testtools.PeakMiB(t, p.Pid())
	p.stop()
	v := s.check(done.Rows, 1)
	if peak > boundMiB {
		t.Errorf("%d MiB at the peak, more than %d", peak, boundMiB)
	}
	report(t, b.Kind, 0, "15.9 MB messages on 8 partitions, GOMEMLIMIT=700MiB", strconv.Itoa(done.Messages),
		fmt.Sprintf("%d rows, each once; %d MiB at the peak", v.Rows, peak))
}

// Eight busy loops on the machine: heartbeats go on, no member is thrown out of the group.
func TestChaosStarvation(t *testing.T) {
	const loops, lasting = 8, 45 * time.Second
	s := newChaos(t, kafkatest.Start(t, kafkatest.Kafka41), "starved", settings{partitions: 4})
	s.begin("learn")
	s.begin("transform")
	s.begin("transform")
	s.progress(s.name, 100, s.programs...)
	time.Sleep(5 * time.Second)
	before := s.Members(t, s.name)
	var busy []*kafkatest.Process
	for range loops {
		p := kafkatest.StartProcess(t, exec.Command("sh", "-c", "while :; do :; done"), "")
		defer p.Kill()
		busy = append(busy, p)
	}
	time.Sleep(lasting)
	after := s.Members(t, s.name)
	for _, p := range busy {
		p.Kill()
	}
	if len(before) != 2 || !slices.Equal(before, after) {
		t.Errorf("members were %v, and are %v", before, after)
	}
	s.finish("8 busy loops for 45 s", "no member lost")
}
