//go:build unix

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// rows writes messages of one row each to a partition of the source topic.
func (s *stream) rows(partition int32, n int) {
	s.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	var records []*kgo.Record
	for range n {
		value := fmt.Sprintf(`{"a":%v,"b":%v,"c":%v}`, rand.NormFloat64(), rand.NormFloat64(), rand.NormFloat64())
		records = append(records, &kgo.Record{Topic: s.topic("in"), Partition: partition, Value: []byte(value)})
	}
	if err := c.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// outputs are how often each offset of a source partition is in the output.
func (s *stream) outputs(partition int32) map[int64]int {
	s.t.Helper()
	counts := map[int64]int{}
	for _, r := range s.ReadCommitted(s.t, s.topic("out")) {
		for _, h := range r.Headers {
			if offset, err := strconv.ParseInt(string(h.Value), 10, 64); h.Key == "lca-source-offset" && err == nil && r.Partition == partition {
				counts[offset]++
			}
		}
	}
	return counts
}

// wantOnce waits until the output of a partition holds the offsets from first to next, each once and no others.
func (s *stream) wantOnce(partition int32, first, next int64, programs ...*program) {
	s.t.Helper()
	var got map[int64]int
	grown := s.growth("out")
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if grown() {
			got = s.outputs(partition)
		}
		if int64(len(got)) >= next-first {
			for offset, n := range got {
				if n != 1 || offset < first || offset >= next {
					s.t.Errorf("partition %d: offset %d is in the output %d times; want %d to %d once each", partition, offset, n, first, next-1)
				}
			}
			return
		}
		for _, p := range programs {
			p.alive()
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("partition %d: %d offsets are in the output, want %d to %d", partition, len(got), first, next-1)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// learnt waits until the learner has committed a sum of offsets. It saves what it has read with the next
// message, some time after the last save: so a message comes now and then.
func (s *stream) learnt(sum int64, learn *program) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); s.committed(s.name+".learn") < sum; time.Sleep(500 * time.Millisecond) {
		learn.alive()
		if time.Now().After(deadline) {
			s.t.Fatalf("the learner has committed %d, want %d", s.committed(s.name+".learn"), sum)
		}
		s.rows(0, 1)
	}
}

// fails waits for the program to end by itself, with exit code 2 and a log that says something.
func (p *program) fails(says ...string) {
	p.s.t.Helper()
	select {
	case <-p.Done():
	case <-time.After(2 * time.Minute):
		p.s.t.Fatalf("%s goes on", p.args[0])
	}
	last := lastLines(p.log, 1)
	for _, want := range says {
		if !strings.Contains(last, want) {
			p.s.t.Errorf("the last line does not say %q: %s", want, last)
		}
	}
	if code := p.ExitCode(); code != 2 {
		p.s.t.Errorf("%s ended with exit code %d, want 2: %s", p.args[0], code, last)
	}
}

// The source topic is deleted and created again under one of the stages alone, while it is down or while
// it runs: it stops, and has read nothing of the new topic.
func TestRecreatedTopic(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for _, running := range []bool{false, true} {
		for _, stage := range []string{"transform", "learn"} {
			t.Run(fmt.Sprintf("%s, running %v", stage, running), func(t *testing.T) {
				s := newStream(t, b, fmt.Sprintf("recreated-%s-%v", stage, running), settings{partitions: 1, features: "[a, b, c]"})
				s.rows(0, 3000)
				learn := s.program("learn")
				s.await(s.name+".learn", 3000, learn)
				p := learn
				group := s.name + ".learn"
				if stage == "transform" {
					p, group = s.program("transform"), s.name
					s.await(group, 3000, p)
					learn.stop()
				}
				if !running {
					p.stop()
				}
				s.DeleteTopic(t, s.topic("in"))
				s.CreateTopic(t, s.topic("in"), 1, nil)
				s.rows(0, 3500) // enough that the old offset exists there too
				if !running {
					p.start()
				}
				p.fails("deleted and created again", s.topic("in"), "lca-stream offsets")
				if running {
					return // some seconds of the new topic may have been read
				}
				if stage == "transform" {
					s.wantOnce(0, 0, 3000)
				}
				s.command("offsets", "reset", "--to", "earliest", "--stage", stage)
				p.start()
				s.await(group, 3500, p)
				p.stop()
			})
		}
	}
}

// Without its committed offsets a group that has begun does not begin again; and a group that is there has them
// for as long as it lives, however quiet its partitions are.
func TestOffsetsDoNotExpire(t *testing.T) {
	t.Parallel()
	const minute = 60 * time.Second
	var b *kafkatest.Broker
	if testing.Short() {
		b = kafkatest.Shared(t, kafkatest.Kafka41)
	} else {
		b = kafkatest.StartWith(t, kafkatest.Kafka41, kafkatest.Setup{Properties: []string{"offsets.retention.minutes=1", "offsets.retention.check.interval.ms=1000"}})
	}
	s := newStream(t, b, "quiet", settings{partitions: 2, static: true, features: "[a, b, c]"})
	s.rows(0, 3000)
	learn := s.program("learn")
	transform := s.program("transform")
	s.await(s.name, 3000, learn, transform)
	s.await(s.name+".learn", 3000, learn, transform)
	for began := time.Now(); !testing.Short() && time.Since(began) < minute+minute/2; time.Sleep(time.Second) {
		learn.alive()
		transform.alive()
	}
	for _, group := range []string{s.name, s.name + ".learn"} {
		if got := s.GroupOffsets(t, group); got[s.topic("in")+"/0"] != 3000 || len(got) != 2 {
			t.Errorf("without a record for a while group %s has %v", group, got)
		}
	}
	transform.stop()
	learn.stop()
	if testing.Short() { // at once, as it comes to all groups that are down for as long as the broker says
		s.DeleteGroup(t, s.name)
	}
	for deadline := time.Now().Add(3 * minute); len(s.GroupOffsets(t, s.name)) > 0; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatal("the offsets of a group that is down do not expire: this test is too quick")
		}
	}
	transform.start()
	transform.fails("no committed offset", s.topic("in"), "lca-stream offsets")
	s.wantOnce(0, 0, 3000)
	learn.start() // its position is that of its checkpoint
	s.rows(0, 100)
	s.await(s.name+".learn", 3100, learn)
	learn.stop()
}

