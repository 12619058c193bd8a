package sink

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// Digits have no repetitions that are worth looking for; keys of many letters have them.
func TestAutoLooksForMatchesWhereTheyAreWorthIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for key, want := range map[string]recordbatch.Codec{"f%d": recordbatch.ZstdHuffman, "payload_temperature_of_the_inlet_%d": recordbatch.Zstd} {
		var text strings.Builder
		for text.Len() < 2*sampleBytes {
			for k := range 12 {
				fmt.Fprintf(&text, "%q:%v,", fmt.Sprintf(key, k), rng.NormFloat64())
			}
		}
		p := packer{by: CompressAuto, with: new(recordbatch.Compressor), topics: map[string]*sampled{}}
		if got := p.codec([]byte(text.String()), "out", 1<<20); got != want {
			t.Errorf("keys like %s: %s, want %s", key, got, want)
		}
	}
}
