//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// The broker loses the disk with the source topics, and has more records than before when the programs
// ask for the next: one that runs and one that was stopped meanwhile both end with exit code 2 and say so,
// where an offset alone would fit the new records.
func TestTruncatedLogIsNoticed(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Kafka41)
	streams := []*stream{
		newStream(t, b, "runs", settings{partitions: 1, features: sensorColumns}),
		newStream(t, b, "away", settings{partitions: 1, features: sensorColumns}),
	}
	load := func(rows int) {
		t.Helper()
		for _, s := range streams {
			wait, _ := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: rows, PerMessage: perMessage})
			wait()
		}
	}
	const rows = 4000
	const messages = rows / perMessage
	load(rows)
	var programs []*program
	for _, s := range streams {
		programs = append(programs, s.program("run"))
	}
	for i, s := range streams {
		s.await(s.name, messages, programs[i])
		s.await(s.name+".learn", messages, programs[i])
	}
	programs[1].stop()
	b.Kill()
	for _, s := range streams {
		b.LoseLogs(t, s.topic("in"))
	}
	programs[0].Pause() // so that it does not look before the log has grown
	b.Restart()
	load(2 * rows)
	programs[0].Resume()
	programs[1].start()
	for i, s := range streams {
		p := programs[i]
		select {
		case <-p.Done():
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s goes on:\n%s", s.name, lastLines(p.log, 10))
		}
		text, err := os.ReadFile(p.log)
		if err != nil {
			t.Fatal(err)
		}
		if p.ExitCode() != 2 || !strings.Contains(string(text), fmt.Sprintf("the log was truncated: offsets 0 to %d were read", messages-1)) {
			t.Errorf("%s: exit code %d, and\n%s", s.name, p.ExitCode(), lastLines(p.log, 10))
		}
	}
}
