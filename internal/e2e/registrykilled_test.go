//go:build unix

package e2e_test

import (
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// kill -9 while rows that name their schema come and go: the judge finds each once and right, behind the bytes of its input,
// under a schema that is the input's with our fields.
func testRegistryKilled(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	const kills = 2
	for _, load := range []kafkatest.Load{
		{Format: "avro", PerMessage: 1, Rate: 150},
		{Format: "json_schema", PerMessage: 5, Rate: 300},
	} {
		t.Run(load.Format, func(t *testing.T) {
			s := newStream(t, b, "killed-"+load.Format, settings{partitions: 3, features: sensorColumns, why: 2, registry: r})
			load.Topic, load.Registry, load.Data, load.Rows, load.Bad, load.Invalid = s.topic("in"), r.URL, "sensors", 1<<30, 0.01, 0.05
			wait, end := b.Load(t, load)
			run := s.program("run")
			for range kills {
				s.await(s.name, s.committedSoFar(s.name)+20, run)
				run.killInside(s.topic("out"))
				run.start()
			}
			s.await(s.name, s.committedSoFar(s.name)+20, run)
			end()
			done := wait()
			s.await(s.name, int64(done.Messages+done.Bad), run)
			run.stop()
			v := s.check(done.Rows, 1)
			if v.Messages != done.Messages || v.DeadLetters != done.Bad || v.NullRows != done.Invalid || v.Aborted == 0 {
				t.Errorf("judged %d messages, %d dead letters, %d null rows and %d aborted records; written were %d, %d, %d",
					v.Messages, v.DeadLetters, v.NullRows, v.Aborted, done.Messages, done.Bad, done.Invalid)
			}
		})
	}
}
