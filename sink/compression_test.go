package sink_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/sink"
)

// Readers see what was put. A message that fits only when it is compressed is taken, and one that does not fit even then is
// named with the size that was too large.
func testCompression(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, map[string]string{"max.message.bytes": "20000"})
	noise := make([]byte, 30000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: r.cluster(nil), TransactionalID: r.name, Compress: true})
	if err != nil {
		t.Fatal(err)
	}
	small, large := "small", strings.Repeat(" large", 10000)
	mustPut(t, k, []sink.Message{message(out, 0, small), message(out, 0, large), message(out, 0, small)}, r.claim(in, 1))
	var refused *sink.TooLargeError
	err = put(t, k, []sink.Message{message(out, 0, small), message(out, 0, string(noise))}, r.claim(in, 2))
	if !errors.As(err, &refused) || refused.Index != 1 || refused.Size < 30000 || refused.Limit != 20000 {
		t.Errorf("noise of 30 kB: %v", err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	r.want(out, "0:"+small, "0:"+large, "0:"+small)
}
