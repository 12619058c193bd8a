package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// big is a snapshot of several chunks in both parts.
func big(version uint64) *Snapshot { return example(180, 40, 1500, version) }

// TestAssembler feeds messages of a topic, some of them missing or damaged, and asks for the newest.
func TestAssembler(t *testing.T) {
	one, _ := mustMessages(t, big(100), 4, nil) // number 1, slot 1
	two, _ := mustMessages(t, big(200), 4, nil) // slot 2
	five, _ := mustMessages(t, example(3, 1, 2, 500), 4, Slots{1: {2, 2}})
	if len(one) < 4 || header(one[1], "lca-part") != PartModel || header(one[len(one)-2], "lca-part") != PartNeighbours {
		t.Fatal("the example is too small to be cut in chunks")
	}
	change := func(m sink.Message, key, value string) sink.Message {
		m.Headers = slices.Clone(m.Headers)
		for i := range m.Headers {
			if m.Headers[i].Key == key {
				m.Headers[i].Value = []byte(value)
			}
		}
		return m
	}
	flip := func(m sink.Message) sink.Message {
		m.Value = slices.Clone(m.Value)
		m.Value[len(m.Value)/2] ^= 1
		return m
	}
	replace := func(all []sink.Message, i int, m sink.Message) []sink.Message {
		all = slices.Clone(all)
		all[i] = m
		return all
	}
	signed := func(m sink.Message) sink.Message { // damage that the checksum covers
		return change(m, "lca-crc32c", fmt.Sprint(checksum(m.Value)))
	}
	tombstone := func(m sink.Message) sink.Message { return sink.Message{Key: m.Key} }
	last := len(two) - 1
	scores := slices.IndexFunc(two, func(m sink.Message) bool { return header(m, "lca-part") == PartScores })
	unscored := big(200)
	unscored.Model.Scores = nil
	without, _ := mustMessages(t, unscored, 4, nil)
	former, _ := mustMessages(t, example(3, 1, 2, 600), 4, nil) // slot 2
	for _, c := range []struct {
		name     string
		messages []sink.Message
		want     uint64 // version, 0 for none
		faults   int    // messages refused
	}{
		{"nothing", nil, 0, 0},
		{"both whole", slices.Concat(one, two), 200, 0},
		{"in any order", slices.Concat(two, one), 200, 0},
		{"chunks from the last to the first", slices.Concat(one, reversed(two)), 200, 0},
		{"first model chunk missing", slices.Concat(one, two[1:]), 100, 0},
		{"a model chunk missing", slices.Concat(one, two[:1], two[2:]), 100, 0},
		{"last neighbours chunk missing", slices.Concat(one, two[:last]), 100, 0},
		{"scores missing", slices.Concat(one, two[:scores], two[scores+1:]), 100, 0},
		{"scores of another version", slices.Concat(one, two[:scores], former[1:2], two[scores+1:]), 100, 0},
		{"no scores", without, 200, 0},
		{"no scores, as an earlier program writes it", slices.Concat(without[:scores], without[scores+1:]), 200, 0},
		{"no scores, over a version that had some", slices.Concat(former, without[:scores], without[scores+1:]), 200, 0},
		{"nothing whole", slices.Concat(one[1:], two[1:]), 0, 0},
		{"a chunk damaged", slices.Concat(one, replace(two, 1, flip(two[1]))), 100, 1},
		{"damaged, then sent again", slices.Concat(one, replace(two, 1, flip(two[1])), two[1:2]), 200, 1},
		{"sent again, damaged", slices.Concat(one, two, []sink.Message{flip(two[0])}), 100, 1},
		{"not Arrow, yet signed", slices.Concat(one, replace(two, 0, signed(sink.Message{Key: two[0].Key, Value: []byte("hello"), Headers: two[0].Headers}))), 100, 0},
		{"a chunk of another version", slices.Concat(one, replace(two, 1, change(two[1], "lca-model-version", "199"))), 100, 0},
		{"headers of another version than the bytes", slices.Concat(one, each(two, func(m sink.Message) sink.Message { return change(m, "lca-model-version", "999") })), 100, 0},
		{"a chunk deleted", slices.Concat(one, two, []sink.Message{tombstone(two[1])}), 100, 0},
		{"all deleted", slices.Concat(one, each(one, tombstone)), 0, 0},
		// A slot's new owner deletes what it does not overwrite; a reader may see the topic at any moment.
		{"slot overwritten by a smaller one", slices.Concat(one, two, five), 500, 0},
		{"slot half overwritten", slices.Concat(one, five[:1]), 0, 0},
		{"slot half overwritten, an older one is whole", slices.Concat(one, two, five[:1]), 200, 0},
		{"a larger version's chunks left behind", slices.Concat(one, five[:3]), 500, 0},
		{"not a snapshot's key", slices.Concat([]sink.Message{{Key: []byte("x"), Value: []byte("y")}}, one), 100, 1},
		{"no headers", slices.Concat(one, []sink.Message{{Key: two[0].Key, Value: two[0].Value}}), 100, 1},
		{"header n that is too small", slices.Concat(one, []sink.Message{change(two[1], "lca-chunk", "1/1")}), 100, 1},
		{"header n beyond all bounds", slices.Concat(one, []sink.Message{change(two[1], "lca-chunk", "1/99999999")}), 100, 1},
		{"header i that is not the key's", slices.Concat(one, []sink.Message{change(two[1], "lca-chunk", "0/2")}), 100, 1},
		{"header part that is not the key's", slices.Concat(one, []sink.Message{change(two[1], "lca-part", "neighbours")}), 100, 1},
		{"header version 0", slices.Concat(one, []sink.Message{change(two[1], "lca-model-version", "0")}), 100, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a Assembler
			faults := 0
			for _, m := range c.messages {
				if err := a.Add(m.Key, m.Value, m.Headers, time.Time{}); err != nil {
					faults++
				}
			}
			if faults != c.faults {
				t.Errorf("%d messages refused, want %d", faults, c.faults)
			}
			checkNewest(t, &a, "default", c.want)
		})
	}
}

