//go:build unix

package e2e_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// What is accepted while the learner is behind is learnt when it has read it: it has held none of it when it hears of it.
func TestAcceptedBeforeItWasRead(t *testing.T) {
	t.Parallel()
	const usual, other = 3000, 1000
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "acceptedlate", settings{partitions: 1, features: "[a, b, c]", budget: "1/20000 rows"})
	m := &rebuilt{random: rand.New(rand.NewPCG(45, 3)), from: time.Now().Add(-48 * time.Hour).Truncate(time.Second)}
	m.produce(s, usual, false)
	learner, transform := s.program("learn"), s.program("transform")
	s.await(s.name+".learn", usual, learner)
	s.await(s.name, usual, transform)
	learner.Kill()
	m.produce(s, other, true)
	s.await(s.name, m.rows, transform)
	told := m.told(s, usual)
	if len(told) != 1 || told[0].Type == "episode_closed" {
		t.Fatalf("the other machine is %d episodes", len(told))
	}
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
