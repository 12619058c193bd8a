// Package stats counts what the loops of one process do, and says whether it is ready.
//
// Begin with [NewStats]. Loops and stages add to a [Stats]; metrics and the status page read [Stats.Tables], [Stats.Ready] and the
// [ModelTable]. Everything but the table is atomic, so that a reader never holds up a writer.
//
// What grows is bounded: counts by reason, a few hundred points of a curve, the strangest rows of five minutes, and one row for each model.
package stats

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// Stats counts what the loops of one process do. Everything in it but Models and Episodes is atomic: without a lock, a reader of the
// numbers cannot hold up a writer.
type Stats struct {
	SourceRows          atomic.Uint64 // Rows read from the source topic.
	SourceBytes         atomic.Uint64 // Bytes of record values read from the source topic.
	LeftOutValues       atomic.Uint64 // Values of the source that are in no output, because no column can hold them.
	LostTimes           atomic.Uint64 // Times of the source that are null in the output, because its format cannot write them.
	Updates             atomic.Uint64 // Stochastic updates of the learner (minibatches learnt).
	LearntRows          atomic.Uint64 // Rows handed to the learner.
	SkippedRows         atomic.Uint64 // Rows the learner skipped evenly because it was behind.
	LearnerGaps         atomic.Uint64 // Records that the learner left out because retention had deleted them before it read them.
	TransformRows       atomic.Uint64 // Rows whitened.
	ImputedRows         atomic.Uint64 // Rows whitened that lacked features, which were filled.
	SinkRecords         atomic.Uint64 // Records written and committed.
	Snapshots           atomic.Uint64 // Snapshots written and committed.
	TransactionsAborted atomic.Uint64 // Transactions that were aborted and tried again.
	ForeignMembers      atomic.Int64  // Members of source.group that are not this program.
	OpenTransactions    atomic.Int64  // Input partitions whose last stable offset is behind the end: another producer's transaction is open.

	Update      Timing // Time of one stochastic update.
	Transform   Timing // Time to whiten one batch of records.
	Transaction Timing // Time of one transaction, from its begin to its commit.
	EndToEnd    Timing // Time from a record's timestamp to the commit of what was made of it.

	Episodes Episodes // of the partitions that the process transforms.

	Models ModelTable // Models that belong to one value each; empty without keys.
	models sync.Map   // stage → *ModelCounts

	lastCheckpoint atomic.Int64 // unix nanoseconds; 0 = none
	lastCommit     atomic.Int64 // unix nanoseconds; 0 = none
	learning       atomic.Pointer[Learning]
	currentModel   atomic.Pointer[PublishedModel]
	ready          atomic.Pointer[Readiness]
	broker         atomic.Pointer[Readiness]
	registry       atomic.Pointer[Readiness]
	topics         atomic.Pointer[Readiness]
	stopping       atomic.Bool
	passedOver     atomic.Pointer[string]
	hold           atomic.Pointer[string] // topic of the first model, if nothing is read before it
	waiting        atomic.Pointer[Waiting]

	past atomic.Pointer[[]PastModel]
	lag  atomic.Pointer[map[source.Partition]int64]

	scores scoreHistogram

	strangest strangest

	waits   waits
	owned   sync.Map // stage → []source.Partition, see SetOwned
	records tally[source.Partition]
	reject  tally[string]
	dead    tally[string]
	passed  tally[string]
}

// PastModel is what is kept of a model that has whitened.
type PastModel struct {
	Version     uint64    `json:"version"`
	Published   time.Time `json:"published"`
	Eigenvalues []float64 `json:"eigenvalues"`
	Turned      []float64 `json:"turned_radians"` // principal angles of its most structured directions to the model before it, ascending
}

// pastModels bounds the number of past models that are kept.
const pastModels = 24

// Learning is the learner's figures after an update.
type Learning struct {
	Version     uint64   `json:"version"`  // rows learnt
	NLL         float64  `json:"nll"`      // running prequential NLL, nats per row
	GaussianNLL float64  `json:"gaussian"` // the same of a single Gaussian
	Effective   float64  `json:"effective_neighbours"`
	Alarms      uint64   `json:"alarms"`         // restarts of the learner
	Lockouts    uint64   `json:"lockouts"`       // restarts because most rows were refused
	Refusals    uint64   `json:"refusals"`       // alarms that many rows are refused, or that none moves, by which the learner goes on as it is
	Returns     uint64   `json:"regime_returns"` // former metrics that became current again
	Gated       uint64   `json:"gated_rows"`
	HeldSeries  int      `json:"held_series"` // that are unusual now, so that their rows are not learnt
	HeldRows    uint64   `json:"held_rows"`
	Copies      uint64   `json:"copies"`
	Constant    []string `json:"constant_features"` // names of the columns that have not moved
	PassRows    float64  `json:"pass_rows"`         // the current n of γ^(B/n)
	Curve       []Point  `json:"curve,omitempty"`
}

