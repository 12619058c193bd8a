package recordbatch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
)

// allocated is the number of bytes that were ever allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// forged is a batch that claims n records, whatever its payload holds; its checksum is right.
func forged(payload []byte, count int, c codec) []byte {
	b := append(appendHeader(nil, count, 0, 0, NoProducer()), payload...)
	return seal(b, uint16(c))
}

// bareRecord is a record with null key and value, and headers without key and value.
func bareRecord(offset, headers int) []byte {
	body := binary.AppendVarint([]byte{0, 0}, int64(offset))
	body = binary.AppendVarint(append(body, 1, 1), int64(headers))
	body = append(body, bytes.Repeat([]byte{0, 1}, headers)...)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

func bareRecords(n int) (payload []byte) {
	for i := range n {
		payload = append(payload, bareRecord(i, 0)...)
	}
	return payload
}

// A batch is refused before anything is allocated for what it only claims to need: what a refusal may cost
// is the decompressed bytes, as they grow, and no more.
func TestBombs(t *testing.T) {
	const limit = 8 << 20
	squeeze := kgoCompressor(t, kgo.ZstdCompression())
	wide := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 17 << 3, 0x01, 0x00, 0x00} // a window of 128 MiB, no content
	for _, c := range []struct {
		name string
		raw  []byte
		want error
		most uint64
	}{
		{"headers", forged(squeeze(bareRecord(0, limit/2-64)), 1, codecZstd), ErrTooLarge, 3 * limit},
		{"headers, not compressed", forged(bareRecord(0, limit/2-64), 1, codecNone), ErrTooLarge, 1 << 16},
		{"records", forged(squeeze(bareRecords(1_000_000)), 1_000_000, codecZstd), ErrTooLarge, 1 << 16},
		{"records, not compressed", forged(bareRecords(1_000_000), 1_000_000, codecNone), ErrTooLarge, 1 << 16},
		{"a wide window", forged(wide, 1, codecZstd), ErrCorrupt, 1 << 20},
		{"a wide window in the second frame", forged(append(squeeze(bareRecord(0, 0)), wide...), 1, codecZstd), nil, 1 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(limit, nil)
			if _, _, err := records(d, seal(append(appendHeader(nil, 1, 0, 0, NoProducer()), squeeze(bareRecord(0, 0))...), uint16(codecZstd))); err != nil {
				t.Fatal(err) // so that the decompressor is there
			}
			least := uint64(math.MaxUint64)
			for range 3 { // the collector allocates as well, now and then
				before := allocated()
				recs, _, err := records(d, c.raw)
				if !errors.Is(err, c.want) || len(recs) > 1 {
					t.Errorf("%d records, %v; want %v", len(recs), err, c.want)
				}
				least = min(least, allocated()-before)
			}
			if least > c.most {
				t.Errorf("%d bytes allocated for a batch of %d, more than %d", least, len(c.raw), c.most)
			}
		})
	}
}

// What Held says is what a batch takes in addition to its bytes.
func TestHeld(t *testing.T) {
	recs := someRecords(1000, 100)
	for i := range recs {
		recs[i].Headers = []Header{{Key: "key", Value: []byte("value")}, {Key: "k"}}
	}
	plain := Append(nil, recs, NoProducer())
	values := 1000 * (RecordBytes + 2*headerBytes + len("keyk"))
	for _, c := range []struct {
		name string
		raw  []byte
		want int
	}{
		{"plain", plain, values},
		{"compressed", recompress(t, plain, codecLZ4, kgoCompressor(t, kgo.Lz4Compression())), values + len(plain) - headerSize},
	} {
		d := NewDecoder(1<<20, nil)
		if _, _, err := records(d, c.raw); err != nil || d.Held() != c.want {
			t.Errorf("%s: holds %d, want %d; %v", c.name, d.Held(), c.want, err)
		}
	}
}

