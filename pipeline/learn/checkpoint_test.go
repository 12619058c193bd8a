package learn

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

var checkpointLog = source.Partition{Topic: "checkpoints"}

func (w *world) checkpoints() *checkpoint.Checkpoints {
	return &checkpoint.Checkpoints{ReadBack: w.readBackOf("checkpoints"), ModelID: "m", Stable: w.end("checkpoints")}
}

// put writes messages as a committed transaction.
func (w *world) put(msgs ...sink.Message) {
	for _, m := range msgs {
		p := source.Partition{Topic: m.Topic, ID: m.Partition}
		w.topics[p] = append(w.topics[p], fixtures.Stored(m))
	}
}

// checkpointOf is checkpoint n, of two chunks, as messages. change may change its bytes before they are cut.
func checkpointOf(t *testing.T, n uint64, change func([]byte)) []sink.Message {
	t.Helper()
	c := &checkpoint.Checkpoint{Sequence: n, ModelID: "m", Published: n * 1000, Learner: make([]byte, checkpoint.ChunkBytes), Offsets: source.Offsets{fixtures.Events: int64(n)}}
	msgs, err := (&checkpoint.Checkpoints{ReadBack: checkpoint.ReadBack{Topic: "checkpoints"}, ModelID: "m"}).Messages(c)
	if err != nil || len(msgs) != 2 {
		t.Fatalf("%d messages: %v", len(msgs), err)
	}
	if change == nil {
		return msgs
	}
	data := slices.Concat(msgs[0].Value, msgs[1].Value)
	change(data)
	for i := range msgs {
		msgs[i].Value = data[i*checkpoint.ChunkBytes : min((i+1)*checkpoint.ChunkBytes, len(data))]
		msgs[i].Headers[3].Value = []byte(checkpoint.ChecksumText(msgs[i].Value))
	}
	return msgs
}

// asFormat makes the bytes those of another format, as the binary that has it would write them.
func asFormat(f uint16) func([]byte) {
	return func(b []byte) {
		binary.LittleEndian.PutUint16(b[4:], f)
		fixtures.Seal(b)
	}
}

func damage(m sink.Message) sink.Message {
	m.Value = bytes.Clone(m.Value)
	m.Value[len(m.Value)/2] ^= 1
	return m
}

// What cannot be read is passed over only where it is known to be superseded: a learner that went back to
// the checkpoint before would publish versions again, with other content.
func TestUnreadableCheckpoints(t *testing.T) {
	ten, eleven := checkpointOf(t, 10, nil), checkpointOf(t, 11, nil)
	newer := func(n uint64) []sink.Message { return checkpointOf(t, n, asFormat(checkpoint.NewestFormat+1)) }
	wrong := checkpointOf(t, 11, func(b []byte) { b[100] ^= 1 }) // its chunks are as they were written, it is not
	for _, c := range []struct {
		name string
		log  []sink.Message
		want uint64 // 0: none
		says string // why not
	}{
		{"none", nil, 0, ""},
		{"two", slices.Concat(ten, eleven), 11, ""},
		{"one", eleven, 11, ""},
		{"the newer of a newer binary", slices.Concat(ten, newer(11)), 0, "use the newer binary"},
		{"the older of a newer binary", slices.Concat(newer(10), eleven), 0, "use the newer binary"},
		{"both of a newer binary", slices.Concat(newer(10), newer(11)), 0, "use the newer binary"},
		{"of a newer binary that cuts otherwise", slices.Concat(ten, newer(11)[:1]), 0, "use the newer binary"},
		{"the newer lacks its first chunk", slices.Concat(ten, eleven[1:]), 0, "checkpoint 11 of model \"m\""},
		{"the newer lacks a chunk", slices.Concat(ten, eleven[:1]), 0, "chunk 1 of 2 is missing"},
		{"a chunk of the newer is damaged", slices.Concat(ten, eleven, []sink.Message{damage(eleven[1])}), 0, "chunk 1 of 2"},
		{"the first chunk of the newer is damaged", slices.Concat(ten, eleven, []sink.Message{damage(eleven[0])}), 0, "first chunk"},
		{"the newer is damaged as a whole", slices.Concat(ten, wrong), 0, "CRC-32C"},
		{"the older lacks a chunk", slices.Concat(ten[:1], eleven), 11, ""},
		{"the older is damaged", slices.Concat(ten, []sink.Message{damage(ten[0])}, eleven), 11, ""},
		{"the only one is damaged", slices.Concat(eleven, []sink.Message{damage(eleven[0])}), 0, "slot 1 of topic checkpoints"},
		{"deleted", slices.Concat(eleven, []sink.Message{{Topic: "checkpoints", Key: eleven[0].Key}, {Topic: "checkpoints", Key: eleven[1].Key}}), 0, ""},
		{"others' keys", slices.Concat(eleven, []sink.Message{
			{Topic: "checkpoints", Key: []byte("m/2/0"), Value: []byte("x")}, {Topic: "checkpoints", Key: []byte("m/0/00"), Value: []byte("x")},
			{Topic: "checkpoints", Key: []byte("m/a/0/0"), Value: []byte("x")}, {Topic: "checkpoints", Key: []byte("start/g/events/0"), Value: []byte("x")},
			{Topic: "checkpoints", Key: []byte("m/0/0/0"), Value: []byte("x")}, {Topic: "checkpoints", Key: []byte("mm/0/0"), Value: []byte("x")},
		}), 11, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.put(c.log...)
			for name, load := range map[string]func(context.Context) (*checkpoint.Checkpoint, error){"Load": w.checkpoints().Load, "Peek": w.checkpoints().Peek} {
				got, err := load(context.Background())
				if c.says != "" {
					fixtures.WantStop(t, err, c.says)
					continue
				}
				if err != nil || (got != nil) != (c.want > 0) || (got != nil && got.Sequence != c.want) {
					t.Errorf("%s gives %v, %v, want checkpoint %d", name, got, err, c.want)
				}
			}
		})
	}
}

// A binary of the first release passes over a checkpoint that it cannot read and takes the other slot's. So the
// first one that is written now leaves it none: whatever is on the topic then is of this format.
func TestFirstFormatIsLeftNoWayBack(t *testing.T) {
	w := newWorld()
	then := readWire(t, 1)
	w.topics[checkpointLog] = then.topics[checkpointLog]
	cp := w.checkpoints()
	c, err := cp.Load(context.Background())
	if err != nil || c == nil || c.Owner != (checkpoint.Owner{}) {
		t.Fatalf("the first format gives %v, %v", c, err)
	}
	c.Sequence++
	msgs, err := cp.Messages(c)
	if err != nil {
		t.Fatal(err)
	}
	w.put(msgs...)
	last := map[string][]byte{}
	for _, m := range w.topics[checkpointLog] {
		last[string(m.Key)] = m.Value
	}
	for key, value := range last {
		if bytes.HasPrefix(value, []byte(checkpoint.CheckpointMagic)) && binary.LittleEndian.Uint16(value[4:]) == 1 {
			t.Errorf("%s still has a checkpoint of the first format", key)
		}
	}
	again, err := w.checkpoints().Load(context.Background())
	if err != nil || again.Sequence != c.Sequence {
		t.Fatalf("then %v, %v", again, err)
	}
	c.Sequence++ // and from then on both slots stay
	if msgs, err = cp.Messages(c); err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		if m.Value == nil {
			t.Errorf("%s is deleted again", m.Key)
		}
	}
}