// Point is one point of the NLL curve, thinned to a few hundred.
type Point struct {
	Rows     uint64  `json:"rows"`
	NLL      float64 `json:"nll"`
	Gaussian float64 `json:"gaussian"`
}

// NewStats returns an empty Stats. Every reason has a count of 0 from the start, because a rate shows the first
// rejected record only if the series existed before it.
func NewStats() *Stats {
	s := &Stats{EndToEnd: Timing{least: endToEndLeast}}
	for _, reason := range reject.RowReasons {
		s.reject.add(reason, 0)
	}
	for _, code := range reject.RecordCodes {
		s.dead.add(code, 0)
	}
	for _, reason := range reject.PassedReasons {
		s.passed.add(reason, 0)
	}
	return s
}

// Timing is a running histogram in powers of two, of the zero value from 2^-20 s (1 µs) to 2^4 s (16 s).
type Timing struct {
	least   int // the first bound is 2^(least-20) s
	count   atomic.Uint64
	seconds atomic.Uint64 // bits of the sum, a float64: the ages of old records would overflow an integer
	buckets [26]atomic.Uint64
}

// endToEndLeast is for times of 1 ms, the resolution of a record's timestamp, to 4 hours, in which a backlog is read.
const endToEndLeast = 10

// Bounds are the upper bounds of the buckets, seconds; the last bucket is open.
func (t *Timing) Bounds() []float64 {
	bounds := make([]float64, len(t.buckets)-1)
	for i := range bounds {
		bounds[i] = math.Ldexp(1, t.least+i-20)
	}
	return bounds
}

// Observe counts one event.
func (t *Timing) Observe(d time.Duration) { t.ObserveAll(d, 1) }

// ObserveAll counts n events that took equally long. A record from the future took no time.
func (t *Timing) ObserveAll(d time.Duration, n uint64) {
	d = max(d, 0)
	s := d.Seconds()
	i := 0
	for limit := math.Ldexp(1, t.least-20); i < len(t.buckets)-1 && s > limit; i++ {
		limit *= 2
	}
	t.buckets[i].Add(n)
	t.count.Add(n)
	for {
		sum := t.seconds.Load()
		if t.seconds.CompareAndSwap(sum, math.Float64bits(math.Float64frombits(sum)+s*float64(n))) {
			return
		}
	}
}

// Read returns the number of observations, their sum in seconds, and the count in each bucket.
func (t *Timing) Read() (count uint64, seconds float64, buckets []uint64) {
	buckets = make([]uint64, len(t.buckets))
	for i := range t.buckets {
		buckets[i] = t.buckets[i].Load()
	}
	return t.count.Load(), math.Float64frombits(t.seconds.Load()), buckets
}

// Read counts a batch, and returns the offsets from which to count the next one: after an abort, messages are read
// again.
func (s *Stats) Read(b *source.Batch, from source.Offsets) source.Offsets {
	if from == nil {
		from = make(source.Offsets)
	}
	next := int64(0)
	for i := range b.Messages {
		m := &b.Messages[i]
		if i == 0 || m.Partition != b.Messages[i-1].Partition {
			next = from[m.Partition]
		}
		if m.Offset < next {
			continue
		}
		next = m.Offset + 1
		if i+1 == len(b.Messages) || m.Partition != b.Messages[i+1].Partition {
			from[m.Partition] = next
		}
		s.records.add(m.Partition, 1)
		s.SourceBytes.Add(uint64(len(m.Value)))
		if m.Record != nil {
			s.SourceRows.Add(uint64(m.Record.NumRows()))
		}
	}
	return from
}

// Pass counts records that were not whitened for a reason, without a look at their rows.
func (s *Stats) Pass(reason string, n uint64) { s.passed.add(reason, n) }

// Reject counts rows that are neither whitened nor learnt, for a reason.
func (s *Stats) Reject(reason string, n uint64) { s.reject.add(reason, n) }

// SetAside counts records that went to the dead-letter topic, for a reason.
func (s *Stats) SetAside(reason string, n uint64) { s.dead.add(reason, n) }

// AddScores adds the scores of a batch that is kept.
func (s *Stats) AddScores(c *ScoreCounts) { s.scores.keep(c) }

// AddStrange adds the strangest rows of a batch that is kept.
func (s *Stats) AddStrange(now time.Time, rows StrangeRows) { s.strangest.add(now, rows) }

