package pipeline

import (
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strconv"
	"strings"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// chunkBytes keeps a checkpoint's chunks below the 1 MiB that a default broker takes.
const chunkBytes = 900_000

// Checkpoints is the checkpoint topic of one model: it cuts a checkpoint into messages and finds
// the newest whole one again. Two slots alternate, so that the former checkpoint stays whole while
// the next one is written; a slot's surplus chunks get tombstones in the same transaction.
type Checkpoints struct {
	Topic   string
	ModelID string
	Open    func(context.Context) (Log, error)   // a reader from the topic's beginning
	End     func(context.Context) (int64, error) // the topic's high watermark, see ReadBack
	Log     *slog.Logger                         // nil = nobody wants to know what is waited for

	chunks [2]int // chunks in each slot, as last written or read
}

// Log reads one partition from one end to the other, committed records only.
type Log interface {
	Fetch(context.Context) (source.Fetched, error)
}

// Messages cuts c into chunks with keys MODEL_ID/SLOT/CHUNK.
func (t *Checkpoints) Messages(c *Checkpoint) ([]sink.Message, error) {
	data, err := c.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	slot := int(c.Sequence % 2)
	n := (len(data) + chunkBytes - 1) / chunkBytes
	msgs := make([]sink.Message, 0, max(n, t.chunks[slot]))
	for i := range n {
		part := data[i*chunkBytes : min((i+1)*chunkBytes, len(data))]
		msgs = append(msgs, sink.Message{
			Topic: t.Topic, Key: t.key(slot, i), Value: part,
			Headers: []source.Header{
				text("lca-model-id", t.ModelID),
				text("lca-checkpoint", strconv.FormatUint(c.Sequence, 10)),
				text("lca-chunk", fmt.Sprintf("%d/%d", i, n)),
				text("lca-crc32c", fmt.Sprintf("%08x", crc32.Checksum(part, castagnoli))),
			},
		})
	}
	for i := n; i < t.chunks[slot]; i++ {
		msgs = append(msgs, sink.Message{Topic: t.Topic, Key: t.key(slot, i)})
	}
	t.chunks[slot] = n
	return msgs, nil
}

func (t *Checkpoints) key(slot, chunk int) []byte {
	return fmt.Appendf(nil, "%s/%d/%d", t.ModelID, slot, chunk)
}

// Load returns the newest whole checkpoint, or nil when there is none.
func (t *Checkpoints) Load(ctx context.Context) (*Checkpoint, error) {
	var slots [2]slotParts
	back := ReadBack{Topic: t.Topic, Open: t.Open, End: t.End, Log: t.Log}
	err := back.Read(ctx, func(got *source.Fetched) error {
		for _, r := range got.Records {
			t.take(&slots, string(r.Key), r.Value, func(name string) string {
				for _, h := range r.Headers {
					if h.Key == name {
						return string(h.Value)
					}
				}
				return ""
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t.newest(&slots)
}

// slotParts are the chunks that a slot holds now; an overwritten chunk belongs to a newer sequence.
type slotParts struct {
	parts map[int]chunkPart
}

type chunkPart struct {
	sequence uint64
	n        int
	data     []byte
}

func (t *Checkpoints) take(slots *[2]slotParts, key string, value []byte, header func(string) string) {
	rest, ok := strings.CutPrefix(key, t.ModelID+"/")
	if !ok {
		return
	}
	var slot, chunk int
	if n, err := fmt.Sscanf(rest, "%d/%d", &slot, &chunk); n != 2 || err != nil || slot < 0 || slot > 1 || chunk < 0 {
		return // another model whose id begins like ours
	}
	if rest != fmt.Sprintf("%d/%d", slot, chunk) {
		return
	}
	if slots[slot].parts == nil {
		slots[slot].parts = map[int]chunkPart{}
	}
	if value == nil {
		delete(slots[slot].parts, chunk)
		return
	}
	p := chunkPart{data: append([]byte(nil), value...)}
	p.sequence, _ = strconv.ParseUint(header("lca-checkpoint"), 10, 64)
	if _, n, ok := strings.Cut(header("lca-chunk"), "/"); ok {
		p.n, _ = strconv.Atoi(n)
	}
	slots[slot].parts[chunk] = p
}

func (t *Checkpoints) newest(slots *[2]slotParts) (*Checkpoint, error) {
	var best *Checkpoint
	var broken error
	for i := range slots {
		t.chunks[i] = len(slots[i].parts)
		first, ok := slots[i].parts[0]
		if !ok {
			continue
		}
		var data []byte
		for k := range first.n {
			p, ok := slots[i].parts[k]
			if !ok || p.sequence != first.sequence {
				data = nil
				break
			}
			data = append(data, p.data...)
		}
		c := new(Checkpoint)
		if err := c.UnmarshalBinary(data); err != nil {
			broken = fmt.Errorf("pipeline: checkpoint of model %q in slot %d of topic %s: %w", t.ModelID, i, t.Topic, err)
			continue
		}
		if best == nil || c.Sequence > best.Sequence {
			best = c
		}
	}
	if best == nil {
		return nil, broken
	}
	return best, nil
}
