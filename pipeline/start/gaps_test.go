package start

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// Records that are gone stop the process, unless the configuration allows it, or they were read before.
func TestGaps(t *testing.T) {
	gap := source.OffsetError{Partition: fixtures.Part(0), Offset: 10, Start: 25, End: 40}
	beyond := source.OffsetError{Partition: fixtures.Part(0), Offset: 50, Start: 25, End: 40}
	foreign := &reject.Stop{Err: errors.New("another topic")}
	done := func(next int64) func(context.Context, source.Partition) (int64, error) {
		return func(context.Context, source.Partition) (int64, error) { return next, nil }
	}
	for _, c := range []struct {
		name   string
		gap    source.OffsetError
		skip   bool
		check  error
		done   func(context.Context, source.Partition) (int64, error)
		passed uint64
	}{
		{"stop", gap, false, nil, nil, 0},
		{"skip", gap, true, nil, nil, 15},
		{"whitened to its end", gap, false, nil, done(25), 15},
		{"not whitened to its end", gap, false, nil, done(24), 0},
		{"not whitened at all", gap, false, nil, done(-1), 0},
		{"not whitened, but allowed", gap, true, nil, done(-1), 15},
		{"of another topic", gap, true, foreign, done(25), 0},
		{"beyond the end", beyond, true, nil, done(60), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &Gaps{Skip: c.skip, Done: c.done, Check: func(context.Context) error { return c.check }, Stats: stats.NewStats(), Log: fixtures.Quiet()}
			for range 2 { // the second time after an aborted transaction
				if err := g.Pass(t.Context(), &c.gap); (err == nil) != (c.passed > 0) {
					t.Errorf("%v", err)
				}
			}
			if n := g.Stats.Tables().Passed[reject.ReasonGap]; n != c.passed {
				t.Errorf("%d records are counted, want %d", n, c.passed)
			}
		})
	}
}

// Of each gap one line says which records were lost, in however many partitions and however soon after
// another; one that comes again after an abort is not said again.
func TestEachGapIsSaid(t *testing.T) {
	var out bytes.Buffer
	g := &Gaps{Skip: true, Stats: stats.NewStats(), Log: slog.New(logs.Limit(slog.NewTextHandler(&out, nil), time.Minute))}
	for range 2 {
		for _, gap := range []source.OffsetError{
			{Partition: fixtures.Part(0), Offset: 350, Start: 420, End: 500},
			{Partition: fixtures.Part(1), Offset: 350, Start: 390, End: 500},
		} {
			if err := g.Pass(t.Context(), &gap); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := g.Pass(t.Context(), &source.OffsetError{Partition: fixtures.Part(1), Offset: 450, Start: 460, End: 500}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"events/0 from=350 to=420 records=70", "events/1 from=350 to=390 records=40", "events/1 from=450 to=460 records=10"} {
		if n := strings.Count(out.String(), "partition="+want); n != 1 {
			t.Errorf("%q is said %d times in\n%s", want, n, &out)
		}
	}
}

// A gap that comes again after an abort may begin before the former one, or end behind it: what was read
// meanwhile and not committed is lost as well.
func TestGapsCountEachRecordOnce(t *testing.T) {
	for _, c := range []struct {
		gaps [][2]int64
		want uint64
	}{
		{[][2]int64{{10, 25}, {10, 25}}, 15},
		{[][2]int64{{10, 25}, {10, 30}}, 20},
		{[][2]int64{{10, 25}, {5, 25}}, 20},
		{[][2]int64{{10, 25}, {5, 40}}, 35},
		{[][2]int64{{10, 25}, {12, 20}}, 15},
		{[][2]int64{{10, 25}, {30, 40}}, 25},
		{[][2]int64{{10, 25}, {30, 40}, {28, 40}}, 27},
	} {
		t.Run(fmt.Sprint(c.gaps), func(t *testing.T) {
			g := &Gaps{Skip: true, Stats: stats.NewStats(), Log: fixtures.Quiet()}
			for _, gap := range c.gaps {
				if err := g.Pass(t.Context(), &source.OffsetError{Partition: fixtures.Part(0), Offset: gap[0], Start: gap[1], End: 50}); err != nil {
					t.Fatal(err)
				}
			}
			if n := g.Stats.Tables().Passed[reject.ReasonGap]; n != c.want {
				t.Errorf("%d records are counted, want %d", n, c.want)
			}
		})
	}
}

// What a learner leaves out is no record that was not whitened: the transform of the same process has
// whitened it, or counts it itself. Nor does the learner say that it was whitened.
func TestLearnerCountsItsOwnGaps(t *testing.T) {
	var out bytes.Buffer
	read := func(context.Context, source.Partition) (int64, error) { return 420, nil }
	for _, skip := range []bool{true, false} {
		figures := stats.NewStats()
		log := slog.New(slog.NewTextHandler(&out, nil))
		transform := &Gaps{Skip: true, Stats: figures, Log: log}
		learner := &Gaps{Learner: true, Skip: skip, Done: read, Stats: figures, Log: log}
		gaps := []source.OffsetError{{Partition: fixtures.Part(0), Offset: 350, Start: 420, End: 500}, {Partition: fixtures.Part(0), Offset: 332, Start: 420, End: 500}}
		if err := errors.Join(transform.Pass(t.Context(), &gaps[0]), learner.Pass(t.Context(), &gaps[1])); err != nil {
			t.Fatal(err)
		}
		if passed, left := figures.Tables().Passed[reject.ReasonGap], figures.LearnerGaps.Load(); passed != 70 || left != 88 {
			t.Errorf("%d records are counted as not whitened and %d as not learnt, want 70 and 88", passed, left)
		}
	}
	if strings.Count(out.String(), "leaving records out of what is learnt") != 2 || strings.Contains(out.String(), "the transform has whitened them") {
		t.Errorf("the log says\n%s", &out)
	}
}
