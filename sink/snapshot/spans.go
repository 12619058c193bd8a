package snapshot

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// Spans finds whole snapshots in a partition of the topic by their keys, headers and checksums, and keeps none of their
// bytes: one who knows the offsets can fetch a snapshot when it is needed. Records must be added in the topic's order. A Spans is
// for one goroutine.
type Spans struct {
	open map[string]*openSpan // snapshots of which chunks are missing, by model id
}

// Span is where a whole snapshot lies: all its chunks are between two offsets.
type Span struct {
	ModelID     string
	Version     uint64
	Slot        int
	First, Last int64 // offsets of its first and its last chunk
	Chunks      Chunks
	Scores      int // chunks of the part scores
	Bytes       int // of all chunks
	Group       string
	By          string // model.by
}

// Deleted is a key that was deleted.
type Deleted struct {
	ModelID string
	Slot    int
	Part    string
	Index   int
}

// mostOpen bounds the snapshots of which chunks are missing. Writers write them one after the other, so that more than one is
// unusual already.
const mostOpen = 64

// openSpan is a snapshot of which chunks are missing.
type openSpan struct {
	Span
	neighbours, model, scores int // chunks that have come
}

// Add takes one record and returns the snapshot that is whole with it, or the key that it deletes. An error
// concerns this record only, which is part of no snapshot.
func (s *Spans) Add(key, value []byte, headers []source.Header, offset int64) (whole *Span, gone *Deleted, err error) {
	p, err := parseKey(key)
	if err != nil {
		return nil, nil, err
	}
	if !p.known() {
		return nil, nil, unknownPart(p, key, value, headers)
	}
	if value == nil {
		delete(s.open, p.modelID)
		return nil, &Deleted{p.modelID, p.slot, p.part, p.index}, nil
	}
	c, err := parseChunk(p, value, headers)
	if err != nil {
		delete(s.open, p.modelID)
		return nil, nil, fmt.Errorf("snapshot: message %s: %w", key, err)
	}
	o := s.at(p, c, offset)
	if o == nil {
		return nil, nil, nil
	}
	o.Last = offset
	o.Bytes += c.size
	if !o.take(p, c) {
		delete(s.open, p.modelID)
		return nil, nil, nil
	}
	if o.neighbours == 0 || o.neighbours < o.Chunks.Neighbours || o.model < o.Chunks.Model {
		return nil, nil, nil
	}
	delete(s.open, p.modelID)
	return &o.Span, nil, nil
}

// at returns the snapshot that a chunk is part of; nil if its first chunks were not there.
func (s *Spans) at(p place, c chunk, offset int64) *openSpan {
	if p.part == PartModel && p.index == 0 {
		if s.open == nil || len(s.open) >= mostOpen {
			s.open = make(map[string]*openSpan)
		}
		o := &openSpan{Span: Span{ModelID: strings.Clone(p.modelID), Version: c.version, Slot: p.slot, First: offset, Group: c.group, By: c.by}}
		s.open[o.ModelID] = o
		return o
	}
	o := s.open[p.modelID]
	if o == nil || o.Version != c.version || o.Slot != p.slot {
		return nil
	}
	return o
}

// take counts a chunk. It returns false if one before it is missing.
func (o *openSpan) take(p place, c chunk) bool {
	came, n := &o.neighbours, &o.Chunks.Neighbours
	switch p.part {
	case PartModel:
		came, n = &o.model, &o.Chunks.Model
	case PartScores:
		came, n = &o.scores, &o.Scores
	}
	if p.index != *came || p.index > 0 && *n != c.n {
		return false
	}
	*came, *n = p.index+1, c.n
	return true
}

// Deletes reports whether a deleted key is one of the snapshot's.
func (s *Span) Deletes(d *Deleted) bool {
	n := s.Chunks.Neighbours
	switch d.Part {
	case PartModel:
		n = s.Chunks.Model
	case PartScores:
		n = s.Scores
	}
	return d.ModelID == s.ModelID && d.Slot == s.Slot && d.Index < n
}

// ErrIncomplete is wrapped by the error of Join where chunks are missing: the topic was compacted since a Spans has seen them.
var ErrIncomplete = errors.New("snapshot: chunks are missing")

// Joiner is memory for Join, which the next one uses again. It is for one goroutine.
type Joiner struct {
	// Over says that a snapshot is no longer used when the next one is joined, which takes the memory of its neighbours and scores.
	Over bool

	slot    slot
	decoder decoder
}

// Join decodes the snapshot of a model from the records between the offsets of its Span. Records of other models and versions
// may be among them. It keeps nothing of the records.
func (j *Joiner) Join(modelID string, version uint64, records []source.Record) (*Snapshot, error) {
	s := &j.slot
	if s.chunks == nil {
		s.chunks = make(map[chunkID]chunk)
	}
	defer func() { clear(s.chunks); clear(j.decoder.raw) }()
	for i := range records {
		r := &records[i]
		p, err := parseKey(r.Key)
		if err != nil || p.modelID != modelID || !p.known() || r.Value == nil {
			continue
		}
		c, err := parseChunk(p, r.Value, r.Headers)
		if err != nil {
			return nil, fmt.Errorf("snapshot: message %s: %w", r.Key, err)
		}
		if c.version == version {
			c.value, c.time = r.Value, source.Calendar(time.UnixMilli(r.Timestamp))
			s.chunks[chunkID{p.part, p.index}] = c
		}
	}
	if _, ok := s.whole(); !ok {
		return nil, fmt.Errorf("%w: version %d of model %q", ErrIncomplete, version, modelID)
	}
	j.decoder.begin(j.Over)
	return s.join(&j.decoder, modelID, version)
}
