package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

var keyedPartition = source.Partition{Topic: "events", ID: 3}

// keyedRows is a row and the key of its model; "": it has none.
type keyedRow struct {
	key  string
	a, b float64
	null bool  // a is null
	at   int64 // milliseconds

	offset int64 // of its message, where that matters
}

// fleet makes rows of machines, some of which come far more often than others.
func fleet(seed uint64, machines, rows int) []keyedRow {
	random := rand.New(rand.NewPCG(seed, 5))
	all := make([]keyedRow, rows)
	for i := range all {
		m := int(float64(machines) * random.Float64() * random.Float64() * random.Float64())
		r := keyedRow{key: fmt.Sprintf("pump %d/é", m), a: random.NormFloat64() + 4*float64(random.IntN(2)), b: random.NormFloat64() * float64(1+m)}
		switch random.IntN(40) {
		case 0:
			r.null = true
		case 1:
			r.key = ""
		}
		all[i] = r
	}
	return all
}

// inMessage is how many rows the first message has.
func inMessage(by modelkey.By, rows []keyedRow) int {
	n := 1
	switch by.Place {
	case modelkey.Column:
		for n < min(7, len(rows)) && rows[n].at == rows[0].at {
			n++
		}
	default:
		for n < min(5, len(rows)) && rows[n].key == rows[0].key && rows[n].at == rows[0].at {
			n++
		}
	}
	return n
}

// messages puts rows into the partition: by key, each message has the rows of one key that follow one another, at most
// five; by column, seven rows of any.
func (w *world) fleetMessages(by modelkey.By, rows []keyedRow) {
	for len(rows) > 0 {
		n := inMessage(by, rows)
		var objects []string
		for _, r := range rows[:n] {
			a, machine := fmt.Sprint(r.a), fmt.Sprintf("%q", r.key)
			if r.null {
				a = "null"
			}
			if r.key == "" {
				machine = "null"
			}
			objects = append(objects, fmt.Sprintf(`{"a": %s, "b": %v, "machine": %s}`, a, r.b, machine))
		}
		m := sink.Message{Topic: "events", Partition: w.fleet.ID, Value: []byte("[" + strings.Join(objects, ",") + "]"), Time: time.UnixMilli(5 + rows[0].at)}
		if rows[0].key != "" {
			m.Key = []byte(rows[0].key)
			m.Headers = []source.Header{{Key: "machine", Value: []byte(rows[0].key)}}
		}
		w.topics[w.fleet] = append(w.topics[w.fleet], m)
		rows = rows[n:]
	}
}

// keyedLog reads a partition of the world from an offset, without the records that compaction has removed.
type keyedLog struct {
	w  *world
	p  source.Partition
	at int64
}

func (l *keyedLog) Move(next int64) { l.at = next }

func (l *keyedLog) Fetch(context.Context) (source.Fetched, error) {
	var got source.Fetched
	log := l.w.topics[l.p]
	for l.at < int64(len(log)) && len(got.Records) < 3 {
		if m := log[l.at]; m.Topic != "" {
			got.Records = append(got.Records, recordbatch.Record{Offset: l.at, Key: m.Key, Value: m.Value, Headers: m.Headers})
		}
		l.at++
	}
	got.Next = l.at
	return got, l.w.call(func() {})
}

// compact removes records that have a newer one of their key.
func (w *world) compact(p source.Partition) {
	newest := map[string]int{}
	for i, m := range w.topics[p] {
		if m.Topic != "" {
			newest[string(m.Key)] = i
		}
	}
	for i, m := range w.topics[p] {
		if m.Topic != "" && newest[string(m.Key)] != i {
			w.topics[p][i] = sink.Message{}
		}
	}
}

// keyedRun says how a keyed learner runs.
type keyedRun struct {
	by           modelkey.By
	memory       int64
	snapshotRows uint64
	step         int
	columns      []string
	clock        func() time.Time
	idle         time.Duration
	most         int // models
	mostRetired  int
	seldom       bool // the clock saves and publishes nothing
	soon         bool // the first model comes after few rows
	topicID      string
	marks        bool // start markers are renewed
	invalid      reject.OnInvalid
	acceptSpan   int64           // of the learner; 0: its rows count
	commands     []sink.Message  // about episodes
	accepted     map[string]bool // models, by id, with an episode that was accepted: they know of that
}

