package sink_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/sink"
)

// Readers see what was put, whatever the batches were compressed with. A message that fits only when it is
// compressed is taken, with auto too, and one that does not fit even then is named with the size that
// was too large.
func testCompression(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, map[string]string{"max.message.bytes": "20000"})
	noise := make([]byte, 30000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	values, next := []string(nil), int64(0)
	for _, by := range []sink.Compression{sink.CompressGzip, sink.CompressSnappy, sink.CompressLZ4, sink.CompressZstd, sink.CompressAuto} {
		name := by.String()
		k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: r.cluster(nil), TransactionalID: r.name, Compression: by})
		if err != nil {
			t.Fatal(err)
		}
		small, large := name+" small", name+strings.Repeat(" large", 10000)
		next++
		mustPut(t, k, []sink.Message{message(out, 0, small), message(out, 0, large), message(out, 0, small)}, r.claim(in, next))
		values = append(values, "0:"+small, "0:"+large, "0:"+small)
		var refused *sink.TooLargeError
		err = put(t, k, []sink.Message{message(out, 0, small), message(out, 0, string(noise))}, r.claim(in, next+1))
		if !errors.As(err, &refused) || refused.Index != 1 || refused.Size < 30000 || refused.Limit != 20000 {
			t.Errorf("%s: noise of 30 kB: %v", name, err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
	r.want(out, values...)
	for v := range 256 {
		c := sink.KafkaConfig{Cluster: r.cluster(nil), TransactionalID: r.name, Compression: sink.Compression(v)}
		if slices.Contains(sink.Compressions(), c.Compression) {
			continue
		}
		if _, err := sink.OpenKafka(t.Context(), c); err == nil {
			t.Errorf("%v was taken for a codec", c.Compression)
		}
	}
}