func checkNewest(t *testing.T, a *Assembler, modelID string, want uint64) {
	t.Helper()
	s, ok := a.Newest(modelID)
	if ok != (want > 0) || ok && s.Version != want {
		t.Errorf("newest is %v (%v), want version %d; %v", s, ok, want, a.List(modelID))
	}
	if v, _ := a.NewestVersion(modelID); v != want {
		t.Errorf("NewestVersion is %d after Newest found %d", v, want)
	}
}

func reversed(m []sink.Message) []sink.Message {
	m = slices.Clone(m)
	slices.Reverse(m)
	return m
}

func each(m []sink.Message, f func(sink.Message) sink.Message) (all []sink.Message) {
	for _, x := range m {
		all = append(all, f(x))
	}
	return all
}

// TestAssemblerLists: several models in one topic, listed newest first, faults told.
func TestAssemblerLists(t *testing.T) {
	var a Assembler
	at := func(minute int) time.Time { return time.Date(2020, 1, 1, 0, minute, 0, 0, time.UTC) }
	for minute, version := range []uint64{100, 200, 300} {
		messages, _ := mustMessages(t, example(3, 1, 2, version), 4, nil)
		if version == 200 {
			messages = messages[:1]
		}
		add(t, &a, at(minute), messages...)
	}
	other := example(2, 1, 2, 700)
	other.ModelID = "plant/7"
	messages, slots := mustMessages(t, other, 4, nil)
	add(t, &a, at(9), messages...)

	if d := cmp.Diff([]string{"default", "plant/7"}, a.Models()); d != "" {
		t.Error(d)
	}
	list := a.List("default")
	var got []string
	for _, e := range list {
		got = append(got, fmt.Sprintf("%d in slot %d, %+v, minute %d, bytes %v, fault %v", e.Version, e.Slot, e.Chunks, e.Time.Minute(), e.Bytes > 4000, e.Fault != nil))
	}
	want := []string{
		"300 in slot 3, {Model:1 Neighbours:1}, minute 2, bytes true, fault false",
		"200 in slot 2, {Model:1 Neighbours:0}, minute 1, bytes false, fault true",
		"100 in slot 1, {Model:1 Neighbours:1}, minute 0, bytes true, fault false",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(slots, a.Slots("plant/7")); d != "" {
		t.Errorf("slots read back: %s", d)
	}
	s, err := a.Version("default", 100)
	if err != nil || s.Version != 100 {
		t.Errorf("version 100: %v, %v", s, err)
	}
	for version, says := range map[uint64]string{200: "not whole", 150: "overwritten"} {
		if _, err := a.Version("default", version); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("version %d: %v, want …%s…", version, err, says)
		}
	}
	checkNewest(t, &a, "never written", 0)
}

