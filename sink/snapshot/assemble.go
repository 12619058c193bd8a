package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// Assembler reassembles snapshots from the messages of the topic, which must be added in the topic's order. It trusts
// a version only when all chunks of every part are there, of that version and with the right checksum. Until then, or
// if decoding fails, the next older version is the newest. An Assembler is for one goroutine.
//
// With Retain and Only it holds at most Retain whole versions of at most Most bytes each, and the chunks of as many incomplete ones, of at most
// as many bytes together.
type Assembler struct {
	// Retain is how many complete versions of a model id keep their bytes, newest first. Older ones are listed but
	// cannot be read any more. Of incomplete versions, those that received a chunk last are kept. 0 keeps all that
	// the topic holds.
	Retain int
	// Only is the one model id that is kept. "" keeps all.
	Only string
	// Accept may refuse a complete version: its error becomes the version's fault. Nil refuses none.
	Accept func(*Snapshot) error
	// Most is how many bytes a version may take. 0, or more than 1 GiB: 1 GiB.
	Most int
	// Pin is a version that keeps its bytes independently of Retain. 0 pins none.
	Pin uint64

	models map[string]map[int]*slot // model id → slot number
	held   map[string]*holds        // with Retain, by model id
}

// Entry is a version as List sees it.
type Entry struct {
	Version uint64
	Slot    int
	Chunks  Chunks    // as the headers announce them
	Others  int       // chunks of the other parts, one each: scores, recent and factors, if they are there
	Bytes   int       // of all chunks in memory
	Time    time.Time // the newest timestamp of its chunks
	Young   bool      // it has no metric yet, see [lca.Model.Young]
	Fault   error     // why it cannot be read; nil where it can
}

// slot holds the chunks under one slot's keys: of one version or, while it is overwritten, of two.
type slot struct {
	chunks  map[chunkID]chunk
	decoded *Snapshot // nil until first asked for
	fault   error     // of decoding
	dropped bool      // was complete once, but Retain dropped its bytes
	bytes   int       // of its chunks, also of dropped ones
}

type chunkID struct {
	part  string
	index int
}

type chunk struct {
	version uint64
	n       int // number of chunks of the part
	group   string
	by      string
	value   []byte
	size    int
	time    time.Time
}

// maxChunks bounds what a header may announce, and maxSlot the bytes of a slot. A learner with a larger model could
// not write its checkpoint either.
const (
	maxChunks = 1 << 16
	maxSlot   = 1 << 30
)

// Add takes one message and copies its value. An error concerns this message only: neither it nor the message that it
// replaces under its key is part of any snapshot.
func (a *Assembler) Add(key, value []byte, headers []source.Header, at time.Time) error {
	p, err := parseKey(key)
	if err != nil {
		return err
	}
	if a.Only != "" && p.modelID != a.Only {
		return nil
	}
	if !p.known() {
		return unknownPart(p, key, value, headers)
	}
	s := a.slotOf(p)
	id := chunkID{p.part, p.index}
	s.bytes -= s.chunks[id].size
	delete(s.chunks, id)
	s.decoded, s.fault, s.dropped = nil, nil, false
	defer a.retain(p.modelID, s)
	if value == nil {
		return nil
	}
	c, err := parseChunk(p, value, headers)
	if err != nil {
		return fmt.Errorf("snapshot: message %s: %w", key, err)
	}
	if most := a.most(); s.bytes+c.size > most {
		return fmt.Errorf("snapshot: message %s: slot %d of model %s has more than %d bytes, of which no version is read: raise memory.limit if it is a model of yours", key, p.slot, p.modelID, most)
	}
	c.value, c.time = slices.Clone(value), source.Calendar(at)
	s.chunks[id] = c
	s.bytes += c.size
	return nil
}

func (a *Assembler) slotOf(p place) *slot {
	if a.models == nil {
		a.models = make(map[string]map[int]*slot)
	}
	slots := a.models[p.modelID]
	if slots == nil {
		slots = make(map[int]*slot)
		a.models[p.modelID] = slots
	}
	if slots[p.slot] == nil {
		slots[p.slot] = &slot{chunks: make(map[chunkID]chunk)}
	}
	return slots[p.slot]
}

