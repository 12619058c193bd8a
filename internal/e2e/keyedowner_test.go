//go:build unix

package e2e_test

import (
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// Two groups learn models by key under one model id, and begin at the same moment: on checkpoint topics of their own, where the snapshots say whose the models are, and
// on one, where a claim does. At least one ends with exit code 2 and the name of the other, and of the two that are started again one goes on. A third does not even begin.
func TestModelsByKeyHaveOneOwner(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Kafka41)
	for name, own := range map[string]bool{"owntopic": true, "onetopic": false} {
		t.Run(name, func(t *testing.T) {
			r := &keyedReplay{}
			r.stream = newStream(t, b, name, settings{partitions: replayPartitions, features: "[a, b]", more: keyedMore})
			flags := []string{"learn", "--set", "lca.neighbours=60"}
			others := append(flags[:3:3], "--set", "source.group=second")
			third := append(flags[:3:3], "--set", "source.group=third")
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
			time.Sleep(2 * time.Second) // if both end, the other one does so now
			for _, p := range []*program{one, two} {
				if over(p) {
					p.endsWith(2)
					p.says("belongs to the learner of topic")
					p.start()
				}
			}
			for deadline := time.Now().Add(time.Minute); over(one) == over(two); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("both learn: %v, both have ended: %v", !over(one), over(one))
				}
			}
			last := r.program(third...)
			last.endsWith(2)
			last.says("belongs to the learner of topic")
			r.fill("in", all)
			time.Sleep(7 * time.Second) // it publishes, and looks whose the models are: every 5 s
			winner := one
			if over(one) {
				winner = two
			}
			winner.alive()
			winner.stop()
		})
	}
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