// Frames whose window is wider than their content may be are read, however many there are.
func TestWideFrames(t *testing.T) {
	recs := someRecords(50, 400)
	plain := Append(nil, recs, NoProducer())
	payload := plain[headerSize:]
	java := javaZstd(t, 8<<20)
	skippable := []byte{0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}
	raw := bytes.Join([][]byte{plain[:headerSize], java(payload[:7000]), skippable, java(payload[7000:])}, nil)
	got, _, err := records(NewDecoder(len(payload), nil), seal(raw, uint16(codecZstd)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(recs, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// What is compressed and does not fit is too large, and not damaged, whatever shows first that it does not: of zstd its size, a match from farther back
// than the limit, or a block of more. With more room it is read.
func TestTooLargeIsNotDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	contents := map[string][]byte{"zeros": make([]byte, 1<<20), "noise": noise(1 << 20)}
	for _, kib := range []int{1, 2, 63, 65, 66, 100, 129, 200, 258, 300, 520} {
		half := hex.AppendEncode(nil, noise(kib<<9))
		contents[fmt.Sprintf("%d KiB twice", kib)] = bytes.Repeat(half, 2)
		contents[fmt.Sprintf("%d KiB thrice, with other text between", kib)] = slices.Concat(half, noise(3000), half, noise(70<<10), half)
	}
	streamed := func(level zstd.EncoderLevel) func([]byte) []byte { // without the size of the content
		return func(b []byte) []byte {
			var out bytes.Buffer
			w, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(level), zstd.WithWindowSize(4<<20), zstd.WithSingleSegment(false))
			if err == nil {
				_, err = w.Write(b)
			}
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			return out.Bytes()
		}
	}
	for _, c := range []struct {
		name     string
		codec    codec
		compress func([]byte) []byte
	}{
		{"gzip", codecGzip, kgoCompressor(t, kgo.GzipCompression())},
		{"snappy", codecSnappy, kgoCompressor(t, kgo.SnappyCompression())},
		{"lz4", codecLZ4, kgoCompressor(t, kgo.Lz4Compression())},
		{"zstd", codecZstd, kgoCompressor(t, kgo.ZstdCompression())},
		{"streamed zstd, fast", codecZstd, streamed(zstd.SpeedFastest)},
		{"streamed zstd, best", codecZstd, streamed(zstd.SpeedBestCompression)},
	} {
		for name, content := range contents {
			plain := Append(nil, []Record{{Value: content}}, NoProducer())
			size := len(plain) - headerSize
			raw := recompress(t, plain, c.codec, c.compress)
			for _, limit := range []int{1 << 10, 3 << 10, 48 << 10, 64 << 10, 100 << 10, 128 << 10, 160 << 10, 256 << 10, 300 << 10, 512 << 10, 777 << 10, size / 2, size - 1, size, size + 1, 64 << 20} {
				got, _, err := records(NewDecoder(limit, nil), raw)
				switch {
				case limit >= max(size, RecordBytes, len(raw)) && (err != nil || len(got) != 1 || !bytes.Equal(got[0].Value, content)):
					t.Errorf("%s, %s: %d bytes in %d: %d records, %v", c.name, name, size, limit, len(got), err)
				case limit < size && !errors.Is(err, ErrTooLarge):
					t.Errorf("%s, %s: %d bytes in %d: %v", c.name, name, size, limit, err)
				}
			}
		}
	}
}

// windowOf agrees with the library on what its descriptor says, and is tight.
func TestWindowOf(t *testing.T) {
	for _, n := range []int{1, 1 << 10, 1<<10 + 1, 5000, 1 << 20, 1<<20 - 1, 1<<26 - 1, 1 << 26, 1<<26 + 1, 60_000_000} {
		descriptor, size := windowOf(n)
		var h zstd.Header
		if err := h.Decode([]byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, descriptor, 0x01, 0x00, 0x00}); err != nil {
			t.Fatal(err)
		}
		if int(h.WindowSize) != size || size < n || size > max(n+n/8, zstd.MinWindowSize) {
			t.Errorf("%d: window %d, the library says %d", n, size, h.WindowSize)
		}
	}
}

// Behind a batch that cannot be read the next one is read, and the bytes of the bad one are there.
func TestNextGoesOn(t *testing.T) {
	good := Append(nil, someRecords(2, 10), NoProducer())
	binary.BigEndian.PutUint64(good, 7)
	for name, spoil := range map[string]func([]byte){
		"damaged":       func(b []byte) { b[80] ^= 1 },
		"contradictory": func(b []byte) { binary.BigEndian.PutUint32(b[atLastDelta:], 1<<31); seal(b, 0) },
		"old":           func(b []byte) { b[atMagic] = 1 },
	} {
		bad := Append(nil, someRecords(3, 10), NoProducer())
		binary.BigEndian.PutUint64(bad, 4)
		spoil(bad)
		d := NewDecoder(1<<10, nil)
		d.Reset(append(bytes.Clone(bad), good...))
		var b Batch
		err := d.Next(&b)
		next, ok := d.Following()
		if err == nil || errors.Is(err, io.EOF) || !bytes.Equal(b.Raw(), bad) || b.BaseOffset != 4 || next != 7 || !ok {
			t.Errorf("%s: %v, %d bytes at %d, then %d", name, err, len(b.Raw()), b.BaseOffset, next)
		}
		if err := d.Next(&b); err != nil || b.BaseOffset != 7 || b.LastOffset != 8 {
			t.Errorf("%s: the next batch is %+v, %v", name, b, err)
		}
		if err := d.Next(&b); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v at the end", name, err)
		}
	}
}

// A message of an old format that is cut off is like a batch that is.
func TestTailOfAnOldFormat(t *testing.T) {
	raw := Append(nil, someRecords(1, 100), NoProducer())
	raw[atMagic] = 0
	binary.BigEndian.PutUint64(raw, 9)
	d := NewDecoder(1<<10, nil)
	d.Reset(raw[:len(raw)-1])
	if err := d.Next(new(Batch)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if b, size, ok := d.Tail(); !ok || size != int64(len(raw)) || b.LastOffset != 9 {
		t.Errorf("%+v, %d bytes, %v", b, size, ok)
	}
}
