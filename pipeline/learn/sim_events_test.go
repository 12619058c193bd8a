package learn

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// simWorld is what a seed makes of the world.
type simWorld struct {
	inputs     int    // partitions of the input, at the start
	members    int    // processes that share the partitions as a group; 0 = each partition has its own
	instances  bool   // they are static members
	second     string // another "model" of the same input, or the same model id in another "pipeline" or another "group"
	faults     int    // kills, freezes, failures and lost answers
	pace       int    // decisions between two messages of the input, on average: faults come at the same pace
	byClock    bool   // the learner publishes by time too: then versions depend on the schedule
	grows      bool   // a partition is added
	producer   bool   // the input is written in transactions, some of which are aborted
	foreign    bool   // others open transactions on the topics of our own, and are killed
	hanging    bool   // others never end their transactions on our topics
	compaction bool
	elections  bool // of leaders that have everything
	retention  bool // of what was read
	slow       bool // offsets of transactions are to be read some time after the commit
	latest     bool // source.start_offset
	skips      bool // source.on_gap
	inRun      bool // learner and transform are of one process: what is whitened need not be learnt
	lags       bool // processes that transform hear of new models late, each in its own time
	learnFirst bool // transforms are started when there is a model
	byName     bool // brokers before Kafka 3.1: fetches do not ask for a topic by its id
	classic    bool // the group coordinator is that of brokers before 4.0
	simLearner
	taking string

	states bool        // transforms score the last rows of series
	series modelkey.By // … which are these
	link   int         // bytes of a transaction of a transform; 0: any number

	commands bool // people accept episodes
}

// simTaking are the ways in which a world takes away what was not read yet.
var simTaking = []string{"retention", "recreated", "expired", "truncated", "newer"}

// simHappenings are what must have happened in many seeds.
var simHappenings = []string{
	"kill", "freeze", "failed", "lost answer", "long pause", "fenced", "transform ended", "learn ended", "stopped",
	"aborted input", "foreign transaction", "hanging transaction", "compaction", "election", "retention", "partition added",
	"retention of unread records", "topic recreated", "offsets expired", "log truncated", "offsets late", "offsets forgotten", "offsets shown early", "offsets dropped", "models late", "metadata late", "checkpoint of a newer binary",
	transform.AlarmDrift, transform.AlarmReturned, "score of the last rows", "young version", episode.Opened, "part of a batch", "command", "fact",
}

func drawWorld(r *rand.Rand) simWorld {
	chance := func(n int) bool { return r.IntN(n) == 0 }
	w := simWorld{inputs: 1 + r.IntN(3)&^r.IntN(2), faults: r.IntN(12)}
	if chance(2) {
		w.members, w.instances = 1+r.IntN(2), chance(2)
	}
	switch r.IntN(8) {
	case 0:
		w.second = "model"
	case 1:
		w.second = "pipeline"
	case 2:
		w.second = "group"
	}
	w.byClock = chance(2)
	w.grows = w.members > 0 && chance(3)
	w.producer, w.foreign, w.compaction = chance(4), chance(3), chance(3)
	w.hanging = w.foreign && chance(2)
	w.elections, w.retention, w.slow = chance(4), chance(4), chance(3)
	if chance(4) {
		w.taking = simTaking[r.IntN(len(simTaking))]
	}
	w.latest = chance(5) && !w.retention && w.taking == ""
	w.skips, w.inRun = chance(4), chance(2)
	w.lags, w.pace = chance(2), []int{3, 10, 30}[r.IntN(3)]
	w.byName, w.learnFirst, w.chooses = chance(4), chance(2), chance(8)
	w.classic = chance(2)
	return w
}

// plain reports whether what is learnt is what an undisturbed run learns, byte for byte.
func (w *simWorld) plain() bool {
	return w.inputs == 1 && !w.byClock && !w.grows && !w.producer && !w.latest && w.taking == "" && w.second == "" && !w.commands
}

