package kernel

import (
	"sync"
	"sync/atomic"
)

// leastWork is the least that a goroutine is started for, in multiply-adds: a third of a millisecond. With less,
// it takes longer to wake a processor, and to bring its caches up to date, than is gained.
const leastWork = 24 << 20

// crew is the goroutines among which a call shares its work. Work is cut into items by index, and each item
// writes where no other does: so the bits do not depend on who did what. The zero value is ready; it serves
// one call at a time.
type crew struct {
	least int // in place of leastWork, where tests want little work to be shared
	work  job
	items int64
	next  atomic.Int64
	ids   atomic.Int64
	wait  sync.WaitGroup
	spawn func()
}

// job is what a crew works on; an interface, because a closure would be allocated.
type job interface {
	do(worker, item int)
	ended(worker int) // no item is left for this worker
}

// threads is how many goroutines, limit at most, should share so much work.
func (c *crew) threads(limit, work int) int {
	least := leastWork
	if c.least > 0 {
		least = c.least
	}
	return max(1, min(limit, work/least))
}

// run does the items 0 … n−1 of a job with workers 0 … threads−1, and returns when all are done. All of them are
// goroutines: the caller would keep to itself, for a while, the last one that it starts.
func (c *crew) run(work job, n, threads int) {
	if threads <= 1 {
		for i := range n {
			work.do(0, i)
		}
		work.ended(0)
		return
	}
	if c.spawn == nil { // made once: a go statement with a ready func() allocates nothing
		c.spawn = func() {
			defer c.wait.Done()
			c.drain(int(c.ids.Add(1) - 1))
		}
	}
	c.work, c.items = work, int64(n)
	c.next.Store(0)
	c.ids.Store(0)
	c.wait.Add(threads)
	for range threads {
		go c.spawn()
	}
	c.wait.Wait()
	c.work = nil
}

// drain takes items until none is left. Which worker does which item is left to chance; nothing
// that a worker leaves behind in its buffers is read by its next item.
func (c *crew) drain(worker int) {
	for {
		i := c.next.Add(1) - 1
		if i >= c.items {
			c.work.ended(worker)
			return
		}
		c.work.do(worker, int(i))
	}
}