func (w *world) keyedStage(r keyedRun) *KeyedLearn {
	c := online.DefaultConfig(1)
	c.Neighbours, c.Minibatch, c.WarmupRows, c.Precision = 40, 8, 24, lca.Float64
	if r.soon {
		c.Neighbours, c.Minibatch, c.WarmupRows = 12, 4, 12
	}
	if r.acceptSpan > 0 {
		c.AcceptRows, c.AcceptSpan = 1_000_000, r.acceptSpan
	}
	saved := *w.readBack(source.Partition{Topic: "checkpoints", ID: w.fleet.ID})
	saved.TopicID = func(context.Context) (string, error) { return r.topicID, nil }
	owner := checkpoint.Owner{Group: "g", Topic: "events"}
	figures := stats.NewStats()
	var commands *Commands
	if len(r.commands) > 0 {
		commands = w.commanded(r.commands...)
	}
	every := time.Second
	if r.seldom {
		every = 1000 * time.Hour
	}
	return &KeyedLearn{KeyedLearnConfig: KeyedLearnConfig{
		LearnConfig: LearnConfig{
			ModelID: "fleet/a", Topic: "snapshots", Keep: 2, SnapshotRows: r.snapshotRows, CheckpointRows: 50, Columns: r.columns,
			SnapshotEvery: 10 * every, CheckpointEvery: 30 * every,
			Learner: c, Producer: "test", Stats: figures, Log: fixtures.Quiet(), Now: r.clock, Alarms: w.alarms, Commands: commands, OnInvalid: r.invalid,
		},
		By: r.by, Partition: w.fleet, Idle: r.idle, Most: r.most,
		States: &KeyedStates{
			ReadBack: saved, Partition: w.fleet.ID, ModelID: "fleet/a", Owner: owner, By: r.by, gone: retiredModels{most: r.mostRetired},
		},
		Memory:    NewModelMemory(r.memory, figures.ModelCounts("learn")),
		Snapshots: w.readBack(source.Partition{Topic: "snapshots", ID: w.fleet.ID}),
		Committed: func(context.Context) (source.Offsets, error) {
			return source.Offsets{w.fleet: w.committed["g.learn"][w.fleet]}, nil
		},
	}}
}

// readBack reads one of our topics.
func (w *world) readBack(p source.Partition) *checkpoint.ReadBack {
	return &checkpoint.ReadBack{
		Topic: p.Topic,
		Open:  func(_ context.Context, at int64) (checkpoint.TopicReader, error) { return &keyedLog{w, p, at}, nil },
		End:   func(context.Context) (int64, error) { return int64(len(w.topics[p])), nil },
	}
}

// learnFleet runs keyed learners until one has read everything, and starts another after each crash.
func (w *world) learnFleet(t checker, r keyedRun) *KeyedLearn {
	t.Helper()
	for {
		owner := w.open("learners")
		stage := w.keyedStage(r)
		at, err := stage.Rewind(t.Context())
		if err == nil {
			src := &memorySource{w: w, next: at.Clone(), claim: source.Claim{Group: "g.learn", Generation: -1}, step: r.step}
			loop := &pipeline.Loop{Source: src, Stage: stage, Sink: owner, Stats: stage.Stats, Log: fixtures.Quiet(), Renew: w.renewal(r)}
			err = loop.Run(t.Context())
		}
		w.shown, _ = stage.Stats.Models.List(0, 1000, "id", false)
		stage.Close()
		if used := stage.Memory.used.Load(); used != 0 || stage.Memory.counts.Memory.Load() != 0 {
			t.Fatalf("%d bytes and %d models are in memory after the end", used, stage.Memory.counts.Memory.Load())
		}
		if err == nil {
			return stage
		}
		if !errors.Is(err, fixtures.ErrCrash) {
			t.Fatal(err)
		}
	}
}

// renewal renews the start marker of the partition.
func (w *world) renewal(r keyedRun) *pipeline.Renewal {
	if !r.marks {
		return nil
	}
	starts := &start.Starts{ReadBack: checkpoint.ReadBack{Topic: "checkpoints"}, Partition: w.fleet.ID}
	return &pipeline.Renewal{Every: time.Hour, Markers: func(at source.Offsets) []sink.Message {
		return []sink.Message{starts.Message("start/g.learn/events/0", start.Start{Version: start.StartVersion, Offset: at[w.fleet]})}
	}}
}

