package start

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// shows has the broker show an offset, with what its transaction has noted as written, by topic; nothing but these differs from what a committed one notes.
func (t *town) shows(tt *testing.T, next int64, written map[string]int64) {
	tt.Helper()
	c := t.committed[fixtures.Part(0)]
	note, err := source.ParseNote(c.Metadata)
	if err != nil || note.Outputs == nil {
		tt.Fatalf("noted is %s, %v", c.Metadata, err)
	}
	for topic, n := range written {
		end := note.Ends[topic]
		end.Written = n
		note.Ends[topic] = end
	}
	t.committed[fixtures.Part(0)] = source.Position{Next: next, Epoch: -1, Metadata: note.String()}
}

// Whatever offset a broker shows as committed, a partition goes on where its outputs end: the offset may be that of an aborted transaction, or too old.
func TestGoesOnWhereTheOutputsEnd(t *testing.T) {
	type logs = writtenLogs
	mine := func(topic string, offsets ...int64) func(*logs) {
		return func(l *logs) {
			for _, offset := range offsets {
				l.add(topic, l.of("g", fixtures.Part(0), offset))
			}
		}
	}
	others := func(l *logs) {
		for range checkpoint.RecentMost + 100 {
			l.add("out", l.of("h", fixtures.Part(0), 100))
			l.add("dead", l.of("g", fixtures.Part(1), 100))
		}
	}
	for _, c := range []struct {
		name      string
		after     []func(*logs) // the first start, at 3
		next      int64         // what the broker shows
		out, dead int64         // written
		want      int64
	}{
		{"committed", []func(*logs){mine("out", 3, 4)}, 5, 5, 0, 5},
		{"committed without outputs at its end", []func(*logs){mine("out", 3, 4)}, 9, 5, 0, 9},
		{"committed without outputs at all", nil, 9, 0, 0, 9},
		{"committed with a dead letter last", []func(*logs){mine("out", 3), mine("dead", 4)}, 5, 4, 5, 5},
		{"committed before much of others", []func(*logs){mine("out", 3, 4), others}, 5, 5, 0, 5},
		{"committed, and copies are written of former outputs", []func(*logs){mine("out", 3, 4, 5, 6), mine("out", 3, 4)}, 7, 7, 0, 7},
		{"aborted", []func(*logs){mine("out", 3, 4)}, 9, 8, 0, 5},
		{"aborted, the first one", nil, 9, 8, 0, 3},
		{"aborted, with a dead letter last", []func(*logs){mine("out", 3)}, 5, 0, 5, 4},
		{"aborted after a dead letter", []func(*logs){mine("out", 3), mine("dead", 4)}, 9, 9, 0, 5},
		{"aborted before much of others", []func(*logs){mine("out", 3), mine("dead", 4), others}, 9, 9, 0, 5},
		{"aborted, with nothing before much of others", []func(*logs){others}, 9, 9, 0, 3},
		{"aborted, and dead letters are deleted", []func(*logs){mine("dead", 3), func(l *logs) { l.begin = map[string]int64{"dead": 1} }}, 9, 9, 8, 4},
		{"dropped", []func(*logs){mine("out", 3, 4, 5, 6, 7)}, 5, 5, 0, 8},
		{"dropped, after input without outputs", []func(*logs){mine("out", 3, 7)}, 6, 4, 0, 8},
		// Where records may be gone, the offset is believed.
		{"deleted", []func(*logs){mine("out", 3, 4), func(l *logs) { l.logs["out"], l.begin = make([][]source.Header, 9), map[string]int64{"out": 9} }}, 12, 11, 0, 12},
		{"deleted, except those of others", []func(*logs){others, func(l *logs) { l.begin = map[string]int64{"out": 9} }}, 12, 11, 0, 12},
		{"another topic of the name", []func(*logs){func(l *logs) { l.id = "new" }}, 12, 11, 0, 12},
		{"truncated", []func(*logs){func(l *logs) { l.logs["out"] = nil }}, 12, 11, 0, 12},
		{"dead letters are written to another partition now", []func(*logs){mine("dead", 3), func(l *logs) { l.moved = 1 }}, 4, 0, 4, 4},
		{"dead letters were aborted, and are written to another partition now", []func(*logs){func(l *logs) { l.moved = 1 }}, 4, 0, 4, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			town, logs := newTown(), newWrittenLogs()
			town.end[fixtures.Part(0)] = 20
			logs.id = "old"
			logs.add("out", logs.of("another", fixtures.Part(0), 80))
			town.openWritten(t, logs)
			for _, do := range c.after {
				do(logs)
			}
			town.shows(t, c.next, map[string]int64{"out": c.out, "dead": c.dead})
			for range 2 {
				if next := town.openWritten(t, logs); next != c.want {
					t.Errorf("goes on at %d, want %d", next, c.want)
				}
			}
		})
	}
}

// Each partition that does not go on at its committed offset is named in a warning of its own, although they come at once and say the same.
func TestEachPartitionIsWarnedOf(t *testing.T) {
	town, wrote := newTown(), newWrittenLogs()
	town.end[fixtures.Part(0)], town.end[fixtures.Part(1)] = 20, 20
	both := []source.Partition{fixtures.Part(0), fixtures.Part(1)}
	open := func(log *slog.Logger) {
		p := town.positions(source.Earliest, "")
		p.Written, p.Log = wrote.written("out", "dead"), log
		if _, err := p.Open(t.Context(), town, source.Claim{Group: "g", Generation: -1}, both); err != nil {
			t.Fatal(err)
		}
	}
	open(fixtures.Quiet())
	town.shows(t, 9, map[string]int64{"out": 9})
	town.committed[fixtures.Part(1)] = town.committed[fixtures.Part(0)]
	var text bytes.Buffer
	open(slog.New(logs.Limit(slog.NewTextHandler(&text, nil), time.Minute)))
	for _, p := range both {
		if !strings.Contains(text.String(), "partition="+p.String()) {
			t.Errorf("no warning names %v:\n%s", p, &text)
		}
	}
}

