package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

var alarmsPartition = source.Partition{Topic: "alarms"}

// commandTo is a command about a model, on the topic of alarms.
func commandTo(model, group string) sink.Message {
	value, err := json.Marshal(episode.Acceptance{Type: episode.AcceptCommand, ID: model + "/1.0", Group: group, Topic: "events", ModelID: model, By: "anna"})
	if err != nil {
		panic(err)
	}
	return sink.Message{Topic: "alarms", Key: []byte(model), Value: value}
}

// commanded has a learner follow commands, which are written once there is a snapshot.
func (w *world) commanded(commands ...sink.Message) *Commands {
	return &Commands{
		Topic: "alarms", Owner: checkpoint.Owner{Group: "g", Topic: "events"},
		Ends: func(context.Context) (ends source.Offsets, err error) {
			if len(w.topics[alarmsPartition]) == 0 && len(w.topics[source.Partition{Topic: "snapshots", ID: w.fleet.ID}]) > 0 {
				w.topics[alarmsPartition] = slices.Clone(commands)
			}
			err = w.call(func() { ends = source.Offsets{alarmsPartition: int64(len(w.topics[alarmsPartition]))} })
			return ends, err
		},
		Open: func(_ context.Context, p source.Partition, at int64) (checkpoint.TopicReader, error) {
			return &keyedLog{w, p, at}, nil
		},
	}
}

// A learner of models by key follows the commands that are about models of its partition, in memory or not, and each once, whatever call fails.
func TestKeyedCommands(t *testing.T) {
	rows := fleet(3, 6, 300)
	clock := func() func() time.Time {
		now := time.Unix(0, 0)
		return func() time.Time { now = now.Add(20 * time.Second); return now } // an error is forgotten soon
	}
	commands := []sink.Message{
		commandTo(modelkey.ID("fleet/a", 3, []byte("pump 0/é")), "g"),
		commandTo(modelkey.ID("fleet/a", 3, []byte("pump 1/é")), "g"),
		commandTo(modelkey.ID("fleet/a", 3, []byte("pump 0/é")), "another"),
		commandTo(modelkey.ID("fleet/a", 2, []byte("pump 0/é")), "g"),
		commandTo(modelkey.ID("fleet/a", 3, []byte("nothing")), "g"),
		commandTo("fleet/a", "g"),
		{Topic: "alarms", Key: []byte("m"), Value: []byte(`{"type": "episode_accept", "id": 7}`)},
		commandTo(modelkey.ID("fleet/a", 3, []byte("pump 0/é")), "g"),
	}
	want := map[int64]int{0: 1, 1: 1, 7: 1}
	calls := 0
	run := func(failAt int, after bool) {
		w := newWorld()
		w.alarms, w.failAt, w.after = transform.Alarms{Topic: "alarms", To: func(string) int32 { return 0 }}, failAt, after
		r := keyedRun{by: modelkey.By{Place: modelkey.Key}, memory: 1, snapshotRows: 20, step: 20, clock: clock(), soon: true, commands: commands}
		w.fleetMessages(r.by, rows)
		w.learnFleet(t, r)
		calls = w.calls
		w.failAt = 0
		states := w.keyedStage(r).States
		if err := states.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		facts := map[int64]int{}
		for _, m := range w.topics[alarmsPartition] {
			a, err := episode.ReadAcceptance(m.Value, episode.AcceptFact)
			if err != nil {
				t.Fatal(err)
			}
			if a == nil {
				continue
			}
			facts[a.Command.Offset]++
			if at := a.At[3]; len(a.At) != 1 || at == 0 || at > w.committed["g.learn"][w.fleet] {
				t.Errorf("at %v: %s", w.committed["g.learn"], m.Value)
			}
		}
		if !reflect.DeepEqual(facts, want) {
			t.Errorf("call %d fails, %v: facts %v, want %v", failAt, after, facts, want)
		}
		if next := states.commands.offsets()[alarmsPartition]; next < int64(len(commands)) {
			t.Errorf("call %d fails, %v: followed up to %d", failAt, after, next)
		}
	}
	if run(0, false); calls < 50 {
		t.Fatalf("%d calls: the run is too small to prove anything", calls)
	}
	every := 1
	if testing.Short() {
		every = 7
	}
	for k := 1; k <= calls && !t.Failed(); k += every {
		run(k, k%2 == 0)
	}
}

