package pipeline

import (
	"fmt"
	"testing"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// shows has the broker show an offset, with what its transaction has noted as written; nothing but these differs from what a committed one notes.
func (t *town) shows(tt *testing.T, next, written int64) {
	tt.Helper()
	c := t.committed[at(0)]
	note, err := source.ParseNote(c.Metadata)
	if err != nil || note.Outputs == nil {
		tt.Fatalf("noted is %s, %v", c.Metadata, err)
	}
	note.Written = written
	t.committed[at(0)] = source.Position{Next: next, Epoch: -1, Metadata: note.String()}
}

// Whatever offset a broker shows as committed, a partition goes on where its outputs end: the offset may be that of an aborted transaction, or too old.
func TestGoesOnWhereTheOutputsEnd(t *testing.T) {
	type logs = writtenLogs
	mine := func(topic string, offsets ...int64) func(*logs) {
		return func(l *logs) {
			for _, offset := range offsets {
				l.add(topic, l.of("g", at(0), offset))
			}
		}
	}
	others := func(l *logs) {
		for range recentMost + 100 {
			l.add("out", l.of("h", at(0), 100))
			l.add("dead", l.of("g", at(1), 100))
		}
	}
	for _, c := range []struct {
		name          string
		after         []func(*logs) // the first start, at 3
		next, written int64         // what the broker shows
		want          int64
	}{
		{"committed", []func(*logs){mine("out", 3, 4)}, 5, 5, 5},
		{"committed without outputs at its end", []func(*logs){mine("out", 3, 4)}, 9, 5, 9},
		{"committed without outputs at all", nil, 9, 3, 9},
		{"committed with a dead letter last", []func(*logs){mine("out", 3), mine("dead", 4)}, 5, 5, 5},
		{"committed before much of others", []func(*logs){mine("out", 3, 4), others}, 5, 5, 5},
		{"aborted", []func(*logs){mine("out", 3, 4)}, 9, 8, 5},
		{"aborted, the first one", nil, 9, 8, 3},
		{"aborted, with a dead letter last", []func(*logs){mine("out", 3)}, 5, 5, 4},
		{"aborted after a dead letter", []func(*logs){mine("out", 3), mine("dead", 4)}, 9, 9, 5},
		{"aborted before much of others", []func(*logs){mine("out", 3), mine("dead", 4), others}, 9, 9, 5},
		{"aborted, with nothing before much of others", []func(*logs){others}, 9, 9, 3},
		{"dropped", []func(*logs){mine("out", 3, 4, 5, 6, 7)}, 5, 5, 8},
		{"dropped, after input without outputs", []func(*logs){mine("out", 3, 7)}, 6, 4, 8},
		// Where records may be gone, the offset is believed.
		{"deleted", []func(*logs){mine("out", 3, 4), func(l *logs) { l.logs["out"], l.begin = make([][]source.Header, 9), 9 }}, 12, 11, 12},
		{"deleted, except those of others", []func(*logs){others, func(l *logs) { l.begin = 9 }}, 12, 11, 12},
		{"aborted, and all before it is deleted", []func(*logs){others, mine("out", 4), func(l *logs) { l.begin = 9 }}, 12, 11, 5},
		{"another topic of the name", []func(*logs){func(l *logs) { l.id = "new" }}, 12, 11, 12},
		{"truncated", []func(*logs){func(l *logs) { l.logs["out"] = nil }}, 12, 11, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			town, logs := newTown(), newWrittenLogs()
			town.end[at(0)] = 20
			logs.id = "old"
			logs.add("out", logs.of("another", at(0), 80))
			town.openWritten(t, logs)
			for _, do := range c.after {
				do(logs)
			}
			town.shows(t, c.next, c.written)
			for range 2 {
				if next := town.openWritten(t, logs); next != c.want {
					t.Errorf("goes on at %d, want %d", next, c.want)
				}
			}
		})
	}
}

// A topic that is no longer written to may have what the offset names: the offset is believed. What is written to the new one counts from then on.
func TestAnotherOutputTopic(t *testing.T) {
	town, logs := newTown(), newWrittenLogs()
	town.openWritten(t, logs)
	town.shows(t, 9, 8)
	open := func(want int64) {
		t.Helper()
		p := town.positions(source.Earliest, "")
		p.Written = logs.written("new", "dead")
		next, err := p.Open(t.Context(), town, source.Claim{Group: "g", Generation: -1}, []source.Partition{at(0)})
		if err != nil || next[at(0)] != want {
			t.Errorf("goes on at %v, %v; want %d", next, err, want)
		}
	}
	town.end[at(0)] = 20
	open(9)
	logs.add("new", logs.of("g", at(0), 9))
	town.shows(t, 15, 15)
	open(10)
}

// What is noted is the input after the last one of the transaction that was written, as far as it is committed.
func TestWhatATransactionNotes(t *testing.T) {
	town, logs := newTown(), newWrittenLogs()
	p := town.positions(source.Earliest, "")
	p.Written = logs.written("out", "dead")
	if _, err := p.Open(t.Context(), town, source.Claim{Group: "g", Generation: -1}, []source.Partition{at(0)}); err != nil {
		t.Fatal(err)
	}
	o := &Outputs{Positions: p, Partition: at(0)}
	message := func(topic string, offset int64) sink.Message {
		return sink.Message{Topic: topic, Headers: logs.of("g", at(0), offset)}
	}
	for i, c := range []struct {
		msgs []sink.Message
		fail bool
		want int64
	}{
		{nil, false, 3},
		{[]sink.Message{message("out", 3), message("out", 5)}, true, 6},
		{[]sink.Message{message("out", 3)}, false, 4},
		{[]sink.Message{message("out", 4), message("alarms", 4), message("dead", 6), message("alarms", 9)}, false, 7},
		{nil, false, 7},
	} {
		claim, kept := o.claim(source.Claim{Next: source.Offsets{at(0): 10}}, c.msgs)
		note, err := source.ParseNote(claim.Metadata[at(0)])
		if err != nil || note.Outputs == nil || note.Written != c.want || note.From != 3 {
			t.Errorf("transaction %d notes %s, %v; want %d written", i, claim.Metadata[at(0)], err, c.want)
		}
		if !c.fail {
			kept()
		}
	}
	// From now on a take-over looks at what comes after the present ends.
	for offset := range int64(1000) {
		logs.add("out", logs.of("h", at(0), offset))
	}
	o.look(t.Context())
	claim, _ := o.claim(source.Claim{}, nil)
	note, err := source.ParseNote(claim.Metadata[at(0)])
	if got := fmt.Sprint(note.From, note.Written, note.Ends["out"].Offset, note.Ends["dead"].Offset); err != nil || got != "7 7 1000 0" {
		t.Errorf("after a look it notes %s, %v", got, err)
	}
}
