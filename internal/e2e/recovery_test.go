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
	const kills, usual = 7, 3 * time.Second
	b := kafkatest.Start(t, kafkatest.Kafka41)
	s := newStream(t, b, "place", settings{partitions: 4, features: sensorColumns})
	_, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 30, PerMessage: 20, Rate: 1000})
	defer stop()
	run := s.program("run")
	var took []time.Duration
	for range kills {
		s.await(s.name, s.committed(s.name)+20, run)
		run.Kill()
		began, before := time.Now(), s.sum(s.LastCommitted(t, s.name))
		run.start()
		s.await(s.name, before+1, run)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("from kill -9 to the first commit: %v", took)
	if median := took[kills/2]; median > usual {
		t.Errorf("the median recovery took %v: the group has waited for the dead member", median)
	}

	second := s.program("transform")
	s.awaitMembers(2, 30*time.Second)
	s.await(s.name, s.committed(s.name)+20, run, second)
	second.stop() // whether or not the group has heard of it by now
	if left := s.awaitMembers(1, 30*time.Second); left > sessionTimeout/2 {
		t.Errorf("the group noticed %v after its end that a member had left", left)
	}
	s.await(s.name, s.committed(s.name)+20, run)
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
