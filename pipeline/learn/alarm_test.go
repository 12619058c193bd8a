package learn

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// TestAlarms holds that a change and a return are in the log and in the figures, and that each makes a snapshot due at its
// minibatch, at the same versions whatever the batches are. So does what the data choose (450 and 950).
func TestAlarms(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	w := newWorld()
	w.topics[fixtures.Events] = nil
	w.jsonRows(40, 50, func(i int) string { // 500 rows of each of two regimes in turn
		shift := float64(100 * (i / 500 % 2))
		return twoColumns(shift+random.NormFloat64(), random.NormFloat64()-shift)
	})
	var versions [2][]uint64
	for i, step := range []int{1, 7} {
		var log bytes.Buffer
		loop, stage := w.learnLoop(t, step, func(l *Learn) {
			l.Learner.Minibatch, l.Learner.WarmupRows, l.Learner.Neighbours = 50, lca.Auto, 300
			l.Checkpoints, l.SnapshotRows = nil, 0
			l.Log = slog.New(slog.NewTextHandler(&log, nil))
			l.OnSnapshot = func(s *snapshot.Snapshot) { versions[i] = append(versions[i], s.Version) }
		})
		if err := loop.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := stage.Stats.Learning(); got.Alarms != 1 || got.Returns != 2 || got.Lockouts != 0 {
			t.Errorf("%d restarts, %d returns and %d lockouts, want 1, 2 and 0", got.Alarms, got.Returns, got.Lockouts)
		}
		for line, want := range map[string]int{"level=WARN msg=\"the stream has changed": 1, "level=INFO msg=\"a former regime has returned": 2} {
			if got := strings.Count(log.String(), line); got != want {
				t.Errorf("%q is %d times in the log, want %d:\n%s", line, got, want, log.String())
			}
		}
	}
	if !slices.Equal(versions[0], []uint64{100, 150, 200, 450, 700, 950, 1050, 1550}) || !slices.Equal(versions[0], versions[1]) {
		t.Errorf("snapshots of versions %v", versions)
	}
}
