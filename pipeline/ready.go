package pipeline

// Readiness says whether the process does its work, and if not, what it waits for.
type Readiness struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why not; or, of a process that is ready and has nothing to do, why that
}

// SetReady notes whether the work goes on, and why not.
func (s *Stats) SetReady(r Readiness) { s.ready.Store(&r) }

// SetPassedOver notes that the newest model on the snapshot topic is not used, and why; "" that it is.
func (s *Stats) SetPassedOver(why string) { s.passedOver.Store(&why) }

// SetBroker notes whether any broker answers, and if not, what came instead. It overrules what the work
// says of itself: that cannot tell a broker that is away from one that is slow.
func (s *Stats) SetBroker(r Readiness) { s.broker.Store(&r) }

// SetHold says that nothing is read before the first model on that topic, so the process is not ready before it.
func (s *Stats) SetHold(topic string) { s.hold.Store(&topic) }

// Ready returns what was noted last; a process that has said nothing is not ready.
func (s *Stats) Ready() Readiness {
	if b := s.broker.Load(); b != nil && !b.Ready {
		return *b
	}
	r := Readiness{Reason: "starting"}
	if said := s.ready.Load(); said != nil {
		r = *said
	}
	if topic := s.hold.Load(); topic != nil && s.currentModel.Load() == nil {
		r = Readiness{Reason: "no model yet on topic " + *topic}
	}
	if why := s.passedOver.Load(); why != nil && *why != "" {
		if r.Reason != "" {
			r.Reason += "; "
		}
		r.Reason += *why
	}
	return r
}

// BrokerUp reports whether a broker answers; not known in a process that does not ask.
func (s *Stats) BrokerUp() (up, known bool) {
	b := s.broker.Load()
	return b != nil && b.Ready, b != nil
}
