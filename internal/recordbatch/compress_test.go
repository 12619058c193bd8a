package recordbatch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What is compressed here is read back by our decoder, and by that of another client; a batch that would
// grow stays as it was.
func TestCompress(t *testing.T) {
	recs := someRecords(50, 2000)
	for i := range recs {
		recs[i].Offset = int64(i)
		recs[i].Value = bytes.Repeat(recs[i].Value[:20], 100)
	}
	plain := Append([]byte("before"), recs, Producer{ID: 7, Epoch: 3, Sequence: 11, Transactional: true})
	var c Compressor
	for _, to := range []Codec{None, LZ4, Zstd} {
		t.Run(to.String(), func(t *testing.T) {
			for range 2 { // the second time with an encoder that was used before
				b, err := c.Compress(bytes.Clone(plain), 6, to)
				if err != nil {
					t.Fatal(err)
				}
				if string(b[:6]) != "before" || to != None && len(b) > len(plain)/5 {
					t.Errorf("%d bytes of %d, after %q", len(b), len(plain), b[:6])
				}
				batch, got := decodeOne(t, b[6:])
				if batch.Producer != (Producer{ID: 7, Epoch: 3, Sequence: 11, Transactional: true}) {
					t.Errorf("producer %+v", batch.Producer)
				}
				if diff := cmp.Diff(recs, got); diff != "" {
					t.Error(diff)
				}
				if to == None {
					return
				}
				theirs, err := kgo.DefaultDecompressor().Decompress(b[6+headerSize:], kgo.CompressionCodecType(to))
				if err != nil || !bytes.Equal(theirs, plain[6+headerSize:]) {
					t.Errorf("another client reads %d bytes, %v", len(theirs), err)
				}
			}
		})
	}
}

func decodeOne(t *testing.T, raw []byte) (b Batch, recs []Record) {
	t.Helper()
	d := NewDecoder(1<<20, nil)
	d.Reset(raw)
	err := d.Next(&b)
	if err == nil {
		recs, err = d.Records(nil, &b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b, recs
}

func TestCompressNoise(t *testing.T) {
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	plain := Append(nil, []Record{{Value: noise}}, NoProducer())
	var c Compressor
	for _, to := range []Codec{LZ4, Zstd, ZstdQuick} {
		if b, err := c.Compress(bytes.Clone(plain), 0, to); err != nil || !bytes.Equal(b, plain) {
			t.Errorf("%s: %d bytes of %d, %v", to, len(b), len(plain), err)
		}
	}
	if _, err := c.Compress(bytes.Clone(plain), 0, 7); err == nil {
		t.Error("a codec that does not exist")
	}
}

// Partitions compress side by side.
func TestCompressConcurrently(t *testing.T) {
	var c Compressor
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			value := bytes.Repeat(fmt.Appendf(nil, "value %d ", i), 1000)
			for _, to := range []Codec{LZ4, Zstd, ZstdQuick, LZ4, Zstd, ZstdQuick} {
				b, err := c.Compress(Append(nil, []Record{{Value: value}}, NoProducer()), 0, to)
				if err != nil {
					t.Error(err)
					return
				}
				if _, recs := decodeOne(t, b); !bytes.Equal(recs[0].Value, value) {
					t.Errorf("%s mixes batches up", to)
				}
			}
		})
	}
	wg.Wait()
}

// Every frame of zstd says how much it holds, so that readers allocate once. Java's frames do not, and librdkafka gives up where what it tries next is
// beyond its limit. (Of less than 256 bytes nothing is said; three times as much is nothing, too.)
func TestZstdSaysHowMuchItHolds(t *testing.T) {
	var c Compressor
	for _, n := range []int{256, 257, 1000, 1024, 1025, 65_791, 65_792, 1 << 17, zstdWindow, zstdWindow + 1, 5 << 20} {
		piece := bytes.Repeat([]byte("a row, "), n/7+1)[:n]
		recs := []Record{{Value: piece[:n/2], Rest: [][]byte{piece[n/2:]}}}
		packed, ok := c.Pack(nil, recs, NoProducer())
		if !ok {
			t.Fatalf("%d bytes are not packed", n)
		}
		frames := map[string][]byte{"packed": packed[headerSize:]}
		for _, codec := range []Codec{Zstd, ZstdQuick} {
			frame, err := c.Encode(nil, Append(nil, recs, NoProducer())[headerSize:], codec)
			if err != nil {
				t.Fatal(err)
			}
			frames[codec.String()] = frame
		}
		for how, frame := range frames {
			var h zstd.Header
			if err := h.Decode(frame); err != nil || !h.HasFCS || h.FrameContentSize != uint64(Size(recs)-headerSize) {
				t.Errorf("%d bytes, %s: says %v, %d; want %d (%v)", n, how, h.HasFCS, h.FrameContentSize, Size(recs)-headerSize, err)
			}
		}
	}
}
