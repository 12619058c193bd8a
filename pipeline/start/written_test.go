package start

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// writtenLogs are the logs of what transforms have written, by topic: the next offset of the source after each record, for records of
// group g and events/0; 0 for those of others.
type writtenLogs struct {
	logs  map[string][][]source.Header
	begin map[string]int64 // by topic: what is before it was deleted
	id    string
	moved int32 // by how many partitions dead letters are written elsewhere
	reads int   // records that were read
}

func (l *writtenLogs) of(group string, p source.Partition, offset int64) []source.Header {
	return []source.Header{
		reject.Text(reject.HeaderGroup, group), reject.Text(reject.HeaderSourceTopic, p.Topic), reject.Text(reject.HeaderSourcePartition, strconv.Itoa(int(p.ID))),
		reject.Text(reject.HeaderSourceOffset, strconv.FormatInt(offset, 10)),
	}
}

func (l *writtenLogs) add(topic string, records ...[]source.Header) {
	l.logs[topic] = append(l.logs[topic], records...)
}

func (l *writtenLogs) written(topics ...string) *Written {
	place := func(topic string, _ source.Partition) int32 { // all partitions of the source write to one
		if topic == "dead" {
			return l.moved
		}
		return 0
	}
	return &Written{Group: "g", Topics: topics, Place: place, Read: func(topic string, partition int32, _ source.Partition) *checkpoint.ReadBack {
		if partition != 0 {
			topic = fmt.Sprintf("%s/%d", topic, partition)
		}
		open := func(_ context.Context, from int64) (checkpoint.TopicReader, error) {
			return &writtenReader{l: l, log: l.logs[topic], next: from}, nil
		}
		return &checkpoint.ReadBack{
			Open: open, End: func(context.Context) (int64, error) { return int64(len(l.logs[topic])), nil },
			Begin:   func(context.Context) (int64, error) { return l.begin[topic], nil },
			TopicID: func(context.Context) (string, error) { return l.id, nil },
		}
	}}
}

type writtenReader struct {
	l    *writtenLogs
	log  [][]source.Header
	next int64
}

func (r *writtenReader) Fetch(context.Context) (got source.Fetched, err error) {
	got.Records = []recordbatch.Record{{Offset: r.next, Headers: r.log[r.next]}}
	r.next++
	r.l.reads++
	got.Next = r.next
	return got, nil
}

// openWritten is where a transform begins that looks at what is written.
func (t *town) openWritten(tt *testing.T, logs *writtenLogs) int64 {
	tt.Helper()
	next, err := t.tryWritten(tt, logs)
	if err != nil {
		tt.Fatal(err)
	}
	if c := t.committed[fixtures.Part(0)]; c.Next != next[fixtures.Part(0)] {
		tt.Errorf("begins at %d, and %d is committed", next[fixtures.Part(0)], c.Next)
	}
	return next[fixtures.Part(0)]
}

func (t *town) tryWritten(tt *testing.T, logs *writtenLogs) (source.Offsets, error) {
	tt.Helper()
	p := t.positions(source.Earliest, "")
	p.Written = logs.written("out", "dead")
	return p.Open(tt.Context(), t, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(0)})
}

func newWrittenLogs() *writtenLogs { return &writtenLogs{logs: map[string][][]source.Header{}} }

