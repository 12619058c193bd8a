package learn

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/source"
)

// finishing notes how much memory is in use before a stage is finished, and after each part of that.
type finishing struct {
	*KeyedLearn
	before, most int64
	parts        int
}

func (f *finishing) Do(ctx context.Context, b source.Batch) (pipeline.Work, error) {
	work, err := f.KeyedLearn.Do(ctx, b)
	f.before = f.Memory.used.Load()
	return work, err
}

func (f *finishing) Finish(ctx context.Context) (pipeline.Work, error) {
	work, err := f.KeyedLearn.Finish(ctx)
	f.parts++
	f.most = max(f.most, f.Memory.used.Load())
	return work, err
}

// At the end a model comes into memory for each value whose rows are held. None stays there: thousands would take many times what
// their rows did.
func TestFinishLeavesNoModelInMemory(t *testing.T) {
	by := fleetPlaces[0]
	w := newWorld()
	var rows []keyedRow
	for i := range 2000 {
		rows = append(rows, keyedRow{key: fmt.Sprintf("pump %d", i%400), a: float64(i % 7), b: float64(i % 11)})
	}
	w.fleetMessages(by, rows)
	stage := &finishing{KeyedLearn: w.keyedStage(keyedRun{by: by, memory: 1 << 40, step: 100, seldom: true, clock: func() time.Time { return time.UnixMilli(0) }})}
	at, err := stage.Rewind(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	src := &memorySource{w: w, next: at.Clone(), claim: source.Claim{Group: "g.learn", Generation: -1}, step: 100}
	loop := &pipeline.Loop{Source: src, Stage: stage, Sink: w.open("learners"), Stats: stage.Stats, Log: fixtures.Quiet()}
	if err := loop.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stage.parts == 0 || stage.before == 0 || stage.most > stage.before {
		t.Errorf("%d bytes are in memory while it is finished in %d parts, and %d before", stage.most, stage.parts, stage.before)
	}
	if models := stage.Memory.counts.Memory.Load(); models != 0 {
		t.Errorf("%d models are in memory in the end", models)
	}
	if saved := len(stage.States.index); saved != 400 {
		t.Errorf("%d models are saved, want 400", saved)
	}
}
