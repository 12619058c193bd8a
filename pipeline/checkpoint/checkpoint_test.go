package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// Fields come back as they went, and what is cut, too long or changed anywhere does not.
func TestCheckpointBytes(t *testing.T) {
	commands := source.Offsets{{Topic: "alarms", ID: 0}: 7, {Topic: "alarms", ID: 11}: 0}
	for _, c := range []struct {
		ordinal, base uint64
		commands      source.Offsets
	}{{0, 0, nil}, {12345, 0, nil}, {12345, 700, nil}, {0, 700, nil}, {0, 0, commands}, {12345, 700, commands}} {
		t.Run(fmt.Sprintf("ordinal %d, base %d, commands %v", c.ordinal, c.base, c.commands), func(t *testing.T) { testCheckpointBytes(t, c.ordinal, c.base, c.commands) })
	}
}

func testCheckpointBytes(t *testing.T, ordinal, base uint64, commands source.Offsets) {
	c := &Checkpoint{
		Ordinal: ordinal, Base: base, Commands: commands, Sequence: 7, Snapshots: 3, Published: 900, Parent: 800, ModelID: "m", Digest: "d", Owner: Owner{"g/a", "events"},
		Features: []string{"a", "b"}, Offsets: source.Offsets{fixtures.Events: 5, {Topic: "events", ID: 2}: 9},
		Slots: snapshot.Slots{3: {Model: 1, Neighbours: 2}}, Batcher: []byte("batch"), Learner: []byte("learner"),
	}
	b, err := c.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Size() != len(b) {
		t.Errorf("%d bytes, and %d were expected", len(b), c.Size())
	}
	var got Checkpoint
	if err := got.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	got.Format = 0
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
	fixtures.Seal(long)
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
	fixtures.WantStop(t, err, "lca.neighbours", "1073741824 is the most")
	if !errors.Is(ReadableFormat(binary.LittleEndian.AppendUint16([]byte(CheckpointMagic), NewestFormat+1)), ErrNewerFormat) {
		t.Error("a newer format is not told from damage")
	}
}

// What a build between the first edition and this one wrote is refused by name.
func TestUnreleasedFormatIsRefused(t *testing.T) {
	b, err := (&Checkpoint{ModelID: "m"}).AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint16(b[len(CheckpointMagic):], 2)
	fixtures.Seal(b)
	if err := new(Checkpoint).UnmarshalBinary(b); err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("%v", err)
	}
}