// published returns the snapshots that were ever put, by model and version, without what depends on the topic around.
func (w *world) publishedModels(t *testing.T) map[string]map[uint64]string {
	t.Helper()
	all := map[string]map[uint64]string{}
	var a snapshot.Assembler
	for _, m := range w.topics[source.Partition{Topic: "snapshots", ID: w.fleet.ID}] {
		if err := a.Add(m.Key, m.Value, m.Headers, time.Time{}); err != nil {
			t.Fatal(err)
		}
		for _, id := range a.Models() {
			s, ok := a.Newest(id)
			if !ok {
				continue
			}
			if all[id] == nil {
				all[id] = map[uint64]string{}
			}
			s.Offsets, s.Number, s.Parent = nil, 0, 0
			print, err := snapshot.Fingerprint(s)
			if err != nil {
				t.Fatal(err)
			}
			for v := range all[id] {
				if v > s.Version {
					t.Fatalf("model %s: version %d after %d", id, s.Version, v)
				}
			}
			if was, ok := all[id][s.Version]; ok && was != print {
				t.Fatalf("model %s: version %d came twice, with another content", id, s.Version)
			}
			all[id][s.Version] = print
		}
	}
	return all
}

// states returns the newest checkpoint of each model.
func (w *world) keyedCheckpoints(t checker, r keyedRun) map[string]*checkpoint.Checkpoint {
	t.Helper()
	states := w.keyedStage(r).States
	if err := states.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := map[string]*checkpoint.Checkpoint{}
	for value, s := range states.index {
		if s.retired {
			continue
		}
		c, err := states.Load(t.Context(), value)
		if err != nil || c == nil {
			t.Fatalf("checkpoint of %q: %v, %v", value, c, err)
		}
		all[value] = c
	}
	return all
}

// alone is what each key's model is on a topic with its rows alone.
type aloneModels struct {
	models      map[string]map[uint64]string
	checkpoints map[string]*checkpoint.Checkpoint
	rows        map[string]int
}

func alone(t *testing.T, r keyedRun, rows []keyedRow) aloneModels {
	t.Helper()
	of := map[string][]keyedRow{}
	for _, row := range rows {
		if row.key != "" {
			of[row.key] = append(of[row.key], row)
		}
	}
	a := aloneModels{map[string]map[uint64]string{}, map[string]*checkpoint.Checkpoint{}, map[string]int{}}
	r.memory, r.snapshotRows, r.step = 1<<40, 1, 3
	for key, own := range of {
		w := newWorld()
		w.fleetMessages(r.by, own)
		w.learnFleet(t, r)
		maps.Copy(a.models, w.publishedModels(t))
		maps.Copy(a.checkpoints, w.keyedCheckpoints(t, r))
		a.rows[key] = len(own)
	}
	return a
}

// check compares what is on the topics with the models that are alone.
func (w *world) checkFleet(t *testing.T, r keyedRun, a aloneModels) {
	t.Helper()
	published := 0
	for id, versions := range w.publishedModels(t) {
		for v, print := range versions {
			if a.models[id][v] != print {
				t.Errorf("version %d of model %s is not that of its rows alone", v, id)
			}
			published++
		}
	}
	if published < len(a.rows)/2 {
		t.Errorf("only %d snapshots were published", published)
	}
	got := w.keyedCheckpoints(t, r)
	for key, rows := range a.rows {
		c := got[key]
		if c == nil {
			t.Errorf("model %q of %d rows has no checkpoint", key, rows)
			continue
		}
		if int(c.Ordinal) != rows {
			t.Errorf("model %q has seen %d rows, want %d", key, c.Ordinal, rows)
		}
		if !bytes.Equal(c.Learner, a.checkpoints[key].Learner) || !bytes.Equal(c.Batcher, a.checkpoints[key].Batcher) {
			t.Errorf("model %q has another state than that of its rows alone", key)
		}
	}
	for id, versions := range a.models { // at the end all is published
		_, _, value, _ := modelkey.Split(id)
		if newest := slices.Max(slices.Collect(maps.Keys(versions))); got[string(value)].Published != newest {
			t.Errorf("the newest version of model %s is %d, want %d", id, got[string(value)].Published, newest)
		}
	}
	if end, next := int64(len(w.topics[w.fleet])), w.committed["g.learn"][w.fleet]; next != end {
		t.Errorf("committed offset %d, want %d", next, end)
	}
}

