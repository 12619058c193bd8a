//go:build unix

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// Two groups learn models by key under one model id, and begin at the same moment: on checkpoint topics of their own, where the snapshots say whose the models are, and
// on one, where a claim does. At least one ends with exit code 2 and the name of the other, and of the two that are started again one goes on. A third does not even begin.
func TestModelsByKeyHaveOneOwner(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for name, own := range map[string]bool{"owntopic": true, "onetopic": false} {
		t.Run(name, func(t *testing.T) {
			r := &keyedReplay{}
			r.stream = newStream(t, b, name, settings{partitions: replayPartitions, features: "[a, b]", more: keyedMore})
			flags := []string{"learn", "--set", "lca.neighbours=60"}
			others := append(flags[:3:3], "--set", "source.group="+name+"-second")
			third := append(flags[:3:3], "--set", "source.group="+name+"-third")
			if own {
				for _, topic := range []string{name + "-check-2", name + "-check-3"} {
					b.CreateTopic(t, topic, replayPartitions, map[string]string{"cleanup.policy": "compact"})
				}
				others = append(others, "--set", "checkpoint.topic="+name+"-check-2")
				third = append(third, "--set", "checkpoint.topic="+name+"-check-3")
			}
			one, two := r.program(flags...), r.program(others...)
			all := func(int32, int) bool { return true }
			for deadline := time.Now().Add(2 * time.Minute); !over(one) && !over(two); time.Sleep(time.Second) {
				if time.Now().After(deadline) {
					t.Fatal("both learn the same models")
				}
				r.fill("in", all)
			}
			r.lastByKey(one, two)
			last := r.program(third...)
			last.endsWith(2)
			last.says("belongs to the learner of topic")
			winner := r.lastByKey(one, two) // which may be the other one now: it may publish before it has seen what that one had
			winner.stop()
			if log := lastLines(winner.log, 1<<20); strings.Contains(log, `in group \"`+name+`-third\", and this one is`) {
				t.Error("the third has taken the models, though it was refused")
			}
		})
	}
}

// lastByKey is the one of two programs that learns and publishes all that is written after the other has ended. Those that have ended say why, and
// both are started again whenever both have.
func (r *keyedReplay) lastByKey(one, two *program) *program {
	r.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, p := range []*program{one, two} {
			if over(p) {
				p.endsWith(2)
				p.says("belongs to the learner of topic")
			}
		}
		if over(one) && over(two) {
			one.start()
			two.start()
		}
		if over(one) == over(two) {
			continue
		}
		winner, group := one, r.name
		if over(one) {
			winner, group = two, r.name+"-second"
		}
		r.fill("in", func(int32, int) bool { return true })
		for all := r.messages(); !over(winner) && r.committed(group+".learn") < all && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
		if !over(winner) {
			return winner
		}
	}
	r.t.Fatal("after 2 minutes neither learns alone")
	return nil
}

// over reports whether a program has ended.
func over(p *program) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}
