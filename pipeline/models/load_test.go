package models

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// compacted is a partition of which nothing is left.
type compacted struct{ end int64 }

func (c *compacted) Fetch(context.Context) (source.Fetched, error) {
	return source.Fetched{Next: c.end, LastStable: c.end}, nil
}

func (c *compacted) Move(int64) {}
func (c *compacted) Want(int64) {}
func (c *compacted) Reuse()     {}

// Where compaction has removed what the index remembers, the place holds no snapshot.
func TestCompactedPlaceIsIncomplete(t *testing.T) {
	k := &KeyedModels{
		ModelID: "m", Stats: stats.NewStats(), Log: slog.New(slog.DiscardHandler),
		Open: func(context.Context, int32, int64) (ModelLog, error) { return &compacted{9}, nil },
	}
	k.start()
	x, e := &ModelIndex{models: k}, &ModelEntry{}
	w := &Wanted{Entry: e, Value: "x", At: modelPlace{version: 1, first: 0, last: 2}}
	err := x.fetchAll(t.Context(), []*Wanted{w}, func([]*Wanted) error { x.Make(w, false); return nil })
	if err != nil || !errors.Is(w.err, snapshot.ErrIncomplete) {
		t.Errorf("%v, %v: want that the snapshot is incomplete", err, w.err)
	}
}
