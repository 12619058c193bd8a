//go:build unix

package e2e_test

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A dead-letter topic that takes little gets dead letters that are cut to it, whatever the size of their keys, headers and
// values, and none stops the process. One that takes less than a cut dead letter is refused at the start, by its number.
func TestNarrowDeadLetterTopic(t *testing.T) {
	t.Parallel()
	s := newStream(t, kafkatest.Shared(t, kafkatest.Kafka41), "narrow", settings{partitions: 1, features: "[a, b, c]"})
	limit := func(bytes int) {
		s.AlterTopic(t, s.topic("dead"), map[string]string{"max.message.bytes": strconv.Itoa(bytes)})
	}
	s.rows(0, 500)
	var bad []*kgo.Record
	for size := 1; size < 600_000; size *= 3 {
		noise := func(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%x", n)), n)[:n] }
		for _, r := range []*kgo.Record{{Value: noise(size)}, {Key: noise(size), Value: noise(9)}, {Value: noise(9), Headers: []kgo.RecordHeader{{Key: "h", Value: noise(size)}}}} {
			r.Topic = s.topic("in")
			bad = append(bad, r)
		}
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ProduceSync(t.Context(), bad...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.rows(0, 100)

	limit(1000)
	refused := s.program("run")
	refused.endsWith(2)
	refused.says("narrow-dead (dead_letter.topic): has max.message.bytes 1000, must be at least 1024")

	limit(1024)
	run := s.program("run")
	s.await(s.name, int64(600+len(bad)), run)
	run.stop()
	if dead, out := len(s.ReadCommitted(t, s.topic("dead"))), len(s.ReadCommitted(t, s.topic("out"))); dead != len(bad) || out != 600 {
		t.Errorf("%d dead letters of %d, %d outputs of 600", dead, len(bad), out)
	}
}
