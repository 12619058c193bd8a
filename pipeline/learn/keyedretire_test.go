package learn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

const testIdle = 40 * time.Second

// inShifts are rows of machines that work in shifts: for a while no row of a machine comes. Times go on by up to pace milliseconds, or not at all;
// late of them are up to that many milliseconds earlier.
func inShifts(seed uint64, machines, rows int, pace, late int64) []keyedRow {
	random := rand.New(rand.NewPCG(seed, 6))
	all := fleet(seed, machines, rows)
	now := int64(0)
	for i := range all {
		r := &all[i]
		if random.IntN(3) == 0 {
			now += random.Int64N(pace)
		}
		if r.key != "" {
			var m int
			if _, err := fmt.Sscanf(r.key, "pump %d/é", &m); err != nil {
				panic(err)
			}
			if shift := now / 30_000; (shift+int64(m))%4 < 2 { // others work
				r.key = fmt.Sprintf("pump %d/é", machines)
			}
		}
		if r.at = now; late > 0 {
			r.at -= random.Int64N(late)
		}
	}
	return all
}

// checker is what a check needs of a test.
type checker interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// keyedLife are the rows of a key between two retirements.
type keyedLife struct {
	rows    []keyedRow
	heard   int64
	last    int64 // offset
	retired bool
}

// livesOf divides the rows of each key as KeyedLearnConfig.Idle and Most say.
func livesOf(r keyedRun, rows []keyedRow) map[string][]*keyedLife {
	all := map[string][]*keyedLife{}
	var stamps []int64 // of the messages
	end, counted, every := int64(0), int64(-1), countEvery(r.most)
	over := func(l *keyedLife) bool { return l.retired || r.idle > 0 && end-l.heard > r.idle.Milliseconds() }
	for i, row := range rows {
		if i == 0 || row.offset != rows[i-1].offset { // of a message all rows have the same time
			if at := row.offset - row.offset%every; r.most > 0 && at > counted {
				counted = at
				retireMost(r.most, all, over)
			}
			stamps = append(stamps, 5+row.at)
			recent := slices.Sorted(slices.Values(stamps[max(0, len(stamps)-5):]))
			if n := len(stamps); n <= 3 {
				end = recent[0]
			} else {
				end = max(end, recent[len(recent)-3])
			}
		}
		if row.key == "" {
			continue
		}
		lives := all[row.key]
		if len(lives) == 0 || over(lives[len(lives)-1]) {
			lives = append(lives, &keyedLife{})
		}
		last := lives[len(lives)-1]
		last.rows, last.heard, last.last = append(last.rows, row), end, row.offset
		all[row.key] = lives
	}
	for _, lives := range all {
		last := lives[len(lives)-1]
		last.retired = over(last)
	}
	return all
}

// retireMost retires the lives that were heard of longest ago, if there are more than most.
func retireMost(most int, all map[string][]*keyedLife, over func(*keyedLife) bool) {
	var alive []*keyedLife
	for _, lives := range all {
		if last := lives[len(lives)-1]; !over(last) {
			alive = append(alive, last)
		}
	}
	if len(alive) <= most {
		return
	}
	slices.SortFunc(alive, func(a, b *keyedLife) int { return cmp.Compare(a.last, b.last) })
	before := alive[len(alive)-(most-most/8)].last
	for _, l := range alive {
		l.retired = l.last < before
	}
}

// inPlaces gives rows the offsets of their messages.
func inPlaces(by modelkey.By, rows []keyedRow) []keyedRow {
	rows = slices.Clone(rows)
	offset := int64(0)
	for first := 0; first < len(rows); offset++ {
		n := inMessage(by, rows[first:])
		for i := range n {
			rows[first+i].offset = offset
		}
		first += n
	}
	return rows
}

// aloneLife is what a topic with the rows of one life alone gives.
type aloneLife struct {
	base      uint64 // versions of the lives before
	snapshots map[uint64]string
	state     *checkpoint.Checkpoint
	rows      uint64 // learnt
	retired   bool
}

// fleetOfLives is what is to be on the topics.
type fleetOfLives map[string][]aloneLife

func livesAlone(t checker, r keyedRun, at source.Partition, rows []keyedRow) fleetOfLives {
	t.Helper()
	want := fleetOfLives{}
	for key, of := range livesOf(r, rows) {
		base := uint64(0)
		for _, l := range of {
			one := lifeAlone(t, r, at, key, l.rows)
			one.base, one.retired = base, l.retired
			want[key] = append(want[key], one)
			base += one.rows
		}
	}
	return want
}

