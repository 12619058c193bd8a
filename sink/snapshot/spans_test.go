package snapshot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// Spans finds in a log what an Assembler finds, whatever compaction has left of it, and what lies at the offsets of a span
// decodes to that version.
func TestSpansFindWhatAnAssemblerFinds(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 0))
		log, slots, newest := []source.Record{}, map[string]Slots{}, map[string]uint64{}
		keep := 1 + r.IntN(3)
		for range 20 {
			id := fmt.Sprintf("m/%d/k%d", r.IntN(2), r.IntN(4))
			newest[id]++
			s := example(3, 2, 1+r.IntN(9), newest[id])
			s.ModelID, s.Number, s.Group = id, newest[id], "g"
			messages, after := mustMessages(t, s, keep, slots[id])
			slots[id] = after
			for i, m := range messages {
				damaged := r.IntN(60) == 0
				if damaged && len(m.Value) > 0 {
					m.Value = append([]byte{1}, m.Value...)
				}
				if i > 0 || len(log) == 0 || r.IntN(30) > 0 { // a first chunk may be missing
					log = append(log, source.Record{Offset: int64(len(log)), Key: m.Key, Value: m.Value, Headers: m.Headers})
				}
			}
		}
		newestOf := map[string]int64{}
		compactedTo := int64(r.IntN(len(log) + 1))
		for _, one := range log {
			newestOf[string(one.Key)] = one.Offset
		}
		var spans Spans
		var whole Assembler
		found := map[string]*Span{}
		for _, one := range log {
			if one.Offset < compactedTo && newestOf[string(one.Key)] != one.Offset {
				continue
			}
			_ = whole.Add(one.Key, one.Value, one.Headers, time.UnixMilli(one.Timestamp)) // of damaged chunks both say so
			span, gone, _ := spans.Add(one.Key, one.Value, one.Headers, one.Offset)
			if span != nil && (found[span.ModelID] == nil || found[span.ModelID].Version < span.Version) {
				found[span.ModelID] = span
				if _, err := new(Joiner).Join(span.ModelID, span.Version, between(log, span)); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if _, err := new(Joiner).Join(span.ModelID, span.Version, between(log, span)[1:]); !errors.Is(err, ErrIncomplete) {
					t.Fatalf("seed %d: without a chunk: %v", seed, err)
				}
			}
			if gone != nil && found[gone.ModelID] != nil && found[gone.ModelID].Deletes(gone) {
				t.Fatalf("seed %d: a tombstone of the newest version of %s", seed, gone.ModelID)
			}
		}
		for id := range newest {
			s, ok := whole.Newest(id)
			if span := found[id]; ok && (span == nil || span.Version < s.Version) {
				t.Errorf("seed %d, %s: version %d can be read, and the spans have %v", seed, id, s.Version, span)
			}
		}
	}
}

// between are the records between the offsets of a span.
func between(log []source.Record, s *Span) (records []source.Record) {
	for _, r := range log {
		if r.Offset >= s.First && r.Offset <= s.Last {
			records = append(records, r)
		}
	}
	return records
}

// A span knows which keys are its own: a smaller snapshot in a slot leaves tombstones behind it.
func TestDeletedKeysOfASpan(t *testing.T) {
	s := Span{ModelID: "m", Slot: 1, Chunks: Chunks{Model: 1, Neighbours: 2}, Others: 1}
	for d, want := range map[Deleted]bool{
		{"m", 1, PartModel, 0}: true, {"m", 1, PartModel, 1}: false, {"m", 1, PartNeighbours, 1}: true, {"m", 1, PartNeighbours, 2}: false,
		{"m", 1, PartScores, 0}: true, {"m", 0, PartModel, 0}: false, {"n", 1, PartModel, 0}: false,
	} {
		if s.Deletes(&d) != want {
			t.Errorf("%v: %v, want %v", d, !want, want)
		}
	}
}