// A learner begins with the commands that come. It goes on where it was, also on a topic with more partitions or one that has lost its end, and it neither
// stops nor forgets anything when the topic cannot be read.
func TestHearing(t *testing.T) {
	w, now, fault := newWorld(), time.Unix(0, 0), error(nil)
	ends := source.Offsets{}
	var log bytes.Buffer
	c := &LearnConfig{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }, Commands: &Commands{
		Topic: "alarms", Owner: checkpoint.Owner{Group: "g", Topic: "events"},
		Ends: func(context.Context) (source.Offsets, error) { return ends.Clone(), fault },
		Open: func(_ context.Context, p source.Partition, at int64) (checkpoint.TopicReader, error) {
			return &keyedLog{w, p, at}, nil
		},
	}}
	write := func(p int32, names ...string) {
		at := source.Partition{Topic: "alarms", ID: p}
		for _, name := range names {
			w.topics[at] = append(w.topics[at], commandTo(name, "g"))
		}
		ends[at] = int64(len(w.topics[at]))
	}
	h, read := &hearing{}, source.Offsets{}
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, a := range h.hear(t.Context(), c, read) {
			got = append(got, fmt.Sprint(a.ModelID, " ", a.Command.Partition, a.Command.Offset))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	write(0, "a", "b")
	begin := func() {
		if err := h.begin(t.Context(), c); err != nil || !h.new {
			t.Errorf("where it begins is not new: %v", err)
		}
	}
	begin()
	expect("at first")
	before := h.next
	write(0, "c")
	write(1, "d", "e")
	fault = errors.New("away")
	expect("while it cannot be read")
	fault = nil
	expect("at once after that")
	now = now.Add(hearAgain)
	expect("later", "c 0 2", "d 1 0", "e 1 1")
	expect("again")
	if before[alarmsPartition] != 2 || len(before) != 1 {
		t.Errorf("what a checkpoint may have was changed: %v", before)
	}
	lost := func() int { return strings.Count(log.String(), "was made again, or has lost its end") }
	if ends[alarmsPartition] = 1; lost() > 0 {
		t.Error("no end was lost")
	}
	expect("with an end that was lost")
	if expect("of that"); lost() != 1 {
		t.Errorf("who has accepted something there is to hear of it once: %s", &log)
	}
	w.topics[alarmsPartition] = w.topics[alarmsPartition][:1]
	write(0, "f")
	expect("after that", "f 0 1")
	about := func(name string, until int64, to *episode.Place) {
		value, _ := json.Marshal(episode.Acceptance{Type: episode.AcceptCommand, ID: name + "/1.0", Group: "g", Topic: "events", Partition: 2, ModelID: name, Until: until, To: to})
		w.topics[alarmsPartition] = append(w.topics[alarmsPartition], sink.Message{Topic: "alarms", Value: value})
		ends[alarmsPartition]++
	}
	on, asked := source.Partition{Topic: "events", ID: 2}, 0
	read[on] = 99
	c.Commands.SourceEnds = func(context.Context) (source.Offsets, error) {
		asked++
		return source.Offsets{on: 500}, fault
	}
	about("g", 100, nil)
	about("h", 0, &episode.Place{Offset: 199})
	about("i", 0, nil)
	about("j", 1<<60, nil)
	about("k", 0, &episode.Place{Offset: 99})
	expect("before it has read what is meant")
	expect("of that, and asks no more")
	read[on] = 100
	expect("when it has read that", "g 0 2")
	if asked != 2 {
		t.Errorf("the ends of the source were looked up %d times", asked)
	}
	fault = errors.New("away")
	expect("while nothing can be read")
	fault, now, read[on] = nil, now.Add(hearAgain), 499
	expect("up to the end of an episode that is over", "h 0 3")
	read[on] = 500
	expect("up to where the partition ended, whatever a command says", "i 0 4", "j 0 5", "k 0 6")
	write(1, "l")
	expect("of a partition that it does not read", "l 1 2")
	write(1, "m", "n")
	ends[source.Partition{Topic: "alarms", ID: 1}]-- // it was looked up before n came
	expect("up to the end that it knows", "m 1 3")
	if expect("of the same end"); lost() != 1 {
		t.Errorf("no end was lost: %s", &log)
	}
	write(1)
	expect("from there to the next end", "n 1 4")
	h = &hearing{next: source.Offsets{{Topic: "former"}: 0}}
	begin()
	expect("with the positions of another topic")
	h = &hearing{next: source.Offsets{alarmsPartition: 1}}
	if fault = errors.New("away"); h.begin(t.Context(), c) != nil || h.new {
		t.Error("a checkpoint says where it goes on")
	}
	if h = new(hearing); h.begin(t.Context(), c) == nil {
		t.Error("nothing says where it begins")
	}
}

