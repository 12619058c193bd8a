package learn

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// oracle is what an undisturbed run of one partition publishes, and the checkpoint that it leaves.
type oracle struct {
	snapshots  []sink.Message
	checkpoint []byte
	alarms     []transform.Alarm // of the learner
}

// newOracles returns what undisturbed runs leave behind, by the learner.
func newOracles(t *testing.T) map[simLearner]*oracle {
	t.Helper()
	oracles := map[simLearner]*oracle{}
	for _, learner := range []simLearner{{}, {chooses: true}, {late: true}, {true, true}} {
		o := &oracle{}
		synctest.Test(t, func(t *testing.T) {
			s := newSim(simWorld{inputs: 1, pace: 3, simLearner: learner}, rand.New(rand.NewPCG(1, 1)))
			s.run()
			if len(s.broken) > 0 {
				t.Fatalf("the undisturbed run: %v\n%s", s.broken, s.trace)
			}
			o.snapshots, o.checkpoint, o.alarms = s.published(), s.newest(t, "m"), s.timeless(s.pipes[0])
		})
		kinds := map[string]int{}
		for _, a := range o.alarms {
			kinds[a.Type]++
		}
		if len(o.snapshots) < 3 || !learner.late && (kinds[transform.AlarmDrift] == 0 || kinds[transform.AlarmReturned] == 0) {
			t.Fatalf("%d snapshot messages, alarms %v: the run is too small to prove anything", len(o.snapshots), kinds)
		}
		oracles[learner] = o
	}
	return oracles
}

func (s *sim) check(t *testing.T, undisturbed map[simLearner]*oracle) {
	for len(s.open) > 0 {
		s.fence(s.open[0].id)
	}
	if len(s.taken) == 0 && !slices.ContainsFunc(s.pipes, func(p *simPipe) bool { return len(p.stopped) == 0 }) {
		s.fault("no process has the model: %v", s.pipes[0].stopped)
	}
	models := s.versions()
	for _, pipe := range s.pipes {
		rare := map[*simTxn][]sink.Message{}
		for _, p := range s.partitions(pipe.topic) {
			s.checkOutput(pipe, p, models, rare)
		}
		s.checkRowAlarms(pipe, rare)
		s.checkModelAlarms(t, pipe)
		s.checkCommands(pipe)
		if len(pipe.stopped) > 0 {
			continue
		}
		if pipe.bereft != "" {
			s.fault("%s: went on with %s", pipe.name, pipe.bereft)
			continue
		}
		if !s.byName || s.taking != "recreated" { // by its name, a little of the new topic may be read until the watch sees it
			s.checkLearnt(t, pipe)
		}
	}
	if !s.plain() || len(s.broken) > 0 {
		return
	}
	calm := undisturbed[s.simLearner]
	want, got := calm.snapshots, s.published()
	if len(want) != len(got) {
		s.fault("%d snapshot messages, undisturbed %d", len(got), len(want))
		return
	}
	for i := range want {
		if !fixtures.Same(want[i], got[i]) {
			s.fault("snapshot message %d differs from the undisturbed run's", i)
			return
		}
	}
	if told := s.timeless(s.pipes[0]); !reflect.DeepEqual(calm.alarms, told) {
		s.fault("the learner told %v, undisturbed %v", told, calm.alarms)
	}
	if !bytes.Equal(calm.checkpoint, s.newest(t, "m")) {
		s.fault("the newest checkpoint differs from the undisturbed run's")
	}
}

// simModel is a published version of a model.
type simModel struct {
	*snapshot.Snapshot
	owner string // transactional id that published it
}

// versions are all that were published, of each model. Each came once, in one transaction, from the
// model's one learner, and they grow.
func (s *sim) versions() map[string]*simModel {
	models, newest, owner := map[string]*simModel{}, map[string]uint64{}, map[string]string{}
	var a snapshot.Assembler
	var last *simTxn
	for _, e := range s.part(source.Partition{Topic: "snapshots"}).log {
		if e.mark || e.txn == nil || !e.txn.committed || e.txn.id == "foreign" {
			continue
		}
		if err := a.Add(e.Key, e.Value, e.Headers, e.at); err != nil {
			s.fault("snapshot message %q: %v", e.Key, err)
		}
		model, _, _ := bytes.Cut(e.Key, []byte("/"))
		id := string(model)
		if was := owner[id]; was != "" && was != e.txn.id {
			s.fault("model %s is published by %s and by %s", id, was, e.txn.id)
		}
		owner[id] = e.txn.id
		if len(e.Value) == 0 {
			continue
		}
		version := s.number(e.Message, "lca-model-version")
		if version < newest[id] || version == newest[id] && last != e.txn {
			s.fault("model %s: version %d was published after %d", id, version, newest[id])
		}
		newest[id], last = version, e.txn
		if snap, ok := a.Newest(id); ok && snap.Version == version {
			models[fmt.Sprintf("%s@%d", id, version)] = &simModel{snap, e.txn.id}
		}
	}
	return models
}

