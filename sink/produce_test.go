package sink_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/sink"
)

// Our own encoding, which copies a batch once and large values never, is that of the protocol's description: the bytes
// are those of kmsg, for lengths of the batch that take one to four bytes as a varint.
func TestProduceRequest(t *testing.T) {
	const clientID, id, topic, partition, timeout, correlation = "client", "transactional-id", "topic", 7, 15 * time.Second, 77
	producer := recordbatch.Producer{ID: 1 << 40, Epoch: 300, Sequence: 5, Transactional: true}
	for version, newest := range map[int]int16{1: 8, 2: 12} {
		for _, size := range []int{0, 40, 60, 100, 16 << 10, 3 << 20} {
			t.Run(fmt.Sprintf("v%d/%d", newest, size), func(t *testing.T) {
				recs := []recordbatch.Record{{Key: []byte("k"), Value: []byte(strings.Repeat("v", size))}}
				buffer := make([]byte, 0, size+4096)
				pieces := sink.ProduceRequest(version, buffer, clientID, id, topic, partition, timeout, recs, producer, correlation)
				got := slices.Concat(pieces...)

				request := kmsg.NewPtrProduceRequest()
				request.Version, request.TransactionID, request.Acks, request.TimeoutMillis = newest, kmsg.StringPtr(id), -1, int32(timeout.Milliseconds())
				request.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{
					{Partition: partition, Records: recordbatch.Append(nil, recs, producer)}}}}
				want := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, request, correlation)
				if !bytes.Equal(got, want) {
					t.Errorf("%d bytes, want %d; they begin\n%x, want\n%x", len(got), len(want), got[:min(100, len(got))], want[:min(100, len(want))])
				}
				if &buffer[:1][0] != &pieces[0][0] {
					t.Error("the request is not in the buffer that was given")
				}
				if apart := len(pieces) == 3 && &pieces[1][0] == &recs[0].Value[0]; apart != (size >= recordbatch.CutBytes) {
					t.Errorf("a value of %d bytes: in %d pieces", size, len(pieces))
				}
			})
		}
	}
}

// Several partitions of several topics in one request, the first batch of which is larger or smaller than was
// expected, as compression makes it.
func TestProduceRequestOfSeveral(t *testing.T) {
	const correlation = 77
	producer := recordbatch.Producer{ID: 9, Epoch: 1, Transactional: true}
	record := func(size int) []recordbatch.Record {
		return []recordbatch.Record{{Key: []byte("k"), Value: []byte(strings.Repeat("v", size))}}
	}
	parts := []sink.Part{{Topic: "a", Partition: 3, Records: record(300), Sequence: 4}, {Topic: "a", Partition: 5, Records: record(0)}, {Topic: "b", Records: record(20_000), Sequence: 8}}
	for version, newest := range map[int]int16{1: 8, 2: 12} {
		for _, most := range []int{10, 200, 400, 40_000, 4_000_000} {
			parts[0].Most = most
			got := sink.ProduceRequestOf(version, "client", "id", time.Second, parts, producer, correlation)
			request := kmsg.NewPtrProduceRequest()
			request.Version, request.TransactionID, request.Acks, request.TimeoutMillis = newest, kmsg.StringPtr("id"), -1, 1000
			for _, p := range parts {
				if n := len(request.Topics); n == 0 || request.Topics[n-1].Topic != p.Topic {
					request.Topics = append(request.Topics, kmsg.ProduceRequestTopic{Topic: p.Topic})
				}
				last := &request.Topics[len(request.Topics)-1]
				producer.Sequence = p.Sequence
				last.Partitions = append(last.Partitions, kmsg.ProduceRequestTopicPartition{Partition: p.Partition, Records: recordbatch.Append(nil, p.Records, producer)})
			}
			want := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, request, correlation)
			if !bytes.Equal(got, want) {
				t.Errorf("version %d, expected to take %d: %d bytes, want %d", newest, most, len(got), len(want))
			}
		}
	}
}
