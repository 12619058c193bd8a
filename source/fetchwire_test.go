package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// response is a Fetch response as franz-go encodes it, size and correlation id in front.
func response(version int16, p kmsg.FetchResponseTopicPartition) []byte {
	r := kmsg.FetchResponse{Version: version, ThrottleMillis: 7, SessionID: 3}
	r.Topics = []kmsg.FetchResponseTopic{{Topic: "events", Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	body := r.AppendTo([]byte{0, 0, 0, 1})
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// TestFetchResponseVersions reads what another implementation wrote, in every version we speak,
// and cut off at every byte.
func TestFetchResponseVersions(t *testing.T) {
	full := kmsg.FetchResponseTopicPartition{
		Partition: 5, HighWatermark: 100, LastStableOffset: 90, LogStartOffset: 10, PreferredReadReplica: -1,
		AbortedTransactions: []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 4, FirstOffset: 50}, {ProducerID: 5, FirstOffset: 60}},
		RecordBatches:       []byte("records"),
	}
	request := fetchRequest{partition: Partition{Topic: "events", ID: 5}, limit: 1 << 20}
	for version := int16(4); version <= 11; version++ {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			raw := response(version, full)
			m, err := request.read(bytes.NewReader(raw), version)
			if err != nil {
				t.Fatal(err)
			}
			want := &fetchResponse{highWatermark: 100, lastStable: 90, logStart: 10, aborted: []abortedTxn{{4, 50}, {5, 60}}, records: []byte("records")}
			if version < 5 {
				want.logStart = -1 // not on the wire
			}
			m.(*fetchResponse).block = nil // the bytes that it was read from
			if diff := cmp.Diff(want, m, cmp.AllowUnexported(fetchResponse{}, abortedTxn{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for n := range raw {
				if _, err := request.read(bytes.NewReader(raw[:n]), version); err == nil {
					t.Errorf("%d of %d bytes: no error", n, len(raw))
				}
			}
		})
	}
	t.Run("more than the limit is dropped", func(t *testing.T) {
		large := full
		large.RecordBatches = bytes.Repeat([]byte("x"), 5000)
		raw := response(11, large)
		small := request
		small.limit = 1000
		in := bytes.NewReader(append(raw, "next"...))
		m, err := small.read(in, 11)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(m.(*fetchResponse).records); n == 0 || n > 1000 || in.Len() != len("next") {
			t.Errorf("%d bytes kept, %d left in the connection", n, in.Len())
		}
	})
	t.Run("over a quota", func(t *testing.T) {
		for version := int16(4); version <= 11; version++ {
			held := kmsg.FetchResponse{Version: version, ThrottleMillis: 700}
			body := held.AppendTo([]byte{0, 0, 0, 1})
			m, err := request.read(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)), version)
			if err != nil {
				t.Fatalf("v%d: %v", version, err)
			}
			if got := m.(*fetchResponse).throttled; got != 700*time.Millisecond {
				t.Errorf("v%d: to wait %s, want 700ms", version, got)
			}
		}
	})
	t.Run("another partition", func(t *testing.T) {
		other := full
		other.Partition = 6
		if _, err := request.read(bytes.NewReader(response(11, other)), 11); err == nil {
			t.Error("no error")
		}
	})
	t.Run("an old broker", func(t *testing.T) {
		if _, err := request.read(bytes.NewReader(response(4, full)), 3); err == nil {
			t.Error("no error")
		}
	})
}

func FuzzFetchResponse(f *testing.F) {
	for version := int16(4); version <= 11; version++ {
		f.Add(response(version, kmsg.FetchResponseTopicPartition{Partition: 5, RecordBatches: []byte("records")}), version)
	}
	request := fetchRequest{partition: Partition{Topic: "events", ID: 5}, limit: 1 << 16}
	f.Fuzz(func(t *testing.T, raw []byte, version int16) {
		m, err := request.read(bytes.NewReader(raw), version)
		if err == nil && len(m.(*fetchResponse).records) > len(raw) {
			t.Error("more records than bytes")
		}
	})
}
