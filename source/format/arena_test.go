package format

import (
	"fmt"
	"slices"
	"testing"
)

// The records of a batch keep their numbers until the arena is reset, however many there are, and those of the next batch are its own.
func TestArenaOfText(t *testing.T) {
	d := newDecoder(t, Config{Columns: []string{"a", "b"}, Only: true})
	var arena Arena
	for batch := range 3 {
		var made []*jsonFlat
		value := func(i int) float64 { return float64(i*(batch+1)) + .5 }
		for i := range 3 * slabNumbers {
			arena.Begin(0)
			rec, _, err := d.DecodeIn(t.Context(), &arena, fmt.Appendf(nil, `{"a":%v,"text":"x","b":%v}`, value(i), -value(i)), "")
			if err != nil {
				t.Fatal(err)
			}
			if flat, ok := rec.(*jsonFlat); ok { // the first one is read twice
				made = append(made, flat)
			}
		}
		for i, flat := range made[1:] {
			if want := []float64{value(i + 1), -value(i + 1)}; !slices.Equal(flat.numbers, want) {
				t.Fatalf("batch %d, record %d: %v, want %v", batch, i+1, flat.numbers, want)
			}
		}
		arena.Reset()
	}
}

func BenchmarkDecodeJSONRow(b *testing.B) {
	var columns []string
	text := []byte{'{'}
	for k := range 12 {
		columns = append(columns, fmt.Sprintf("f%d", k))
		text = fmt.Appendf(text, `"f%d":%v,`, k, 0.1234567890123456+float64(k)/7)
	}
	text = append(text, `"note":"row 1"}`...)
	d := newDecoder(b, Config{Columns: columns, Only: true})
	var arena Arena
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		arena.Begin(0)
		if _, _, err := d.DecodeIn(b.Context(), &arena, text, ""); err != nil {
			b.Fatal(err)
		}
		if i%4096 == 0 {
			arena.Reset()
		}
	}
}
