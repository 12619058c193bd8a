//go:build unix

package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// sessionTimeout is how long a group waits for a member that was killed and does not come back.
const sessionTimeout = 10 * time.Second

// A process of the default configuration that is killed and started again on its host goes on at once: it
// has a name that no configuration gave it. Two of them share the partitions. One that stops in order leaves at once.
func TestRecoveryInPlace(t *testing.T) {
	t.Parallel()
	kills := 7
	if testing.Short() {
		kills = 3
	}
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "place", settings{partitions: 4, features: sensorColumns})
	_, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 30, PerMessage: perMessage, Rate: 1000})
	defer stop()
	run := s.program("run")
	var took []time.Duration
	for tries := 0; len(took) < kills && tries < 4*kills; tries++ {
		s.await(s.name, s.committedSoFar(s.name)+400/perMessage, run)
		run.Kill()
		began, before := time.Now(), s.committedSoFar(s.name)
		run.start()
		for s.committedSoFar(s.name) <= before {
			run.alive()
			if members := s.Members(t, s.name); len(members) > 1 {
				t.Fatalf("the group has the members %v: it waits for the one that is dead", members)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if after := time.Since(began); after < sessionTimeout { // otherwise the group may have been rid of it before there was another
			took = append(took, after)
		}
	}
	slices.Sort(took)
	t.Logf("from kill -9 to the first commit: %v", took)
	if len(took) == 0 {
		t.Error("no process was back before the group gave the dead one up: nothing is tested")
	}

	second := s.program("transform")
	s.awaitMembers(2, 30*time.Second)
	s.await(s.name, s.committedSoFar(s.name)+400/perMessage, run, second)
	second.stop() // whether or not the group has heard of it by now
	if left := s.awaitMembers(1, 30*time.Second); left > sessionTimeout/2 {
		t.Errorf("the group noticed %v after its end that a member had left", left)
	}
	s.await(s.name, s.committedSoFar(s.name)+400/perMessage, run)
	run.stop()
}

// awaitMembers waits until a group has n members, and says how long that took.
func (s *stream) awaitMembers(n int, most time.Duration) time.Duration {
	s.t.Helper()
	began := time.Now()
	for len(s.Members(s.t, s.name)) != n {
		if time.Since(began) > most {
			s.t.Fatalf("group %s has the members %v after %v, want %d", s.name, s.Members(s.t, s.name), most, n)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}

func (s *stream) sum(offsets map[string]int64) (sum int64) {
	for _, next := range offsets {
		sum += next
	}
	return sum
}
