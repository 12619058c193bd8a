//go:build unix

package e2e_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A group coordinator of brokers before 4.0 forgets the offsets of a running transaction when a late request for offsets of a former
// epoch of its producer arrives. The process that is killed then has written more than the group knows of; the next one goes on after it.
func TestOffsetsThatTheBrokerForgets(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Kafka39)
	s := newStream(t, b, "forgotten", settings{partitions: 1, static: true, features: sensorColumns})
	wait, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 30, PerMessage: perMessage, Rate: 1500, Bad: 0.05, Invalid: 0.05})
	run := s.program("run")
	const wanted = 3 // times that it has happened
	happened := 0
	for deadline := time.Now().Add(2 * time.Minute); happened < wanted && time.Now().Before(deadline); {
		s.awaitVersions(1, run)
		run.Kill() // a former epoch is needed, too
		run.start()
		s.awaitVersions(1, run)
		await, stopLate := b.LateOffsets(t, s.name+"/"+s.topic("in")+"/transform/0", s.name, s.topic("in"), 0)
		await(100) // over many transactions
		run.Kill()
		stopLate()
		run.start()
		s.awaitVersions(1, run)
		text, err := os.ReadFile(run.log)
		if err != nil {
			t.Fatal(err)
		}
		happened = bytes.Count(text, []byte("the committed offset is older than what is written"))
	}
	if happened < wanted {
		t.Errorf("the broker has forgotten offsets %d times: nothing is tested", happened)
	}
	stop()
	done := wait()
	s.await(s.name, int64(done.Messages+done.Bad), run)
	run.stop()
	if v := s.check(done.Rows, 3); v.Messages != done.Messages || v.DeadLetters != done.Bad {
		t.Errorf("judged %d messages, %d dead letters; written were %d, %d", v.Messages, v.DeadLetters, done.Messages, done.Bad)
	}
}
