package pipeline

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

var checkpointLog = source.Partition{Topic: "checkpoints"}

func (w *world) checkpoints() *Checkpoints {
	return &Checkpoints{Topic: "checkpoints", ModelID: "m", Open: w.log("checkpoints"), End: w.end("checkpoints"), Stable: w.end("checkpoints")}
}

// put writes messages as a committed transaction.
func (w *world) put(msgs ...sink.Message) {
	for _, m := range msgs {
		p := source.Partition{Topic: m.Topic, ID: m.Partition}
		w.topics[p] = append(w.topics[p], stored(m))
	}
}

// checkpointOf is checkpoint n, of two chunks, as messages. change may change its bytes before they are cut.
func checkpointOf(t *testing.T, n uint64, change func([]byte)) []sink.Message {
	t.Helper()
	c := &Checkpoint{Sequence: n, ModelID: "m", Published: n * 1000, Learner: make([]byte, chunkBytes), Offsets: source.Offsets{events: int64(n)}}
	msgs, err := (&Checkpoints{Topic: "checkpoints", ModelID: "m"}).Messages(c)
	if err != nil || len(msgs) != 2 {
		t.Fatalf("%d messages: %v", len(msgs), err)
	}
	if change == nil {
		return msgs
	}
	data := slices.Concat(msgs[0].Value, msgs[1].Value)
	change(data)
	for i := range msgs {
		msgs[i].Value = data[i*chunkBytes : min((i+1)*chunkBytes, len(data))]
		msgs[i].Headers[3].Value = []byte(checksumText(msgs[i].Value))
	}
	return msgs
}

// asFormat makes the bytes those of another format, as the binary that has it would write them.
func asFormat(f uint16) func([]byte) {
	return func(b []byte) {
		binary.LittleEndian.PutUint16(b[4:], f)
		sum(b)
	}
}

func sum(b []byte) {
	end := len(b) - 4
	binary.LittleEndian.PutUint32(b[end:], crc32.Checksum(b[:end], crc32.MakeTable(crc32.Castagnoli)))
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
	newer := func(n uint64) []sink.Message { return checkpointOf(t, n, asFormat(newestFormat+1)) }
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
			for name, load := range map[string]func(context.Context) (*Checkpoint, error){"Load": w.checkpoints().Load, "Peek": w.checkpoints().Peek} {
				got, err := load(context.Background())
				if c.says != "" {
					wantStop(t, err, c.says)
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
	if err != nil || c == nil || c.Owner != (Owner{}) {
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
		if bytes.HasPrefix(value, []byte(checkpointMagic)) && binary.LittleEndian.Uint16(value[4:]) == 1 {
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

// Fields come back as they went, and what is cut, too long or changed anywhere does not.
func TestCheckpointBytes(t *testing.T) {
	for _, c := range []struct{ ordinal, base uint64 }{{0, 0}, {12345, 0}, {12345, 700}, {0, 700}} {
		t.Run(fmt.Sprintf("ordinal %d, base %d", c.ordinal, c.base), func(t *testing.T) { testCheckpointBytes(t, c.ordinal, c.base) })
	}
}

func testCheckpointBytes(t *testing.T, ordinal, base uint64) {
	c := &Checkpoint{
		Ordinal: ordinal, Base: base, Sequence: 7, Snapshots: 3, Published: 900, Parent: 800, ModelID: "m", Digest: "d", Owner: Owner{"g/a", "events"},
		Features: []string{"a", "b"}, Offsets: source.Offsets{events: 5, {Topic: "events", ID: 2}: 9},
		Slots: snapshot.Slots{3: {Model: 1, Neighbours: 2}}, Batcher: []byte("batch"), Learner: []byte("learner"),
	}
	b, err := c.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.size() != len(b) {
		t.Errorf("%d bytes, and %d were expected", len(b), c.size())
	}
	var got Checkpoint
	if err := got.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	got.format = 0
	if fmt.Sprint(got) != fmt.Sprint(*c) {
		t.Errorf("came back as %v, was %v", got, *c)
	}
	for i := range b {
		if err := got.UnmarshalBinary(b[:i]); err == nil {
			t.Errorf("cut to %d of %d bytes it is read", i, len(b))
		}
		other := bytes.Clone(b)
		other[i] ^= 1
		if err := got.UnmarshalBinary(other); err == nil {
			t.Errorf("with byte %d changed it is read", i)
		}
	}
	long := append(bytes.Clone(b[:len(b)-4]), 0, 0, 0, 0, 0)
	sum(long)
	if err := got.UnmarshalBinary(long); err == nil {
		t.Error("with a byte too many it is read")
	}
}

// What a checkpoint takes is known beforehand, to a third: its rows at least, and its matrices.
func TestCheckpointBytesAreForeseen(t *testing.T) {
	cases := []struct{ columns, neighbours int }{{40, 100}, {3, 2000}, {60, 700}}
	if testing.Short() {
		cases = cases[:1]
	}
	for _, c := range cases {
		config := online.DefaultConfig(c.columns)
		config.Neighbours, config.WarmupRows, config.Minibatch = c.neighbours, 100, 100
		learner, err := online.NewLearner(config)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		next := 0
		size := func(minibatches int, mean float64) int {
			for range minibatches {
				x, ids := make([]float64, 100*c.columns), make([]uint64, 100)
				for j := range x {
					x[j] = float64(float32(mean + rng.NormFloat64()))
				}
				for j := range ids {
					ids[j] = uint64(next + j)
				}
				next += len(ids)
				if _, err := learner.Learn(mat.NewDense(100, c.columns, x), ids, nil); err != nil {
					t.Fatal(err)
				}
			}
			state, err := learner.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			return len(state)
		}
		first := size(c.neighbours/100+5, 0)
		for regime := range 4 {
			size(c.neighbours/100+15, 30*float64(regime+1))
		}
		last := size(c.neighbours/100+15, 150)
		learner.Close()
		least, about, later := CheckpointBytes(c.neighbours, c.columns)
		t.Logf("%d columns, %d neighbours: %d bytes and later %d, at least %d, about %d and later %d", c.columns, c.neighbours, first, last, least, about, later)
		for size, foreseen := range map[int]int{first: about, last: later} {
			if size < least || size > foreseen*5/4 || size < foreseen*2/3 {
				t.Errorf("%d columns, %d neighbours: %d bytes, at least %d and about %d were foreseen", c.columns, c.neighbours, size, least, foreseen)
			}
		}
	}
}

// What could never be read is never written: beyond 4 GiB its lengths would wrap, too.
func TestCheckpointTooLarge(t *testing.T) {
	c := &Checkpoint{ModelID: "m", Features: slices.Repeat([]string{strings.Repeat("x", 1<<20)}, 1025)} // in memory once
	_, err := c.AppendBinary(nil)
	wantStop(t, err, "lca.neighbours", "1073741824 is the most")
	if !errors.Is(readableFormat(binary.LittleEndian.AppendUint16([]byte(checkpointMagic), newestFormat+1)), errNewerFormat) {
		t.Error("a newer format is not told from damage")
	}
}
