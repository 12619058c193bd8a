package learn

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/source"
)

// simFleet is what a seed makes of a world with a model for each key.
type simFleet struct {
	by        modelkey.By
	memory    int64 // of the models of a process, of each stage
	idle      time.Duration
	most      int    // models of a partition; 0: any number
	forgets   bool   // a broker does not tell where a record was written, and forgets offsets of learners
	learners  int    // of a group
	snapshots uint64 // snapshot.every_rows
}

// simFleetBad is how often a message of the fleet cannot be decoded. It has the key of the message after the next, so that a batch may
// begin with a message of a model that is passed over, and have rows of another model before those of the first.
const simFleetBad = 9

// isFleetBad reports whether a message of the input cannot be decoded.
func isFleetBad(feed int) bool { return string(simFleetFeed()[feed].Value) == simNoJSON }

const simNoJSON = "no JSON"

// simFleetRows are the rows of the fleet, four to a message, of four machines that work in shifts and two that always do.
func simFleetRows() []keyedRow {
	random := rand.New(rand.NewPCG(11, 7))
	rows, now := fleet(11, 1, 360), int64(0)
	for i := range rows {
		if i%4 > 0 {
			rows[i].key, rows[i].at = rows[i-1].key, now
			continue
		}
		now += random.Int64N(8000)
		m := random.IntN(4)
		if (now/60_000+int64(m))%3 == 0 {
			m = 4 + m%2
		}
		if rows[i].at = now; rows[i].key != "" {
			rows[i].key = fmt.Sprintf("pump %d/é", m)
		}
	}
	return rows
}

// simFleetFeed is the input with a key for each message. A header names another machine, for the mistake of whitening by it.
var simFleetFeed = sync.OnceValue(func() (all []simMessage) {
	w := newWorld()
	rows := simFleetRows()
	for len(rows) > 0 {
		w.fleetMessages(fleetPlaces[0], rows[:4])
		rows = rows[4:]
	}
	for i, m := range w.topics[w.fleet] {
		if i%simFleetBad == 0 && i+1 < len(w.topics[w.fleet]) {
			bad := w.topics[w.fleet][i+1]
			bad.Value, bad.Time = []byte(simNoJSON), time.UnixMilli(0)
			all = append(all, simMessage{bad, fixtures.Decoded(source.Partition{}, 0, bad)})
		}
		m.Headers = append(slices.Clone(m.Headers), reject.Text("other", "pump 1/é"))
		all = append(all, simMessage{m, fixtures.Decoded(source.Partition{}, 0, m)})
	}
	return all
})

// lane decides which partition a message of the input goes to: with keys those of one go to one.
func (s *sim) lane(feed int) int {
	if s.fleet == nil {
		return feed
	}
	return laneOf(string(s.feed()[feed].Key))
}

func laneOf(key string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(key, "pump "), "/é"))
	return n
}

// simFleets are what undisturbed models of each partition are, by the number of partitions and whether models are retired.
type simFleets struct {
	all  map[string]fleetOfLives
	mu   sync.Mutex
	some map[string]aloneLife // where there is a bound, lives depend on the offsets that messages have got
}

func (f *simFleet) run() keyedRun {
	return keyedRun{by: f.by, columns: []string{"a", "b"}, soon: true, idle: f.idle, most: f.most, memory: f.memory, snapshotRows: f.snapshots, clock: time.Now}
}

func fleetName(inputs int, idle time.Duration, p int) string {
	return fmt.Sprintf("%d partitions, idle %v, partition %d", inputs, idle, p)
}

func newSimFleets(t *testing.T) *simFleets {
	t.Helper()
	all, lives := &simFleets{all: map[string]fleetOfLives{}, some: map[string]aloneLife{}}, 0
	for inputs := 1; inputs <= 2; inputs++ {
		for _, idle := range []time.Duration{0, testIdle} {
			for p := range inputs {
				rows := slices.DeleteFunc(simFleetRows(), func(r keyedRow) bool { return laneOf(r.key)%inputs != p })
				r := keyedRun{by: fleetPlaces[0], columns: []string{"a", "b"}, soon: true, idle: idle, clock: lateClock(1)}
				want := livesAlone(t, r, source.Partition{Topic: "events", ID: int32(p)}, inPlaces(r.by, rows))
				all.all[fleetName(inputs, idle, p)] = want
				for _, of := range want {
					lives += len(of) - 1
				}
			}
		}
	}
	if lives < 6 {
		t.Fatalf("models come back %d times: the rows prove too little", lives)
	}
	return all
}

