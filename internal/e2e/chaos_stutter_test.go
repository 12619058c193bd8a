//go:build unix && chaos

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A process that gets the processor for moments only, for minutes: it is slow, and never stands still.
func TestChaosStutter(t *testing.T) {
	const stops, each = 4000, 500
	s := newChaos(t, kafkatest.Start(t, kafkatest.Kafka41), "stutter", settings{partitions: 3, rate: 300})
	p := s.begin("run")
	s.progress(s.name, 20, p)
	before := s.before(s.name)
	for stop := 1; stop <= stops; stop++ {
		p.alive()
		p.Pause()
		time.Sleep(20*time.Millisecond + time.Duration(s.random.IntN(20))*time.Millisecond)
		p.Resume()
		s.pause(60 * time.Millisecond)
		if stop%each == 0 {
			s.progress(s.name, 1, p)
			now := s.before(s.name)
			t.Logf("%d stops: %d messages further", stop, now-before)
			before = now
		}
	}
	s.progress(s.name, 20, p)
	s.finish("SIGSTOP for 20 to 40 ms, SIGCONT for 0 to 60 ms", fmt.Sprintf("%d times", stops))
}
