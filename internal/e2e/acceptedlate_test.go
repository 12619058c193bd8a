//go:build unix

package e2e_test

import (
	"testing"
	"time"
)

// What is accepted while the learner is behind is learnt when it has read it: it has held none of it when it hears of it.
func TestAcceptedBeforeItWasRead(t *testing.T) {
	t.Parallel()
	const usual, other = 3000, 1000
	s, m, learner, transform := startRebuilt(t, "acceptedlate", usual, "")
	learner.Kill()
	m.produce(s, other, true)
	s.await(s.name, m.rows, transform)
	told := m.open(s, usual)
	s.command("episodes", "accept", told[0].ID, "--by", "anna")
	learner.start()
	f := s.awaitFacts(1, learner)[0]
	if f.Rows < other/2 || f.At[0] < usual+other {
		t.Errorf("%+v: %d rows at %v", f, f.Rows, f.At)
	}
	for deadline := time.Now().Add(2 * time.Minute); told[0].Type != "episode_closed"; told = m.told(s, usual) {
		if time.Now().After(deadline) {
			t.Fatal("the episode does not close")
		}
		m.produce(s, 100, true)
		s.await(s.name, m.rows, learner, transform)
	}
	m.produce(s, 1000, true)
	s.await(s.name, m.rows, learner, transform)
	s.await(s.name+".learn", m.rows, learner, transform)
	learner.stop()
	transform.stop()
	told = m.told(s, usual)
	if reason := told[0].Reason; reason == nil || *reason != "accepted" {
		t.Errorf("closed as %v", reason)
	}
	s.check(int(m.rows), 3)
}
