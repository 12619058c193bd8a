package pipeline

import (
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strconv"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// chunkBytes keeps a checkpoint's chunks below the 1 MiB that a broker takes by default.
const chunkBytes = 900_000

// Checkpoints is the checkpoint topic of one model. It cuts a checkpoint into messages and finds the newest whole one
// again. Two slots alternate, so that the former checkpoint stays whole while the next one is written. The same
// transaction deletes a slot's surplus chunks with tombstones.
type Checkpoints struct {
	Topic   string
	ModelID string
	Owner   Owner                                             // the pipeline that the model must belong to; zero = any
	Open    func(context.Context) (TopicReader, error)        // a reader from the topic's beginning
	OpenAt  func(context.Context, int64) (TopicReader, error) // a reader from an offset; nil = all is read
	End     func(context.Context) (int64, error)              // the topic's high watermark, see ReadBack
	Stable  func(context.Context) (int64, error)              // its last stable offset, for Peek
	Log     *slog.Logger                                      // nil: waiting is not logged
	By      string                                            // model.by, for a model of one value
	OneSlot bool                                              // each checkpoint takes the former one's place: for readers that go by offset

	chunks [2]int  // number of chunks in each slot, as last written or read
	old    [2]bool // the slot holds a checkpoint of the first format
	ahead  *found  // what Own has read; the Load that follows need not read it again
}

// TopicReader reads the committed records of one partition in order.
type TopicReader interface {
	Fetch(context.Context) (source.Fetched, error)
}

// Messages cuts c into chunks with keys MODEL_ID/SLOT/CHUNK.
//
// The first checkpoint of the present format also deletes the one of the first format in the other slot. An older
// binary ignores what it cannot read and would go on from that older checkpoint. So it finds nothing, and refuses to
// start.
func (t *Checkpoints) Messages(c *Checkpoint) ([]sink.Message, error) {
	data, err := c.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	slot := int(c.Sequence % 2)
	if t.OneSlot {
		slot = 0
	}
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
				text("lca-crc32c", checksumText(part)),
			},
		})
	}
	msgs = t.delete(msgs, slot, n)
	if other := 1 - slot; t.old[other] {
		msgs = t.delete(msgs, other, 0)
	}
	t.old[slot] = false
	return msgs, nil
}

// delete appends tombstones for a slot's chunks from number n on.
func (t *Checkpoints) delete(msgs []sink.Message, slot, n int) []sink.Message {
	for i := n; i < t.chunks[slot]; i++ {
		msgs = append(msgs, sink.Message{Topic: t.Topic, Key: t.key(slot, i)})
	}
	t.chunks[slot], t.old[slot] = n, false
	return msgs
}

func (t *Checkpoints) key(slot, chunk int) []byte {
	return fmt.Appendf(nil, "%s/%d/%d", t.ModelID, slot, chunk)
}

func checksumText(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

// Load returns the newest whole checkpoint, or nil if there is none. The sink of the model must be open, because
// opening it settles what a former learner left unfinished.
func (t *Checkpoints) Load(ctx context.Context) (*Checkpoint, error) {
	f := t.ahead
	t.ahead = nil
	if f == nil {
		var err error
		if f, err = t.read(ctx, t.End); err != nil {
			return nil, err
		}
	}
	t.chunks, t.old = f.chunks(), f.old()
	return t.newest(f)
}

// Peek is Load before the sink is open. It fences no process and waits for no open transaction, so a checkpoint that is
// being written, or lies behind an open transaction, is not seen.
func (t *Checkpoints) Peek(ctx context.Context) (*Checkpoint, error) {
	f, err := t.read(ctx, t.Stable)
	if err != nil {
		return nil, err
	}
	return t.newest(f)
}

// newest returns the newest checkpoint, or an error if it belongs to another pipeline.
func (t *Checkpoints) newest(f *found) (*Checkpoint, error) {
	if f.value != "" {
		return nil, ValuesThere(t.Topic, f.value, t.ModelID)
	}
	c, err := f.newest()
	if err == nil {
		err = t.mine(f.owner(c))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// read finds what the topic holds of the model. Mostly its last records suffice.
func (t *Checkpoints) read(ctx context.Context, end func(context.Context) (int64, error)) (*found, error) {
	back := ReadBack{Topic: t.Topic, Open: t.Open, OpenAt: t.OpenAt, End: end, Log: t.Log}
	f := &found{model: t.ModelID, topic: t.Topic}
	err := back.ReadTail(ctx, f.reset, func(got *source.Fetched) error {
		for _, r := range got.Records {
			f.take(string(r.Key), r.Value, r.Headers)
		}
		return nil
	}, f.enough)
	return f, err
}
