package sink_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// The offsets that Put gives back are those under which a reader finds the records: in requests for one partition and for
// several, over many batches, after transactions before, and where the answer to a Produce request was lost.
func testOffsets(t *testing.T, r *rig) {
	small := r.topic("small", 2, map[string]string{"max.message.bytes": "2000"})
	other := r.topic("other", 1, nil)
	wire := &Wire{}
	k := r.open(20*time.Second, wire)
	told := map[string]int64{} // value → offset
	for round := range 4 {
		var msgs []sink.Message
		offsets := map[string]*int64{}
		for i := range 20 {
			value := fmt.Sprintf("%d-%d-%s", round, i, strings.Repeat("x", 50*i))
			m := message(small, int32(i%2), value)
			if i%5 == 4 {
				m = message(other, 0, value)
			}
			if i%3 != 0 { // not all are asked for
				offsets[value] = new(int64)
				m.Offset = offsets[value]
			}
			msgs = append(msgs, m)
		}
		if round == 2 {
			wire.CutAfter(keyProduce)
		}
		mustPut(t, k, msgs, source.Claim{})
		for value, at := range offsets {
			told[value] = *at
		}
	}
	unknown := 0
	for _, topic := range []string{small, other} {
		for _, rec := range r.ReadCommitted(t, topic) {
			at, asked := told[string(rec.Value)]
			switch {
			case !asked:
			case at == -1:
				unknown++
			case at != rec.Offset:
				t.Errorf("%s/%d@%d: Put said %d", topic, rec.Partition, rec.Offset, at)
			}
		}
	}
	if unknown > 20 { // those of the one request whose answer was lost
		t.Errorf("%d offsets are not known", unknown)
	}
}
