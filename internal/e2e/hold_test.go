//go:build unix

package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// Before the first model nothing is whitened, and the position is taken all the same: with start_offset latest,
// what is written while the learner warms up is whitened when it is done, also if the transform dies meanwhile.
func TestLatestBeforeTheFirstModel(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Kafka41)
	for name, static := range map[string]bool{"group": false, "static": true} {
		t.Run(name, func(t *testing.T) {
			s := newStream(t, b, "hold-"+name, settings{partitions: 1, static: static, features: "[a, b, c]"})
			s.rows(0, 40)
			address := freeAddress(t)
			transform := s.program("transform", "--set", "source.start_offset=latest", "--set", "http.listen="+address)
			if at := s.positioned(s.name, 1, transform); s.sum(at) != 40 {
				t.Fatalf("the first start is at %v, want 40", at)
			}
			s.rows(0, 30)
			untilReady(t, address, false, "no model yet on topic "+s.topic("snap"))
			transform.Kill()
			s.rows(0, 30)
			transform.start()
			learn := s.program("learn")
			s.rows(0, 2000)
			s.wantOnce(0, 40, 2100, transform, learn)
			untilReady(t, address, true, "")
			learn.stop()
			transform.stop()
		})
	}
}

// positioned waits until a group has a committed position in n partitions.
func (s *stream) positioned(group string, partitions int, programs ...*program) map[string]int64 {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		for _, p := range programs {
			p.alive()
		}
		at := s.GroupOffsets(s.t, group)
		if len(at) == partitions && !slices.Contains(values(at), -1) {
			return at
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("group %s has the positions %v after 2 minutes", group, at)
		}
	}
}

func values(m map[string]int64) (all []int64) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}