// With start_offset: latest nothing that is written after the first start is passed over: not by a death
// before or within the first transaction, and not in a partition that is added.
func TestLatest(t *testing.T) {
	t.Parallel()
	bin := withPlaces(t)
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for _, place := range []string{"read:1", "produce.after:2", "commit.before:2", "offsets.before:1"} {
		t.Run(place, func(t *testing.T) {
			s := newStream(t, b, "latest-"+strings.NewReplacer(":", "-").Replace(place), settings{partitions: 1, static: true, features: "[a, b, c]"})
			s.bin = bin
			s.rows(0, 2000)
			learn := s.program("learn")
			s.await(s.name+".learn", 2000, learn)
			learn.stop()
			s.env = "LCA_STREAM_FAILPOINT=" + place
			transform := s.program("transform", "--set", "source.start_offset=latest")
			first := int64(2000)
			if place != "offsets.before:1" { // a death before the position is committed is no first start
				s.await(s.name, first, transform)
				s.rows(0, 20)
			}
			select {
			case <-transform.Done():
			case <-time.After(time.Minute):
				t.Fatalf("%s is not reached", place)
			}
			s.env = ""
			if place == "offsets.before:1" {
				s.rows(0, 20)
				first += 20
				transform.start()
				s.await(s.name, first, transform)
				s.rows(0, 20)
			} else {
				transform.start()
			}
			s.rows(0, 5)
			s.wantOnce(0, first, first+25, transform)
			transform.stop()
		})
	}
}

// A partition that is added begins at its first record, whatever start_offset says.
func TestLatestAddedPartition(t *testing.T) {
	t.Parallel()
	s := newStream(t, kafkatest.Shared(t, kafkatest.Kafka41), "late", settings{partitions: 1, features: "[a, b, c]"})
	s.rows(0, 2000)
	learn := s.program("learn")
	s.await(s.name+".learn", 2000, learn)
	transform := s.program("transform", "--set", "source.start_offset=latest")
	s.await(s.name, 2000, transform)
	for _, topic := range []string{"out", "out-state", "dead", "in"} {
		s.AddPartitions(t, s.topic(topic), 2)
	}
	s.rows(1, 30)
	s.rows(0, 10)
	s.wantOnce(1, 0, 30, learn, transform)
	s.wantOnce(0, 2000, 2010, learn, transform)
	transform.stop()
	learn.stop()
	learn = s.program("learn", "--set", "source.start_offset=latest")
	s.learnt(2040, learn)
	learn.stop()
}

// Retention passes the learner's checkpoint, though every record that it deletes was whitened: `run` goes
// on, and says so. Records that have not been read stop it, unless source.on_gap is skip.
func TestLearnerBehindRetention(t *testing.T) {
	t.Parallel()
	s := newStream(t, kafkatest.Shared(t, kafkatest.Kafka41), "behind", settings{partitions: 1, static: true, features: "[a, b, c]"})
	s.rows(0, 3000)
	p := s.program("run")
	s.await(s.name+".learn", 3000, p)
	p.stop()
	p.args = append(p.args, "--set", "snapshot.every=1h", "--set", "snapshot.every_rows=1000000")
	p.start()
	s.rows(0, 50)
	s.wantOnce(0, 0, 3050, p)
	p.Kill()
	s.DeleteRecords(t, s.topic("in"), map[int32]int64{0: 3050})
	p.args = []string{"run"}
	p.start()
	s.rows(0, 50)
	s.wantOnce(0, 0, 3100, p)
	s.learnt(3100, p)
	p.stop()
	log, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "leaving records out of what is learnt") || !strings.Contains(string(log), "records=50") && !strings.Contains(string(log), `"records":50`) {
		t.Error("the log does not say that 50 records were left out")
	}
	end := s.ListOffsets(t, s.topic("in"), -1, 0)[0]
	s.rows(0, 42)
	s.DeleteRecords(t, s.topic("in"), map[int32]int64{0: end + 20})
	p.start()
	p.fails("retention has deleted 20 records that were not read", "source.on_gap")
	p.args = []string{"run", "--set", "source.on_gap=skip"}
	p.start()
	s.await(s.name, end+42, p)
	s.learnt(end+42, p)
	p.stop()
	if got := s.outputs(0); got[end-1] != 1 || got[end] != 0 || got[end+19] != 0 || got[end+20] != 1 {
		t.Errorf("around the gap from %d to %d the output has %d, %d, %d, %d records of an offset, want 1, 0, 0, 1", end, end+20, got[end-1], got[end], got[end+19], got[end+20])
	}
}
