package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// records decodes a whole record set.
func records(d *Decoder, raw []byte) (recs []Record, headers []Batch, err error) {
	d.Reset(raw)
	for {
		var b Batch
		if err = d.Next(&b); err != nil {
			break
		}
		headers = append(headers, b)
		if recs, err = d.Records(recs, &b); err != nil {
			break
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return recs, headers, err
}

func TestDecodeGolden(t *testing.T) {
	for name, c := range goldenCases() {
		t.Run(name, func(t *testing.T) {
			recs, headers, err := records(NewDecoder(1<<20, nil), readGolden(t, name))
			if err != nil {
				t.Fatal(err)
			}
			want := append([]Record(nil), c.recs...)
			for i := range want {
				want[i].Offset = int64(i)
			}
			if diff := cmp.Diff(want, recs); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if len(headers) != 1 || headers[0].Producer != c.producer || headers[0].LastOffset != int64(len(want)-1) || headers[0].Control {
				t.Errorf("headers %+v, want one of producer %+v", headers, c.producer)
			}
		})
	}
}

// seal sets the codec bits, the length and the checksum of a batch.
func seal(b []byte, codecBits uint16) []byte {
	be := binary.BigEndian
	be.PutUint16(b[atAttributes:], be.Uint16(b[atAttributes:])&^codecMask|codecBits)
	be.PutUint32(b[atLength:], uint32(len(b)-lengthStart))
	be.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli()))
	return b
}

// someRecords are n records, half of their bytes random, so that they shrink but not to nothing.
func someRecords(n, size int) []Record {
	rng := rand.New(rand.NewPCG(1, 2))
	recs := make([]Record, n)
	for i := range recs {
		v := make([]byte, size)
		for j := range v[:size/2] {
			v[j] = byte(rng.Uint32())
		}
		recs[i] = Record{Offset: int64(i), Timestamp: 1700000000000 + int64(i), Key: []byte{byte(i)}, Value: v}
	}
	return recs
}