// StrangeAt returns the strangest rows of the present minute.
func (s *Stats) StrangeAt(now time.Time) StrangeRows { return s.strangest.at(now) }

// SetCheckpoint stores when the last checkpoint was committed.
func (s *Stats) SetCheckpoint(at time.Time) { s.lastCheckpoint.Store(at.UnixNano()) }

// SetLearning stores the learner's latest figures.
func (s *Stats) SetLearning(l *Learning) { s.learning.Store(l) }

// SetLag stores how far the reader is behind the end of each partition (read_uncommitted), and how many of the
// partitions an open transaction holds up. The map belongs to Stats from now on.
func (s *Stats) SetLag(lag map[source.Partition]int64, open int64) {
	s.lag.Store(&lag)
	s.OpenTransactions.Store(open)
}

// SetWaiting stores what the learner's first model waits for; nil: there is one.
func (s *Stats) SetWaiting(w *Waiting) { s.waiting.Store(w) }

// Waiting returns what the learner's first model waits for, nil if there is one or no learner runs.
func (s *Stats) Waiting() *Waiting { return s.waiting.Load() }

// Learning returns the learner's latest figures, or nil if no learner runs.
func (s *Stats) Learning() *Learning { return s.learning.Load() }

// SetCurrentModel is called only by Follow, so that calls come one after the other.
func (s *Stats) SetCurrentModel(m *PublishedModel, angles []float64) {
	s.currentModel.Store(m)
	past := append(s.ModelHistory(), PastModel{Version: m.Version, Published: m.Time, Eigenvalues: m.Model.Ratio, Turned: angles})
	past = past[max(0, len(past)-pastModels):]
	s.past.Store(&past)
}

// ModelHistory returns the models that have whitened, oldest first, the current one last.
func (s *Stats) ModelHistory() []PastModel {
	if past := s.past.Load(); past != nil {
		return slices.Clone(*past)
	}
	return nil
}

// CurrentModel returns the model that whitens now, or nil before the first.
func (s *Stats) CurrentModel() *PublishedModel { return s.currentModel.Load() }

// CheckpointAge returns the time since the last checkpoint; false before the first.
func (s *Stats) CheckpointAge() (time.Duration, bool) {
	at := s.lastCheckpoint.Load()
	return time.Duration(time.Now().UnixNano() - at), at != 0
}

// Tables are the counters that have labels.
type Tables struct {
	Records     map[source.Partition]uint64 // Records read, by partition.
	Lag         map[source.Partition]int64  // Records that are not committed, up to the end of the partition (read_uncommitted).
	Rejected    map[string]uint64           // Rows that could not be whitened or learnt, by reason.
	DeadLetters map[string]uint64           // Records set aside, by reason.
	Passed      map[string]uint64           // Records that were not whitened and are no fault, by reason.
}

// Tables returns a copy of all counters with labels.
func (s *Stats) Tables() Tables {
	t := Tables{Records: s.records.read(), Lag: map[source.Partition]int64{}, Rejected: s.reject.read(), DeadLetters: s.dead.read(), Passed: s.passed.read()}
	if lag := s.lag.Load(); lag != nil {
		t.Lag = maps.Clone(*lag)
	}
	return t
}

// tally counts by label, without locks.
type tally[K comparable] struct {
	counts sync.Map // K → *atomic.Uint64
}

func (t *tally[K]) add(label K, n uint64) {
	count, ok := t.counts.Load(label)
	if !ok {
		count, _ = t.counts.LoadOrStore(label, new(atomic.Uint64))
	}
	count.(*atomic.Uint64).Add(n)
}

func (t *tally[K]) read() map[K]uint64 {
	all := map[K]uint64{}
	t.counts.Range(func(label, count any) bool {
		all[label.(K)] = count.(*atomic.Uint64).Load()
		return true
	})
	return all
}

// StagePartition names what a loop works on, for metrics.
type StagePartition struct {
	Stage     string // learn or transform
	Partition source.Partition
}

// waits knows since when each partition has had records whose offsets are not committed. A partition whose records
// are all committed does not wait, however long ago its last commit was. One that is lost in an outage goes on waiting:
// until the group has given it to another process, this one answers for it.
type waits struct {
	parts sync.Map // StagePartition → *wait
}

// wait is that of one partition.
type wait struct {
	since atomic.Int64 // unix nanoseconds; 0: it does not wait
	held  atomic.Bool  // a record was read, and is neither committed nor given back
	next  atomic.Int64 // what is committed, or where it was resumed; noNext: not known
}

