package run

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// Records that wait for the first model are lag: there is no reader yet, so their ends are asked for.
func TestHeldPartitionsHaveLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		mine, gone := source.Partition{Topic: "t", ID: 0}, source.Partition{Topic: "t", ID: 1}
		l, asked := newLags(), 0
		owned, lose := context.WithCancel(ctx)
		l.hold(ctx, mine, 100)
		l.hold(owned, gone, 0)
		go l.measure(ctx, func(_ context.Context, parts []source.Partition) source.Offsets {
			switch asked++; asked {
			case 1:
				return source.Offsets{mine: 200, gone: 7}
			case 2:
				return nil // no broker answers
			}
			return source.Offsets{mine: 100 + int64(asked)*100} // the other partition has no leader
		})
		left := func(p source.Partition) int64 { at := l.read()[p]; return at.High - at.Next }
		for i, want := range []int64{0, 100, 100, 300} {
			if got := left(mine); got != want {
				t.Errorf("after %d looks %d records wait, want %d", i, got, want)
			}
			time.Sleep(endsEvery)
			synctest.Wait()
		}
		if left(gone) != 7 {
			t.Errorf("%d records wait in the other partition", left(gone))
		}
		lose()
		synctest.Wait()
		if _, there := l.read()[gone]; there {
			t.Error("a partition that another process has is reported")
		}
		l.add(ctx, mine, &source.Kafka{})
		if _, there := l.held[mine]; there {
			t.Error("a partition with a reader is still held")
		}
	})
}