// checkOutput wants every message of a partition once, in order, in the output or the dead letters, with
// the values of the version that it names. It adds the alarms of their rows to those of their transactions.
func (s *sim) checkOutput(pipe *simPipe, p source.Partition, models map[string]*simModel, rare map[*simTxn][]sink.Message) {
	last, version := int64(-1), uint64(0)
	place, judge := map[int]string{}, s.judge(pipe, p)
	for _, e := range s.part(source.Partition{Topic: pipe.dead}).log {
		if e.visible() && int32(s.number(e.Message, "lca-source-partition")) == p.ID {
			s.place(place, e.Message, "dead letters")
		}
	}
	for _, e := range s.part(source.Partition{Topic: pipe.out, ID: p.ID}).log {
		if !e.visible() {
			continue
		}
		offset, v := int64(s.number(e.Message, "lca-source-offset")), s.number(e.Message, "lca-model-version")
		feed := s.place(place, e.Message, "output")
		if offset <= last {
			s.fault("%s: %v@%d comes after %d", pipe.name, p, offset, last)
		}
		if v < version || v == 0 {
			s.fault("%s: %v@%d: version %d after %d", pipe.name, p, offset, v, version)
		}
		last, version = offset, v
		model := models[fmt.Sprintf("%s@%d", pipe.model, v)]
		switch {
		case model == nil:
			s.fault("%s: %v@%d: version %d was not published", pipe.name, p, offset, v)
		case model.owner != pipe.owner() && s.second != "group": // a group without a learner may follow another one's
			s.fault("%s: %v@%d: version %d is of %s", pipe.name, p, offset, v, model.owner)
		case feed >= 0:
			rare[e.txn] = append(rare[e.txn], s.compare(pipe, judge, p, offset, feed, model, e.Message)...)
		}
	}
	if len(pipe.stopped) == 0 {
		s.checkAll(pipe, p, place)
	}
}

// checkAll wants every message of a partition in its place, from where it was first read.
func (s *sim) checkAll(pipe *simPipe, p source.Partition, place map[int]string) {
	from, read := pipe.begun[p]
	if !read && (s.latest || len(s.taken) > 0) {
		return // there was no model to read it with
	}
	for offset, e := range s.part(p).log {
		if e.mark || e.txn != nil && !e.txn.committed || int64(offset) < from {
			continue
		}
		want := "output"
		if e.feed == simBad {
			want = "dead letters"
		}
		if got := place[e.feed]; got != want && !(got == "" && s.mayPass(p, int64(offset))) {
			s.fault("%s: %v@%d is in %q, want %q", pipe.name, p, offset, got, want)
		}
	}
}

// mayPass reports whether a record may have been passed over: it is gone, and the configuration says so.
func (s *sim) mayPass(p source.Partition, offset int64) bool {
	return s.skips && len(s.taken) > 0 && offset < s.part(p).start
}

func (s *sim) place(place map[int]string, m sink.Message, where string) int {
	feed, err := simOutput(m)
	if err != nil {
		s.fault("%s: %v", where, err)
		return feed
	}
	if at := place[feed]; at != "" {
		s.fault("message %d is in %s and again in %s", feed, at, where)
	}
	place[feed] = where
	return feed
}

// judge is a transform that whitens what a partition has put out again, in order.
func (s *sim) judge(pipe *simPipe, p source.Partition) *transform.Transform {
	follow := &models.Follow{ModelID: pipe.model, Log: fixtures.Quiet(), Stats: stats.NewStats()}
	c := s.simTransform(pipe, follow)
	c.States = &transform.StateTopic{Name: pipe.states(), Read: func(context.Context, source.Partition, func(*source.Fetched) error) error { return nil }}
	t := &transform.Transform{TransformConfig: c}
	t.Committed = func(context.Context) (source.Offsets, error) { return source.Offsets{p: 0}, nil }
	if _, err := t.Rewind(context.Background()); err != nil {
		s.fault("%s: the judge of %v: %v", pipe.name, p, err)
	}
	return t
}

// compare whitens an input again, with the model that its output names, and returns the alarms of its rows.
func (s *sim) compare(pipe *simPipe, judge *transform.Transform, p source.Partition, offset int64, feed int, model *simModel, got sink.Message) (alarms []sink.Message) {
	if now := judge.Follow.Current(); now == nil || now.Snapshot != model.Snapshot {
		judge.Follow.Adopt(&stats.PublishedModel{Snapshot: model.Snapshot})
	}
	m := s.decoded(p, offset, &simEntry{feed: feed})
	b := source.Batch{Messages: []source.Message{m}}
	defer b.Release()
	work, err := judge.Do(context.Background(), b)
	if err != nil || len(work.Messages) == 0 {
		s.fault("%v@%d: %d outputs, %v", p, offset, len(work.Messages), err)
		return nil
	}
	defer judge.Kept()
	if !bytes.Equal(work.Messages[0].Whole(), got.Value) {
		s.fault("%s: the output of %v@%d is not what version %d gives", pipe.name, p, offset, model.Version)
	}
	if s.states && model.Model.Recent != nil {
		s.done["score of the last rows"]++
		if model.Model.Young() {
			s.done["young version"]++
		}
	}
	for _, alarm := range work.Messages[1:] {
		if isState(&alarm) {
			continue
		}
		alarm.Value = bytes.Clone(alarm.Value)
		alarms = append(alarms, alarm)
	}
	return alarms
}

