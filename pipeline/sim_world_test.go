package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// sim runs processes, several at a time, against one world. Whatever a process asks of the outside
// waits until the scheduler lets it go; the scheduler is a seed. Between two of its decisions exactly
// one process runs, to its next question, so a seed is one execution, and a second run of it the
// same one. Time is that of a synctest bubble: it passes only when everything waits.
type sim struct {
	*world
	seed    uint64
	random  *rand.Rand
	inputs  []source.Partition
	visible map[source.Partition]int // how much of the input has been produced so far
	faults  int                      // that are left to happen
	done    map[string]int           // what happened, by kind
	trace   []string
	broken  []string // promises
	mistake string   // that is made on purpose

	mu      sync.Mutex
	waiting map[string]*question
	procs   map[string]*proc
}

// question is a process that waits for the outside.
type question struct {
	p      *proc
	what   string
	answer chan answer
}

type answer int

const (
	carriedOut answer = iota
	failedBefore
	failedAfter
	neverHeard // the process is dead
)

// proc is one process: it is killed as a whole, with its background reader.
type proc struct {
	sim    *sim
	name   string // "learn 2", "transform/1 3": the work, and which attempt at it
	work   string
	ctx    context.Context
	cancel context.CancelFunc
	dead   bool // it is asked and told nothing any more
	killed bool // by the scheduler
	frozen int  // decisions until it wakes up
	ended  bool
	err    error
}

var errDead = &Stop{Err: errors.New("killed")}

// ask waits for the scheduler, and then does or does not carry effect out.
func (p *proc) ask(thread, what string, effect func()) error {
	q := &question{p: p, what: what, answer: make(chan answer)}
	p.sim.mu.Lock()
	if p.dead {
		p.sim.mu.Unlock()
		return errDead
	}
	p.sim.waiting[p.name+thread] = q
	p.sim.mu.Unlock()
	switch <-q.answer {
	case carriedOut:
		effect()
		return nil
	case failedAfter:
		effect()
		return errCrash
	case failedBefore:
		return errCrash
	}
	return errDead
}

// begin starts a process for a piece of work.
func (s *sim) begin(work string, attempt int, body func(*proc) error) {
	p := &proc{sim: s, name: fmt.Sprintf("%s #%d", work, attempt), work: work}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	s.procs[p.name] = p
	s.mu.Unlock()
	go func() {
		err := body(p)
		s.mu.Lock()
		defer s.mu.Unlock()
		p.ended, p.err = true, err
	}()
}

// kill ends a process where it stands: nothing that it asks for from now on happens.
func (s *sim) kill(p *proc) {
	s.mu.Lock()
	p.dead, p.killed = true, true
	var mine []*question
	for name, q := range s.waiting {
		if q.p == p {
			mine = append(mine, q)
			delete(s.waiting, name)
		}
	}
	s.mu.Unlock()
	p.cancel()
	for _, q := range mine {
		q.answer <- neverHeard
	}
	synctest.Wait()
}

// ready are the questions that may be answered now, in an order that does not depend on maps.
func (s *sim) ready() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.waiting)) {
		if s.waiting[name].p.frozen == 0 {
			names = append(names, name)
		}
	}
	return names
}

func (s *sim) answer(name string, a answer) {
	s.mu.Lock()
	q := s.waiting[name]
	delete(s.waiting, name)
	s.mu.Unlock()
	s.note("%s: %s → %s", name, q.what, [...]string{"done", "failed", "done, but the answer was lost", "killed"}[a])
	q.answer <- a
}

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%v ", time.Since(simEpoch))+fmt.Sprintf(format, args...))
}

func (s *sim) fault(format string, args ...any) {
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
}

// simEpoch is when time begins in a bubble.
var simEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// simSource, simSink and simLog are memory_test.go's, with a scheduler in between.
type simSource struct {
	p     *proc
	next  source.Offsets
	claim source.Claim
}