const noNext = -1

func (w *waits) of(p StagePartition) *wait {
	one, ok := w.parts.Load(p)
	if !ok {
		fresh := new(wait)
		fresh.next.Store(noNext)
		one, _ = w.parts.LoadOrStore(p, fresh)
	}
	return one.(*wait)
}

// begin notes that there is a record to be committed. The wait begins with the first one.
func (w *wait) begin() { w.since.CompareAndSwap(0, time.Now().UnixNano()) }

// Taken notes the partitions of a batch that a stage has read.
func (s *Stats) Taken(stage string, b *source.Batch) {
	for i := range b.Messages {
		if p := b.Messages[i].Partition; i == 0 || p != b.Messages[i-1].Partition {
			one := s.waits.of(StagePartition{stage, p})
			one.held.Store(true)
			one.begin()
		}
	}
}

// Resumed notes that a stage reads partitions from their committed offsets. What was read before is read again, unless it
// was committed after all: then SetBehind finds nothing to read, and the wait is over.
func (s *Stats) Resumed(stage string, at source.Offsets) {
	for p, next := range at {
		one := s.waits.of(StagePartition{stage, p})
		one.held.Store(false)
		one.next.Store(next)
	}
}

// Committed notes a put of a stage, and when it was: everything read so far is committed. Records behind it begin to wait when they are read, or
// seen to exist.
func (s *Stats) Committed(stage string, c source.Claim) {
	s.lastCommit.Store(time.Now().UnixNano())
	for p, next := range c.Next {
		one := s.waits.of(StagePartition{stage, p})
		one.held.Store(false)
		one.next.Store(next)
		one.since.Store(0)
	}
}

// LastCommit returns when this process committed last; false before the first time.
func (s *Stats) LastCommit() (time.Time, bool) {
	at := s.lastCommit.Load()
	return time.Unix(0, at), at != 0
}

// SetBehind stores how many records each partition of a stage has that were not read yet: they wait too while a
// broker does not return them. Partitions that are not in the map have no reader that knows, and stay as they were.
func (s *Stats) SetBehind(stage string, behind map[source.Partition]int64) {
	for p, n := range behind {
		one := s.waits.of(StagePartition{stage, p})
		if n > 0 || one.held.Load() {
			one.begin()
		} else {
			one.since.Store(0)
		}
	}
}

// Uncommitted returns where a stage is committed in the partitions of which it has read more than that.
func (s *Stats) Uncommitted(stage string) source.Offsets {
	at := source.Offsets{}
	s.waits.parts.Range(func(key, value any) bool {
		p, one := key.(StagePartition), value.(*wait)
		if next := one.next.Load(); p.Stage == stage && next != noNext && one.held.Load() {
			at[p.Partition] = next
		}
		return true
	})
	return at
}

// SetOwned stores which partitions a stage has by the latest word of its group. The others belong to other processes
// by now.
func (s *Stats) SetOwned(stage string, owned []source.Partition) {
	s.owned.Store(stage, owned)
	if stage == "transform" {
		s.Episodes.keep(owned)
	}
	s.waits.parts.Range(func(key, _ any) bool {
		if p := key.(StagePartition); p.Stage == stage && !slices.Contains(owned, p.Partition) {
			s.waits.parts.Delete(p)
		}
		return true
	})
}

// Owned returns the partitions that SetOwned has stored.
func (s *Stats) Owned(stage string) []source.Partition {
	owned, _ := s.owned.Load(stage)
	parts, _ := owned.([]source.Partition)
	return parts
}

// SinceCommit returns how long the records of each partition have waited for a commit; 0 if none wait.
func (s *Stats) SinceCommit() map[StagePartition]time.Duration {
	all := map[StagePartition]time.Duration{}
	now := time.Now()
	s.waits.parts.Range(func(key, one any) bool {
		all[key.(StagePartition)] = 0
		if at := one.(*wait).since.Load(); at != 0 {
			all[key.(StagePartition)] = now.Sub(time.Unix(0, at))
		}
		return true
	})
	return all
}

// Readiness says whether the process does its work, and if not, what it waits for.
type Readiness struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why it is not ready; or why a ready process has nothing to do

	// Waiting is true where nothing is wrong, and the first model is not there yet.
	Waiting bool `json:"-"`
}

// SetReady stores whether the work goes on, and if not, why.
func (s *Stats) SetReady(r Readiness) { s.ready.Store(&r) }

// SetPassedOver stores why the newest model on the snapshot topic is not used; "" means that it is.
func (s *Stats) SetPassedOver(why string) { s.passedOver.Store(&why) }

