package learn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// sim runs processes, several at a time, against one broker. Whatever a process asks of the outside
// waits until the scheduler lets it go; the scheduler is a seed. Between two of its decisions only
// what was let go runs, to its next question, so a seed is one execution, and a second run of it the
// same one. Time is that of a synctest bubble: it passes only when everything waits.
type sim struct {
	*simBroker
	simWorld
	random  *rand.Rand
	pipes   []*simPipe
	fed     int            // messages of the input that have been produced
	faults  int            // that are left to happen
	done    map[string]int // what happened, by kind
	trace   []string
	broken  []string // promises
	mistake string   // that is made on purpose
	grown   bool     // a partition was added
	hung    []simHung
	idle    time.Duration // how long no process could go on
	moved   time.Time     // when a process last went on
	passed  time.Duration // simulated, in all
	taken   []string      // what the world took away before it was read, for which a process may stop
	fleet   *simFleet     // there is a model for each key; nil: one for all rows

	attempts map[string]int
	bodies   map[string]func(*proc) error
	works    []string
	later    []string // of those that were not started yet
	finished map[string]bool

	mu      sync.Mutex
	waiting map[string]*question
	procs   map[string]*proc
}

// question is a thread of a process that waits for the outside.
type question struct {
	p      *proc
	what   string
	can    func() bool // nil: always
	effect func()
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
	name   string // "a/learn #2", "a/transform/1 #3": the work, and which attempt at it
	work   string
	newer  func() bool // another process has begun with the same work
	ctx    context.Context
	cancel context.CancelFunc
	group  *simMembers // nil: it is in none
	dead   bool        // it is asked and told nothing any more
	killed bool        // by the scheduler
	frozen int         // decisions until it wakes up
	deaf   time.Time   // until when it hears of no new model
	ended  bool
	err    error
}

var errDead = &reject.Stop{Err: errors.New("killed")}

// ask waits until the world can answer and the scheduler lets it, which then does or does not carry
// effect out. An effect runs while everything else waits.
func (p *proc) ask(ctx context.Context, thread, what string, can func() bool, effect func()) error {
	q := &question{p: p, what: what, can: can, effect: effect, answer: make(chan answer, 1)}
	name := p.name + thread
	p.sim.mu.Lock()
	if p.dead {
		p.sim.mu.Unlock()
		return errDead
	}
	if p.sim.waiting[name] != nil {
		panic("two questions of one thread: " + name)
	}
	p.sim.waiting[name] = q
	p.sim.mu.Unlock()
	select {
	case a := <-q.answer:
		switch a {
		case carriedOut:
			return nil
		case neverHeard:
			return errDead
		}
		return fixtures.ErrCrash
	case <-ctx.Done():
		p.sim.mu.Lock()
		defer p.sim.mu.Unlock()
		if p.sim.waiting[name] == q {
			delete(p.sim.waiting, name)
		}
		if p.dead {
			return errDead
		}
		return ctx.Err()
	}
}

// begin starts a process for a piece of work.
func (s *sim) begin(work string) {
	s.attempts[work]++
	attempt := s.attempts[work]
	p := &proc{sim: s, name: fmt.Sprintf("%s #%d", work, attempt), work: work}
	p.newer = func() bool { return s.attempts[work] > attempt }
	p.ctx, p.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	s.procs[p.name] = p
	s.mu.Unlock()
	go func() {
		err := s.bodies[work](p)
		s.mu.Lock()
		defer s.mu.Unlock()
		p.ended, p.err = true, err
	}()
	synctest.Wait()
}

// kill ends a process where it stands: nothing that it asks for from now on happens.
func (s *sim) kill(p *proc) {
	s.mu.Lock()
	p.dead, p.killed = true, true
	var mine []string
	for name, q := range s.waiting {
		if q.p == p {
			mine = append(mine, name)
		}
	}
	slices.Sort(mine)
	var asked []*question
	for _, name := range mine {
		asked = append(asked, s.waiting[name])
		delete(s.waiting, name)
	}
	s.mu.Unlock()
	for _, q := range asked {
		q.answer <- neverHeard // not all of them listen to the context
	}
	p.cancel()
	synctest.Wait()
}

// ready are the questions that may be answered now, in an order that does not depend on maps.
func (s *sim) ready() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, q := range s.waiting {
		if q.p.frozen == 0 && (q.can == nil || q.can()) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *sim) answer(name string, a answer) {
	s.mu.Lock()
	q := s.waiting[name]
	delete(s.waiting, name)
	s.mu.Unlock()
	s.note("%s: %s → %s", name, q.what, [...]string{"done", "failed", "done, but the answer was lost"}[a])
	if a != failedBefore {
		q.effect()
	}
	q.answer <- a
	synctest.Wait()
}

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%v ", time.Since(simEpoch))+fmt.Sprintf(format, args...))
}

func (s *sim) fault(format string, args ...any) {
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
}

// simEpoch is when time begins in a bubble.
var simEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *sim) live() (procs []*proc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.procs)) {
		procs = append(procs, s.procs[name])
	}
	return procs
}

func (s *sim) retire(p *proc) {
	p.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.procs, p.name)
}

func (s *sim) anyFor(work string) bool {
	return slices.ContainsFunc(s.live(), func(p *proc) bool { return p.work == work })
}

// chance is true once in n times.
func (s *sim) chance(n int) bool { return s.random.IntN(n) == 0 }

// happens counts what happened, so that a simulation in which something never does is noticed.
func (s *sim) happens(what, format string, args ...any) {
	s.done[what]++
	s.note(what+" "+format, args...)
}

// takes notes that the world has taken away what a process has not read: that process may stop for it.
func (s *sim) takes(what, format string, args ...any) {
	s.taken = append(s.taken, what)
	s.happens(what, format, args...)
}

// kind is the first part of a work's name after the pipeline's: learn or transform.
func kind(work string) string { return strings.Split(work, "/")[1] }

// whereFrom is a position as the log has it: with the epoch of the record before.
func (s *sim) epochBefore(p source.Partition, offset int64) int32 {
	if part := s.part(p); offset > 0 && offset <= part.end() {
		return part.log[offset-1].epoch
	}
	return -1
}