func TestDecodeSets(t *testing.T) {
	three := func(base int64) []byte {
		b := Append(nil, someRecords(3, 10), NoProducer())
		binary.BigEndian.PutUint64(b, uint64(base)) // as the broker does; not under the checksum
		return b
	}
	// What compaction leaves of an idempotent producer's last batch: its header.
	empty := func(base int64) []byte {
		b := three(base)[:headerSize]
		binary.BigEndian.PutUint32(b[atCount:], 0)
		return seal(b, 0)
	}
	emptyZstd := func(base int64) []byte {
		b := append(empty(base), kgoCompressor(t, kgo.ZstdCompression())(nil)...)
		return seal(b, uint16(codecZstd))
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for _, c := range []struct {
		name    string
		raw     []byte
		offsets []int64
		last    int64 // of the last whole batch; -1: none
	}{
		{"nothing", nil, nil, -1},
		{"a few bytes", []byte{1, 2, 3}, nil, -1},
		{"two batches with a gap", join(three(10), three(20)), []int64{10, 11, 12, 20, 21, 22}, 22},
		{"the last cut off in its records", join(three(10), three(20)[:80]), []int64{10, 11, 12}, 12},
		{"the last cut off in its header", join(three(10), three(20)[:30]), []int64{10, 11, 12}, 12},
		// Without the last offset of empty batches a reader would ask for offset 13 forever.
		{"empty batches at the end", join(three(10), empty(13), emptyZstd(16)), []int64{10, 11, 12}, 18},
		{"empty batches alone", join(empty(7), emptyZstd(10)), nil, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			recs, headers, err := records(NewDecoder(1<<20, nil), c.raw)
			if err != nil {
				t.Fatal(err)
			}
			var offsets []int64
			for _, r := range recs {
				offsets = append(offsets, r.Offset)
			}
			if diff := cmp.Diff(c.offsets, offsets); diff != "" {
				t.Errorf("offsets (-want +got):\n%s", diff)
			}
			last := int64(-1)
			if len(headers) > 0 {
				last = headers[len(headers)-1].LastOffset
			}
			if last != c.last {
				t.Errorf("last offset %d, want %d", last, c.last)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	good := func() []byte { return Append(nil, someRecords(3, 100), NoProducer()) }
	be := binary.BigEndian
	for _, c := range []struct {
		name string
		raw  func() []byte
		want error
		text string
	}{
		{"a flipped bit", func() []byte { b := good(); b[100] ^= 4; return b }, ErrChecksum, "checksum"},
		{"old message format", func() []byte { b := good(); b[atMagic] = 1; return b }, ErrUnsupported, "before Kafka 0.11"},
		{"negative length", func() []byte { b := good(); be.PutUint32(b[atLength:], 1<<31); return b }, ErrFraming, "length"},
		{"a format of the future", func() []byte { b := good(); b[atMagic] = 3; return b }, ErrFraming, "v3"},
		{"codec 5", func() []byte { return seal(good(), 5) }, ErrUnsupported, "codec 5"},
		{"a billion records", func() []byte { b := good(); be.PutUint32(b[atCount:], 1<<30); return seal(b, 0) }, ErrTooLarge, "1073741824 records"},
		{"a thousand records", func() []byte { b := good(); be.PutUint32(b[atCount:], 1000); return seal(b, 0) }, ErrCorrupt, "records in"},
		{"negative count", func() []byte { b := good(); be.PutUint32(b[atCount:], 1<<31); return seal(b, 0) }, ErrCorrupt, "records"},
		{"more records than bytes for them", func() []byte { b := good(); be.PutUint32(b[atCount:], 4); return seal(b, 0) }, ErrCorrupt, "record 4 of 4"},
		{"fewer records", func() []byte { b := good(); be.PutUint32(b[atCount:], 2); return seal(b, 0) }, ErrCorrupt, "after its last"},
		{"offsets beyond the last", func() []byte { b := good(); be.PutUint32(b[atLastDelta:], 1); return seal(b, 0) }, ErrCorrupt, "offset 2"},
		{"last before base", func() []byte { b := good(); be.PutUint32(b[atLastDelta:], 1<<31); return seal(b, 0) }, ErrCorrupt, "offsets"},
		{"not gzip", func() []byte { return seal(good(), uint16(codecGzip)) }, ErrCorrupt, "gzip"},
		{"not snappy", func() []byte { return seal(good(), uint16(codecSnappy)) }, ErrCorrupt, "snappy"},
		{"not lz4", func() []byte { return seal(good(), uint16(codecLZ4)) }, ErrCorrupt, "lz4"},
		{"not zstd", func() []byte { return seal(good(), uint16(codecZstd)) }, ErrCorrupt, "zstd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := records(NewDecoder(1<<20, nil), c.raw())
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v that says %q", err, c.want, c.text)
			}
		})
	}
}

func TestLogAppendTime(t *testing.T) {
	b := Append(nil, someRecords(2, 10), NoProducer())
	binary.BigEndian.PutUint64(b[atMaxTime:], 42)
	b = seal(b, attrLogAppend)
	recs, _, err := records(NewDecoder(1<<20, nil), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if r.Timestamp != 42 {
			t.Errorf("timestamp %d, want that of the broker, 42", r.Timestamp)
		}
	}
}

func TestMarker(t *testing.T) {
	marker := func(key []byte) []byte {
		b := Append(nil, []Record{{Key: key, Value: []byte{0, 0, 0, 0, 0, 0}}}, Producer{ID: 3, Epoch: 1, Sequence: -1, Transactional: true})
		binary.BigEndian.PutUint16(b[atAttributes:], attrTransaction|attrControl)
		return seal(b, 0)
	}
	for _, c := range []struct {
		name string
		key  []byte
		want End
	}{
		{"abort", []byte{0, 0, 0, 0}, Aborted},
		{"commit", []byte{0, 0, 0, 1}, Committed},
		{"commit of a later version", []byte{0, 9, 0, 1, 77}, Committed},
		{"a leader change", []byte{0, 0, 0, 2}, OtherControl},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(1<<10, nil)
			d.Reset(marker(c.key))
			var b Batch
			if err := d.Next(&b); err != nil {
				t.Fatal(err)
			}
			got, err := d.Marker(&b)
			if err != nil || got != c.want || !b.Control || b.Producer.ID != 3 {
				t.Errorf("got %v, %v of %+v, want %v", got, err, b, c.want)
			}
		})
	}
	d := NewDecoder(1<<10, nil)
	d.Reset(marker([]byte{0}))
	var b Batch
	if err := d.Next(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Marker(&b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a key of one byte: %v, want ErrCorrupt", err)
	}
}

func TestTail(t *testing.T) {
	raw := Append(nil, someRecords(3, 1000), NoProducer())
	d := NewDecoder(1<<20, nil)
	d.Reset(raw[:len(raw)-1])
	var b Batch
	if err := d.Next(&b); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v, want io.EOF", err)
	}
	b, size, ok := d.Tail()
	if !ok || size != int64(len(raw)) || b.LastOffset != 2 || b.Count != 3 {
		t.Errorf("got %+v, %d bytes, %v", b, size, ok)
	}
	d.Reset(raw[:headerSize-1])
	if _, _, ok := d.Tail(); ok {
		t.Error("a tail was read from less than a header")
	}
}

// FuzzDecode checks that no bytes make the decoder panic or return more than its limit.
func FuzzDecode(f *testing.F) {
	plain := Append(nil, someRecords(3, 50), Producer{ID: 1, Transactional: true})
	f.Add(plain, uint16(0))
	for c := codecGzip; c <= codecZstd+1; c++ {
		f.Add(plain, uint16(c))
	}
	f.Add(append(append([]byte(nil), plain[:headerSize]...), xerialMagic+"\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x05abcde"...), uint16(codecSnappy))
	const limit = 1 << 16
	d := NewDecoder(limit, nil)
	f.Fuzz(func(t *testing.T, raw []byte, codecBits uint16) {
		if len(raw) >= headerSize { // give it a right checksum, so that fuzzing gets past it
			raw = append([]byte(nil), raw...)
			raw[atMagic] = magicV2
			seal(raw, codecBits&codecMask)
		}
		recs, _, _ := records(d, raw)
		total := 0
		for i := range recs {
			total += len(recs[i].Key) + len(recs[i].Value)
			for _, h := range recs[i].Headers {
				total += len(h.Key) + len(h.Value)
			}
		}
		if total > limit {
			t.Errorf("%d bytes out of a limit of %d", total, limit)
		}
	})
}
