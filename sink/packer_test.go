package sink

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// Of rows of numbers, whatever their keys are, long repetitions are as good as all; of names that are shorter than those they are not.
func TestAutoLooksForShortMatchesWhereTheyAreWorthIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	number := func(key string) func(k int) string {
		return func(k int) string { return fmt.Sprintf("%q:%v,", fmt.Sprintf(key, k), rng.NormFloat64()) }
	}
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = strconv.FormatUint(rng.Uint64()%36e6+36e6*36, 36)
	}
	for _, c := range []struct {
		name string
		part func(k int) string
		want recordbatch.Codec
	}{
		{"short keys", number("f%d"), recordbatch.ZstdQuick},
		{"long keys", number("payload_temperature_of_the_inlet_%d"), recordbatch.ZstdQuick},
		{"short names", func(int) string { return ids[rng.IntN(len(ids))] }, recordbatch.Zstd},
	} {
		var text strings.Builder
		for text.Len() < 2*sampleBytes {
			for k := range 12 {
				text.WriteString(c.part(k))
			}
		}
		p := packer{on: true, with: new(recordbatch.Compressor), topics: map[string]*sampled{}}
		if got := p.codec([]byte(text.String()), "out", 1<<20); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
