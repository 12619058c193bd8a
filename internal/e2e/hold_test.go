//go:build unix

package e2e_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// Before the first model nothing is whitened, and the position is taken all the same: with start_offset latest,
// what is written while the learner warms up is whitened when it is done, also if the transform dies meanwhile.
func TestLatestBeforeTheFirstModel(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for name, static := range map[string]bool{"group": false, "static": true} {
		t.Run(name, func(t *testing.T) {
			s := newStream(t, b, "hold-"+name, settings{partitions: 1, static: static, features: "[a, b, c]"})
			s.rows(0, 40)
			address := testtools.Address(t)
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
	t.Run("history", func(t *testing.T) { historyFirst(t, b) })
}

// historyFirst begins with a backlog of three partitions, next to a transform in a process of its own. A learner
// that is killed in the middle goes on, the first version is the whole backlog, nothing is whitened before it, and records that
// come meanwhile are neither part of it nor lost.
func historyFirst(t *testing.T, b *kafkatest.Broker) {
	const each = 40_000 // a checkpoint comes after 50,000 rows, and much is to be left then
	s := newStream(t, b, "hold-history", settings{partitions: 3, features: "[a, b, c]"})
	for p := range int32(3) {
		s.rows(p, each)
	}
	address := testtools.Address(t)
	transform := s.program("transform")
	learn := s.program("learn", "--from-history", "--set", "http.listen="+address)
	s.await(s.name+".learn", 1, learn)
	learn.Kill()
	s.rows(0, 500)
	if n := len(s.ReadCommitted(t, s.topic("snap"))) + len(s.ReadCommitted(t, s.topic("out"))); n != 0 {
		t.Fatalf("%d snapshots and outputs in the middle of the history", n)
	}
	learn.start()
	s.wantOnce(0, 0, each+500, transform, learn)
	for p := range int32(2) {
		s.wantOnce(p+1, 0, each, transform, learn)
	}
	untilReady(t, address, true, "")
	if first := s.versions()[0]; first != 3*each {
		t.Errorf("the first version is of %d rows, want the history of %d", first, 3*each)
	}
	for _, r := range s.ReadCommitted(t, s.topic("out")) {
		if by, err := strconv.Atoi(recordHeader(r, "lca-model-version")); err != nil || by < 3*each {
			t.Fatalf("a row is whitened by version %d: %v", by, err)
		}
	}
	for _, want := range []string{"the history is learnt before the first model is published", `"the history is learnt"`} {
		if log := lastLines(learn.log, 100); !strings.Contains(log, want) {
			t.Errorf("the learner does not say %s:\n%s", want, log)
		}
	}
	learn.stop()
	transform.stop()
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
