package snapshot

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

func statisticsOf(t *testing.T) *Statistics {
	t.Helper()
	const n, d = 60, 3
	r := rand.New(rand.NewPCG(3, 2))
	x, ids := mat.NewDense(n, d, nil), make([]uint64, n)
	for i := range n {
		x.SetRow(i, []float64{100 * r.NormFloat64(), 7, r.NormFloat64() + 1e3})
		ids[i] = r.Uint64()
	}
	m, err := lca.Fit(context.Background(), x, lca.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	s, err := StatisticsOf(&Snapshot{Model: m, ModelID: "m", Version: 60, Features: []string{"a", "b", "c"}}, "test")
	if err != nil {
		t.Fatal(err)
	}
	a := m.NewAccumulator(lca.Float64)
	a.Begin(2)
	a.Add(x.RawMatrix().Data[:40*d], ids[:40])
	a.Leave(1)
	a.Begin(9)
	a.Begin(1 << 40)
	a.Add(x.RawMatrix().Data[40*d:], ids[40:])
	s.Parts = a.End()
	return s
}

func TestStatistics(t *testing.T) {
	s := statisticsOf(t)
	var b bytes.Buffer
	if err := WriteStatistics(&b, s); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	got, err := ReadStatistics(bytes.NewReader(data), s)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, s) {
		t.Errorf("read %+v\nwrote %+v", got, s)
	}
	other := *s
	other.Fingerprint = "00"
	if _, err := ReadStatistics(bytes.NewReader(data), &other); err == nil || !strings.Contains(err.Error(), s.Fingerprint) {
		t.Errorf("another model's statistics: %v", err)
	}
	const mark = 8 // of the end
	for n := range len(data) - mark {
		if _, err := ReadStatistics(bytes.NewReader(data[:n]), s); err == nil {
			t.Fatalf("%d of %d bytes are read", n, len(data))
		}
	}
	for n := range data { // an error or sums, and no panic
		flipped := bytes.Clone(data)
		flipped[n] ^= 0x40
		_, _ = ReadStatistics(bytes.NewReader(flipped), s)
	}
}
