package snapshot

import (
	"errors"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink"
)

func held(a *Assembler) (bytes int) {
	for _, slots := range a.models {
		for _, s := range slots {
			for _, c := range s.chunks {
				bytes += len(c.value)
			}
		}
	}
	return bytes
}

// Chunks that never become whole are not kept forever, whichever process wrote them; the version that is being read is.
func TestAssemblerIsBounded(t *testing.T) {
	a := &Assembler{Retain: 2, Only: "default"}
	foreign := big(50)
	foreign.ModelID = "other"
	messages, _ := mustMessages(t, foreign, 4, nil)
	add(t, a, time.Time{}, messages...)
	if n := held(a); n != 0 {
		t.Errorf("%d bytes of another model are held", n)
	}
	size := 0
	for n := range uint64(40) {
		messages, _ := mustMessages(t, big(100*(n+1)), 100, nil)
		add(t, a, time.Time{}, messages[:len(messages)-1]...)
		size = 0
		for _, m := range messages {
			size += len(m.Value)
		}
	}
	if n := held(a); n > 2*size {
		t.Errorf("%d bytes are held, want at most %d of two versions", n, 2*size)
	}
	last, _ := mustMessages(t, big(5000), 100, nil)
	for _, m := range last { // with chunks of others in between that are said to be newer
		add(t, a, time.Time{}, m)
		stray, _ := mustMessages(t, big(9900), 100, nil)
		add(t, a, time.Time{}, stray[0])
	}
	checkNewest(t, a, "default", 5000)
}

// A slot takes no more than a learner could have written.
func TestSlotIsBounded(t *testing.T) {
	a := &Assembler{}
	messages, _ := mustMessages(t, big(100), 4, nil)
	add(t, a, time.Time{}, messages[0])
	for _, slots := range a.models {
		for _, s := range slots {
			s.bytes = maxSlot
		}
	}
	if err := a.Add(messages[1].Key, messages[1].Value, messages[1].Headers, time.Time{}); err == nil {
		t.Error("a chunk beyond the bound is kept")
	}
}

// Who reads the topic may refuse a version: the next older one is the newest then.
func TestAssemblerAccepts(t *testing.T) {
	a := &Assembler{Accept: func(s *Snapshot) error {
		if s.Version == 200 {
			return errors.New("not this one")
		}
		return nil
	}}
	var all []sink.Message
	for _, v := range []uint64{100, 200} {
		messages, _ := mustMessages(t, big(v), 4, nil)
		all = append(all, messages...)
	}
	add(t, a, time.Time{}, all...)
	checkNewest(t, a, "default", 100)
}

// stray is a chunk of a version that never becomes whole: right in all that is checked.
func stray(slot, index int, value []byte) sink.Message {
	s := Snapshot{Model: new(lca.Model), ModelID: "default", Version: 9_999_999}
	return sink.Message{
		Key: place{s.ModelID, slot, PartNeighbours, index}.key(), Value: value, Headers: s.headers(PartNeighbours, index, index+2, value),
	}
}

// What is no version takes what one may take, however many slots it is in, and leaves the version alone that is read meanwhile: 3 × 700 chunks of 900 kB
// once took 1.3 GiB. Each message costs the same, whatever is there.
func TestStraysTakeWhatAVersionMay(t *testing.T) {
	const most = 8 << 20
	a := &Assembler{Retain: 2, Only: "default", Most: most}
	value := make([]byte, 900_000)
	for slot := range 3 {
		for index := range 30 {
			m := stray(slot, index, value)
			err := a.Add(m.Key, m.Value, m.Headers, time.Time{})
			if over := (index+1)*len(value) > most; over != (err != nil) {
				t.Fatalf("chunk %d of slot %d: %v", index, slot, err)
			}
			if n := held(a); n > most {
				t.Fatalf("%d bytes are held of chunks of no version, at most %d may be", n, most)
			}
		}
	}
	last, _ := mustMessages(t, big(5000), 100, nil)
	for i, m := range last {
		add(t, a, time.Time{}, m, stray(100+i, 0, value))
	}
	checkNewest(t, a, "default", 5000)
	for slot := range 50_000 {
		add(t, a, time.Time{}, stray(1000+slot, 0, []byte("x")))
	}
	if h := a.held["default"]; len(h.partial) > 2 || len(h.whole) != 1 {
		t.Errorf("%d versions that are not whole are held, and %d that are", len(h.partial), len(h.whole))
	}
	checkNewest(t, a, "default", 5000)
}