// produce writes some of the input, perhaps a part of it in a transaction that is aborted.
func (s *sim) produce() {
	waits := s.taking == "truncated" && len(s.taken) == 0 && s.fed > 5 && time.Since(s.moved) < simStuck // until there is something that was read
	if s.fed == len(s.feed()) || waits {
		return
	}
	topics := []string{"events"}
	if s.second == "pipeline" {
		topics = append(topics, "others")
	}
	for _, topic := range topics {
		parts := s.partitions(topic)
		p := parts[s.lane(s.fed)%len(parts)]
		m := s.feed()[s.fed].Message
		if !s.producer {
			s.part(p).append(simEntry{Message: m, feed: s.fed})
			continue
		}
		if s.chance(3) {
			s.done["aborted input"]++
			t := s.simBroker.begin("producer", simTimeout)
			s.write(t, p, m, s.fed)
			s.finish(t, false)
		}
		t := s.simBroker.begin("producer", simTimeout)
		s.write(t, p, m, s.fed)
		s.finish(t, true)
	}
	s.fed++
	s.idle, s.moved = 0, time.Now() // there is something to do again
}

// heartbeats lets the groups go on, and members hear of it in their own time.
func (s *sim) heartbeats() {
	for _, pipe := range s.pipes {
		for _, group := range []string{pipe.group, pipe.group + ".learn"} {
			g := s.groups[group]
			if g == nil {
				continue
			}
			g.tick(s.simBroker)
			for _, p := range s.live() {
				if p.group != nil && p.group.group == group && p.frozen == 0 && s.chance(3) {
					p.group.heartbeat(g, len(s.topics[pipe.topic].parts))
				}
			}
		}
	}
}

// disturb lets the world be as it is.
func (s *sim) disturb() {
	if len(s.late) > 0 && s.chance(6) {
		s.done["offsets late"]++
		s.simBroker.complete(!s.byID)
	}
	own := source.Partition{Topic: []string{"snapshots", "checkpoints"}[s.random.IntN(2)]}
	if s.fleet != nil {
		own.ID = int32(s.random.IntN(s.inputs))
	}
	if s.states && s.chance(2) {
		own = source.Partition{Topic: s.pipes[0].states(), ID: int32(s.random.IntN(s.inputs))}
	}
	if s.foreign && s.chance(100) && len(s.hung) == 0 {
		limit := simTimeout
		if s.hanging && s.chance(2) {
			limit = 0
		}
		t := s.simBroker.begin("foreign", limit)
		s.write(t, own, sink.Message{Topic: own.Topic, Key: []byte("foreign/0/0"), Value: []byte("of another program")}, -1)
		if limit == 0 {
			s.happens("hanging transaction", "on %v", own)
			s.hung = append(s.hung, simHung{t, time.Now().Add(3 * simTimeout)})
		} else {
			s.happens("foreign transaction", "on %v", own)
		}
	}
	for len(s.hung) > 0 && time.Now().After(s.hung[0].until) { // the operator ends it
		s.fence("foreign")
		s.hung = s.hung[1:]
	}
	if s.compaction && s.chance(30) {
		s.happens("compaction", "of %v", own)
		s.part(own).compact(s.compactionLag(own))
	}
	if s.elections && s.chance(60) {
		s.happens("election", "")
		for _, part := range s.topics["events"].parts {
			part.epoch++
		}
	}
	if s.grows && !s.grown && s.fed > 3 && s.chance(40) {
		s.grown = true
		s.happens("partition added", "")
		topic := s.topics["events"]
		topic.parts = append(topic.parts, &simPart{})
	}
	if s.commands && s.chance(20) {
		s.command()
	}
	if s.lags && s.chance(8) {
		s.lag()
	}
	if s.retention && s.chance(40) {
		s.delete(s.readByAll)
	}
	if expired := "learner's offsets expired"; s.fleet != nil && s.fleet.forgets && s.fed > 4 && s.done[expired] < 4 && s.chance(30) { // models by key go on at their start markers
		s.happens(expired, "")
		clear(s.offsets["g.learn"])
		s.down("events")
	}
	if s.taking != "" && len(s.taken) == 0 && s.fed > 4 && s.fed < simMessages && s.chance(10) {
		s.take()
	}
}

