package snapshot

import (
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// The headers of a chunk, in addition to content-type.
const (
	headerModelID = "lca-model-id"
	headerVersion = "lca-model-version"
	headerPart    = "lca-part"
	headerChunk   = "lca-chunk"
	headerCRC     = "lca-crc32c"
	headerGroup   = "lca-group"    // left out if not known
	headerBy      = "lca-model-by" // left out for the model of all rows
	headerYoung   = "lca-young"    // true; left out for a model that whitens

	contentType = "application/vnd.apache.arrow.stream"
)

// Slots is what the topic holds of one model id: slot → number of chunks. A writer carries it from one snapshot to
// the next, because it has to delete the keys that a smaller snapshot leaves over. After losing it, Assembler.Slots
// finds it again.
type Slots map[int]Chunks

// Chunks counts the chunks of the parts model and neighbours. The others always are one chunk.
type Chunks struct{ Model, Neighbours int }

// singleParts are one chunk each, and may be missing: earlier versions had none of them.
var singleParts = []string{PartScores, PartRecent, PartFactors}

// Messages encodes a snapshot as messages for the topic, and returns what the topic's slots hold after them. before
// is what they hold now: its keys that the snapshot does not replace, and slots beyond keep, get tombstones. All
// messages belong in one transaction.
func Messages(s *Snapshot, topic string, keep int, before Slots) ([]sink.Message, Slots, error) {
	if keep < 1 {
		return nil, nil, fmt.Errorf("snapshot: keep is %d, want at least 1", keep)
	}
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	var messages []sink.Message
	slot := int(s.Number % uint64(keep))
	count := make(map[string]int)
	for _, p := range s.parts() {
		chunks, err := p.chunks(MaxChunk)
		if err != nil {
			return nil, nil, err
		}
		count[p.name] = len(chunks)
		for i, value := range chunks {
			messages = append(messages, sink.Message{
				Topic:   topic,
				Key:     place{s.ModelID, slot, p.name, i}.key(),
				Value:   value,
				Headers: s.headers(p.name, i, len(chunks), value),
			})
		}
	}
	now := Chunks{Model: count[PartModel], Neighbours: count[PartNeighbours]}
	after := make(Slots, len(before)+1)
	for _, k := range slices.Sorted(maps.Keys(before)) {
		switch {
		case k == slot:
			messages = appendTombstones(messages, topic, s.ModelID, k, before[k], now)
		case k >= keep: // the topic kept more versions once
			messages = appendTombstones(messages, topic, s.ModelID, k, before[k], Chunks{})
		default:
			after[k] = before[k]
		}
	}
	after[slot] = now
	return messages, after, nil
}

// parts are those of a snapshot, the neighbours last: with them a version is whole.
func (s *Snapshot) parts() []part {
	if s.Model.Recent == nil {
		return []part{modelPart(s), scoresPart(s), neighboursPart(s)}
	}
	return []part{modelPart(s), scoresPart(s), recentPart(s), factorsPart(s), neighboursPart(s)}
}

func (s *Snapshot) headers(part string, i, n int, value []byte) []source.Header {
	text := func(key, value string) source.Header { return source.Header{Key: key, Value: []byte(value)} }
	headers := []source.Header{
		text("content-type", contentType),
		text(headerModelID, s.ModelID),
		text(headerVersion, strconv.FormatUint(s.Version, 10)),
		text(headerPart, part),
		text(headerChunk, fmt.Sprintf("%d/%d", i, n)),
		text(headerCRC, strconv.FormatUint(uint64(checksum(value)), 10)),
	}
	if s.Group != "" {
		headers = append(headers, text(headerGroup, s.Group))
	}
	if s.By != "" {
		headers = append(headers, text(headerBy, s.By))
	}
	if s.Model.Young() {
		headers = append(headers, text(headerYoung, "true"))
	}
	return headers
}

func checksum(value []byte) uint32 { return crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)) }

// Tombstones delete everything that the topic holds of a model. They belong in one transaction.
func Tombstones(modelID, topic string, before Slots) (messages []sink.Message) {
	for _, k := range slices.Sorted(maps.Keys(before)) {
		messages = appendTombstones(messages, topic, modelID, k, before[k], Chunks{})
	}
	return messages
}

func appendTombstones(messages []sink.Message, topic, modelID string, slot int, before, now Chunks) []sink.Message {
	if now == (Chunks{}) {
		for _, part := range singleParts {
			messages = append(messages, sink.Message{Topic: topic, Key: place{modelID, slot, part, 0}.key()})
		}
	}
	for i := now.Model; i < before.Model; i++ {
		messages = append(messages, sink.Message{Topic: topic, Key: place{modelID, slot, PartModel, i}.key()})
	}
	for i := now.Neighbours; i < before.Neighbours; i++ {
		messages = append(messages, sink.Message{Topic: topic, Key: place{modelID, slot, PartNeighbours, i}.key()})
	}
	return messages
}

// place is the position of a chunk in the topic.
type place struct {
	modelID string
	slot    int
	part    string
	index   int
}

func (p place) key() []byte {
	return p.appendKey(make([]byte, 0, len(p.modelID)+len(p.part)+8))
}

func (p place) appendKey(key []byte) []byte {
	key = append(append(key, p.modelID...), '/')
	key = append(strconv.AppendInt(key, int64(p.slot), 10), '/')
	key = append(append(key, p.part...), '/')
	return strconv.AppendInt(key, int64(p.index), 10)
}

func foreignKey(key []byte) error {
	return fmt.Errorf("snapshot: key %q is not MODEL_ID/SLOT/PART/CHUNK: the topic is shared with something else", key)
}

// known reports whether this program reads the part.
func (p place) known() bool {
	return p.part == PartModel || p.part == PartNeighbours || slices.Contains(singleParts, p.part)
}

// parseKey is the inverse of key. It splits from the right, so that a model id may hold slashes.
func parseKey(key []byte) (place, error) {
	rest := string(key)
	var last [3]string // CHUNK, PART, SLOT
	for i := range last {
		at := strings.LastIndexByte(rest, '/')
		if at < 0 {
			return place{}, foreignKey(key)
		}
		rest, last[i] = rest[:at], rest[at+1:]
	}
	slot, errSlot := strconv.ParseUint(last[2], 10, 31)
	index, errIndex := strconv.ParseUint(last[0], 10, 31)
	if rest == "" || errSlot != nil || errIndex != nil || last[1] == "" {
		return place{}, foreignKey(key)
	}
	p := place{rest, int(slot), last[1], int(index)}
	var same [128]byte
	if string(p.appendKey(same[:0])) != string(key) { // 007 is not 7: two keys would share one place
		return place{}, foreignKey(key)
	}
	return p, nil
}
