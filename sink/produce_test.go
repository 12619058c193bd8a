package sink_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/sink"
)

// Our own encoding, which copies a batch once, is that of the protocol's description: the bytes are those of
// kmsg, for lengths of the batch that take one to four bytes as a varint.
func TestProduceRequest(t *testing.T) {
	const clientID, id, topic, partition, timeout, correlation = "client", "transactional-id", "topic", 7, 15 * time.Second, 77
	producer := recordbatch.Producer{ID: 1 << 40, Epoch: 300, Sequence: 5, Transactional: true}
	for version, newest := range map[int]int16{1: 8, 2: 12} {
		for _, size := range []int{0, 40, 60, 100, 16 << 10, 3 << 20} {
			t.Run(fmt.Sprintf("v%d/%d", newest, size), func(t *testing.T) {
				recs := []recordbatch.Record{{Key: []byte("k"), Value: []byte(strings.Repeat("v", size))}}
				buffer := make([]byte, 0, size+4096)
				got := sink.ProduceRequest(version, buffer, clientID, id, topic, partition, timeout, recs, producer, correlation)

				request := kmsg.NewPtrProduceRequest()
				request.Version, request.TransactionID, request.Acks, request.TimeoutMillis = newest, kmsg.StringPtr(id), -1, int32(timeout.Milliseconds())
				request.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{
					{Partition: partition, Records: recordbatch.Append(nil, recs, producer)}}}}
				want := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, request, correlation)
				if !bytes.Equal(got, want) {
					t.Errorf("%d bytes, want %d; they begin\n%x, want\n%x", len(got), len(want), got[:min(100, len(got))], want[:min(100, len(want))])
				}
				whole := buffer[:cap(buffer)]
				if at := bytes.Index(whole, got[:20]); at < 0 || &whole[at] != &got[0] {
					t.Error("the request is not in the buffer that was given")
				}
			})
		}
	}
}