// lag lets one process that transforms hear nothing new from the snapshot topic for a while, as when its
// connection to the leader of that topic is slow. The others go on with newer models.
func (s *sim) lag() {
	procs := slices.DeleteFunc(s.live(), func(p *proc) bool { return kind(p.work) != "transform" })
	if len(procs) == 0 || slices.ContainsFunc(procs, func(p *proc) bool { return time.Now().Before(p.deaf) }) {
		return
	}
	p := procs[s.random.IntN(len(procs))]
	p.deaf = time.Now().Add(time.Duration(5+s.random.IntN(55)) * time.Second)
	s.happens("models late", "%s", p.name)
}

// simHung is a transaction that hangs until an operator ends it.
type simHung struct {
	txn   *simTxn
	until time.Time
}

// readByAll is the offset before which every pipeline has read a partition.
func (s *sim) readByAll(p source.Partition) int64 {
	from := s.part(p).end()
	for _, pipe := range s.pipes {
		for _, group := range []string{pipe.group, pipe.group + ".learn"} {
			if pipe.topic == p.Topic {
				at := s.offsets[group][p]
				if at.txn != nil && !at.txn.committed { // the broker shows it, and it may yet be aborted
					at.next = 0
				}
				from = min(from, max(at.next, s.part(p).start))
			}
		}
	}
	return from
}

// delete moves the start of the input.
func (s *sim) delete(upTo func(source.Partition) int64) {
	for _, p := range s.partitions("events") {
		if to := upTo(p); to > s.part(p).start {
			s.happens("retention", "%v from %d", p, to)
			s.part(p).start = to
		}
	}
}

// take takes records or offsets away that a process still needs.
func (s *sim) take() {
	p := source.Partition{Topic: "events"}
	part := s.part(p)
	switch s.taking {
	case "retention":
		s.takes("retention of unread records", "")
		part.start = max(part.start, part.end()-int64(s.random.IntN(2)))
	case "recreated":
		s.takes("topic recreated", "")
		for _, pipe := range s.pipes { // it must notice, if it has begun
			if pipe.topic == p.Topic && len(s.offsets[pipe.group]) > 0 {
				pipe.bereft = "another topic of the same name"
			}
		}
		s.create(p.Topic, len(s.topics[p.Topic].parts))
		s.down(p.Topic)
	case "expired":
		group := []string{"g", "h"}[s.random.IntN(len(s.pipes))]
		s.takes("offsets expired", "of %s", group)
		clear(s.offsets[group])
		s.down(p.Topic)
	case "newer":
		s.upgrade(s.pipes[0])
	case "truncated":
		if read := max(s.offsets["g"][p].next, s.offsets["g.learn"][p].next); read > 0 && part.stable() == part.end() {
			to := max(read-1-s.random.Int64N(2), 0)
			s.takes("log truncated", "%v to %d", p, to)
			part.truncate(to)
			for range s.random.IntN(4) { // the producers go on
				s.produce()
			}
		}
	}
}

// upgrade is a newer binary that had its turn as the learner of the first pipeline: its last checkpoint has a
// format that this one does not know. The process that had the work is fenced, so that another one has to read it.
func (s *sim) upgrade(pipe *simPipe) {
	log := s.part(source.Partition{Topic: "checkpoints"}).log
	for i := len(log) - 1; i >= 0; i-- {
		e := &log[i]
		if e.visible() && e.txn != nil && e.txn.id == pipe.owner() && bytes.HasPrefix(e.Value, []byte(checkpoint.CheckpointMagic)) {
			s.takes("checkpoint of a newer binary", "%s", e.Key)
			e.Value, e.Headers = slices.Clone(e.Value), slices.Clone(e.Headers)
			e.Value[len(checkpoint.CheckpointMagic)] = checkpoint.NewestFormat + 1
			for k := range e.Headers {
				if e.Headers[k].Key == "lca-crc32c" {
					e.Headers[k].Value = []byte(checkpoint.ChecksumText(e.Value))
				}
			}
			pipe.bereft = "a checkpoint that a newer binary has written"
			s.fence(pipe.owner())
			return
		}
	}
}