// Whatever a command says, each topic of alarms takes the fact that it was followed, or it is no command: a learner that cannot write it would never go on.
func TestFactsFit(t *testing.T) {
	taken := 0
	for _, fill := range []string{"a", "<", "\u2028", "\x01", "ä"} {
		for size := 1; size < 64<<10; size *= 2 {
			long := strings.Repeat(fill, size)
			value, err := json.Marshal(episode.Acceptance{Type: episode.AcceptCommand, ID: "m/0/" + fill + "/1.0", ModelID: "m", Series: &long, By: long, Message: long})
			if err != nil {
				t.Fatal(err)
			}
			a, err := episode.ReadAcceptance(bytes.ReplaceAll(value, []byte(`\u003c`), []byte("<")), episode.AcceptCommand)
			if err != nil {
				continue
			}
			l := &Learn{LearnConfig: LearnConfig{Log: fixtures.Quiet(), Now: time.Now, Alarms: transform.Alarms{Topic: "alarms"}}}
			at := map[int32]int64{}
			for p := range int32(400) {
				at[p] = 1e9
			}
			l.follow(a, at)
			if n := len(l.pending[0].Key) + len(l.pending[0].Value); n > transform.AlarmBytes {
				t.Errorf("%d times %q: a fact of %d bytes", size, fill, n)
			}
			taken++
		}
	}
	if taken < 30 {
		t.Errorf("%d commands are followed", taken)
	}
}

