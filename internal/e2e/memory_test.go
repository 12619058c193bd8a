//go:build unix

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// memoryBoundMiB is what a process may take for its input at default settings, on a machine with room for much
// more: a limit is a ceiling, not a budget to fill.
const memoryBoundMiB = 256

// jsonColumns are the features of jsonRows.
const jsonColumns = "[f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11]"

// jsonRows writes so many messages of one JSON row of 12 numbers, about 130 bytes, over all partitions.
func (s *stream) jsonRows(messages, partitions int) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	rng := rand.New(rand.NewPCG(7, 12))
	for i := range messages {
		var b strings.Builder
		for k := range 12 {
			fmt.Fprintf(&b, `%c"f%d":%.3f`, "{,"[min(k, 1)], k, float64(rng.IntN(2)*6)+rng.NormFloat64())
		}
		b.WriteByte('}')
		client.Produce(s.t.Context(), &kgo.Record{Topic: s.topic("in"), Partition: int32(i % partitions), Value: []byte(b.String())}, func(_ *kgo.Record, err error) {
			if err != nil {
				s.t.Error(err)
			}
		})
	}
	if err := client.Flush(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// A backlog of small messages takes little memory in any number of partitions: what is read ahead, and what
// is being worked on, have one bound for the process. What a partition needs for itself, a model's scorer and a
// producer, is about 2 MiB.
func TestMemoryOfSmallMessages(t *testing.T) {
	for _, c := range []struct{ messages, partitions, boundMiB int }{
		{300_000, 12, memoryBoundMiB}, {100_000, 1, memoryBoundMiB}, {100_000, 100, memoryBoundMiB + 200},
	} {
		t.Run(fmt.Sprintf("%d messages in %d partitions", c.messages, c.partitions), func(t *testing.T) {
			b := kafkatest.Start(t, kafkatest.Kafka41)
			s := newStream(t, b, "small", settings{partitions: c.partitions, features: jsonColumns})
			s.jsonRows(c.messages, c.partitions)
			run := s.program("run", "--log-level", "info")
			start := time.Now()
			s.await(s.name, int64(c.messages), run)
			took, peak := time.Since(start), peakMiB(t, run.Pid())
			run.stop()
			if peak > c.boundMiB {
				t.Errorf("%d MiB at the peak, more than %d", peak, c.boundMiB)
			}
			t.Logf("peak memory %d MiB, %.0f messages a second", peak, float64(c.messages)/took.Seconds())
		})
	}
}