// checkLearnt wants every row learnt once: as many as the input has from where it was first read.
func (s *sim) checkLearnt(t *testing.T, pipe *simPipe) {
	c := s.load(t, pipe.model)
	if c == nil { // of little there may be none: then nothing was made of it
		c = &checkpoint.Checkpoint{Offsets: pipe.learnt}
	}
	want, got := 0, s.learntRows(t, c)
	gaps := len(s.taken) > 0 && (s.skips || s.inRun)
	for p, next := range c.Offsets {
		end := next
		if gaps { // it may have passed over what retention took, and have read nothing since
			end = max(next, s.part(p).start)
		}
		if !s.part(p).drained(end) && int(p.ID) < s.inputs { // one that was added is learnt from at the next start
			s.fault("%s: %v was learnt up to %d only", pipe.name, p, next)
		}
		for offset, e := range s.part(p).log {
			if !e.mark && (e.txn == nil || e.txn.committed) && e.feed != simBad && int64(offset) >= pipe.learnt[p] && int64(offset) < next {
				want += simRows
			}
		}
	}
	if got > want || got < want && !gaps {
		s.fault("%s: %d rows were learnt, of %d", pipe.name, got, want)
	}
}

// learntRows are the rows that a checkpoint holds, those of the unfinished minibatch included.
func (w *simWorld) learntRows(t *testing.T, c *checkpoint.Checkpoint) int {
	learner := w.restored(t, c)
	if learner == nil {
		return 0
	}
	defer learner.Close()
	batcher := minibatch.NewBatcher(len(c.Features), w.learner().Minibatch)
	if err := batcher.UnmarshalBinary(c.Batcher); err != nil {
		t.Fatal(err)
	}
	return int(learner.Info().Rows) + len(batcher.Rest().IDs)
}

// restored is the learner of a checkpoint; nil if there is none.
func (w *simWorld) restored(t *testing.T, c *checkpoint.Checkpoint) *online.Learner {
	if c == nil || c.Learner == nil {
		return nil
	}
	config := w.learner()
	config.Dim = len(c.Features)
	learner, err := online.NewLearner(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := learner.UnmarshalBinary(c.Learner); err != nil {
		t.Fatal(err)
	}
	return learner
}

// published are the snapshot messages that a reader has seen.
func (s *sim) published() (msgs []sink.Message) {
	for _, e := range s.part(source.Partition{Topic: "snapshots"}).log {
		if !e.mark && e.txn != nil && e.txn.committed && e.txn.id != "foreign" {
			msgs = append(msgs, e.Message)
		}
	}
	return msgs
}

func (s *sim) number(m sink.Message, header string) uint64 {
	i := slices.IndexFunc(m.Headers, func(h source.Header) bool { return h.Key == header })
	if i < 0 {
		s.fault("key %q has no header %s", m.Key, header)
		return 0
	}
	n, err := strconv.ParseUint(string(m.Headers[i].Value), 10, 64)
	if err != nil {
		s.fault("%v", err)
	}
	return n
}

// load reads the newest checkpoint of a model, as a learner would.
func (s *sim) load(t *testing.T, model string) *checkpoint.Checkpoint {
	part := s.part(source.Partition{Topic: "checkpoints"})
	end := func(context.Context) (int64, error) { return part.stable(), nil }
	open := func(_ context.Context, from int64) (checkpoint.TopicReader, error) {
		return &calmLog{part: part, next: from}, nil
	}
	c, err := (&checkpoint.Checkpoints{ReadBack: checkpoint.ReadBack{Topic: "checkpoints", Open: open, End: end}, ModelID: model}).Load(context.Background())
	if err != nil {
		t.Fatalf("the checkpoint of %s: %v", model, err)
	}
	return c
}

// newest is the newest checkpoint without its sequence number, which counts attempts.
func (s *sim) newest(t *testing.T, model string) []byte {
	c := s.load(t, model)
	if c == nil {
		t.Fatalf("no checkpoint of %s", model)
	}
	c.Sequence = 0
	b, err := c.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// calmLog reads a log to which no process writes any more.
type calmLog struct {
	part *simPart
	next int64
}

func (l *calmLog) Fetch(context.Context) (source.Fetched, error) {
	offsets, next := l.part.read(l.next, len(l.part.log))
	l.next = next
	return source.Fetched{Records: records(l.part, offsets), Next: next}, nil
}