// down ends the processes of a topic's pipelines, half of the time: what was taken may have been taken while
// no process looked.
func (s *sim) down(topic string) {
	if s.chance(2) {
		return
	}
	for _, pipe := range s.pipes {
		for _, p := range s.live() {
			if pipe.topic == topic && strings.HasPrefix(p.work, pipe.name+"/") {
				s.happens("kill", "%s", p.name)
				s.kill(p)
			}
		}
	}
}

// excused reports whether a process may have stopped for what the world has done.
func (s *sim) excused(p *proc, err error) bool {
	var stop *reject.Stop
	var offset *source.OffsetError
	var truncated *source.TruncatedError
	var recreated *source.RecreatedError
	if !errors.As(err, &stop) && !errors.As(err, &offset) && !errors.As(err, &truncated) && !errors.As(err, &recreated) {
		return false
	}
	if len(s.taken) == 0 && s.second != "pipeline" && s.second != "group" {
		return false
	}
	for _, pipe := range s.pipes {
		if pipe.name == p.work[:1] {
			pipe.stopped = append(pipe.stopped, err.Error())
		}
	}
	return true
}

// readOn reports whether the group of a transform has read what retention has deleted: a successor did, which may have
// been killed since.
func (s *sim) readOn(p *proc, gap *source.OffsetError) bool {
	return kind(p.work) == "transform" && slices.ContainsFunc(s.pipes, func(pipe *simPipe) bool {
		return pipe.name == p.work[:1] && s.offsets[pipe.group][gap.Partition].next >= gap.Start
	})
}

// simStuck is longer than anything that a process waits for, transactions that hang included.
const simStuck = 4 * simTimeout

// complete asks the transforms of a pipeline to end when there is nothing left for them to do.
func (s *sim) complete() {
	if s.fed < len(s.feed()) {
		return
	}
	frozen := slices.ContainsFunc(s.live(), func(p *proc) bool { return p.frozen > 0 })
	for _, pipe := range s.pipes {
		stuck := (s.latest || len(s.taken)+len(pipe.stopped) > 0) && time.Since(s.moved) >= simStuck && !frozen // what is left to do is not there, or was the work of a process that has stopped
		blind := pipe.bereft != "" && len(pipe.stopped) == 0                                                    // it is given the time to notice
		if !stuck && (blind || !s.drained(pipe)) {
			continue
		}
		for _, p := range s.live() {
			if p.work[:1] == pipe.name && (kind(p.work) == "transform" || s.fleet != nil) {
				p.frozen = 0
				p.cancel()
			}
		}
	}
}

// drained reports whether the committed offsets of a pipeline's group say that all is done.
func (s *sim) drained(pipe *simPipe) bool {
	return s.drainedBy(pipe, pipe.group) && (s.fleet == nil || s.drainedBy(pipe, pipe.group+".learn"))
}

func (s *sim) drainedBy(pipe *simPipe, group string) bool {
	for _, p := range s.partitions(pipe.topic) {
		at := simOffset{next: pipe.begun[p], epoch: -1}
		if o, ok := s.offsets[group][p]; ok {
			at = o
		}
		truncated := s.part(p).endOf(at.epoch) < at.next && s.mistake != "truncation unnoticed"
		if truncated || !s.part(p).drained(at.next) || at.txn != nil && !at.txn.committed { // the broker shows it, and it may yet be aborted
			return false
		}
	}
	return true
}