// Outputs are looked for where they were written, although another topic is written to by now. What was written there before says nothing.
func TestAnotherOutputTopic(t *testing.T) {
	for _, c := range []struct{ there, want int64 }{{8, 9}, {5, 6}, {0, 3}} {
		town, logs := newTown(), newWrittenLogs()
		town.end[fixtures.Part(0)] = 20
		town.openWritten(t, logs)
		if c.there > 0 {
			logs.add("out", logs.of("g", fixtures.Part(0), c.there))
		}
		logs.add("new", logs.of("g", fixtures.Part(0), 15))
		town.shows(t, 9, map[string]int64{"out": 9})
		for range 2 {
			p := town.positions(source.Earliest, "")
			p.Written = logs.written("new", "dead")
			next, err := p.Open(t.Context(), town, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(0)})
			if err != nil || next[fixtures.Part(0)] != c.want {
				t.Errorf("goes on at %v, %v; want %d", next, err, c.want)
			}
		}
	}
}

// After a reset dead letters are not written, and are again: those that were written before the reset say nothing.
func TestDeadLettersAreWrittenAgain(t *testing.T) {
	town, logs := newTown(), newWrittenLogs()
	town.end[fixtures.Part(0)] = 20
	town.openWritten(t, logs)
	logs.add("dead", logs.of("g", fixtures.Part(0), 15))
	town.committed[fixtures.Part(0)] = source.Position{Next: 3, Epoch: -1, Metadata: source.NewNote("one", "").String()} // as a reset does
	for _, topics := range [][]string{{"out"}, {"out", "dead"}, {"out", "dead"}} {
		p := town.positions(source.Earliest, "")
		p.Written = logs.written(topics...)
		next, err := p.Open(t.Context(), town, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(0)})
		if err != nil || next[fixtures.Part(0)] != 3 {
			t.Errorf("with %v it goes on at %v, %v; want 3", topics, next, err)
		}
	}
}

// What is noted is where the transaction before ended, and the input after the last one that this one has written something of.
func TestWhatATransactionNotes(t *testing.T) {
	town, logs := newTown(), newWrittenLogs()
	p := town.positions(source.Earliest, "")
	p.Written = logs.written("out", "dead")
	if _, err := p.Open(t.Context(), town, source.Claim{Group: "g", Generation: -1}, []source.Partition{fixtures.Part(0)}); err != nil {
		t.Fatal(err)
	}
	o := &Outputs{Positions: p, Partition: fixtures.Part(0)}
	message := func(topic string, offset int64) sink.Message {
		return sink.Message{Topic: topic, Headers: logs.of("g", fixtures.Part(0), offset)}
	}
	noted := func(c source.Claim) string {
		note, err := source.ParseNote(c.Metadata[fixtures.Part(0)])
		if err != nil || note.Outputs == nil {
			t.Fatalf("it notes %s, %v", c.Metadata, err)
		}
		out, dead := note.Ends["out"], note.Ends["dead"]
		return fmt.Sprintf("from %d, out %d %d, dead %d %d", note.From, out.Offset, out.Written, dead.Offset, dead.Written)
	}
	end := int64(0)
	for i, c := range []struct {
		msgs  []sink.Message
		next  int64
		fate  string
		notes string
	}{
		{nil, 4, "committed", "from 3, out 0 0, dead 0 0"},
		{[]sink.Message{message("out", 4), message("out", 5)}, 7, "aborted", "from 4, out 0 6, dead 0 0"},
		{[]sink.Message{message("out", 4)}, 5, "committed", "from 4, out 0 5, dead 0 0"},
		{[]sink.Message{message("out", 5), message("alarms", 5), message("dead", 6), message("alarms", 9)}, 8, "committed", "from 5, out 1 6, dead 0 7"},
		{[]sink.Message{message("out", 8)}, 9, "committed somewhere", "from 8, out 2 9, dead 4 0"},
		{nil, 12, "committed", "from 8, out 2 0, dead 4 0"},
		{nil, 12, "committed", "from 12, out 2 0, dead 4 0"},
	} {
		claim, kept := o.Claim(source.Claim{Next: source.Offsets{fixtures.Part(0): c.next}}, c.msgs)
		if got := noted(claim); got != c.notes {
			t.Errorf("transaction %d notes %s, want %s", i, got, c.notes)
		}
		for _, m := range c.msgs {
			if m.Offset != nil {
				if *m.Offset = end; c.fate == "committed somewhere" {
					*m.Offset = -1
				}
			}
			end++
		}
		if c.fate != "aborted" {
			kept()
		} else {
			end--
			end--
		}
	}
	// A topic that is seldom written to is looked at now and then.
	for offset := range int64(1000) {
		logs.add("out", logs.of("h", fixtures.Part(0), offset))
	}
	o.Look(t.Context(), source.Offsets{fixtures.Part(0): 12})
	claim, _ := o.Claim(source.Claim{}, nil)
	if got := noted(claim); got != "from 12, out 1000 0, dead 0 0" {
		t.Errorf("after a look it notes %s", got)
	}
}
