package recordbatch

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
)

// recompress rewrites the batch as a producer with that codec would have sent it. The compressors
// are those of franz-go, so what is tested is not our own idea of a format.
func recompress(t *testing.T, raw []byte, c codec, compress func([]byte) []byte) []byte {
	t.Helper()
	b := append(append([]byte(nil), raw[:headerSize]...), compress(raw[headerSize:])...)
	return seal(b, uint16(c))
}

func kgoCompressor(t testing.TB, c kgo.CompressionCodec) func([]byte) []byte {
	t.Helper()
	compressor, err := kgo.DefaultCompressor(c)
	if err != nil {
		t.Fatal(err)
	}
	return func(b []byte) []byte {
		out, _ := compressor.Compress(new(bytes.Buffer), b)
		return append([]byte(nil), out...)
	}
}

// javaZstd compresses as Java's producers do: as a stream, so that the frame does not say its size,
// and with the given window.
func javaZstd(t *testing.T, window int) func([]byte) []byte {
	t.Helper()
	return func(b []byte) []byte {
		var out bytes.Buffer
		w, err := zstd.NewWriter(&out, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
		if err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 { // a Flush before the end forgoes the one-block shortcut
			n := min(len(b), 1000)
			if _, err = w.Write(b[:n]); err == nil {
				err = w.Flush()
			}
			if err != nil {
				t.Fatal(err)
			}
			b = b[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
}

func xerialBlocks(b []byte) []byte {
	out := xerial.Encode(nil, b[:len(b)/2])
	second := xerial.Encode(nil, b[len(b)/2:])
	return append(out, second[xerialHeaderSize:]...)
}

func TestCodecs(t *testing.T) {
	recs := someRecords(50, 400)
	plain := Append(nil, recs, NoProducer())
	for _, c := range []struct {
		name     string
		codec    codec
		compress func([]byte) []byte
	}{
		{"gzip", codecGzip, kgoCompressor(t, kgo.GzipCompression())},
		{"snappy", codecSnappy, kgoCompressor(t, kgo.SnappyCompression())},
		{"snappy of Java, two blocks", codecSnappy, xerialBlocks},
		{"lz4", codecLZ4, kgoCompressor(t, kgo.Lz4Compression())},
		{"zstd", codecZstd, kgoCompressor(t, kgo.ZstdCompression())},
		{"zstd of Java, unknown size", codecZstd, javaZstd(t, 1<<20)},
		{"zstd of Java, window larger than the limit", codecZstd, javaZstd(t, 8<<20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := recompress(t, plain, c.codec, c.compress)
			if len(raw) >= len(plain) {
				t.Fatalf("%d bytes compressed to %d: nothing tested", len(plain), len(raw))
			}
			size := len(plain) - headerSize
			d := NewDecoder(size, nil)
			for range 2 { // the second time with the decompressor of the first
				got, _, err := records(d, append(raw[:len(raw):len(raw)], raw...)[:len(raw)])
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(recs, got); diff != "" {
					t.Fatalf("records (-want +got):\n%s", diff)
				}
			}
			if _, _, err := records(NewDecoder(size-1, nil), raw); !errors.Is(err, ErrTooLarge) {
				t.Errorf("one byte over the limit: %v, want ErrTooLarge", err)
			}
			raw = seal(raw[:len(raw)-3], uint16(c.codec))
			if _, _, err := records(d, raw); !errors.Is(err, ErrCorrupt) {
				t.Errorf("truncated: %v, want ErrCorrupt", err)
			}
		})
	}
}

// TestDecompressionBomb measures that a small batch that claims to be huge is refused cheaply.
func TestDecompressionBomb(t *testing.T) {
	zeros := make([]byte, 64<<20)
	plain := Append(nil, someRecords(1, 1), NoProducer())
	const limit = 1 << 20
	for name, c := range map[string]struct {
		codec    codec
		compress func([]byte) []byte
	}{
		"gzip":   {codecGzip, kgoCompressor(t, kgo.GzipCompression())},
		"snappy": {codecSnappy, xerialBlocks},
		"lz4":    {codecLZ4, kgoCompressor(t, kgo.Lz4Compression())},
		"zstd":   {codecZstd, kgoCompressor(t, kgo.ZstdCompression())},
	} {
		t.Run(name, func(t *testing.T) {
			raw := seal(append(append([]byte(nil), plain[:headerSize]...), c.compress(zeros)...), uint16(c.codec))
			d := NewDecoder(limit, nil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := records(d, raw)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("got %v, want ErrTooLarge", err)
			}
			// The buffers of the limit as they grow (under 3x), and the tables and blocks of the decompressor: lz4 has three of 4 MiB, from a pool,
			// which the race detector empties at random.
			if got := after.TotalAlloc - before.TotalAlloc; got > 3*limit+3*4<<20 {
				t.Errorf("%d bytes allocated for a limit of %d", got, limit)
			}
		})
	}
}