// Facts are due in the order in which the learner had followed, each once in a pass, when all partitions that are read are where it was.
func TestFacts(t *testing.T) {
	fact := func(id string, command int64, at map[int32]int64) *episode.Acceptance {
		return &episode.Acceptance{ID: id, Command: &episode.Position{Offset: command}, At: at}
	}
	f := NewFacts([]*episode.Acceptance{
		fact("c", 4, map[int32]int64{0: 5, 1: 9}), fact("a", 9, map[int32]int64{0: 5, 1: 2}), fact("b", 3, map[int32]int64{0: 5, 1: 9}), fact("d", 5, map[int32]int64{0: 90, 1: 9}),
	}, source.Offsets{fixtures.Part(0): 80, fixtures.Part(1): 80})
	for range 2 {
		var got []string
		for _, read := range [][2]int64{{0, 0}, {5, 1}, {5, 2}, {80, 8}, {80, 9}} {
			for a := f.due(source.Offsets{fixtures.Part(0): read[0], fixtures.Part(1): read[1]}); a != nil; a = f.due(source.Offsets{fixtures.Part(0): read[0], fixtures.Part(1): read[1]}) {
				got = append(got, fmt.Sprint(a.ID, read))
			}
		}
		if want := []string{"a[5 2]", "b[80 9]", "c[80 9]"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if a := f.due(f.rest()); a != nil {
			t.Errorf("%s is behind the end", a.ID)
		}
		f.restart()
	}
	if a := f.due(source.Offsets{fixtures.Part(1): 2}); a == nil || a.ID != "a" {
		t.Errorf("a replay of one partition: %v", a)
	}
	var none *Facts
	none.restart()
	if a := none.due(none.rest()); a != nil {
		t.Error(a)
	}
}

// A replay of what was learnt, with the facts of what was accepted, ends where the live learner was, to the bit, however it cuts the messages; and elsewhere without them.
func TestReplayAccepts(t *testing.T) {
	const messages, per, changes, says = 500, 10, 330, 420
	r := rand.New(rand.NewPCG(4, 4))
	var msgs []source.Message
	for i := range messages {
		var value []byte
		for range per {
			a, b := r.NormFloat64(), r.NormFloat64()
			if i >= changes {
				a += 12
			}
			value = fmt.Appendf(value, `{"a": %g, "b": %g, "c": %g}`+"\n", a, b, a+b+r.NormFloat64())
		}
		m := fixtures.Decoded(fixtures.Part(0), int64(2*i), sink.Message{Value: value, Time: time.UnixMilli(int64(1000 * (i + 1)))})
		m.Key, m.Time = []byte("press 3"), time.UnixMilli(int64(1000*(i+1)))
		msgs = append(msgs, m)
	}
	stage := func(commands *Commands, facts *Facts) *Learn {
		c := online.DefaultConfig(1)
		c.Neighbours, c.Minibatch, c.Preset, c.Recent = 100, 25, lca.PresetDensity, true
		l := &Learn{LearnConfig: LearnConfig{
			ModelID: "m", Keep: 1, SnapshotRows: 1000, Learner: c, Series: modelkey.By{Place: modelkey.Key}, Commands: commands, Facts: facts, Alarms: transform.Alarms{Topic: "alarms"},
			Start: func(context.Context, source.Offsets) (source.Offsets, error) {
				return source.Offsets{fixtures.Part(0): 0}, nil
			},
			Stats: stats.NewStats(), Log: fixtures.Quiet(), Now: time.Now,
		}}
		if _, err := l.Rewind(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l
	}
	var facts []*episode.Acceptance
	run := func(l *Learn, size int, before func(first int)) []byte {
		for first := 0; first < messages; first += size {
			before(first)
			end := min(first+size, messages)
			work, err := l.Do(t.Context(), source.Batch{Messages: msgs[first:end], Claim: source.Claim{Next: source.Offsets{fixtures.Part(0): int64(2 * end)}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range work.Messages {
				if a, _ := episode.ReadAcceptance(m.Whole(), episode.AcceptFact); a != nil {
					facts = append(facts, a)
				}
			}
			l.Kept()
		}
		if err := l.learner.Await(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		state, err := l.learner.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	w := newWorld()
	live := stage(&Commands{
		Topic: "alarms", Owner: checkpoint.Owner{Group: "g", Topic: "events"},
		Ends: func(context.Context) (source.Offsets, error) {
			return source.Offsets{alarmsPartition: int64(len(w.topics[alarmsPartition]))}, nil
		},
		Open: func(_ context.Context, p source.Partition, at int64) (checkpoint.TopicReader, error) {
			return &keyedLog{w, p, at}, nil
		},
	}, nil)
	who := "press 3"
	want := run(live, 7, func(first int) {
		if first != says {
			return
		}
		if series, _ := live.learner.HeldSeries(); series != 1 {
			t.Fatalf("%d series are held: there is nothing to accept", series)
		}
		value, err := json.Marshal(episode.Acceptance{Type: episode.AcceptCommand, ID: "m/0/press%203/1.0", Group: "g", Topic: "events", Series: &who, ModelID: "m", By: "anna"})
		if err != nil {
			t.Fatal(err)
		}
		w.topics[alarmsPartition] = []sink.Message{{Topic: "alarms", Value: value}}
	})
	if len(facts) != 1 || *facts[0].Rows < 100 || facts[0].At[0] != 2*says {
		t.Fatalf("facts: %+v", facts)
	}
	if series, _ := live.learner.HeldSeries(); series != 0 {
		t.Errorf("%d series are held in the end", series)
	}
	known, none := NewFacts(facts, nil), func(int) {}
	for _, size := range []int{1, 64, messages} {
		if got := run(stage(nil, known), size, none); !bytes.Equal(got, want) {
			t.Errorf("in batches of %d the state is another", size)
		}
		known.restart()
	}
	if got := run(stage(nil, nil), 64, none); bytes.Equal(got, want) {
		t.Error("without the fact the state is the same")
	}
}

// The series of a command is that of its rows.
func TestSeriesOfCommands(t *testing.T) {
	text, encoded, hash := "press 3", "//8=", "84a0678c90937f5dcf9994d5866668da6b995109c8ad845410559b48a4ecafed"
	keyed := &Learn{LearnConfig: LearnConfig{Series: modelkey.By{Place: modelkey.Key}}}
	for _, c := range []struct {
		l    *Learn
		a    episode.Acceptance
		want uint64
	}{
		{&Learn{}, episode.Acceptance{Partition: 7}, 7},
		{&Learn{oneOfMany: true}, episode.Acceptance{Partition: 7, Series: &text}, 0},
		{keyed, episode.Acceptance{Partition: 7, Series: &text}, modelkey.SeriesID(7, text, true)},
		{keyed, episode.Acceptance{Partition: 7}, modelkey.SeriesID(7, "", false)},
		{keyed, episode.Acceptance{Partition: 7, Series: &text, Base64: &encoded}, modelkey.SeriesID(7, "\xff\xff", true)},
		{keyed, episode.Acceptance{Partition: 7, Series: &hash}, modelkey.SeriesID(7, strings.Repeat("x", 201), true)},
	} {
		if got := c.l.seriesOf(&c.a); got != c.want {
			t.Errorf("%+v: %d, want %d", c.a, got, c.want)
		}
	}
}

// The message of a fact is one line, whatever the series and the person are called: it is shown as it is.
func TestFactIsOneLine(t *testing.T) {
	series := "pump\n\x1b[31m 1"
	l := &Learn{LearnConfig: LearnConfig{ModelID: "m", Log: fixtures.Quiet(), Now: time.Now, Alarms: transform.Alarms{Topic: "alarms"}}}
	l.follow(&episode.Acceptance{ID: "m/0/pump/1.0", ModelID: "m", Series: &series, By: "an\rna"}, map[int32]int64{0: 7})
	var fact episode.Acceptance
	if err := json.Unmarshal(l.pending[0].Value, &fact); err != nil {
		t.Fatal(err)
	}
	if want := "pump\ufffd\ufffd[31m 1: accepted as normal by an\ufffdna; it waits for no row: they are learnt already, or not kept any more"; fact.Message != want || *fact.Series != series {
		t.Errorf("%q, want %q", fact.Message, want)
	}
}
