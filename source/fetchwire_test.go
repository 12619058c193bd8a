package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// events is the id of the topic of that name.
var events = [16]byte{1, 2, 3, 15: 16}

// response is a Fetch response as franz-go encodes it, size and header in front.
func response(version int16, p kmsg.FetchResponseTopicPartition) []byte {
	r := kmsg.FetchResponse{Version: version, ThrottleMillis: 7, SessionID: 3}
	r.Topics = []kmsg.FetchResponseTopic{{Topic: "events", TopicID: events, Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	return framed(&r)
}

// framed adds tagged fields to the header that no version defines, where the version has them.
func framed(r *kmsg.FetchResponse) []byte {
	head := []byte{0, 0, 0, 1}
	if r.IsFlexible() {
		head = append(head, 2, 0, 3, 'a', 'b', 'c', 200, 1, 0) // two: 0 of three bytes, 200 of none
	}
	body := r.AppendTo(head)
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
	full.AbortedTransactions[0].UnknownTags.Set(9, []byte("later versions may say more"))
	request := fetchRequest{partition: Partition{Topic: "events", ID: 5}, topic: events, limit: 1 << 20}
	for version := int16(fetchLeast); version <= fetchByID; version++ {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			raw := response(version, full)
			m, err := request.read(bytes.NewReader(raw), version)
			if err != nil {
				t.Fatal(err)
			}
			want := &fetchResponse{highWatermark: 100, lastStable: 90, aborted: []abortedTxn{{4, 50}, {5, 60}}, records: []byte("records")}
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
	t.Run("a list of aborted transactions beyond the limit", func(t *testing.T) {
		long := full
		for i := range int64(1000) {
			long.AbortedTransactions = append(long.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: i})
		}
		raw := response(11, long)
		small := request
		small.limit = 1000
		if _, err := small.read(bytes.NewReader(raw), 11); err == nil {
			t.Error("no error")
		}
		small.again = true
		if m, err := small.read(bytes.NewReader(raw), 11); err != nil || m.(*fetchResponse).need != int64(len(raw)-4) {
			t.Errorf("of %d bytes: %+v, %v", len(raw), m, err)
		}
	})
	t.Run("more than the limit is dropped", func(t *testing.T) {
		large := full
		large.RecordBatches = bytes.Repeat([]byte("x"), 5000)
		for _, version := range []int16{11, fetchByID} {
			raw := response(version, large)
			small := request
			small.limit = 1000
			in := bytes.NewReader(append(raw, "next"...))
			m, err := small.read(in, version)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(m.(*fetchResponse).records); n == 0 || n > 1000 || in.Len() != len("next") {
				t.Errorf("v%d: %d bytes kept, %d left in the connection", version, n, in.Len())
			}
		}
	})
	t.Run("over a quota", func(t *testing.T) {
		for version := int16(fetchLeast); version <= fetchByID; version++ {
			held := kmsg.FetchResponse{Version: version, ThrottleMillis: 700}
			m, err := request.read(bytes.NewReader(framed(&held)), version)
			if err != nil {
				t.Fatalf("v%d: %v", version, err)
			}
			if got := m.(*fetchResponse).throttled; got != 700*time.Millisecond {
				t.Errorf("v%d: to wait %s, want 700ms", version, got)
			}
		}
	})
	t.Run("no aborted transactions, and no records", func(t *testing.T) {
		for version := int16(fetchLeast); version <= fetchByID; version++ {
			empty := full
			empty.AbortedTransactions, empty.RecordBatches = nil, nil // null on the wire
			m, err := request.read(bytes.NewReader(response(version, empty)), version)
			if err != nil {
				t.Fatalf("v%d: %v", version, err)
			}
			if got := m.(*fetchResponse); got.aborted != nil || len(got.records) != 0 || got.highWatermark != 100 {
				t.Errorf("v%d: %+v", version, got)
			}
		}
	})
	t.Run("a fault", func(t *testing.T) {
		for version := int16(fetchLeast); version <= fetchByID; version++ {
			m, err := request.read(bytes.NewReader(response(version, kmsg.FetchResponseTopicPartition{Partition: 5, ErrorCode: int16(kafka.UnknownTopicID)})), version)
			if err != nil {
				t.Fatalf("v%d: %v", version, err)
			}
			if got := m.(*fetchResponse).code; got != int16(kafka.UnknownTopicID) {
				t.Errorf("v%d: code %d", version, got)
			}
		}
	})
	t.Run("another partition", func(t *testing.T) {
		other := full
		other.Partition = 6
		for version := int16(fetchLeast); version <= fetchByID; version++ {
			if _, err := request.read(bytes.NewReader(response(version, other)), version); err == nil {
				t.Errorf("v%d: no error", version)
			}
		}
	})
	t.Run("another topic", func(t *testing.T) {
		other := request
		other.partition.Topic, other.topic = "other", [16]byte{9}
		for version := int16(fetchLeast); version <= fetchByID; version++ {
			if _, err := other.read(bytes.NewReader(response(version, full)), version); err == nil {
				t.Errorf("v%d: no error", version)
			}
		}
	})
	t.Run("other versions", func(t *testing.T) {
		for _, version := range []int16{fetchLeast - 1, fetchByID + 1} {
			if _, err := request.read(bytes.NewReader(response(version, full)), version); err == nil {
				t.Errorf("v%d: no error", version)
			}
		}
	})
}

func FuzzFetchResponse(f *testing.F) {
	for version := int16(fetchLeast); version <= fetchByID; version++ {
		f.Add(response(version, kmsg.FetchResponseTopicPartition{Partition: 5, RecordBatches: []byte("records")}), version)
	}
	request := fetchRequest{partition: Partition{Topic: "events", ID: 5}, topic: events, limit: 1 << 16}
	f.Fuzz(func(t *testing.T, raw []byte, version int16) {
		m, err := request.read(bytes.NewReader(raw), version)
		if err == nil && len(m.(*fetchResponse).records) > len(raw) {
			t.Error("more records than bytes")
		}
	})
}