// Read waits like a consumer, and ends when everything has been produced and read.
func (m *simSource) Read(ctx context.Context) (source.Batch, error) {
	for {
		b := source.Batch{Claim: m.claim}
		b.Claim.Next = source.Offsets{}
		over := true
		err := m.p.ask("", "read", func() {
			s := m.p.sim
			most := 1 + s.random.IntN(4)
			for _, at := range sortedPartitions(m.next) {
				log := s.topics[at]
				for n := 0; n < most && m.next[at] < int64(s.visible[at]); n++ {
					b.Messages = append(b.Messages, decoded(at, m.next[at], log[m.next[at]]))
					m.next[at]++
				}
				b.Claim.Next[at] = m.next[at]
				over = over && m.next[at] == int64(len(log))
			}
		})
		switch {
		case err != nil:
			return b, err
		case len(b.Messages) > 0:
			return b, nil
		case over:
			return b, source.ErrEnd
		case !sleep(ctx, 20*time.Millisecond):
			return b, ctx.Err()
		}
	}
}

func (m *simSource) Seek(_ context.Context, to source.Offsets) error {
	return m.p.ask("", "seek", func() { m.next = to.Clone() })
}

func (m *simSource) Close() error { return nil }

type simSink struct {
	p     *proc
	id    string
	epoch int
}

func (p *proc) open(id string) (*simSink, error) {
	m := &simSink{p: p, id: id}
	for {
		err := p.ask("", "fence "+id, func() { p.sim.epoch[id]++; m.epoch = p.sim.epoch[id] })
		if !errors.Is(err, errCrash) {
			return m, err
		}
	}
}

func (m *simSink) Put(_ context.Context, msgs []sink.Message, claim source.Claim) error {
	fenced := false
	err := m.p.ask("", fmt.Sprintf("put %d messages, %v", len(msgs), claim.Next), func() {
		w := m.p.sim.world
		if fenced = w.epoch[m.id] != m.epoch && m.p.sim.mistake != "no fence"; fenced {
			return
		}
		for _, msg := range msgs {
			p := source.Partition{Topic: msg.Topic, ID: msg.Partition}
			w.topics[p] = append(w.topics[p], stored(msg))
		}
		if claim.Group != "" && (m.p.sim.mistake != "offsets lost" || m.p.sim.random.IntN(2) == 0) {
			w.committed[claim.Group] = claim.Next.Clone()
		}
	})
	if fenced {
		return sink.ErrFenced
	}
	return err
}

func (m *simSink) Close() error { return nil }

// simLog reads a topic of one partition, and waits at its end.
type simLog struct {
	p      *proc
	thread string
	topic  source.Partition
	n      int
}

func (l *simLog) Fetch(ctx context.Context) (source.Fetched, error) {
	for {
		var got source.Fetched
		err := l.p.ask(l.thread, "fetch "+l.topic.Topic, func() {
			log := l.p.sim.topics[l.topic]
			end := min(len(log), l.n+1+l.p.sim.random.IntN(8))
			got.Next = int64(end)
			for i, m := range log[l.n:end] {
				r := recordbatch.Record{Offset: int64(l.n + i), Key: m.Key, Value: m.Value}
				r.Headers = append(r.Headers, m.Headers...)
				got.Records = append(got.Records, r)
			}
			l.n = end
		})
		if err != nil || len(got.Records) > 0 {
			return got, err
		}
		if !sleep(ctx, 15*time.Millisecond) {
			return got, ctx.Err()
		}
	}
}

func (p *proc) log(thread, topic string) func(context.Context) (Log, error) {
	return func(context.Context) (Log, error) {
		return &simLog{p: p, thread: thread, topic: source.Partition{Topic: topic}}, nil
	}
}

func (p *proc) end(topic string) func(context.Context) (int64, error) {
	return func(context.Context) (n int64, err error) {
		err = p.ask("", "end of "+topic, func() { n = int64(len(p.sim.topics[source.Partition{Topic: topic}])) })
		return n, err
	}
}
