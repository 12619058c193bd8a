package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/replay"
)

// testTune chooses ν and ν_g by rows of the topic, twice the same, and publishes nothing.
func (h *history) testTune(t *testing.T) {
	_, before := h.snapshots(t)
	for _, algorithm := range []string{"stochastic", "lca-gauss"} {
		var first replay.Tuning
		for range 2 {
			cmd := exec.Command("lca-stream", "replay", "--json", "--tune", "--algorithm", algorithm, "-c", h.config)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var got replay.Tuning
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v printed %q: %v", cmd, out, err)
			}
			got.Seconds = 0
			if first.Rows == 0 {
				first = got
				continue
			}
			a, _ := json.Marshal(first)
			b, _ := json.Marshal(got)
			if !bytes.Equal(a, b) {
				t.Errorf("%s: the same range gives %s and %s", algorithm, a, b)
			}
		}
		// Two clusters, three standard deviations from 0, in one of three columns: by their entropies one Gaussian is .46 nats worse.
		worst, best := 0.0, math.Inf(1)
		for _, c := range first.Candidates {
			if c.Algorithm == "gaussian" {
				worst = max(worst, *c.NLL)
			} else {
				best = min(best, *c.NLL)
			}
		}
		if first.Rows != usable || first.Train+first.Fresh > usable || first.Fresh < usable/5 || !(best < worst-0.3) || best != *first.NLL {
			t.Errorf("%s: %d rows, %d fitted and %d fresh, NLL %.3f after %.3f of a Gaussian: %+v", algorithm, first.Rows, first.Train, first.Fresh, best, worst, first)
		}
	}
	if _, after := h.snapshots(t); after != before {
		t.Errorf("%d records on the snapshot topic, before it was %d", after, before)
	}
}

// testLocal writes the points and covariances of a topic's rows to a file.
func (h *history) testLocal(t *testing.T) {
	out := filepath.Join(t.TempDir(), "points.arrows")
	got := h.replay(t, "--algorithm", "lca-local", "--sample", "300", "--output", out)
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := ipc.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	rows := 0
	for r.Next() {
		rows += int(r.Record().NumRows())
	}
	if rows != 300 || got.LearntRows != 300 || got.Rows != usable || got.Parzen != 3 || got.NLL == nil {
		t.Errorf("%d points of %+v", rows, got)
	}
}
