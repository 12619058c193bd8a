package recordbatch

import (
	"bytes"
	"encoding/hex"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var update = flag.Bool("update", false, "write the golden files, with franz-go's encoder")

// goldenCases are batches whose bytes are kept in testdata and compared with franz-go's encoder.
func goldenCases() map[string]struct {
	recs     []Record
	producer Producer
} {
	type c = struct {
		recs     []Record
		producer Producer
	}
	return map[string]c{
		"one": {[]Record{{Timestamp: 1700000000000, Key: []byte("k"), Value: []byte("value")}}, NoProducer()},
		// A null key and value are -1 on the wire, an empty one is 0: they must not be confused.
		"null-and-empty": {[]Record{
			{Timestamp: 5, Key: nil, Value: []byte{}},
			{Timestamp: 5, Key: []byte{}, Value: nil},
		}, NoProducer()},
		"headers": {[]Record{{Timestamp: 1, Value: []byte("v"), Headers: []Header{
			{Key: "content-type", Value: []byte("application/json")}, {Key: "", Value: nil}, {Key: "e", Value: []byte{}},
		}}}, NoProducer()},
		"transactional": {[]Record{
			{Timestamp: 1700000000500, Key: []byte("a"), Value: []byte("1")},
			{Timestamp: 1700000000400, Key: []byte("b"), Value: []byte(strings.Repeat("x", 200))}, // a negative delta, a two-byte length
			{Timestamp: 1700000009999, Key: []byte("c"), Value: []byte("3")},
		}, Producer{ID: 4611686018427387905, Epoch: 7, Sequence: 2147483000, Transactional: true}},
		"idempotent": {[]Record{{Timestamp: 0, Value: []byte("z")}}, Producer{ID: 0, Epoch: 0, Sequence: 0}},
	}
}

func TestAppendGolden(t *testing.T) {
	for name, c := range goldenCases() {
		t.Run(name, func(t *testing.T) {
			if *update {
				writeGolden(t, name, encodeWithKmsg(c.recs, c.producer))
			}
			want := readGolden(t, name)
			got := Append([]byte("before"), c.recs, c.producer)
			if string(got[:6]) != "before" {
				t.Fatal("Append changed what was in dst")
			}
			if diff := cmp.Diff(hex.Dump(want), hex.Dump(got[6:])); diff != "" {
				t.Errorf("bytes differ (-golden +got):\n%s", diff)
			}
			if size := Size(c.recs); size != len(got)-6 {
				t.Errorf("Size = %d, Append wrote %d", size, len(got)-6)
			}
		})
	}
}

func goldenPath(name string) string { return filepath.Join("testdata", name+".hex") }

func readGolden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(goldenPath(name))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func writeGolden(t *testing.T, name string, raw []byte) {
	t.Helper()
	var b strings.Builder
	for len(raw) > 0 {
		n := min(32, len(raw))
		b.WriteString(hex.EncodeToString(raw[:n]) + "\n")
		raw = raw[n:]
	}
	if err := os.WriteFile(goldenPath(name), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// encodeWithKmsg encodes with franz-go's generated code: the oracle of the golden files.
func encodeWithKmsg(recs []Record, p Producer) []byte {
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1,
		Magic:                2,
		LastOffsetDelta:      int32(len(recs) - 1),
		FirstTimestamp:       recs[0].Timestamp,
		MaxTimestamp:         recs[0].Timestamp,
		ProducerID:           p.ID,
		ProducerEpoch:        p.Epoch,
		FirstSequence:        p.Sequence,
		NumRecords:           int32(len(recs)),
	}
	if p.Transactional {
		b.Attributes |= 0x10
	}
	for i, r := range recs {
		b.MaxTimestamp = max(b.MaxTimestamp, r.Timestamp)
		k := kmsg.Record{OffsetDelta: int32(i), TimestampDelta64: r.Timestamp - b.FirstTimestamp, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		k.Length = int32(len(k.AppendTo(nil)) - 1) // the length 0 above took one byte
		b.Records = k.AppendTo(b.Records)
	}
	b.Length = int32(49 + len(b.Records))
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// TestAppendAgainstKmsg reads our bytes with franz-go's decoder, an implementation of its own.
func TestAppendAgainstKmsg(t *testing.T) {
	for name, c := range goldenCases() {
		t.Run(name, func(t *testing.T) {
			raw := Append(nil, c.recs, c.producer)
			var b kmsg.RecordBatch
			if err := b.ReadFrom(raw); err != nil {
				t.Fatal(err)
			}
			if b.ProducerID != c.producer.ID || b.ProducerEpoch != c.producer.Epoch || b.FirstSequence != c.producer.Sequence {
				t.Errorf("producer %d/%d/%d, want %+v", b.ProducerID, b.ProducerEpoch, b.FirstSequence, c.producer)
			}
			if int(b.NumRecords) != len(c.recs) || int(b.LastOffsetDelta) != len(c.recs)-1 {
				t.Errorf("%d records, last delta %d, want %d records", b.NumRecords, b.LastOffsetDelta, len(c.recs))
			}
			rest := b.Records
			for i, want := range c.recs {
				var r kmsg.Record
				if err := r.ReadFrom(rest); err != nil {
					t.Fatalf("record %d: %v", i, err)
				}
				got := Record{Timestamp: b.FirstTimestamp + r.TimestampDelta64, Key: r.Key, Value: r.Value}
				for _, h := range r.Headers {
					got.Headers = append(got.Headers, Header{h.Key, h.Value})
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("record %d (-want +got):\n%s", i, diff)
				}
				rest = rest[int(r.Length)+varintSize(int64(r.Length)):]
			}
			if len(rest) != 0 {
				t.Errorf("%d bytes left over", len(rest))
			}
		})
	}
}

func TestRecordSizeBounds(t *testing.T) {
	for name, c := range goldenCases() {
		sum := headerSize
		for i := range c.recs {
			sum += RecordSize(&c.recs[i])
		}
		if size := Size(c.recs); sum < size || sum > size+25*len(c.recs) {
			t.Errorf("%s: sum of RecordSize %d does not bound Size %d closely", name, sum, size)
		}
	}
}

// A value in pieces, even empty ones, is the same batch as the value in one; over many records too, where
// the checksum is taken in parts.
func TestAppendPieces(t *testing.T) {
	whole := someRecords(300, 500)
	pieces := slices.Clone(whole)
	for i := range pieces {
		v := pieces[i].Value
		cut := i % (len(v) + 1)
		pieces[i].Value, pieces[i].Rest = v[:cut], [][]byte{nil, v[cut:], {}}
	}
	want, got := Append(nil, whole, NoProducer()), Append([]byte("before"), pieces, NoProducer())
	if !bytes.Equal(want, got[len("before"):]) || Size(whole) != Size(pieces) {
		t.Error("a value in pieces makes another batch")
	}
	if recs, _, err := records(NewDecoder(1<<20, nil), want); err != nil || len(recs) != len(whole) {
		t.Errorf("%d of %d records are read: %v", len(recs), len(whole), err)
	}
}

func TestNextSequence(t *testing.T) {
	for _, c := range []struct {
		seq  int32
		n    int
		want int32
	}{{0, 1, 1}, {2147483646, 1, 2147483647}, {2147483647, 1, 0}, {2147483000, 1000, 352}} {
		if got := NextSequence(c.seq, c.n); got != c.want {
			t.Errorf("NextSequence(%d, %d) = %d, want %d", c.seq, c.n, got, c.want)
		}
	}
}