// clockOf returns a clock that goes on by a random step each time that it is read.
func clockOf(random *rand.Rand) func() time.Time {
	now := time.UnixMilli(0)
	return func() time.Time {
		now = now.Add(time.Duration(random.Int64N(int64(time.Second))))
		return now
	}
}

var fleetPlaces = []modelkey.By{{Place: modelkey.Key}, {Place: modelkey.Header, Name: "machine"}, {Place: modelkey.Column, Name: "machine"}}

// Each key's snapshots and checkpoints are those of its rows alone, whatever is in memory, however the rows are cut into
// batches, and whatever the clock says.
func TestKeyedModelsAreThoseOfTheirRowsAlone(t *testing.T) {
	for _, by := range fleetPlaces {
		for _, columns := range [][]string{nil, {"a", "b"}} {
			t.Run(fmt.Sprintf("%v %v", by, columns), func(t *testing.T) {
				rows := fleet(3, 9, 800)
				r := keyedRun{by: by, columns: columns, clock: clockOf(rand.New(rand.NewPCG(1, 1)))}
				want := alone(t, r, rows)
				for seed := range uint64(3) {
					random := rand.New(rand.NewPCG(seed, 2))
					r.memory, r.snapshotRows, r.step = 1<<(8+8*seed), 60, 1+random.IntN(80)
					w := newWorld()
					w.fleetMessages(by, rows)
					stage := w.learnFleet(t, r)
					w.checkFleet(t, r, want)
					w.checkShown(t)
					if evicted := stage.Memory.counts.Evicted.Load(); seed == 0 && evicted == 0 {
						t.Error("no model was evicted")
					}
				}
			})
		}
	}
}

// checkShown checks that the table of models has the newest version of each.
func (w *world) checkShown(t *testing.T) {
	t.Helper()
	published := w.publishedModels(t)
	for _, r := range w.shown {
		newest := uint64(0)
		for v := range published[r.ID] {
			newest = max(newest, v)
		}
		if r.Version != newest {
			t.Errorf("model %s is shown with version %d, the newest is %d", r.ID, r.Version, newest)
		}
	}
	if len(w.shown) < len(published) {
		t.Errorf("%d models are shown of %d", len(w.shown), len(published))
	}
}

// The same where any call fails, before or after its effect, and the topics are compacted meanwhile.
func TestKeyedLearnerCrashes(t *testing.T) {
	rows := fleet(4, 6, 500)
	by := fleetPlaces[0]
	r := keyedRun{by: by, columns: []string{"a", "b"}, clock: clockOf(rand.New(rand.NewPCG(1, 1)))}
	want := alone(t, r, rows)
	r.memory, r.snapshotRows, r.step = 60<<10, 30, 12
	crashes := 0
	for failAt := 1; ; failAt++ {
		w := newWorld()
		w.fleetMessages(by, rows)
		w.failAt, w.after = failAt, failAt%2 == 0
		w.learnFleet(t, r)
		if !w.failed {
			break
		}
		crashes++
		w.compact(source.Partition{Topic: "checkpoints", ID: w.fleet.ID})
		w.fleetMessages(by, nil)
		w.learnFleet(t, r)
		w.checkFleet(t, r, want)
		if t.Failed() {
			t.Fatalf("after a failure at call %d", failAt)
		}
	}
	if crashes < 30 {
		t.Errorf("only %d calls could fail", crashes)
	}
}