// lifeAlone learns the rows of one life.
func lifeAlone(t checker, r keyedRun, at source.Partition, key string, rows []keyedRow) aloneLife {
	t.Helper()
	r.memory, r.snapshotRows, r.step, r.idle, r.most = 1<<40, 1, 3, 0, 0
	w := newWorld()
	w.fleet = at
	w.fleetMessages(r.by, rows)
	w.learnFleet(t, r)
	return aloneLife{
		snapshots: w.publishedLives(t, func(string, uint64) uint64 { return 0 })[modelkey.ID("fleet/a", w.fleet.ID, []byte(key))],
		state:     w.keyedCheckpoints(t, r)[key], rows: w.keyedIndex(t, r).index[key].version,
	}
}

// keyedIndex reads the index of the checkpoint topic.
func (w *world) keyedIndex(t checker, r keyedRun) *KeyedStates {
	t.Helper()
	states := w.keyedStage(r).States
	if err := states.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return states
}

// publishedLives returns fingerprints of all snapshots that were ever put, without what depends on the topic around and on former lives.
func (w *world) publishedLives(t checker, baseOf func(id string, version uint64) uint64) map[string]map[uint64]string {
	t.Helper()
	all, newest := map[string]map[uint64]string{}, map[string]uint64{}
	var a snapshot.Assembler
	for _, m := range w.topics[source.Partition{Topic: "snapshots", ID: w.fleet.ID}] {
		if m.Topic == "" { // compacted
			continue
		}
		if err := a.Add(m.Key, m.Value, m.Headers, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if source.LastHeader(m.Headers, "lca-part") != snapshot.PartNeighbours { // with which a snapshot is whole
			continue
		}
		id := source.LastHeader(m.Headers, "lca-model-id")
		s, ok := a.Newest(id)
		version, _ := strconv.ParseUint(source.LastHeader(m.Headers, "lca-model-version"), 10, 64)
		if !ok || version < newest[id] || version != s.Version {
			t.Fatalf("model %s: version %d after %d", id, version, newest[id])
		}
		newest[id] = version
		own := *s
		own.Offsets, own.Number, own.Parent = nil, 0, 0
		own.Version -= baseOf(id, version)
		print, err := snapshot.Fingerprint(&own)
		if err != nil {
			t.Fatal(err)
		}
		if all[id] == nil {
			all[id] = map[uint64]string{}
		}
		if was, ok := all[id][version]; ok && was != print {
			t.Fatalf("model %s: version %d came twice, with another content", id, version)
		}
		all[id][version] = print
	}
	return all
}

// check compares what is on the topics with what lives alone give.
func (want fleetOfLives) check(t checker, w *world, r keyedRun) {
	t.Helper()
	byID := map[string][]aloneLife{}
	for key, lives := range want {
		byID[modelkey.ID("fleet/a", w.fleet.ID, []byte(key))] = lives
	}
	life := func(id string, version uint64) aloneLife {
		lives := byID[id]
		i, _ := slices.BinarySearchFunc(lives, version, func(l aloneLife, v uint64) int {
			if l.base < v {
				return -1
			}
			return 1
		})
		return lives[i-1]
	}
	published := 0
	for id, versions := range w.publishedLives(t, func(id string, v uint64) uint64 { return life(id, v).base }) {
		for v, print := range versions {
			if l := life(id, v); l.snapshots[v-l.base] != print && !r.accepted[id] {
				t.Errorf("version %d of model %s is not that of the rows since version %d alone", v, id, l.base)
			}
			published++
		}
	}
	if published < len(want) {
		t.Errorf("only %d snapshots of %d models were published", published, len(want))
	}
	index, states := w.keyedIndex(t, r), w.keyedCheckpoints(t, r)
	for key, lives := range want {
		last, got := lives[len(lives)-1], index.index[key]
		if got.retired != last.retired || got.version != last.base+last.rows {
			t.Errorf("model %q: retired %v, version %d; want %v, %d", key, got.retired, got.version, last.retired, last.base+last.rows)
		}
		if c := states[key]; c != nil && !last.retired && !r.accepted[modelkey.ID("fleet/a", w.fleet.ID, []byte(key))] && (c.Ordinal != last.state.Ordinal || c.Base != last.base || !bytes.Equal(c.Learner, last.state.Learner) || !bytes.Equal(c.Batcher, last.state.Batcher)) {
			t.Errorf("model %q has another state than that of its rows alone since it was retired", key)
		}
		if id := modelkey.ID("fleet/a", w.fleet.ID, []byte(key)); last.retired && w.holds(id, "snapshots")+w.holds(id, "checkpoints") != 1 {
			t.Errorf("of the retired model %q there are %d records of snapshots and %d others", key, w.holds(id, "snapshots"), w.holds(id, "checkpoints"))
		}
	}
	if end, next := int64(len(w.topics[w.fleet])), w.committed["g.learn"][w.fleet]; next != end {
		t.Errorf("committed offset %d, want %d", next, end)
	}
}

// holds counts the records of a model that compaction would leave.
func (w *world) holds(id, topic string) int {
	newest := map[string]sink.Message{}
	for _, m := range w.topics[source.Partition{Topic: topic, ID: w.fleet.ID}] {
		if bytes.HasPrefix(m.Key, []byte(id+"/")) {
			newest[string(m.Key)] = m
		}
	}
	maps.DeleteFunc(newest, func(_ string, m sink.Message) bool { return m.Value == nil })
	return len(newest)
}

// lateClock is a clock long after the rows: they are a backlog.
func lateClock(seed uint64) func() time.Time {
	clock := clockOf(rand.New(rand.NewPCG(seed, 1)))
	return func() time.Time { return clock().Add(1000 * time.Hour) }
}

// A model of which no row comes for model.idle is retired: what is learnt of its key afterwards is what a topic of those rows alone
// gives, after the last version. Where the rows' times are in disorder, it depends on the records alone, too.
func TestKeyedModelsAreRetired(t *testing.T) {
	for _, by := range fleetPlaces {
		for _, late := range []int64{0, 30_000} {
			t.Run(fmt.Sprintf("%v, up to %d ms late", by, late), func(t *testing.T) {
				rows := inShifts(3, 6, 1500, 1000, late)
				if by.Place == modelkey.Column && late > 0 { // of a message all rows have the same time
					for i := range rows {
						rows[i].at = rows[i-i%5].at
					}
				}
				r := keyedRun{by: by, columns: []string{"a", "b"}, clock: lateClock(1), idle: testIdle}
				want := livesAlone(t, r, keyedPartition, inPlaces(r.by, rows))
				lives, retired := 0, 0
				for _, of := range want {
					lives += len(of)
					if of[len(of)-1].retired {
						retired++
					}
				}
				if lives < 2*len(want) || retired == 0 {
					t.Fatalf("%d lives of %d models, %d retired at the end: the rows prove too little", lives, len(want), retired)
				}
				for seed := range uint64(2) {
					r.memory, r.snapshotRows, r.step = 1<<(10+10*seed), 60, 1+int(50*seed)
					w := newWorld()
					w.fleetMessages(by, rows)
					stage := w.learnFleet(t, r)
					want.check(t, w, r)
					if got := stage.Memory.counts.Retired.Load(); got != uint64(lives-len(want)+retired) {
						t.Errorf("%d retirements were counted, want %d", got, lives-len(want)+retired)
					}
				}
			})
		}
	}
}

// The same where any call fails, before or after its effect, and the topics are compacted meanwhile. Where little is saved, models are
// retired whose rows come again, because others hold the committed offset back.
func TestRetirementCrashes(t *testing.T) {
	rows := inShifts(5, 5, 500, 5000, 0)
	rare := slices.Clone(rows)
	for i := 0; i < len(rare); i += 30 { // one that is never idle, and never has enough rows to be saved
		rare[i].key = "rare"
	}
	late := inShifts(5, 5, 500, 5000, 30_000) // in disorder: the time at an offset is not that of any model's last row
	t.Run("often saved", func(t *testing.T) {
		testRetirementCrashes(t, rows, keyedRun{idle: testIdle, memory: 60 << 10, step: 12})
	})
	t.Run("seldom saved", func(t *testing.T) {
		testRetirementCrashes(t, rare, keyedRun{idle: testIdle, memory: 1 << 30, step: 12, seldom: true})
	})
	t.Run("in disorder", func(t *testing.T) {
		testRetirementCrashes(t, late, keyedRun{idle: testIdle, memory: 60 << 10, step: 12})
	})
	t.Run("in disorder, seldom saved", func(t *testing.T) {
		testRetirementCrashes(t, late, keyedRun{idle: testIdle, memory: 1 << 30, step: 12, seldom: true})
	})
	t.Run("large batches", func(t *testing.T) {
		testRetirementCrashes(t, rows, keyedRun{idle: testIdle, memory: 1 << 30, step: 150, seldom: true})
	})
}

func testRetirementCrashes(t *testing.T, rows []keyedRow, how keyedRun) {
	r := keyedRun{by: fleetPlaces[0], columns: []string{"a", "b"}, clock: lateClock(1), idle: how.idle, most: how.most}
	want := livesAlone(t, r, keyedPartition, inPlaces(r.by, rows))
	lives := 0
	for _, of := range want {
		lives += len(of)
	}
	if lives < 2*len(want) {
		t.Fatalf("%d lives of %d models: the rows prove too little", lives, len(want))
	}
	r.memory, r.snapshotRows, r.step, r.seldom = how.memory, 30, how.step, how.seldom
	crashes, every := 0, 1
	if testing.Short() {
		every = 3
	}
	for failAt := 1; ; failAt += every {
		w := newWorld()
		w.fleetMessages(r.by, rows)
		w.failAt, w.after = failAt, failAt%2 == 0
		w.learnFleet(t, r)
		if !w.failed {
			break
		}
		crashes += every
		want.check(t, w, r)
		w.compact(source.Partition{Topic: "checkpoints", ID: w.fleet.ID})
		w.compact(source.Partition{Topic: "snapshots", ID: w.fleet.ID})
		w.learnFleet(t, r)
		if t.Failed() {
			t.Fatalf("after a failure at call %d", failAt)
		}
	}
	if crashes < 2*len(rows)/how.step/3 {
		t.Errorf("only %d calls could fail", crashes)
	}
}

// Records of retired models do not become more and more, and the versions of those that have lost theirs do not go back. None is forgotten whose rows
// would be learnt again after the start marker.
func TestRetiredRecordsAreBounded(t *testing.T) {
	const most = 3
	rows := inShifts(7, 12, 3000, 1000, 0)
	r := keyedRun{by: fleetPlaces[0], columns: []string{"a", "b"}, clock: lateClock(1), idle: 10 * time.Second, mostRetired: most, memory: 1 << 30, snapshotRows: 60, step: 20, marks: true}
	w := newWorld()
	w.fleetMessages(r.by, rows)
	w.learnFleet(t, r)
	if n := w.forgotten(t); n < 10 {
		t.Errorf("%d records were forgotten: the rows prove too little", n)
	}
	w.publishedLives(t, func(string, uint64) uint64 { return 0 }) // versions grow
	index := w.keyedIndex(t, r)
	retired := 0
	for _, s := range index.index {
		if s.retired {
			retired++
		}
	}
	if floor := index.gone.floor; retired != index.gone.n || retired > most+5 || floor == 0 { // those that were retired with the last batch come on top
		t.Errorf("%d records of retired models, %d counted, and the version of others is %d", retired, index.gone.n, floor)
	}
}

// forgotten counts the records of retired models that were deleted, and finds those whose rows are not all below the start marker of that time.
func (w *world) forgotten(t *testing.T) (n int) {
	learnt, mark := map[string]string{}, int64(-1)
	for _, m := range w.topics[source.Partition{Topic: "checkpoints", ID: w.fleet.ID}] {
		key, up := string(m.Key), learnt[string(m.Key)]
		var begin start.Start
		switch {
		case strings.HasPrefix(key, "start/"):
			if err := json.Unmarshal(m.Value, &begin); err != nil {
				t.Fatal(err)
			}
			mark = begin.Offset
		case m.Value == nil && up != "":
			if at, err := strconv.ParseInt(up, 10, 64); err != nil || at > mark {
				t.Errorf("the record of %s is forgotten, which has learnt up to %s, at a marker of %d", key, up, mark)
			}
			n++
			delete(learnt, key)
		case source.LastHeader(m.Headers, reject.HeaderRetired) != "":
			learnt[key] = source.LastHeader(m.Headers, reject.HeaderLearnt)
		default:
			delete(learnt, key)
		}
	}
	return n
}

// Records that are stamped ahead of the others retire nothing: one of any time, also in a backlog and at its beginning, and two in a row.
func TestTimeThatRetiresNothing(t *testing.T) {
	for _, ahead := range []int64{(2 * time.Hour).Milliseconds(), (100 * 365 * 24 * time.Hour).Milliseconds()} {
		for _, places := range [][]int{{150}, {150, 151}, {0}, {299}, {0, 60, 61, 180}} {
			rows := fleet(9, 4, 300)
			for _, i := range places {
				rows[i].at = ahead
			}
			for _, clock := range []func() time.Time{clockOf(rand.New(rand.NewPCG(1, 1))), lateClock(1)} {
				r := keyedRun{by: fleetPlaces[0], columns: []string{"a", "b"}, clock: clock, idle: time.Hour, memory: 1 << 30, snapshotRows: 60, step: 20}
				w := newWorld()
				w.fleetMessages(r.by, rows)
				stage := w.learnFleet(t, r)
				if got := stage.Memory.counts.Retired.Load(); got != 0 {
					t.Errorf("rows %v are %d ms ahead: %d models were retired", places, ahead, got)
				}
			}
		}
	}
}