// of returns what undisturbed models of a partition of a world are.
func (f *simFleets) of(s *sim, p source.Partition) fleetOfLives {
	if s.fleet.most == 0 {
		return f.all[fleetName(s.inputs, s.fleet.idle, int(p.ID))]
	}
	var rows []keyedRow
	all := simFleetRows()
	good := 0
	for feed := range s.feed() {
		if isFleetBad(feed) {
			continue
		}
		i := 4 * good
		good++
		for at, e := range s.part(p).log {
			if !e.mark && e.feed == feed {
				for _, row := range all[i : i+4] {
					row.offset = int64(at)
					rows = append(rows, row)
				}
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b keyedRow) int { return cmp.Compare(a.offset, b.offset) })
	want, r := fleetOfLives{}, keyedRun{by: fleetPlaces[0], columns: []string{"a", "b"}, soon: true, idle: s.fleet.idle, most: s.fleet.most, clock: lateClock(1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, of := range livesOf(r, rows) {
		base := uint64(0)
		for _, l := range of {
			own := slices.Clone(l.rows)
			for i := range own {
				own[i].offset = 0
			}
			name := fmt.Sprint(p, key, own)
			if _, known := f.some[name]; !known {
				f.some[name] = lifeAlone(simFaults{s}, r, p, key, own)
			}
			one := f.some[name]
			one.base, one.retired = base, l.retired
			want[key], base = append(want[key], one), base+one.rows
		}
		s.done["lives"] += len(of)
	}
	return want
}

// drawFleet makes a world with a model for each key.
func drawFleet(r *rand.Rand) (simWorld, *simFleet) {
	chance := func(n int) bool { return r.IntN(n) == 0 }
	w := simWorld{inputs: 1 + r.IntN(2), members: r.IntN(3), instances: chance(2), faults: r.IntN(12), pace: []int{1, 2, 5}[r.IntN(3)]}
	w.foreign, w.compaction = chance(3), chance(2)
	w.elections, w.slow, w.lags = chance(4), chance(3), chance(2)
	w.classic = w.slow
	f := &simFleet{by: fleetPlaces[r.IntN(2)], memory: []int64{1, 60 << 10, 1 << 30}[r.IntN(3)], learners: 1 + r.IntN(2), forgets: chance(4), snapshots: []uint64{8, 30}[r.IntN(2)]}
	if chance(2) {
		f.idle = testIdle
	}
	return w, f
}

func newSimFleet(w simWorld, f *simFleet, random *rand.Rand) *sim {
	s := newSim(w, random)
	s.works, s.bodies, s.pipes, s.fleet = nil, map[string]func(*proc) error{}, nil, f
	s.create("snapshots", w.inputs)
	s.create("checkpoints", w.inputs)
	p := &simPipe{name: "a", topic: "events", group: "g", model: "fleet/a", out: "out of a", dead: "dead of a", told: "alarms of a", begun: source.Offsets{}, learnt: source.Offsets{}}
	s.pipes = []*simPipe{p}
	learners, transforms := f.learners, w.members
	if w.members == 0 {
		learners, transforms = w.inputs, w.inputs
	}
	for i := range learners {
		s.work(fmt.Sprintf("a/learn/%d", i), func(me *proc) error { return s.learnFleet(me, p, s.fleetMember(me, p.group+".learn", i)) })
	}
	for i := range transforms {
		s.work(fmt.Sprintf("a/transform/%d", i), func(me *proc) error { return s.transformFleet(me, p, s.fleetMember(me, p.group, i)) })
	}
	return s
}

// compactionLag is how long brokers leave records that were overwritten. A transform that takes a partition over, and hears of
// snapshots late, may otherwise read all of the topic and still find no model: the ones that were there were overwritten meanwhile.
func (s *sim) compactionLag(of source.Partition) time.Duration {
	if s.fleet != nil && of.Topic == "snapshots" {
		return 90 * time.Second
	}
	return 0
}

// fleetMember is membership in a group, or ownership of one partition for good.
func (s *sim) fleetMember(me *proc, group string, i int) pipeline.Members {
	if s.members == 0 {
		return &oneOwner{ctx: me.ctx, group: group, parts: []source.Partition{{Topic: "events", ID: int32(i)}}}
	}
	me.group = &simMembers{p: me, group: group, topic: "events"}
	if s.instances {
		me.group.instance = strconv.Itoa(i)
	}
	return me.group
}

// executeFleet runs one seed, perhaps of a world with a mistake in it, and checks the outcome.
func executeFleet(t *testing.T, seed uint64, undisturbed *simFleets, mistake string) (s *sim) {
	synctest.Test(t, func(*testing.T) {
		random := rand.New(rand.NewPCG(seed, 19))
		w, f := drawFleet(random)
		if bound := rand.New(rand.NewPCG(seed, 23)); bound.IntN(3) == 0 { // of its own, so that worlds without a bound are what they were
			f.most = 2 + bound.IntN(2)
		}
		w.drawCommands(seed, mistake)
		s = newSimFleet(w, f, random)
		s.mistake = mistake
		s.run()
		if len(s.broken) == 0 {
			s.checkFleet(undisturbed)
		}
	})
	return s
}

// simLogOf reads a partition of a topic, and can go elsewhere.
type simLogOf struct{ *simLog }

func (l simLogOf) Move(next int64) { l.next = next }

// Want is of no use here.
func (l simLogOf) Want(int64) {}

// Reuse changes nothing: the records of this log are never overwritten.
func (l simLogOf) Reuse() {}

// logOf opens a partition of a topic. Questions are those of the context's thread.
func (p *proc) logOf(ctx context.Context, fallback string, at source.Partition, next int64) simLogOf {
	return simLogOf{&simLog{p: p, thread: threadOf(ctx, fallback), topic: at, next: next}}
}

func (p *proc) endOf(ctx context.Context, fallback string, of source.Partition, at source.At) (n int64, err error) {
	err = p.ask(ctx, threadOf(ctx, fallback), "end of "+of.String(), nil, func() { n = p.sim.part(of).place(at) })
	return n, err
}

// fleetPositions decides where a partition is read from. Its start markers are in the same partition of the checkpoint topic.
func (s *sim) fleetPositions(me *proc, group, thread string, p source.Partition) *start.Positions {
	starts := func(id int32) *start.Starts {
		return &start.Starts{ReadBack: s.fleetLog(me, thread, id), Partition: id}
	}
	return &start.Positions{Places: simPlaces{me, thread}, Starts: starts(p.ID), Home: starts(0), Group: group, Topic: p.Topic, Start: source.Earliest, Log: fixtures.Quiet()}
}

// fleetStage is a stage whose questions are those of a thread.
type fleetStage struct {
	pipeline.Stage
	thread  string
	commits bool // a mistake: all that was read
	asRead  bool // a mistake: unsaved models are in the order in which their messages are learnt
}

func (f fleetStage) Do(ctx context.Context, b source.Batch) (pipeline.Work, error) {
	k, learns := f.Stage.(*KeyedLearn)
	before := map[*keyedModel]bool{}
	for e := range unsavedOf(k) {
		before[e.Value.(*keyedModel)] = true
	}
	work, err := f.Stage.Do(context.WithValue(ctx, simThread{}, f.thread), b)
	if learns && f.asRead && err == nil {
		addAsRead(k, b.Messages, before)
		work.Next = source.Offsets{k.Partition: k.committable()}
	}
	if f.commits {
		work.Next = nil
	}
	return work, err
}

// unsavedOf are the unsaved models of a learner; nil has none.
func unsavedOf(k *KeyedLearn) iter.Seq[*list.Element] {
	return func(yield func(*list.Element) bool) {
		if k == nil {
			return
		}
		for e := k.unsaved.Front(); e != nil; {
			next := e.Next()
			if !yield(e) {
				return
			}
			e = next
		}
	}
}

// addAsRead puts the models that became unsaved in a batch into the order in which they were learnt.
func addAsRead(k *KeyedLearn, msgs []source.Message, before map[*keyedModel]bool) {
	for _, i := range k.groups.order(k.By, msgs) {
		value, _ := k.By.OfMessage(&msgs[i])
		for e := range unsavedOf(k) {
			if m := e.Value.(*keyedModel); m.value == string(value) && !before[m] {
				k.unsaved.MoveToBack(e)
				before[m] = true
			}
		}
	}
}

func (f fleetStage) Rewind(ctx context.Context) (source.Offsets, error) {
	return f.Stage.Rewind(context.WithValue(ctx, simThread{}, f.thread))
}

// Finish puts what is left.
func (f fleetStage) Finish(ctx context.Context) (pipeline.Work, error) {
	if last, ok := f.Stage.(pipeline.Finisher); ok {
		work, err := last.Finish(context.WithValue(ctx, simThread{}, f.thread))
		if f.commits {
			work.Next = nil
		}
		return work, err
	}
	return pipeline.Work{}, nil
}

// Marked passes on which start marker there is.
func (f fleetStage) Marked(at source.Offsets) {
	if m, ok := f.Stage.(pipeline.Marked); ok {
		m.Marked(at)
	}
}

// Close gives back what the stage holds.
func (f fleetStage) Close() {
	if held, ok := f.Stage.(interface{ Close() }); ok {
		held.Close()
	}
}

// learnFleet is what the command's learner by key does: join the group, and for each partition take the work over, read the
// index of its checkpoints, and go on from what is committed.
func (s *sim) learnFleet(me *proc, pipe *simPipe, members pipeline.Members) error {
	memory := NewModelMemory(s.fleet.memory, stats.NewStats().ModelCounts("learn"))
	group := pipe.group + ".learn"
	t := &pipeline.Transforms{Members: members, Log: fixtures.Quiet(), Stage: "learn", Open: func(ctx context.Context, p source.Partition, claim source.Claim) (*pipeline.Loop, error) {
		thread := " " + p.String()
		positions := s.fleetPositions(me, group, thread, p)
		positions.Models = start.ModelsNote("checkpoints", "fleet/a")
		return s.openFleet(ctx, me, pipe, "learn", positions, p, claim, func(k pipeline.Sink) pipeline.Stage {
			w := newWorld()
			w.fleet = p
			stage := w.keyedStage(s.fleet.run())
			stage.Memory, stage.States = memory, s.fleetStates(me, thread, p)
			stage.Commands, stage.Alarms = s.hears(me, pipe, thread), pipe.alarms()
			stage.Claim = func(ctx context.Context) error { return s.fleetClaims(me, thread, p).Own(ctx, k) }
			stage.Committed = func(ctx context.Context) (source.Offsets, error) {
				return positions.Open(ctx, k, claim, []source.Partition{p})
			}
			return stage
		}, nil)
	}}
	err := watched(me.ctx, s.fleetPositions(me, group, " watch", source.Partition{Topic: pipe.topic}), t.Run)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done["evicted"] += int(memory.counts.Evicted.Load())
	if used := memory.used.Load(); used != 0 {
		s.fault("%s: %d bytes of models are left in memory", me.name, used)
	}
	return err
}

// fleetLog reads a partition of the checkpoint topic.
func (s *sim) fleetLog(me *proc, thread string, partition int32) checkpoint.ReadBack {
	own := source.Partition{Topic: "checkpoints", ID: partition}
	return checkpoint.ReadBack{
		Topic: own.Topic,
		Open: func(ctx context.Context, at int64) (checkpoint.TopicReader, error) {
			return s.wrongly(me.logOf(ctx, thread, own, at)), nil
		},
		End: func(ctx context.Context) (int64, error) { return me.endOf(ctx, thread, own, source.Latest) },
	}
}

func (s *sim) fleetStates(me *proc, thread string, p source.Partition) *KeyedStates {
	return &KeyedStates{
		ReadBack: s.fleetLog(me, thread, p.ID), Partition: p.ID, ModelID: "fleet/a", Owner: checkpoint.Owner{Group: "g", Topic: p.Topic}, By: s.fleet.by,
	}
}

// fleetClaims are the claims to the models, in the first partition of the checkpoint topic.
func (s *sim) fleetClaims(me *proc, thread string, p source.Partition) *checkpoint.Checkpoints {
	return &checkpoint.Checkpoints{
		ReadBack: s.fleetLog(me, thread, 0), ModelID: "fleet/a", Owner: checkpoint.Owner{Group: "g", Topic: p.Topic}, By: s.fleet.by.String(),
	}
}

// transformFleet is what the command's transform by key does.
func (s *sim) transformFleet(me *proc, pipe *simPipe, members pipeline.Members) error {
	byKey := s.fleetModels(me, pipe)
	defer byKey.Keep(nil)
	shared := s.fleetConfig(pipe)
	shared.Follow = &models.Follow{ModelID: byKey.ModelID}
	t := &pipeline.Transforms{Members: &fleetMembers{members, byKey}, Log: fixtures.Quiet(), Open: func(ctx context.Context, p source.Partition, claim source.Claim) (*pipeline.Loop, error) {
		thread := " " + p.String()
		positions := s.fleetPositions(me, pipe.group, thread, p)
		positions.Written = s.written(me, pipe.group, pipe.out, pipe.dead)
		return s.openFleet(ctx, me, pipe, "transform", positions, p, claim, func(k pipeline.Sink) pipeline.Stage {
			stage := transform.Transform{TransformConfig: shared, Committed: func(ctx context.Context) (source.Offsets, error) {
				return positions.Open(ctx, k, claim, []source.Partition{p})
			}}
			return &transform.KeyedTransform{Transform: stage, Models: byKey}
		}, func(ctx context.Context) error { return byKey.CatchUp(ctx, p.ID) })
	}}
	return watched(me.ctx, s.fleetPositions(me, pipe.group, " watch", source.Partition{Topic: pipe.topic}), t.Run)
}

// fleetMembers forget the models of partitions that they no longer own, as the command's do.
type fleetMembers struct {
	pipeline.Members
	models *models.KeyedModels
}

func (m *fleetMembers) Next(ctx context.Context) (pipeline.Ownership, error) {
	own, err := m.Members.Next(ctx)
	if err != nil {
		return nil, err
	}
	var ids []int32
	for _, p := range own.Owned() {
		ids = append(ids, p.ID)
	}
	m.models.Keep(ids)
	return own, nil
}

func (s *sim) fleetConfig(pipe *simPipe) transform.TransformConfig {
	c := transform.TransformConfig{
		Columns: []string{"a", "b", "c"}, Output: encode.OutputConfig{Column: "lca", Score: true, Passthrough: true}, UntilModel: transform.PassThrough,
		Components: lca.ComponentsAll,
		DeadLetter: reject.DeadLetter{Window: 1000, MaxRejects: 1000, Partitions: 1}, Stats: stats.NewStats(), Log: fixtures.Quiet(),
	}
	c.Topic, c.DeadLetter.Topic, c.DeadLetter.Group, c.Alarms, c.Now = pipe.out, pipe.dead, pipe.group, transform.Alarms{}, time.Now
	return c
}

func (s *sim) fleetModels(me *proc, pipe *simPipe) *models.KeyedModels {
	at := func(partition int32) (source.Partition, string) {
		return source.Partition{Topic: "snapshots", ID: partition}, fmt.Sprintf("%s %d", simFollow, partition)
	}
	c := s.fleetConfig(pipe)
	byKey := &models.KeyedModels{
		Open: func(ctx context.Context, partition int32, from int64) (models.ModelLog, error) {
			own, follows := at(partition)
			return me.logOf(ctx, follows, own, from), nil
		},
		End: func(ctx context.Context, partition int32) (int64, error) {
			own, follows := at(partition)
			return me.endOf(ctx, follows, own, source.LatestStable)
		},
		Topic: "snapshots", ModelID: "fleet/a", Source: pipe.topic, Group: pipe.group, By: s.fleet.by, Memory: int(s.fleet.memory),
		Components: c.Components, Stats: stats.NewStats(), Log: fixtures.Quiet(),
	}
	if s.mistake == "keyed: by another header" {
		byKey.By = modelkey.By{Place: modelkey.Header, Name: "other"}
	}
	return byKey
}

// openFleet takes a partition over.
func (s *sim) openFleet(ctx context.Context, me *proc, pipe *simPipe, stage string, positions *start.Positions, p source.Partition, claim source.Claim, open func(pipeline.Sink) pipeline.Stage, catchUp func(context.Context) error) (*pipeline.Loop, error) {
	thread := " " + p.String()
	ctx = context.WithValue(ctx, simThread{}, thread)
	t := &pipeline.Takeover{
		Fence: func(ctx context.Context) (pipeline.Sink, error) {
			return me.open(ctx, thread, fmt.Sprintf("%s/%s/%s/%d", pipe.group, p.Topic, stage, p.ID))
		},
		Stage: func(k pipeline.Sink) (pipeline.Stage, error) {
			learns := stage == "learn"
			return fleetStage{open(s.commits(k)), thread, learns && s.mistake == "keyed: all that was read is committed", learns && s.mistake == "keyed: unsaved as read"}, nil
		},
		CatchUp: catchUp,
		Read: func(_ context.Context, start source.Offsets) (pipeline.Source, error) {
			own := claim
			own.Metadata = positions.Metadata([]source.Partition{p})
			m := &simSource{p: me, thread: thread, next: start.Clone(), epochs: positions.Epochs(start), ids: positions.TopicIDs(), claim: own, idle: time.Second}
			if m.gaps = s.gaps(me, positions, pipe); stage == "transform" {
				m.first = pipe.begun
			}
			return m, nil
		},
	}
	switch {
	case s.mistake == "keyed: offsets before the fence" && stage == "transform":
		if err := hasty(ctx, t); err != nil {
			return nil, err
		}
	case s.mistake == "keyed: no catching up":
		t.CatchUp = nil
	}
	loop, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	loop.Stats, loop.Log, loop.Grace = stats.NewStats(), fixtures.Quiet(), simGrace
	loop.Renew, loop.Epochs = &pipeline.Renewal{Every: time.Hour, Markers: positions.Markers}, positions.Epochs(loop.Start)
	if positions.Written != nil {
		loop.Outputs = &start.Outputs{Positions: positions, Partition: p}
	}
	return loop, nil
}

// wrongly makes the mistakes that a reader of checkpoints can make.
func (s *sim) wrongly(log simLogOf) checkpoint.TopicReader {
	if !strings.HasPrefix(s.mistake, "keyed: the index ") && s.mistake != "keyed: markers are not exact" {
		return log
	}
	return &wrongLog{log, s.mistake}
}

type wrongLog struct {
	simLogOf
	mistake string
}

func (l *wrongLog) Fetch(ctx context.Context) (source.Fetched, error) {
	got, err := l.simLogOf.Fetch(ctx)
	set := func(r *source.Record, key string) {
		for i, h := range r.Headers {
			if h.Key == key {
				r.Headers[i] = reject.Text(key, "0")
			}
		}
	}
	switch l.mistake {
	case "keyed: markers are not exact":
		for i, r := range got.Records {
			got.Records[i].Value = bytes.Replace(r.Value, []byte(`,"exact":true`), nil, 1)
		}
	case "keyed: the index forgets cuts":
		got.Records = slices.DeleteFunc(got.Records, func(r source.Record) bool { return strings.HasSuffix(string(r.Key), "/cuts") })
	case "keyed: the index forgets retired models":
		got.Records = slices.DeleteFunc(got.Records, func(r source.Record) bool { return source.LastHeader(r.Headers, reject.HeaderRetired) != "" })
	case "keyed: the index forgets what is learnt":
		for i := range got.Records {
			set(&got.Records[i], reject.HeaderLearnt)
		}
	case "keyed: the index forgets last rows":
		for i := range got.Records {
			set(&got.Records[i], reject.HeaderLastRow)
		}
	}
	return got, err
}
