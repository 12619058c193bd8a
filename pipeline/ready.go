package pipeline

// Readiness says whether the process does its work, and if not, what it waits for.
type Readiness struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why not; or, of a process that is ready and has nothing to do, why that
}

// SetReady notes whether the work goes on, and why not.
func (s *Stats) SetReady(r Readiness) { s.ready.Store(&r) }

// SetBroker notes whether any broker answers, and if not, what came instead. It overrules what the work
// says of itself: that cannot tell a broker that is away from one that is slow.
func (s *Stats) SetBroker(r Readiness) { s.broker.Store(&r) }

// Ready returns what was noted last; a process that has said nothing is not ready.
func (s *Stats) Ready() Readiness {
	if b := s.broker.Load(); b != nil && !b.Ready {
		return *b
	}
	if r := s.ready.Load(); r != nil {
		return *r
	}
	return Readiness{Reason: "starting"}
}

// BrokerUp reports whether a broker answers; not known in a process that does not ask.
func (s *Stats) BrokerUp() (up, known bool) {
	b := s.broker.Load()
	return b != nil && b.Ready, b != nil
}
