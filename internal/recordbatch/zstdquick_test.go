package recordbatch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// digits is text of random numbers.
func digits(size int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for len(text) < size {
		text = append(strconv.AppendFloat(text, rng.NormFloat64(), 'g', -1, 64), ',')
	}
	return text[:size]
}

// objects is rows of twelve numbers each, as JSON behind headers.
func objects(size int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for row := 0; len(text) < size; row++ {
		text = fmt.Appendf(text, "content-type application/json source-topic measurements source-offset %d ", row)
		for k := range 12 {
			text = fmt.Appendf(text, "%c\"f%d\":%v", "{,"[min(k, 1)], k, rng.NormFloat64())
		}
		text = append(text, '}')
	}
	return text[:size]
}

// words is text of repetitions of many lengths, some of which lie far back.
func words(size int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	text := digits(5000)
	for len(text) < size {
		from := rng.IntN(len(text))
		if rng.IntN(3) > 0 {
			from = max(0, len(text)-1-rng.IntN(300))
		}
		n := min(len(text)-from, 1<<rng.IntN(15)+rng.IntN(40))
		text = append(append(text, text[from:from+n]...), byte(rng.IntN(256)))
	}
	return text[:size]
}

// Any reader of zstd reads it, whatever the content is.
func FuzzZstdQuick(f *testing.F) {
	for _, text := range []string{"", "a", "aaaaaaaa", "abcdefgh", strings.Repeat("x", zstdBlock+1), strings.Repeat("0123456789abcdef-", zstdBlock/8),
		string(digits(100)), string(digits(2*zstdBlock + 7)), string(digits(2 * zstdBlock)), string(objects(3000)), string(objects(3 * zstdBlock)), string(words(5 * zstdBlock))} {
		f.Add([]byte(text))
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdBlock))
	if err != nil {
		f.Fatal(err)
	}
	defer d.Close()
	var c Compressor
	f.Fuzz(func(t *testing.T, text []byte) {
		packed, err := c.Encode([]byte("before"), text, ZstdQuick)
		if err != nil {
			t.Fatal(err)
		}
		if most := len(text) + 32 + len(text)/zstdBlock*8; len(packed) > most {
			t.Errorf("%d bytes of %d", len(packed), len(text))
		}
		got, err := d.DecodeAll(bytes.TrimPrefix(packed, []byte("before")), nil)
		if err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%d bytes become %d: %v", len(text), len(got), err)
		}
	})
}

// Texts of all sizes and frequencies of codes are read back.
func TestZstdQuickReadsBack(t *testing.T) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdBlock))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	var c Compressor
	for kind, text := range [][]byte{digits(1 << 20), objects(1 << 20), words(1 << 20)} {
		for range 300 {
			from := rng.IntN(len(text))
			part := text[from:min(len(text), from+1<<rng.IntN(20)+rng.IntN(50))]
			packed, err := c.Encode(nil, part, ZstdQuick)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := d.DecodeAll(packed, nil); err != nil || !bytes.Equal(got, part) {
				t.Fatalf("kind %d, %d bytes from %d: %v", kind, len(part), from, err)
			}
		}
	}
}

// Digits become half as large, and rows of JSON nearly as small as zstd makes them.
func TestZstdQuickSizes(t *testing.T) {
	var c Compressor
	size := func(text []byte, to Codec) float64 {
		packed, err := c.Encode(nil, text, to)
		if err != nil {
			t.Fatal(err)
		}
		return float64(len(packed))
	}
	for _, n := range []int{1000, 100_000, 1 << 20} {
		if got := size(digits(n), ZstdQuick); got > float64(n)/2 {
			t.Errorf("%v bytes of %d", got, n)
		}
		if got, all := size(objects(n), ZstdQuick), size(objects(n), Zstd); got > 1.1*all {
			t.Errorf("%v bytes of %d, where zstd makes %v", got, n, all)
		}
	}
}

func BenchmarkZstdQuick(b *testing.B) {
	text := objects(1 << 20)
	var c Compressor
	for _, to := range []Codec{LZ4, Zstd, ZstdQuick} {
		b.Run(to.String(), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var out []byte
			for b.Loop() {
				out, _ = c.Encode(out[:0], text, to)
			}
			b.ReportMetric(float64(len(out))/float64(len(text)), "ratio")
		})
	}
}
