//go:build unix

package e2e_test

import (
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A transform with a static assignment is a member of nothing. A reset sees it all the same, while it is at work and
// when it was killed within a transaction, and harms nothing; once that has ended the positions are moved.
func TestResetSeesStaticTransform(t *testing.T) {
	t.Parallel()
	bin := withPlaces(t)
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "unseen", settings{partitions: 1, static: true, features: sensorColumns})
	s.bin = bin
	_, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 20, PerMessage: perMessage, Rate: 1000})
	defer stop()
	learn := s.program("learn")
	s.grow(0, learn)
	transform := s.program("transform")
	moves := func() {
		t.Helper()
		at := b.LastCommitted(t, "unseen")["unseen-in/0"]
		for deadline := time.Now().Add(time.Minute); b.LastCommitted(t, "unseen")["unseen-in/0"] <= at+5; time.Sleep(50 * time.Millisecond) {
			if transform.alive(); time.Now().After(deadline) {
				t.Fatalf("the transform stays at %d", at)
			}
		}
	}
	moves()
	for _, stage := range []string{"transform", "learn"} {
		refused := s.program("offsets", "reset", "--to", "earliest", "--stage", stage, "--watch", "12s")
		refused.endsWith(2)
		refused.says("unseen/unseen-in/" + stage) // at work, or just then in a transaction
		transform.alive()
		learn.alive()
	}
	moves()
	transform.stop()
	learn.stop()

	s.env = "LCA_STREAM_FAILPOINT=produce.after:2"
	transform.start()
	transform.endsWith(9)
	s.env = ""
	at := b.LastCommitted(t, "unseen")["unseen-in/0"]
	open := s.program("offsets", "reset", "--to", "earliest", "--stage", "transform")
	open.endsWith(2)
	open.says(`a transaction of "unseen/unseen-in/transform/0" is open`)
	if now := b.LastCommitted(t, "unseen")["unseen-in/0"]; now != at {
		t.Errorf("a reset that was refused has moved the position from %d to %d", at, now)
	}
	transform.start() // it ends the transaction of the one that was killed
	moves()
	transform.stop()
	s.command("offsets", "reset", "--to", "earliest", "--stage", "transform")
	if now := b.GroupOffsets(t, "unseen")["unseen-in/0"]; now != 0 {
		t.Errorf("the position is %d after a reset", now)
	}
	transform.start()
	moves()
	transform.stop()
}