func TestGroupsKeepTheOrderOfEachKey(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	var g groups
	for range 200 {
		var msgs []source.Message
		for range random.IntN(40) {
			m := source.Message{}
			if k := random.IntN(6); k > 0 {
				m.Key = []byte{byte(k)}
			}
			msgs = append(msgs, m)
		}
		order := slices.Clone(g.order(modelkey.By{Place: modelkey.Key}, msgs))
		last, firsts := map[string]int{}, -1
		for at, i := range order {
			key := string(msgs[i].Key)
			if before, seen := last[key]; key != "" && seen {
				if before > i {
					t.Fatalf("order %v: message %d before %d", order, before, i)
				}
				if at > 0 && string(msgs[order[at-1]].Key) != key {
					t.Fatalf("order %v: messages of a key are apart", order)
				}
			} else if i < firsts {
				t.Fatalf("order %v: keys are not in the order of their first messages", order)
			} else {
				firsts = i
			}
			last[key] = i
		}
		if slices.Sort(order); len(order) != len(msgs) || len(order) > 0 && order[len(order)-1] != len(msgs)-1 {
			t.Fatalf("%v are not %d messages", order, len(msgs))
		}
	}
}

// After a restart, a model that waits for its first snapshot is fetched when rows of it come, and not in order to publish it. Checkpoints from
// before this was said are fetched once.
func TestYoungModelsAreNotFetchedToPublish(t *testing.T) {
	const young = 6
	checkpoints := source.Partition{Topic: "checkpoints", ID: 3}
	var rows []keyedRow
	for i := range 40 { // 24 make a model
		rows = append(rows, keyedRow{key: "old", a: float64(i % 7), b: float64(i % 5)})
		if i < 10 {
			for k := range young {
				rows = append(rows, keyedRow{key: fmt.Sprint("young ", k), a: float64(i), b: float64(i % 3)})
			}
		}
	}
	for _, c := range []struct {
		name   string
		said   bool
		loaded uint64
	}{{"said", true, 0}, {"older checkpoints", false, young}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.fleetMessages(fleetPlaces[0], rows)
			r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 1, step: 5, clock: func() time.Time { return time.UnixMilli(0) }}
			w.learnFleet(t, r)
			before := w.publishedModels(t)
			waiting := 0
			for i := range w.topics[checkpoints] {
				m := &w.topics[checkpoints][i]
				m.Headers = slices.DeleteFunc(m.Headers, func(h source.Header) bool {
					waits := h.Key == reject.HeaderWaits
					if waits {
						waiting++
					}
					return waits && !c.said
				})
			}
			if waiting < young {
				t.Fatalf("%d checkpoints say that their model waits, want one of each of %d", waiting, young)
			}
			stage := w.learnFleet(t, r)
			if got := stage.Memory.counts.Loaded.Load(); got != c.loaded {
				t.Errorf("%d models were fetched, want %d", got, c.loaded)
			}
			if after := w.publishedModels(t); len(before) != 1 || !maps.EqualFunc(before, after, maps.Equal) {
				t.Errorf("%d models were published, and then %d, want 1", len(before), len(after))
			}
		})
	}
}

// With source.on_invalid: dead_letter a message that is set aside for one of its rows, or for one without a value of model.by, teaches no model anything.
func TestModelsByKeyLearnNothingSetAside(t *testing.T) {
	for _, by := range fleetPlaces {
		rows := fleet(12, 3, 900)
		r := keyedRun{by: by, columns: []string{"a", "b"}, clock: clockOf(rand.New(rand.NewPCG(1, 1))), memory: 1 << 30, snapshotRows: 60, step: 20, seldom: true}
		without := newWorld()
		aside := 0
		for len(rows) > 0 {
			n := inMessage(by, rows)
			without.fleetMessages(by, rows[:n])
			if slices.ContainsFunc(rows[:n], func(row keyedRow) bool { return row.null || row.key == "" }) {
				aside++
				last := &without.topics[without.fleet][len(without.topics[without.fleet])-1]
				last.Value = []byte("garbage")
			}
			rows = rows[n:]
		}
		without.learnFleet(t, r)
		r.invalid = reject.RejectRow
		got := newWorld()
		got.fleetMessages(by, fleet(12, 3, 900))
		got.learnFleet(t, r)
		want := without.publishedModels(t)
		if len(want) < 2 || aside < 20 {
			t.Fatalf("%v: %d models, %d messages are set aside: this proves too little", by, len(want), aside)
		}
		if !reflect.DeepEqual(got.publishedModels(t), want) || !reflect.DeepEqual(got.keyedCheckpoints(t, r), without.keyedCheckpoints(t, r)) {
			t.Errorf("%v: messages that are set aside are learnt", by)
		}
	}
}