// parseChunk checks a chunk against its headers and its key.
func parseChunk(p place, value []byte, headers []source.Header) (c chunk, err error) {
	text := func(key string) string { return source.LastHeader(headers, key) }
	if c.version, err = strconv.ParseUint(text(headerVersion), 10, 64); err != nil || c.version == 0 || c.version > mostVersion {
		return c, fmt.Errorf("header %s is %q, want a number from 1 to %d", headerVersion, text(headerVersion), uint64(mostVersion))
	}
	if text(headerModelID) != p.modelID || text(headerPart) != p.part {
		return c, fmt.Errorf("headers say model %q, part %q", text(headerModelID), text(headerPart))
	}
	index, n, _ := strings.Cut(text(headerChunk), "/")
	c.n, err = strconv.Atoi(n)
	if err != nil || index != strconv.Itoa(p.index) || c.n <= p.index || c.n > maxChunks {
		return c, fmt.Errorf("header %s is %q, want %d/n with n up to %d", headerChunk, text(headerChunk), p.index, maxChunks)
	}
	if got := strconv.FormatUint(uint64(checksum(value)), 10); got != text(headerCRC) {
		return c, fmt.Errorf("header %s is %q, but the value's checksum is %s: the bytes are damaged", headerCRC, text(headerCRC), got)
	}
	c.size, c.group, c.by = len(value), text(headerGroup), text(headerBy)
	return c, nil
}

// whole returns the version of which all chunks of the parts model and neighbours are there. Chunks that a larger former
// version left behind do not matter. Decoding finds out whether others are missing: they come before the neighbours,
// and earlier versions had none.
func (s *slot) whole() (uint64, bool) {
	first, ok := s.chunks[chunkID{PartModel, 0}]
	if !ok {
		return 0, false
	}
	for _, part := range []string{PartModel, PartNeighbours} {
		n := s.chunks[chunkID{part, 0}].n
		for i := range max(1, n) {
			if c, ok := s.chunks[chunkID{part, i}]; !ok || c.version != first.version || c.n != n {
				return 0, false
			}
		}
	}
	return first.version, true
}

// Newest returns the newest version of a model id that is complete and decodes without fault.
func (a *Assembler) Newest(modelID string) (*Snapshot, bool) {
	for _, s := range a.byVersion(modelID) {
		if snapshot, err := a.decode(s, modelID); err == nil {
			return snapshot, true
		}
	}
	return nil, false
}

// Has reports whether the topic still holds a complete version of a model id that a group has published.
func (a *Assembler) Has(modelID, group string) bool {
	for _, s := range a.models[modelID] {
		if _, ok := s.whole(); ok && s.chunks[chunkID{PartModel, 0}].group == group {
			return true
		}
	}
	return false
}

// NewestVersion returns the newest complete version without decoding it: a cheap way to learn whether Newest would
// return another one.
func (a *Assembler) NewestVersion(modelID string) (uint64, bool) {
	for _, s := range a.byVersion(modelID) {
		if version, ok := s.whole(); ok && s.fault == nil && !s.dropped {
			return version, true
		}
	}
	return 0, false
}

// Version returns one version of a model id.
func (a *Assembler) Version(modelID string, version uint64) (*Snapshot, error) {
	for _, s := range a.byVersion(modelID) {
		if s.version() == version {
			return a.decode(s, modelID)
		}
	}
	return nil, fmt.Errorf("snapshot: no version %d of model %q in the topic: newer ones have overwritten it", version, modelID)
}