// TestAssemblerRetains: a follower of large models keeps two of them, and the one it is pinned to.
func TestAssemblerRetains(t *testing.T) {
	a := Assembler{Retain: 2, Pin: 200}
	for version := uint64(100); version <= 600; version += 100 {
		messages, _ := mustMessages(t, example(3, 1, 2, version), 16, nil)
		add(t, &a, time.Time{}, messages...)
	}
	for version := uint64(100); version <= 600; version += 100 {
		_, err := a.Version("default", version)
		if kept := version == 200 || version >= 500; kept != (err == nil) {
			t.Errorf("version %d: %v", version, err)
		}
	}
	checkNewest(t, &a, "default", 600)
	if n := len(a.List("default")); n != 6 {
		t.Errorf("%d versions listed, want all 6", n)
	}
}

// TestAssemblerKeepsCopies: the fetch buffer that a value points into is used again.
func TestAssemblerKeepsCopies(t *testing.T) {
	messages, _ := mustMessages(t, example(3, 1, 2, 100), 4, nil)
	var a Assembler
	for _, m := range messages {
		value := slices.Clone(m.Value)
		if err := a.Add(m.Key, value, m.Headers, time.Time{}); err != nil {
			t.Fatal(err)
		}
		clear(value)
	}
	checkNewest(t, &a, "default", 100)
}

func TestParseKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"m/0/model/0": true, "m/15/neighbours/70": true, "a/b/0/model/1": true, "//0/model/0": true, "m/0/other/0": true,
		"": false, "m": false, "m/0//0": false, "/0/model/0": false, "m/-1/model/0": false, "m/0/model/x": false,
		"m/00/model/0": false, "m/0/model/+1": false, "m/0/model/99999999999": false,
	} {
		p, err := parseKey([]byte(key))
		if (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		}
		if ok && string(p.key()) != key {
			t.Errorf("%q became %q", key, p.key())
		}
	}
}

// TestHalfOfTwoModels: chunks that disagree on more than their headers say are refused.
func TestHalfOfTwoModels(t *testing.T) {
	model, _ := mustMessages(t, example(3, 1, 2, 100), 4, nil)
	wider, _ := mustMessages(t, example(4, 1, 2, 100), 4, nil)
	var a Assembler
	add(t, &a, time.Time{}, model[0], wider[2])
	if list := a.List("default"); len(list) != 1 || list[0].Fault == nil || !strings.Contains(list[0].Fault.Error(), "two models") {
		t.Errorf("got %v", list)
	}
}

// FuzzAssembler: no message makes it panic, whatever stands in it.
func FuzzAssembler(f *testing.F) {
	messages, _ := mustMessages(f, example(2, 1, 1, 100), 4, nil)
	f.Add(messages[0].Key, messages[0].Value, "0/1", "100")
	f.Add(messages[1].Key, messages[1].Value, "0/1", "100")
	f.Fuzz(func(t *testing.T, key, value []byte, chunk, version string) {
		p, err := parseKey(key)
		if err != nil {
			p = place{modelID: "default", part: PartModel}
		}
		var a Assembler
		add(t, &a, time.Time{}, messages...)
		err = a.Add(p.key(), value, []source.Header{
			{Key: "lca-model-id", Value: []byte(p.modelID)}, {Key: "lca-part", Value: []byte(p.part)},
			{Key: "lca-chunk", Value: []byte(chunk)}, {Key: "lca-model-version", Value: []byte(version)},
			{Key: "lca-crc32c", Value: fmt.Append(nil, checksum(value))},
		}, time.Time{})
		if err != nil && p.modelID == "default" && p.slot == 1 && p.index == 0 {
			checkNewest(t, &a, "default", 0) // its place is taken
		}
		for _, id := range a.Models() {
			if s, ok := a.Newest(id); ok {
				if err := s.Validate(); err != nil {
					t.Errorf("an invalid snapshot: %v", err)
				}
			}
			a.List(id)
		}
	})
}
