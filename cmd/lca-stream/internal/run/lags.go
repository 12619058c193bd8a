package run

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// lags collects the lags of this process's readers, one per partition, and those of the partitions that are held until there is
// a model: they have no reader yet.
type lags struct {
	mu      sync.Mutex
	readers map[source.Partition]*source.Kafka
	held    map[source.Partition]source.Lag
	ends    source.Offsets // as last asked for: a reader that waits for a commit learns of none
}

func newLags() *lags {
	return &lags{readers: map[source.Partition]*source.Kafka{}, held: map[source.Partition]source.Lag{}, ends: source.Offsets{}}
}

// hold reports the lag of a partition that is read from an offset on as soon as there is a model, or until ctx ends.
func (l *lags) hold(ctx context.Context, p source.Partition, next int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[p] = source.Lag{High: next, Stable: next, Next: next}
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, p)
	})
}

// endsEvery is the interval at which the ends of partitions are asked for.
const endsEvery = 5 * time.Second

// measure asks for the ends of all partitions until ctx ends. One that cannot be had stays as it was, and does not hide
// the others: a partition without a leader may be one of many.
func (l *lags) measure(ctx context.Context, ends func(context.Context, []source.Partition) source.Offsets) {
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.mu.Lock()
			parts := slices.AppendSeq(slices.Collect(maps.Keys(l.held)), maps.Keys(l.readers))
			l.mu.Unlock()
			if len(parts) == 0 {
				continue
			}
			now := ends(ctx, parts)
			l.mu.Lock()
			at := source.Offsets{} // not l.ends, which read may be using
			for _, p := range parts {
				if end, known := now[p]; known {
					at[p] = end
				} else if end, known := l.ends[p]; known {
					at[p] = end
				}
			}
			l.ends = at
			l.mu.Unlock()
		}
	}
}

// add reports a partition's lag until ctx ends. After that another instance has it, and reports it.
func (l *lags) add(ctx context.Context, p source.Partition, k *source.Kafka) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers[p] = k
	delete(l.held, p)
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.readers[p] == k {
			delete(l.readers, p)
		}
	})
}

// read returns all lags. The end of a partition is what its reader has seen last, or what was asked for since.
func (l *lags) read() map[source.Partition]source.Lag {
	l.mu.Lock()
	readers, all, ends := maps.Clone(l.readers), maps.Clone(l.held), l.ends
	l.mu.Unlock()
	for p, one := range all {
		one.High, one.Stable = max(one.High, ends[p]), max(one.Stable, ends[p])
		all[p] = one
	}
	for _, k := range readers {
		for p, one := range k.Lag() {
			one.High = max(one.High, ends[p])
			all[p] = one
		}
	}
	return all
}
