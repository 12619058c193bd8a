package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// testFault holds that a replay sets a fault aside that the learner of the live stream sets aside: both learn the same
// bits from the same records, and the replay says how many rows it left out, and why.
func (h *history) testFault(t *testing.T) {
	h.CreateTopic(t, "faults", 1, nil)
	var msgs []sink.Message
	for i := range 90 { // whole minibatches, because a live learner keeps the rest for later
		m := sink.Message{Topic: "faults", Value: jsonRows(uint64(2000 + i)), Time: h.began.Add(time.Duration(i) * time.Second)}
		if i >= 50 && i < 56 {
			m.Value = bytes.ReplaceAll(m.Value, []byte(`"b": `), []byte(`"b": 3`)) // 0.12 becomes 30.12, and -0.12 no number
			m.Value = bytes.ReplaceAll(m.Value, []byte(`3-`), []byte(`-3`))
		}
		msgs = append(msgs, m)
	}
	h.put(t, msgs)
	h.settle(t, "faults")
	set := []string{"--set", "source.topic=faults", "--set", "lca.accept_after=400 rows"}
	once := filepath.Join(t.TempDir(), "once.arrows")
	got := h.replay(t, append(set, "--output", once)...)
	if got.Rows != 90*historyRows || got.Passing < 6*historyRows || got.Passing > 6*historyRows+300 || got.Unconfirmed+got.Restarts > 0 || got.SingleNLL == nil {
		t.Errorf("%+v: want the fault's 180 rows left out, with those behind them whose means still know of it", got)
	}
	if thrice := h.replay(t, append(set, "--output", once+".thrice", "--passes", "3")...); thrice.Passing < 3*6*historyRows || thrice.Passing > 3*(6*historyRows+300) || thrice.Restarts > 0 {
		t.Errorf("three passes leave out %d rows, one %d: %d restarts", thrice.Passing, got.Passing, thrice.Restarts)
	}
	cmd := exec.Command("lca-stream", append([]string{"learn", "--from-history", "-c", h.config, "--set", "snapshot.model_id=fault"}, set...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var live *snapshot.Snapshot
	for deadline := time.Now().Add(time.Minute); live == nil && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		a, _ := h.snapshots(t)
		live, _ = a.Newest("fault")
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil || live == nil {
		t.Fatalf("no model of the live learner: %v\n%s", err, log.String())
	}
	replayed, err := app.ReadSnapshotFile(once)
	if err != nil {
		t.Fatal(err)
	}
	a, b := live.Model, replayed.Model
	if live.Version != replayed.Version || !mat.Equal(a.W, b.W) || !mat.Equal(a.CL, b.CL) || !slices.Equal(a.Neighbours, b.Neighbours) {
		t.Errorf("version %d of the live learner is another model than version %d of the replay: %v and %v", live.Version, replayed.Version, a.W, b.W)
	}
}
