package pipeline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// Between two generations, as in an outage, a partition's records go on waiting. A generation without it ends that.
func TestSinceCommitOutlivesAGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a, b := source.Partition{Topic: "events", ID: 0}, source.Partition{Topic: "events", ID: 1}
		s := stats.NewStats()
		g := &shifts{owned: [][]source.Partition{{a, b}, {b}}, ask: make(chan struct{})}
		w := &Transforms{Members: g, Log: fixtures.Quiet(), Stats: s, Open: func(ctx context.Context, _ source.Partition, _ source.Claim) (*Loop, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		g.ask <- struct{}{}
		synctest.Wait()
		s.SetBehind("transform", map[source.Partition]int64{a: 3, b: 0})
		g.end[0]()
		time.Sleep(10 * time.Minute)
		want := map[stats.StagePartition]time.Duration{{Stage: "transform", Partition: a}: 10 * time.Minute, {Stage: "transform", Partition: b}: 0}
		if diff := cmp.Diff(want, s.SinceCommit()); diff != "" {
			t.Errorf("no generation for ten minutes (-want +got):\n%s", diff)
		}
		g.ask <- struct{}{}
		synctest.Wait()
		if diff := cmp.Diff(map[stats.StagePartition]time.Duration{{Stage: "transform", Partition: b}: 0}, s.SinceCommit()); diff != "" {
			t.Errorf("the next generation (-want +got):\n%s", diff)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
