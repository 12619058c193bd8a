package learn

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"strings"
	"testing"
)

// TestCheckpointOfAnotherBuildIsSaid holds that a learner which goes on from a state of another architecture says that
// bits may differ from here on, and that one of the same build says nothing.
func TestCheckpointOfAnotherBuildIsSaid(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 40, 30)
	loop, stage := w.learnLoop(t, 2)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	c := stage.state
	c.Features, c.Digest = stage.features.Names, stage.digest()
	var err error
	if c.Learner, err = stage.learner.AppendBinary(nil); err != nil {
		t.Fatal(err)
	}
	if c.Batcher, err = stage.batcher.AppendBinary(nil); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	stage.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := stage.restore(&c); err != nil || said.Len() > 0 {
		t.Fatalf("its own checkpoint: %v, and it says %q", err, said.String())
	}
	const header, checksum = 24, 20 // see the layout in lca/online/state.go: the body begins with GOARCH, a count and bytes
	c.Learner[header+8] = '?'
	binary.LittleEndian.PutUint32(c.Learner[checksum:], crc32.Checksum(c.Learner[header:], crc32.MakeTable(crc32.Castagnoli)))
	if err := stage.restore(&c); err != nil || !strings.Contains(said.String(), "another architecture") {
		t.Errorf("of another architecture: %v, and it says %q", err, said.String())
	}
}
