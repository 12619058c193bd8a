package pipeline

import (
	"fmt"
	"time"
)

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
