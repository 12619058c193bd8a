package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lca-stream/lca-stream/source"
)

// found is what a checkpoint topic holds of one model: the chunks of two slots, and the claims to own it. Every other
// key belongs to another writer.
type found struct {
	model, topic string

	slots  [2]slotParts
	claims []Owner // in the order of the topic
	value  string  // a model of a value with our model's id as its base; "": there is none
}

// slotParts are the chunks that a slot holds now; an overwritten chunk belongs to a newer sequence.
type slotParts struct {
	parts map[int]chunkPart

	read       bool // decode has run; the fields below are its result
	checkpoint *Checkpoint
	fault      error
}

type chunkPart struct {
	sequence uint64
	n        int
	data     []byte
	damaged  bool // the checksum does not match
}

func (f *found) reset() { *f = found{model: f.model, topic: f.topic} }

// take adds one record of the topic.
func (f *found) take(key string, value []byte, headers []source.Header) {
	rest, ok := strings.CutPrefix(key, f.model+"/")
	if !ok {
		return
	}
	if f.takeClaim(rest, value) {
		return
	}
	if id, _, _, ok := splitStateKey(key); ok && value != nil && ofValue(id, f.model) {
		f.value = id
	}
	var slot, chunk int
	if n, err := fmt.Sscanf(rest, "%d/%d", &slot, &chunk); n != 2 || err != nil || slot < 0 || slot > 1 || chunk < 0 {
		return // another model whose id begins with ours
	}
	if rest != fmt.Sprintf("%d/%d", slot, chunk) {
		return
	}
	s := &f.slots[slot]
	s.read = false
	if s.parts == nil {
		s.parts = map[int]chunkPart{}
	}
	if value == nil {
		delete(s.parts, chunk)
		return
	}
	s.parts[chunk] = chunkPartOf(value, headers)
}

func chunkPartOf(value []byte, headers []source.Header) chunkPart {
	p := chunkPart{data: append([]byte(nil), value...), damaged: source.LastHeader(headers, "lca-crc32c") != checksumText(value)}
	p.sequence, _ = strconv.ParseUint(source.LastHeader(headers, "lca-checkpoint"), 10, 64)
	if _, n, ok := strings.Cut(source.LastHeader(headers, "lca-chunk"), "/"); ok {
		p.n, _ = strconv.Atoi(n)
	}
	return p
}

// decode decodes the slot's checkpoint, once: nil without an error for an empty slot.
func (s *slotParts) decode() (*Checkpoint, error) {
	if !s.read {
		s.checkpoint, s.fault = s.join()
		s.read = true
	}
	return s.checkpoint, s.fault
}

func (s *slotParts) join() (*Checkpoint, error) {
	if len(s.parts) == 0 {
		return nil, nil
	}
	first := s.parts[0]
	if first.damaged || first.n < 1 {
		return nil, errors.New("its first chunk is missing or damaged")
	}
	if err := readableFormat(first.data); err != nil {
		return nil, err
	}
	var data []byte
	for k := range first.n {
		p, ok := s.parts[k]
		if !ok || p.damaged || p.sequence != first.sequence {
			return nil, fmt.Errorf("chunk %d of %d is missing or damaged", k, first.n)
		}
		data = append(data, p.data...)
	}
	c := new(Checkpoint)
	if err := c.UnmarshalBinary(data); err != nil {
		return nil, err
	}
	return c, nil
}

// sequence returns the highest sequence number of the slot's chunks.
func (s *slotParts) sequence() (n uint64) {
	for _, p := range s.parts {
		n = max(n, p.sequence)
	}
	return n
}

// newest returns the newest checkpoint, nil if there is none. It never returns one that is known to be superseded,
// because versions that were published since would come again with other content. So an unreadable newest checkpoint
// is an error, whether it is damaged or written by a newer binary: the previous one is not used in its place.
func (f *found) newest() (*Checkpoint, error) {
	var best *Checkpoint
	var broken error
	unread := uint64(0)
	for i := range f.slots {
		c, err := f.slots[i].decode()
		switch {
		case errors.Is(err, errNewerFormat):
			return nil, f.refuse(i, err, "use the newer binary; or set another snapshot.model_id, and start with `learn --from-snapshot FILE` from an export of the model")
		case err != nil:
			unread = f.slots[i].sequence()
			broken = f.refuse(i, err, "set another snapshot.model_id, and start with `learn --from-snapshot FILE` from an export of the model")
		case c != nil && (best == nil || c.Sequence > best.Sequence):
			best = c
		}
	}
	if broken != nil && (best == nil || unread >= best.Sequence) {
		return nil, broken
	}
	return best, nil
}

func (f *found) refuse(slot int, err error, remedy string) error {
	return &Stop{
		Err:    fmt.Errorf("checkpoint %d of model %q in slot %d of topic %s: %w", f.slots[slot].sequence(), f.model, slot, f.topic, err),
		Remedy: remedy,
	}
}

// enough reports whether records farther back cannot change the result: both slots are whole, and their owner is
// known.
func (f *found) enough() bool {
	for i := range f.slots {
		if c, err := f.slots[i].decode(); err != nil || c == nil || c.format < 2 {
			return false
		}
	}
	return true
}

func (f *found) chunks() (n [2]int) {
	for i := range f.slots {
		for k := range f.slots[i].parts {
			n[i] = max(n[i], k+1)
		}
	}
	return n
}

func (f *found) old() (old [2]bool) {
	for i := range f.slots {
		c, err := f.slots[i].decode()
		old[i] = err == nil && c != nil && c.format < 2
	}
	return old
}
