package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/lca-stream/lca-stream/source"
)

// Records that are gone stop the process, unless somebody has allowed it, or has read them.
func TestGaps(t *testing.T) {
	gap := source.OffsetError{Partition: at(0), Offset: 10, Start: 25, End: 40}
	beyond := source.OffsetError{Partition: at(0), Offset: 50, Start: 25, End: 40}
	foreign := &Stop{Err: errors.New("another topic")}
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
			g := &Gaps{Skip: c.skip, Done: c.done, Check: func(context.Context) error { return c.check }, Stats: NewStats(), Log: quiet()}
			for range 2 { // the second time after an aborted transaction
				if err := g.Pass(t.Context(), &c.gap); (err == nil) != (c.passed > 0) {
					t.Errorf("%v", err)
				}
			}
			if n := g.Stats.Tables().Passed[reasonGap]; n != c.passed {
				t.Errorf("%d records are counted, want %d", n, c.passed)
			}
		})
	}
}
