package sink_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
)

// A time that the topic does not take is said with what it takes, nothing is visible, and the sink goes on.
func testTimes(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, map[string]string{"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "60000"})
	k := r.open(20*time.Second, nil)
	old := message(out, 0, "old")
	old.Time = time.Now().Add(-25 * time.Hour)
	err := put(t, k, []sink.Message{message(out, 0, "now"), old}, r.claim(in, 1))
	if r.Kind == kafkatest.Embedded { // looks at no times
		if err != nil {
			t.Error(err)
		}
		return
	}
	var refused *sink.TimestampError
	if !errors.As(err, &refused) || !refused.Known || refused.Before != time.Hour || refused.After != time.Minute || refused.Topic != out {
		t.Fatalf("a record of yesterday: %v", err)
	}
	if !contains(err, "message.timestamp.before.max.ms") {
		t.Errorf("%v does not name the setting", err)
	}
	r.want(out)
	old.Time = time.Now()
	mustPut(t, k, []sink.Message{message(out, 0, "now"), old}, r.claim(in, 1))
	r.want(out, "0:now", "0:old")
}