// A committed offset that is older than what is written is made up for, by outputs and by dead letters. What others have written says
// nothing: other groups, partitions and topics, and records without headers.
func TestWhatIsWrittenCounts(t *testing.T) {
	var l writtenLogs
	mine := func(offset int64) []source.Header { return l.of("g", fixtures.Part(0), offset) }
	batch := append(mine(11), reject.Text(reject.HeaderSourceLastOffset, "17"))
	others := [][]source.Header{
		l.of("h", fixtures.Part(0), 100), l.of("g", fixtures.Part(1), 100), l.of("g", source.Partition{Topic: "others"}, 100), nil,
		{reject.Text(reject.HeaderGroup, "g"), reject.Text(reject.HeaderSourceTopic, "events"), reject.Text(reject.HeaderSourcePartition, "0")},
		append(mine(100)[:3:3], reject.Text(reject.HeaderSourceOffset, "many")),
		append(mine(100), reject.Text(reject.HeaderGroup, "h")), // of two headers the last one holds
	}
	var many [][]source.Header
	for range 3000 {
		many = append(many, others...)
	}
	for _, c := range []struct {
		name      string
		out, dead [][]source.Header
		want      int64
	}{
		{"nothing", nil, nil, 3},
		{"as committed", [][]source.Header{mine(1), mine(2)}, nil, 3},
		{"outputs are newer", [][]source.Header{mine(1), mine(2), mine(3), mine(4)}, nil, 5},
		{"dead letters are newer", [][]source.Header{mine(2)}, [][]source.Header{mine(5)}, 6},
		{"both are", [][]source.Header{mine(8)}, [][]source.Header{mine(5)}, 9},
		{"a batch that could not be read", nil, [][]source.Header{batch}, 18},
		{"others alone", others, others, 3},
		{"before those of others", append([][]source.Header{mine(6)}, others...), others, 7},
		{"far before those of others", append([][]source.Header{mine(6)}, many[:checkpoint.RecentMost-1]...), nil, 7},
		{"too far before those of others", append([][]source.Header{mine(6)}, many...), nil, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			town, logs := newTown(), newWrittenLogs()
			if next := town.openWritten(t, logs); next != 3 {
				t.Fatalf("the first start is at %d", next)
			}
			logs.add("out", c.out...)
			logs.add("dead", c.dead...)
			for range 2 {
				if next := town.openWritten(t, logs); next != c.want {
					t.Errorf("goes on at %d, want %d", next, c.want)
				}
			}
		})
	}
}

// An offset that is set back is obeyed: what was written before says nothing, whichever program sets it. What is
// written after that counts again.
func TestWhatWasWrittenBeforeAResetDoesNotCount(t *testing.T) {
	for _, c := range []struct{ name, metadata string }{
		{"lca-stream offsets reset", source.NewNote("one", "").String()},
		{"Kafka's tools", ""},
		{"another program", "reset by hand"},
	} {
		t.Run(c.name, func(t *testing.T) {
			town, logs := newTown(), newWrittenLogs()
			town.openWritten(t, logs)
			mine := func(topic string, offset int64) { logs.add(topic, logs.of("g", fixtures.Part(0), offset)) }
			mine("out", 3)
			mine("out", 4)
			mine("dead", 5)
			set := source.Position{Next: 3, Epoch: -1, Metadata: c.metadata}
			town.committed[fixtures.Part(0)] = set
			for range 3 { // also after it is committed again, as an idle transform does
				if next := town.openWritten(t, logs); next != 3 {
					t.Fatalf("goes on at %d, want 3: records would be left out", next)
				}
			}
			mine("out", 3)
			if next := town.openWritten(t, logs); next != 4 {
				t.Errorf("goes on at %d, want 4", next)
			}
		})
	}
}

// A topic that was not written to before, or was deleted and created again, counts from then on.
func TestTopicsThatAreNewCount(t *testing.T) {
	town, logs := newTown(), newWrittenLogs()
	for range 9 {
		logs.add("out", logs.of("another", fixtures.Part(0), 80))
	}
	town.openWritten(t, logs)
	logs.logs["out"] = nil
	logs.add("out", logs.of("g", fixtures.Part(0), 6))
	if next := town.openWritten(t, logs); next != 7 {
		t.Errorf("after the topic was created again: goes on at %d, want 7", next)
	}
}

