package recordbatch

import (
	"bytes"
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

// Any reader of zstd reads it, whatever the content is, and digits become half as large.
func FuzzZstdHuffman(f *testing.F) {
	for _, text := range []string{"", "a", "aaaaaaaa", "abcdefgh", strings.Repeat("x", zstdBlock+1), string(digits(100)), string(digits(2*zstdBlock + 7)), string(digits(2 * zstdBlock))} {
		f.Add([]byte(text))
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdBlock))
	if err != nil {
		f.Fatal(err)
	}
	defer d.Close()
	var c Compressor
	f.Fuzz(func(t *testing.T, text []byte) {
		packed, err := c.Encode([]byte("before"), text, ZstdHuffman)
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

func TestZstdHuffmanHalvesDigits(t *testing.T) {
	var c Compressor
	for _, size := range []int{1000, 100_000, 1 << 20} {
		packed, err := c.Encode(nil, digits(size), ZstdHuffman)
		if err != nil || len(packed)*2 > size {
			t.Errorf("%d bytes of %d, %v", len(packed), size, err)
		}
	}
}
