package kafkatest_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// The checker is what says that a run was right, so it is shown to say so of good histories, and to
// find each of its faults in spoiled ones; without a broker, and then through one.
func TestChecker(t *testing.T) {
	unittest(t, "test_verify.py")
	unittest(t, "test_episodes.py")
	unittest(t, "test_accepted.py")
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	unittest(t, "test_live.py", strings.Join(b.Addrs(), ","))
}

func unittest(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(testtools.Python(t), append([]string{"-B", program}, args...)...)
	cmd.Dir = "checker"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", program, err, out)
	}
}

// A stream that is written is there as often as it says, and the same seed writes the same.
func TestLoad(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	var first []string
	for _, topic := range []string{"once", "again"} {
		b.CreateTopic(t, topic, 3, nil)
		wait, _ := b.Load(t, kafkatest.Load{Topic: topic, Data: "sensors", Rows: 2010, PerMessage: 20, Bad: 0.1, Invalid: 0.2, Seed: 5})
		done := wait()
		var values []string
		for _, r := range b.ReadCommitted(t, topic) {
			values = append(values, string(r.Value))
		}
		if done.Rows != 2010 || done.Messages != 101 || len(values) != done.Messages+done.Bad || done.Bad == 0 || done.Invalid == 0 {
			t.Errorf("%+v, %d records", done, len(values))
		}
		if first == nil {
			first = values
		} else if strings.Join(first, "|") != strings.Join(values, "|") {
			t.Error("the same seed wrote other bytes")
		}
	}
}
