//go:build unix

package e2e_test

import (
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

const keyedMore = "model: {by: key}\nminibatch: {rows: 50}\n"

// Models of values in any partition keep a learner of one model for all rows from its start. Otherwise that model would keep theirs from going on once the setting is
// set back.
func TestModelsByKeyInAnotherPartition(t *testing.T) {
	t.Parallel()
	r := &keyedReplay{}
	r.stream = newStream(t, kafkatest.Shared(t, kafkatest.Kafka41), "elsewhere", settings{partitions: replayPartitions, features: "[a, b]", more: keyedMore})
	r.fill("in", func(p int32, _ int) bool { return p == 1 })
	learn := r.program("learn", "--set", "lca.neighbours=60")
	r.await("elsewhere.learn", r.messages(), learn)
	learn.stop()
	before := len(r.newest("check"))
	for _, command := range []string{"learn", "run"} {
		other := r.program(command, "--set", "lca.neighbours=60", "--set", "model.by=none")
		other.endsWith(2)
		other.says("which is that of one value of model.by")
	}
	r.fill("in", func(p int32, _ int) bool { return p == 1 })
	learn.start()
	r.await("elsewhere.learn", r.messages(), learn)
	learn.stop()
	if now := len(r.newest("check")); before == 0 || now != before {
		t.Errorf("%d models, and %d before", now, before)
	}
}