// SetBroker stores whether any broker answers, and if not, the error. It overrides what the work reports, which
// cannot tell a broker that is away from a slow one.
func (s *Stats) SetBroker(r Readiness) { s.broker.Store(&r) }

// SetRegistry stores whether the schema registry has answered what it was last asked, and if not, the error. Values whose
// schema is not known wait for it.
func (s *Stats) SetRegistry(r Readiness) { s.registry.Store(&r) }

// SetTopics stores whether the topics are there, and if not, which is missing.
func (s *Stats) SetTopics(r Readiness) { s.topics.Store(&r) }

// SetHold notes that nothing is read before the first model on that topic, so that the process is not ready before
// it.
func (s *Stats) SetHold(topic string) { s.hold.Store(&topic) }

// SetStopping notes that the process finishes what is in progress, and ends.
func (s *Stats) SetStopping() { s.stopping.Store(true) }

// Ready returns what was stored last; before that the process is not ready.
func (s *Stats) Ready() Readiness {
	if s.stopping.Load() {
		return Readiness{Reason: "it is stopping"}
	}
	if b := s.broker.Load(); b != nil && !b.Ready {
		return *b
	}
	if t := s.topics.Load(); t != nil && !t.Ready {
		return *t
	}
	if r := s.registry.Load(); r != nil && !r.Ready {
		return *r
	}
	if waited := s.longestWait("transform"); waited >= stuckAfter && s.currentModel.Load() != nil {
		return Readiness{Reason: fmt.Sprintf("no transaction has been committed for %v, though records wait: see the log", waited.Round(time.Second))}
	}
	r := Readiness{Reason: "starting"}
	if said := s.ready.Load(); said != nil {
		r = *said
	}
	if s.currentModel.Load() == nil {
		r = s.withoutModel(r)
	}
	if why := s.passedOver.Load(); why != nil && *why != "" {
		if r.Reason != "" {
			r.Reason += "; "
		}
		r.Waiting = false
		r.Reason += *why
	}
	return r
}

// stuckAfter is how long records may wait for a commit in a process that is ready: longer than a transaction may last by default, and much longer
// than one takes. Brokers may answer all the while, such as where a coordinator or a leader hangs, a disk is full, or a quota is used up.
const stuckAfter = time.Minute

// longestWait returns how long records of a stage have waited for a commit.
func (s *Stats) longestWait(stage string) (longest time.Duration) {
	for p, waited := range s.SinceCommit() {
		if p.Stage == stage {
			longest = max(longest, waited)
		}
	}
	return longest
}

// withoutModel returns the readiness before the first model. What a learner of this process waits for is the reason.
func (s *Stats) withoutModel(r Readiness) Readiness {
	topic, waiting := s.hold.Load(), s.waiting.Load()
	if topic != nil {
		r = Readiness{Reason: "no model yet on topic " + *topic, Waiting: true}
	}
	if waiting != nil && (r.Ready || topic != nil) {
		r.Reason = waiting.String()
	}
	return r
}

// BrokerUp reports whether a broker answers. known is false in a process that does not check.
func (s *Stats) BrokerUp() (up, known bool) {
	b := s.broker.Load()
	return b != nil && b.Ready, b != nil
}

// RegistryUp reports whether the schema registry has answered what it was last asked. known is false in a process that
// has not asked it.
func (s *Stats) RegistryUp() (up, known bool) {
	r := s.registry.Load()
	return r != nil && r.Ready, r != nil
}

// Waiting says why a learner has published no model yet.
type Waiting struct {
	Rows   int         `json:"rows"`   // Rows collected for the first model.
	Wanted int         `json:"wanted"` // Rows that the first model takes; 0 while that is not known, because no usable row has come.
	Reason string      `json:"reason"` // What it waits for, if not only for rows.
	Kind   WaitingKind `json:"-"`
}

// String returns it as a sentence.
func (w *Waiting) String() string {
	switch {
	case w.Wanted == 0:
		return "no model yet: " + w.Reason
	case w.Reason == "":
		return fmt.Sprintf("no model yet: %d of %d rows collected", w.Rows, w.Wanted)
	}
	return fmt.Sprintf("no model yet: %d of %d rows collected; %s", w.Rows, w.Wanted, w.Reason)
}

// WaitingKind is a Reason without its numbers.
type WaitingKind int

// What a learner may wait for, in the order in which it does; WaitingKinds is their number.
const (
	WaitsForHistory WaitingKind = iota
	WaitsForMessages
	WaitsForUsableMessages
	WaitsForValidRows
	WaitsForRows
	WaitsForIndependentRows
	WaitsForVariation
	WaitingKinds
)