// A group that has written has begun, although neither an offset nor a marker is left of it: it does not begin again. A partition of which nothing was
// written begins.
func TestWhatHasWrittenDoesNotBegin(t *testing.T) {
	town, logs := newTown(), newWrittenLogs()
	logs.add("out", logs.of("another", fixtures.Part(0), 80))
	logs.add("out", logs.of("g", fixtures.Part(1), 7))
	logs.add("dead", logs.of("g", fixtures.Part(1), 8))
	if next := town.openWritten(t, logs); next != 3 {
		t.Errorf("a partition of which nothing was written begins at %d", next)
	}
	town, logs = newTown(), newWrittenLogs()
	logs.add("out", logs.of("g", fixtures.Part(0), 4))
	logs.add("dead", logs.of("g", fixtures.Part(0), 5))
	_, err := town.tryWritten(t, logs)
	fixtures.WantStop(t, err, "neither a committed offset nor a start marker", "offset 5", "--stage transform --to 0=6")
	if len(town.committed)+len(town.log) > 0 {
		t.Errorf("what is refused commits %v and writes %d records", town.committed, len(town.log))
	}
}

// A take-over usually reads the last record and the marker after it, not the topic.
func TestALookReadsTheEndAlone(t *testing.T) {
	town, logs := newTown(), newWrittenLogs()
	town.openWritten(t, logs)
	for offset := range int64(100_000) {
		logs.add("out", logs.of("g", fixtures.Part(0), offset))
	}
	if next := town.openWritten(t, logs); next != 100_000 || logs.reads > 2*checkpoint.RecentFirst {
		t.Errorf("goes on at %d, after %d records were read", next, logs.reads)
	}
}

// Brokers before Kafka 4.0 may forget the first offset of a group, and keep the marker of its transaction. This process or
// the next goes on at the marker, where it is certain that nothing was written since: or records would come twice.
func TestFirstOffsetIsForgotten(t *testing.T) {
	mine := func(l *writtenLogs) []source.Header { return l.of("g", fixtures.Part(0), 3) }
	many := func(l *writtenLogs, n int) {
		for range n {
			l.add("out", l.of("h", fixtures.Part(0), 100))
		}
	}
	for _, c := range []struct {
		name  string
		after func(*town, *writtenLogs) // the first start
		lost  bool
	}{
		{"nothing is written", func(*town, *writtenLogs) {}, false},
		{"others have written", func(_ *town, l *writtenLogs) { many(l, checkpoint.RecentMost) }, false},
		{"others have written much", func(_ *town, l *writtenLogs) { many(l, checkpoint.RecentMost+1) }, true},
		{"outputs are written", func(_ *town, l *writtenLogs) { l.add("out", mine(l)) }, true},
		{"dead letters are written", func(_ *town, l *writtenLogs) { l.add("dead", mine(l)) }, true},
		{"what was written is deleted", func(_ *town, l *writtenLogs) { many(l, 1); l.begin = map[string]int64{"out": 5} }, true},
		{"the output topic was deleted", func(_ *town, l *writtenLogs) { l.logs["out"] = nil }, true},
		{"a marker of the former program", func(town *town, _ *writtenLogs) {
			town.log = append(town.log, town.starts(0).Message(markerKey("g", fixtures.Part(0)), Start{Version: StartVersion, TopicID: town.id, Offset: 3}))
		}, true},
		{"another topic of the name", func(town *town, _ *writtenLogs) { town.id = "two" }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				town, logs := newTown(), newWrittenLogs()
				many(logs, 4)
				town.fails, town.forgets = 2, true
				if next := town.openWritten(t, logs); next != 3 {
					t.Fatalf("the process that had no answer begins at %d", next)
				}
				town.end[fixtures.Part(0)] = 20
				c.after(town, logs)
				delete(town.committed, fixtures.Part(0))
				next, err := town.tryWritten(t, logs)
				switch {
				case c.lost:
					fixtures.WantStop(t, err, "start marker")
				case err != nil:
					t.Error(err)
				case next[fixtures.Part(0)] != 3 || town.committed[fixtures.Part(0)].Next != 3:
					t.Errorf("the next process begins at %v, and %v is committed", next, town.committed)
				}
			})
		})
	}
}
