package kernel

import (
	"sync"
	"sync/atomic"
)

// leastWork is the least work that an additional goroutine is started for, in multiply-adds: a third of a
// millisecond. With less, waking a processor and filling its caches takes longer than is gained.
const leastWork = 24 << 20

// workers is the goroutines that share the work of a call. Work is cut into items by index, and each item writes
// where no other does, so the bits do not depend on which goroutine did what. The zero value is ready for use; it
// serves one call at a time.
type workers struct {
	least int            // replaces leastWork in tests, which want little work to be shared
	work  job            // the job of the current run
	items int64          // number of items of the job
	next  atomic.Int64   // index of the next item that no worker has taken
	ids   atomic.Int64   // number of workers that have started
	wait  sync.WaitGroup // counts the workers that have not finished
	spawn func()         // body of each goroutine, kept because a new closure would be allocated
}

// job is the work of one run. It is an interface, because a closure would be allocated.
type job interface {
	do(worker, item int)
	finish(worker int) // is called once per worker, when no item is left for it
}

// threads returns how many goroutines, at most limit, should share the given number of multiply-adds.
func (w *workers) threads(limit, work int) int {
	least := leastWork
	if w.least > 0 {
		least = w.least
	}
	return max(1, min(limit, work/least))
}

// run does the items 0 … n−1 of a job with workers 0 … threads−1, and returns when all are done. The caller does
// not work itself: the goroutine it started last would wait in its P's runnext slot.
func (w *workers) run(work job, n, threads int) {
	if threads <= 1 {
		for i := range n {
			work.do(0, i)
		}
		work.finish(0)
		return
	}
	if w.spawn == nil { // made once: a go statement with a ready func() allocates nothing
		w.spawn = func() {
			defer w.wait.Done()
			w.drain(int(w.ids.Add(1) - 1))
		}
	}
	w.work, w.items = work, int64(n)
	w.next.Store(0)
	w.ids.Store(0)
	w.wait.Add(threads)
	for range threads {
		go w.spawn()
	}
	w.wait.Wait()
	w.work = nil
}

// drain takes items until none is left. Which worker does which item is left to chance, so no item reads what an
// earlier one left in its worker's buffers.
func (w *workers) drain(worker int) {
	for {
		i := w.next.Add(1) - 1
		if i >= w.items {
			w.work.finish(worker)
			return
		}
		w.work.do(worker, int(i))
	}
}