// Models lists the model ids of which the topic holds anything, sorted.
func (a *Assembler) Models() (ids []string) {
	for id, slots := range a.models {
		for _, s := range slots {
			if len(s.chunks) > 0 {
				ids = append(ids, id)
				break
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// List lists the versions of a model id, newest first. Those that cannot be read say why.
func (a *Assembler) List(modelID string) []Entry {
	var entries []Entry
	for number, s := range a.models[modelID] {
		if len(s.chunks) == 0 {
			continue
		}
		e := Entry{Version: s.version(), Slot: number}
		for id, c := range s.chunks {
			if c.version != e.Version {
				continue
			}
			e.Bytes += c.size
			if c.time.After(e.Time) {
				e.Time = c.time
			}
			switch id.part {
			case PartModel:
				e.Chunks.Model = c.n
			case PartNeighbours:
				e.Chunks.Neighbours = c.n
			default:
				e.Others++
			}
		}
		decoded, err := a.decode(s, modelID)
		e.Young, e.Fault = err == nil && decoded.Model.Young(), err
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(x, y Entry) int {
		return cmp.Or(cmp.Compare(y.Version, x.Version), cmp.Compare(x.Slot, y.Slot))
	})
	return entries
}

// Slots returns what the topic holds of a model id. A writer that resumes passes it to Messages.
func (a *Assembler) Slots(modelID string) Slots {
	slots := make(Slots)
	for number, s := range a.models[modelID] {
		var c Chunks
		for id := range s.chunks {
			switch id.part {
			case PartModel:
				c.Model = max(c.Model, id.index+1)
			case PartNeighbours:
				c.Neighbours = max(c.Neighbours, id.index+1)
			}
		}
		if c != (Chunks{}) {
			slots[number] = c
		}
	}
	return slots
}

// byVersion returns the slots of a model id, newest version first.
func (a *Assembler) byVersion(modelID string) []*slot {
	slots := slices.Collect(maps.Values(a.models[modelID]))
	slices.SortFunc(slots, func(x, y *slot) int { return cmp.Compare(y.version(), x.version()) })
	return slots
}

// version returns the newest version that the slot has a chunk of.
func (s *slot) version() (v uint64) {
	for _, c := range s.chunks {
		v = max(v, c.version)
	}
	return v
}

// decode decodes the slot's version, once.
func (a *Assembler) decode(s *slot, modelID string) (*Snapshot, error) {
	if s.decoded != nil || s.fault != nil {
		return s.decoded, s.fault
	}
	version, ok := s.whole()
	switch {
	case !ok:
		return nil, fmt.Errorf("snapshot: version %d is not whole: chunks are missing, damaged, or of another version", s.version())
	case s.dropped:
		return nil, fmt.Errorf("snapshot: version %d is too old: its bytes were given back to save memory", version)
	}
	snapshot, err := s.join(new(decoder), modelID, version)
	if err == nil && a.Accept != nil {
		err = a.Accept(snapshot)
	}
	if err != nil {
		s.fault = fmt.Errorf("version %d: %w", version, err)
		return nil, s.fault
	}
	s.decoded = snapshot
	return snapshot, nil
}

func (s *slot) join(d *decoder, modelID string, version uint64) (*Snapshot, error) {
	var at time.Time
	for _, part := range slices.Concat([]string{PartModel, PartNeighbours}, singleParts) {
		size := 0
		for i := range s.chunks[chunkID{part, 0}].n {
			size += len(s.chunks[chunkID{part, i}].value)
		}
		d.reserve(part, size)
		for i := range s.chunks[chunkID{part, 0}].n {
			c := s.chunks[chunkID{part, i}]
			if c.version != version {
				continue // of a former version
			}
			if _, err := d.add(part, c.value, ipcguard.MessageLimits()); err != nil {
				return nil, err
			}
			if c.time.After(at) {
				at = c.time
			}
		}
	}
	snapshot, err := d.finish()
	if err != nil {
		return nil, err
	}
	if snapshot.ModelID != modelID || snapshot.Version != version {
		return nil, fmt.Errorf("snapshot: headers say model %s version %d, the bytes model %s version %d", modelID, version, snapshot.ModelID, snapshot.Version)
	}
	first := s.chunks[chunkID{PartModel, 0}]
	snapshot.Time, snapshot.Group, snapshot.By = at, first.group, first.by
	return snapshot, nil
}

// holds are the slots of a model id whose bytes Retain and Most bound. What a topic holds of other slots is known and has no bytes, so each message costs
// the same, however many of them there are.
type holds struct {
	partial []*slot // with chunks that are no whole version, in the order in which they were touched
	whole   []*slot // with a whole version that has its bytes
}

// most is how many bytes a slot may take, and all that are not whole together.
func (a *Assembler) most() int {
	if a.Most > 0 {
		return min(a.Most, maxSlot)
	}
	return maxSlot
}

// retain puts a slot that a message has changed among those that are held, and frees the bytes of those that Retain and Most do not cover. The
// transaction that is being read is never among them, because nothing is newer.
func (a *Assembler) retain(modelID string, s *slot) {
	if a.Retain <= 0 && a.Most <= 0 {
		return
	}
	if a.held == nil {
		a.held = make(map[string]*holds)
	}
	h := a.held[modelID]
	if h == nil {
		h = new(holds)
		a.held[modelID] = h
	}
	h.partial = slices.DeleteFunc(h.partial, func(other *slot) bool { return other == s })
	h.whole = slices.DeleteFunc(h.whole, func(other *slot) bool { return other == s })
	if _, ok := s.whole(); ok {
		h.whole = append(h.whole, s)
		a.dropOlder(h)
	} else if len(s.chunks) > 0 {
		h.partial = append(h.partial, s)
		a.dropPartial(h)
	}
}

// dropPartial forgets chunks of versions that never became complete.
func (a *Assembler) dropPartial(h *holds) {
	bytes := 0
	for _, s := range h.partial {
		bytes += s.bytes
	}
	for a.Retain > 0 && len(h.partial) > a.Retain || len(h.partial) > 1 && bytes > a.most() {
		s := h.partial[0]
		h.partial = h.partial[1:]
		bytes -= s.bytes
		clear(s.chunks)
		s.bytes = 0
	}
}

// dropOlder frees the bytes of versions that Retain does not cover.
func (a *Assembler) dropOlder(h *holds) {
	slices.SortFunc(h.whole, func(x, y *slot) int { return cmp.Compare(y.version(), x.version()) })
	kept := h.whole[:0]
	for i, s := range h.whole {
		if a.Retain <= 0 || i < a.Retain || s.version() == a.Pin {
			kept = append(kept, s)
			continue
		}
		for id, c := range s.chunks {
			c.value = nil
			s.chunks[id] = c
		}
		s.decoded, s.dropped = nil, true
	}
	clear(h.whole[len(kept):])
	h.whole = kept
}

// ErrNewer is wrapped by the error about a snapshot whose format is newer than this program.
var ErrNewer = errors.New("written by a newer release")

// Newer returns the newest complete version of a model id, and an error that wraps ErrNewer, if this program cannot read
// it because a newer release has written it. The versions before it are superseded.
func (a *Assembler) Newer(modelID string) (version uint64, err error) {
	for _, s := range a.byVersion(modelID) {
		version, ok := s.whole()
		if !ok {
			continue
		}
		if _, err := a.decode(s, modelID); errors.Is(err, ErrNewer) {
			return version, fmt.Errorf("model %q: %w", modelID, err)
		}
		return 0, nil
	}
	return 0, nil
}

// unknownPart passes over a part that a newer release has added: the format of the part model says so. It refuses what
// is not ours.
func unknownPart(p place, key, value []byte, headers []source.Header) error {
	ours := source.LastHeader(headers, headerPart) == p.part && source.LastHeader(headers, headerModelID) == p.modelID
	if ours || value == nil {
		return nil
	}
	return foreignKey(key)
}

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
	Others      int // chunks of the other parts
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
	neighbours, model int // chunks that have come
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
	case PartNeighbours:
	default:
		o.Others++
		return c.n == 1
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
	case PartNeighbours:
	default:
		n = s.Others
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
