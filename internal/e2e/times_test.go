//go:build unix

package e2e_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// Records with timestamps in another unit, of no time or of the end of time go through `run` to topics that do not take them: as outputs,
// dead letters and alarms, each once. Topics of before Kafka 3.6 have such records.
func TestAnyTimestampGoesThrough(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "times", settings{partitions: 1, features: "[a, b]", budget: "1/1000 rows"})
	b.AlterTopic(t, s.topic("in"), map[string]string{"message.timestamp.after.max.ms": strconv.Itoa(math.MaxInt64), "retention.ms": "-1"})
	for _, topic := range []string{"out", "dead", "alarms"} {
		b.AlterTopic(t, s.topic(topic), map[string]string{"message.timestamp.after.max.ms": "3600000", "message.timestamp.before.max.ms": "86400000"})
	}
	stamps := []int64{10_413_792_000_000, -1, 0, 1, 253_402_300_799_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000, math.MaxInt64}
	s.produceAt("", 1000, time.Now(), 1)
	own := map[int]int64{}
	for i := range 2 * len(stamps) { // clients that count in nanoseconds cannot write all of them
		value := []byte(fmt.Sprintf(`{"a": %d, "b": 0.5}`, 60+i)) // an episode opens at the first
		if i%2 == 1 {
			value = []byte("garbage")
		}
		ms := stamps[i/2]
		own[1000+i] = ms
		batch := kafkatest.Forged{Records: kafkatest.ForgedRecords(1, value), Count: 1, Change: kafkatest.Stamped(ms)}
		if code := b.Produce(t, s.topic("in"), batch.Bytes(t)); code != 0 {
			t.Fatalf("the broker refuses a record of %d: code %d", ms, code)
		}
	}
	s.produceAt("", 500, time.Now(), 2)
	rows := 1500 + 2*len(stamps)
	run := s.program(append([]string{"run"}, rowModel...)...)
	s.await(s.name, int64(rows), run)
	run.stop()
	seen, alarms := map[int]int{}, 0
	for _, topic := range []string{"out", "dead"} {
		for _, r := range b.ReadCommitted(t, s.topic(topic)) {
			at := sourceOffset(t, r.Headers)
			seen[at]++
			ms, wild := own[at]
			if said := headerOf(r.Headers, "lca-source-timestamp"); wild && said != strconv.FormatInt(ms, 10) || math.Abs(float64(time.Since(r.Timestamp))) > float64(time.Hour) {
				t.Errorf("record %d of %s has the time %v, and its own is %q, want %d", at, topic, r.Timestamp, said, ms)
			}
		}
	}
	for i := range rows {
		if seen[i] != 1 {
			t.Errorf("record %d came %d times", i, seen[i])
		}
	}
	for _, r := range b.ReadCommitted(t, s.topic("alarms")) {
		var alarm struct {
			From struct{ Offset int }
		}
		if err := json.Unmarshal(r.Value, &alarm); err != nil {
			t.Errorf("%v: %s", err, r.Value)
		}
		if math.Abs(float64(time.Since(r.Timestamp))) > float64(time.Hour) {
			t.Errorf("an alarm has the time %v: %s", r.Timestamp, r.Value)
		}
		if _, wild := own[alarm.From.Offset]; wild && headerOf(r.Headers, "lca-source-timestamp") != "" {
			alarms++
		}
	}
	if alarms == 0 {
		t.Errorf("no episode opens at a row with an odd timestamp, of %v: the test proves too little", b.ReadCommitted(t, s.topic("alarms")))
	}
	if said := s.command("inspect", s.topic("in"), "-n", "600"); !strings.Contains(said, "1700000000000000ms") {
		t.Errorf("inspect does not tell the timestamp:\n%s", said)
	}
	s.command("inspect", s.topic("in"), "-n", "600", "--json")
	for _, at := range []string{"1970-01-01", "2300-01-01", "9999-12-31T23:59:59Z"} {
		s.command("replay", "--from", at, "--dry-run")
	}
	s.command("replay", "--output", s.dir+"/again.arrows")
}

func headerOf(headers []kgo.RecordHeader, key string) string {
	for _, h := range headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
