package snapshot

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// decodedBy decodes the parts of a snapshot.
func decodedBy(parts []partBytes, add func(d *decoder, part string, data []byte) ([]byte, error)) (*Snapshot, error) {
	var d decoder
	for _, p := range parts {
		if _, err := add(&d, p.name, p.data); err != nil {
			return nil, err
		}
	}
	return d.finish()
}

type partBytes struct {
	name string
	data []byte
}

// What is read from where the numbers lie is what the Arrow library reads, and damaged bytes are refused by both, or read by both as the
// same model.
func TestFlatSnapshotsAreThoseOfTheArrowLibrary(t *testing.T) {
	flat, same := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		d := 1 + r.IntN(6)
		s := example(d, r.IntN(d+1), r.IntN(30), 1+seed)
		if r.IntN(3) == 0 {
			s.Extra = map[string]string{"site": "north", "b": ""}
		}
		if r.IntN(4) == 0 {
			s.Model.Scores = nil
		}
		parts := partsOf(t, s)
		for damage := range 300 {
			spoilt := slices.Clone(parts)
			if damage > 0 {
				p := &spoilt[r.IntN(len(spoilt))]
				p.data = slices.Clone(p.data)
				for range 1 + r.IntN(2) {
					at := r.IntN(len(p.data))
					switch r.IntN(3) {
					case 0:
						p.data[at] ^= 1 << r.IntN(8)
					case 1:
						p.data[at] = byte(r.IntN(256))
					case 2:
						p.data = p.data[:at+1]
					}
				}
			}
			got, err := decodedBy(spoilt, func(d *decoder, part string, data []byte) ([]byte, error) {
				return d.add(part, data, ipcguard.MessageLimits())
			})
			want, fault := decodedBy(spoilt, func(d *decoder, part string, data []byte) ([]byte, error) {
				return d.addAny(part, data, ipcguard.MessageLimits())
			})
			if (err == nil) != (fault == nil) {
				t.Fatalf("seed %d, damage %d: %v, the library says %v", seed, damage, err, fault)
			}
			if err == nil {
				same++
				if d := diff(want, got); d != "" {
					t.Fatalf("seed %d, damage %d:\n%s", seed, damage, d)
				}
			}
			if damage == 0 {
				for _, p := range parts {
					if _, ok := new(decoder).addFlat(p.name, p.data, ipcguard.MessageLimits()); ok {
						flat++
					}
				}
			}
		}
	}
	if flat != 60*3 || same < 500 {
		t.Errorf("%d parts of %d were read flat; %d damaged snapshots could be read", flat, 60*3, same)
	}
}

// partsOf encodes the parts of a snapshot.
func partsOf(t testing.TB, s *Snapshot) (all []partBytes) {
	t.Helper()
	for _, p := range s.parts() {
		data, err := onlyChunk(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, partBytes{p.name, data})
	}
	return all
}

// BenchmarkJoin is what it takes to read a small model.
func BenchmarkJoin(b *testing.B) {
	s := example(8, 4, 250, 7)
	s.Model.Scores.Sorted = make([]float64, 250)
	messages, _ := mustMessages(b, s, 2, nil)
	var records []source.Record
	for i, m := range messages {
		records = append(records, source.Record{Offset: int64(i), Key: m.Key, Value: m.Value, Headers: m.Headers})
	}
	j := Joiner{Over: true}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := j.Join(s.ModelID, s.Version, records); err != nil {
			b.Fatal(err)
		}
	}
}
