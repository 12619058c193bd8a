//go:build unix && chaos

package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// written are the source offsets of all committed records of the given topics, by source partition.
func (s *stream) written(topics ...string) map[string][]int64 {
	s.t.Helper()
	all := map[string][]int64{}
	for _, topic := range topics {
		for _, r := range s.ReadCommitted(s.t, topic) {
			partition, offset := "", int64(-1)
			for _, h := range r.Headers {
				switch h.Key {
				case "lca-source-partition":
					partition = string(h.Value)
				case "lca-source-offset":
					n, err := strconv.ParseInt(string(h.Value), 10, 64)
					if err != nil {
						s.t.Fatal(err)
					}
					offset = n
				}
			}
			all[partition] = append(all[partition], offset)
		}
	}
	for _, offsets := range all {
		slices.Sort(offsets)
	}
	return all
}

// A group that begins at the end of its topic and is killed before it has committed anything, or at any other
// marked place: no record that came after its first start is left out.
func TestChaosLatest(t *testing.T) {
	bin := withPlaces(t)
	const partitions = 2
	c := newChaos(t, kafkatest.Start(t, kafkatest.Kafka41), "latest", settings{partitions: partitions})
	learner := c.begin("learn")
	c.progress(c.name+".learn", 100, learner)
	c.bin = bin
	visits, messages := 0, 0
	for i, place := range places["transform"] {
		for times := 1; times <= 2; times++ {
			if times == 2 && (place == "takeover" || place == "fence.before" || place == "fence.after") {
				continue // there may be no second time
			}
			messages += c.beginAtEnd(fmt.Sprintf("latest-%d-%d", i, times), partitions, fmt.Sprintf("%s:%d", place, times))
			visits++
		}
	}
	c.end()
	c.wait()
	c.report("start_offset latest, exit at a marked place of the first start", fmt.Sprintf("%d places", visits),
		fmt.Sprintf("%d messages from the position of the first start on, each once", messages))
}

// beginAtEnd runs a transform of a new group and a new output topic, first to the marked place and then on.
// Whatever came after the group has taken its position comes out once.
func (c *chaos) beginAtEnd(name string, partitions int, failpoint string) (messages int) {
	t := c.t
	t.Helper()
	c.CreateTopic(t, name, partitions, nil)
	c.env = "LCA_STREAM_FAILPOINT=" + failpoint
	p := c.program("transform", "--set", "source.group="+name, "--set", "transform.topic="+name, "--set", "source.start_offset=latest")
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Fatalf("%s was not reached", failpoint)
	}
	if code := p.ExitCode(); code != 9 {
		t.Fatalf("%s: exit code %d\n%s", failpoint, code, lastLines(p.log, 5))
	}
	before := c.GroupOffsets(t, name) // what was committed before the end, if anything
	c.env = ""
	p.start()
	start := c.positioned(name, partitions, p)
	for partition, at := range before {
		if at >= 0 {
			start[partition] = min(start[partition], at)
		}
	}
	c.await(name, c.committed(name)+20, p)
	p.stop()
	got, next := c.written(name, c.topic("dead")), c.GroupOffsets(t, name)
	ours := c.written(name)
	for key, end := range next {
		id := key[strings.LastIndex(key, "/")+1:]
		begin := end
		if len(ours[id]) > 0 {
			begin = ours[id][0]
		}
		if at, ok := before[key]; ok && at >= 0 && begin > at && !slices.Contains(got[id], at) {
			t.Errorf("%s: partition %s was at %d, and the first record written is %d", failpoint, id, at, begin)
		}
		have := map[int64]int{}
		for _, offset := range ours[id] {
			have[offset]++
		}
		for offset := begin; offset < end; offset++ {
			if n := have[offset]; n > 1 || n == 0 && !slices.Contains(got[id], offset) {
				t.Errorf("%s: record %s@%d is in the output %d times", failpoint, id, offset, n)
			}
		}
		messages += len(ours[id])
	}
	return messages
}

// A source topic that is deleted and created again, with more records than before, is found by each stage alone:
// at its start, and while it runs.
func TestChaosRecreated(t *testing.T) {
	for _, c := range []struct {
		command string
		running bool
	}{{"transform", false}, {"learn", false}, {"transform", true}, {"learn", true}} {
		name := c.command + ", at its start"
		if c.running {
			name = c.command + ", while it runs"
		}
		t.Run(name, func(t *testing.T) {
			s := newChaos(t, kafkatest.Start(t, kafkatest.Kafka41), "again", settings{partitions: 2})
			s.begin("learn")
			s.begin("transform")
			s.progress(s.name, 100, s.programs...)
			s.progress(s.name+".learn", 100, s.programs...)
			s.end()
			s.wait()
			p, other := s.programs[1], s.programs[0]
			if c.command == "learn" {
				p, other = other, p
			}
			other.stop()
			if c.running {
				p.Pause()
			} else {
				p.stop()
			}
			before, rows := len(s.ReadCommitted(t, s.topic("out"))), int64(0)
			for _, end := range s.ListOffsets(t, s.topic("in"), -1, 0) {
				rows += end * int64(load.PerMessage)
			}
			s.DeleteTopic(t, s.topic("in"))
			s.CreateTopic(t, s.topic("in"), 2, nil)
			wait, _ := s.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 40_000, PerMessage: 20})
			wait()
			if c.running {
				p.Resume()
			} else {
				p.start()
			}
			s.ends(p, "again-in")
			if after := len(s.ReadCommitted(t, s.topic("out"))); after != before {
				t.Errorf("%d records were written from another topic of the same name", after-before)
			}
			// A version is the rows learnt. One may still come of rows of the former topic, which its clock publishes.
			if newest := slices.Max(s.versions()); newest > uint64(rows) {
				t.Errorf("version %d was published, and the former topic had %d rows", newest, rows)
			}
			s.report("source topic created again, longer than before: "+name, "1", "exit code 2 with the topic and the reason; nothing written from the new topic")
		})
	}
}
