package start

import (
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/source"
)

// resets moves a transform that knows what it has written.
func (t *town) resets(tt *testing.T, logs *writtenLogs, to int64) error {
	tt.Helper()
	p := t.positions(source.Earliest, "")
	p.Written = logs.written("out", "dead")
	return p.Reset(tt.Context(), t, source.Offsets{fixtures.Part(0): to}, nil)
}

// stands returns where events/0 goes on, and why, as a reset and `offsets show` say it.
func stands(t *testing.T, p *Positions) Stand {
	t.Helper()
	at, err := p.Stands(t.Context(), []source.Partition{fixtures.Part(0)})
	if err != nil {
		t.Fatal(err)
	}
	return at[fixtures.Part(0)]
}

// A reset whose offsets a broker drops, as the late completion of the transaction before does, commits them again, and says so where they never stay.
func TestResetStays(t *testing.T) {
	for drops, stays := range map[int]bool{0: true, 1: true, 4: true, 5: false} {
		town, logs := newTown(), newWrittenLogs()
		town.openWritten(t, logs)
		town.drops = drops
		err := town.resets(t, logs, 5)
		if c := town.committed[fixtures.Part(0)]; (err == nil) != stays || (c.Next == 5) != stays {
			t.Errorf("%d are dropped: %d is committed, %v", drops, c.Next, err)
		}
	}
}

// What is written after a reset counts although the reset's offset is the last that a broker has kept: it drops those of all transactions that come before it
// has completed the one before them. What was written before the reset does not count.
func TestWhatIsWrittenAfterAReset(t *testing.T) {
	for _, c := range []struct {
		out, dead []int64
		want      int64
	}{{nil, nil, 5}, {[]int64{5, 6, 7}, nil, 8}, {[]int64{5}, []int64{6}, 7}} {
		town, logs := newTown(), newWrittenLogs()
		town.end[fixtures.Part(0)] = 20
		town.openWritten(t, logs)
		logs.add("out", logs.of("g", fixtures.Part(0), 9), logs.of("g", fixtures.Part(0), 10))
		logs.add("dead", logs.of("g", fixtures.Part(0), 11))
		if err := town.resets(t, logs, 5); err != nil {
			t.Fatal(err)
		}
		for topic, offsets := range map[string][]int64{"out": c.out, "dead": c.dead} {
			for _, offset := range offsets {
				logs.add(topic, logs.of("g", fixtures.Part(0), offset))
			}
		}
		if next := town.openWritten(t, logs); next != c.want {
			t.Errorf("after %v and %v it goes on at %d, want %d", c.out, c.dead, next, c.want)
		}
	}
}

// A reset whose offset is lost later goes on at its marker, if nothing was written since.
func TestResetWithoutItsOffset(t *testing.T) {
	town, logs := newTown(), newWrittenLogs()
	town.end[fixtures.Part(0)] = 20
	town.openWritten(t, logs)
	logs.add("out", logs.of("g", fixtures.Part(0), 9))
	if err := town.resets(t, logs, 5); err != nil {
		t.Fatal(err)
	}
	clear(town.committed)
	if next := town.openWritten(t, logs); next != 5 {
		t.Errorf("it goes on at %d, want 5", next)
	}
}

// Where a partition stands is where it would go on, whatever offset a broker shows, and to ask changes nothing.
func TestStands(t *testing.T) {
	of := func(town *town, logs *writtenLogs) *Positions {
		p := town.positions(source.Earliest, "")
		p.Written = logs.written("out", "dead")
		return p
	}
	for name, c := range map[string]struct {
		do   func(*town, *writtenLogs)
		want Stand
	}{
		"committed": {func(town *town, logs *writtenLogs) { town.shows(t, 5, map[string]int64{"out": 5}) }, Stand{Next: 5}},
		"aborted":   {func(town *town, logs *writtenLogs) { town.shows(t, 9, map[string]int64{"out": 9}) }, Stand{5, whyAborted}},
		"dropped": {func(town *town, logs *writtenLogs) {
			logs.add("out", logs.of("g", fixtures.Part(0), 7))
			town.shows(t, 5, map[string]int64{"out": 5})
		}, Stand{8, whyOlder}},
		"lost": {func(town *town, _ *writtenLogs) { clear(town.committed) }, Stand{Next: 3}},
		"lost, and nothing is written": {func(town *town, logs *writtenLogs) {
			clear(town.committed)
			logs.logs["out"] = nil
		}, Stand{3, whyGone}},
		"another topic": {func(town *town, _ *writtenLogs) { town.id = "two" }, Stand{Next: -1}},
		"not begun":     {func(town *town, _ *writtenLogs) { clear(town.committed); town.log = nil }, Stand{Next: -1}},
		"a newer note": {func(town *town, _ *writtenLogs) {
			town.committed[fixtures.Part(0)] = source.Position{Next: 7, Metadata: `{"v":99}`}
		}, Stand{Next: 7}},
		"of a learner": {func(town *town, _ *writtenLogs) {
			town.committed[fixtures.Part(0)] = source.Position{Next: 7, Metadata: source.NewNote("one", "m").String()}
		}, Stand{Next: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			town, logs := newTown(), newWrittenLogs()
			town.end[fixtures.Part(0)] = 20
			town.openWritten(t, logs)
			logs.add("out", logs.of("g", fixtures.Part(0), 3), logs.of("g", fixtures.Part(0), 4))
			c.do(town, logs)
			before, puts := town.committed[fixtures.Part(0)], town.puts
			if at := stands(t, of(town, logs)); at != c.want {
				t.Errorf("it stands at %v, want %v", at, c.want)
			}
			if town.committed[fixtures.Part(0)] != before || town.puts != puts {
				t.Error("to ask has changed something")
			}
		})
	}
	town := newTown()
	town.end[fixtures.Part(0)] = 100
	p := town.opens(t, source.Earliest, "checkpoints/m", 3)
	town.learns(t, p, 40, true)
	town.committed[fixtures.Part(0)] = source.Position{Next: 60, Epoch: -1, Metadata: town.committed[fixtures.Part(0)].Metadata} // of an aborted one
	if at := stands(t, town.keyed(source.Earliest, "checkpoints/m")); at != (Stand{40, whyNotLast}) {
		t.Errorf("models by key stand at %v, want 40", at)
	}
	town.learnsOne(t, source.Earliest, 90)
	if at := stands(t, town.keyed(source.Earliest, "checkpoints/m")); at != (Stand{40, whyOthers}) {
		t.Errorf("models by key stand at %v after another learner, want 40", at)
	}
}
