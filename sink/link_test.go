package sink

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const linkTimeout = 40 * time.Second

func (l *Link) mustEnter(t *testing.T) int {
	t.Helper()
	cuts, err := l.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return cuts
}

// What is too late makes the others wait for their turn, in order, and says how much each may hold. Those that
// were on their way at the same time say nothing new.
func TestLinkNarrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLink(defaultSpare)
		var on []int
		for range 64 {
			on = append(on, l.mustEnter(t))
		}
		for _, cuts := range on {
			l.leave(cuts, 2<<20, 30*time.Second, linkTimeout, true)
		}
		if l.width != 1 || l.bytes() != 512<<10 {
			t.Fatalf("%d at a time, %d bytes", l.width, l.bytes())
		}
		first := l.mustEnter(t)
		var order []int
		for i := range 3 {
			go func() {
				cuts := l.mustEnter(t)
				order = append(order, i)
				l.leave(cuts, 1000, time.Second, linkTimeout, false)
			}()
			synctest.Wait()
		}
		if len(order) > 0 {
			t.Fatal("two at a time")
		}
		l.leave(first, 512<<10, 11*time.Second, linkTimeout, false)
		synctest.Wait()
		if len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
			t.Errorf("order %v", order)
		}
		if l.bytes() != 256<<10 || l.width != 1 {
			t.Errorf("after one that was nearly late: %d bytes, %d at a time", l.bytes(), l.width)
		}
	})
}

// Who gives up waiting leaves no gap, whether its turn has come or not.
func TestLinkGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLink(defaultSpare)
		l.leave(l.mustEnter(t), 1, 0, linkTimeout, true)
		first := l.mustEnter(t)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { _, err := l.enter(ctx); gone <- err }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		l.leave(first, 1, 0, linkTimeout, false)
		l.leave(l.mustEnter(t), 1, 0, linkTimeout, false)
		if l.open != 0 || len(l.queue) != 0 {
			t.Errorf("%d open, %d waiting", l.open, len(l.queue))
		}
	})
}

// Quick transactions widen the way until it has no bound, small ones too: an outage is no slow link.
func TestLinkWidens(t *testing.T) {
	for _, bytes := range []int{100, 1 << 20} {
		l := NewLink(defaultSpare)
		l.leave(l.mustEnter(t), 1<<20, 30*time.Second, linkTimeout, true)
		n := 0
		for ; l.width > 0 || l.most > 0; n++ {
			if n > 1000 {
				t.Fatalf("still %d at a time, %d bytes", l.width, l.most)
			}
			l.leave(l.mustEnter(t), bytes, time.Millisecond, linkTimeout, false)
		}
		t.Logf("%d transactions of %d bytes", n, bytes)
	}
}
