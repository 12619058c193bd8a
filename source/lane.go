package source

import (
	"context"
	"errors"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// leastFetch is the lower bound of a lane's request if there is memory for it, even if its reader gathers little:
// smaller responses cost more requests than they save.
const leastFetch = 256 << 10

// lane reads one partition ahead, in a goroutine of its own.
type lane struct {
	fetcher *Fetcher
	end     int64 // offset behind the last one to read; negative: none
	part    stretches
	out     chan *portion

	head *portion // owned by Read, for a range with an end
	due  bool     // owned by Read: the next response comes at once
}

// portion is what a lane passes on: the records of one response, or an error.
type portion struct {
	lane      *lane
	partition Partition
	records   []recordbatch.Record
	rejected  []Rejected // interleaved with records, by offset
	after     int64      // offset behind all of it
	epoch     int32      // leader epoch of the record before after
	last      bool       // the lane has reached its end
	more      bool       // the response ends before the partition does
	nothing   bool       // the broker had nothing when it was asked to answer at once
	read      int64      // Kafka.reads when the response came
	err       error
	block     *block // memory of the response, until the last record is taken
}

// done releases the response when all records are taken.
func (p *portion) done() {
	if p.empty() {
		p.drop()
	}
}

// drop releases the response.
func (p *portion) drop() {
	if p != nil {
		p.block.drop()
		p.block, p.records, p.rejected = nil, nil, nil // they point into it
	}
}

// stale reports whether what it holds came before the batch was asked for.
func (p *portion) stale(k *Kafka) bool { return k.config.Rate != nil && p.read < k.reads.Load() }

func (p *portion) empty() bool { return len(p.records) == 0 && len(p.rejected) == 0 }

// peek returns the first record, or rejected batch.
func (p *portion) peek() (*recordbatch.Record, *Rejected) {
	if len(p.records) == 0 || len(p.rejected) > 0 && p.rejected[0].Offset < p.records[0].Offset {
		return nil, &p.rejected[0]
	}
	return &p.records[0], nil
}

// pop removes it.
func (p *portion) pop() {
	if r, _ := p.peek(); r == nil {
		p.rejected = p.rejected[1:]
		return
	}
	p.records = p.records[1:]
}

// next returns the offset of what pop removes next.
func (p *portion) next() int64 {
	switch {
	case p.empty():
		return p.after
	case len(p.records) == 0:
		return p.rejected[0].Offset
	case len(p.rejected) == 0:
		return p.records[0].Offset
	}
	return min(p.records[0].Offset, p.rejected[0].Offset)
}

// start begins to read ahead from the current position.
func (k *Kafka) start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.stop, k.shared = cancel, make(chan *portion)
	k.config.Memory.join(len(k.partitions))
	for _, p := range k.partitions {
		l := &lane{out: k.shared, end: -1, fetcher: NewFetcher(FetcherConfig{
			Cluster:         k.config.Cluster,
			Partition:       p,
			Offset:          k.position[p],
			Epochs:          k.epochs,
			TopicID:         k.topics[p.Topic],
			Remedy:          remedyRecreated,
			ReadUncommitted: k.config.ReadUncommitted,
			SetAside:        true,
			MaxBytes:        max(k.config.GatherBytes, leastFetch),
			MaxMessageBytes: k.config.MaxMessageBytes,
			RetryFor:        k.config.RetryFor,
		})}
		l.fetcher.share(k.config.Memory, k.config.End != nil)
		if k.config.End != nil {
			l.end, l.out = k.config.End[p], make(chan *portion)
			l.part = stretchesOf(k.config.Start[p], l.end, k.config.OneIn)
		}
		k.lanes = append(k.lanes, l)
		k.wait.Go(func() { k.run(ctx, l) })
	}
}

// halt ends the lanes, waits for them, and drops what they have read.
func (k *Kafka) halt() {
	if k.lanes == nil {
		return
	}
	k.stop()
	k.wait.Wait()
	k.head.drop()
	for _, l := range k.lanes {
		l.head.drop()
		l.fetcher.grant.back(0)
	}
	k.config.Memory.leave(len(k.partitions))
	k.lanes, k.head, k.turn, k.due, k.failed = nil, nil, 0, 0, nil
}

// run fetches and passes portions on until its end, an error or the end of the context. The channel has no buffer, so
// one response waits here while Read takes messages from the former.
func (k *Kafka) run(ctx context.Context, l *lane) {
	partition := l.fetcher.config.Partition
	for {
		l.move()
		p := &portion{lane: l, partition: partition, after: l.fetcher.Next(), epoch: l.fetcher.trail.last}
		if l.end >= 0 && l.fetcher.Next() >= l.end {
			p.last = true
		} else {
			before := l.fetcher.Next()
			got, err := l.fetcher.Fetch(ctx)
			if ctx.Err() != nil {
				got.block.drop()
				return
			}
			if err == nil {
				p.read = k.reads.Load()
				p.more = k.note(partition, &got)
				if got.Next == before {
					got.block.drop()
					if !l.fetcher.hurry {
						continue
					}
					p.more, p.nothing, got = false, true, Fetched{Next: got.Next, Epoch: got.Epoch}
				}
			} else {
				got, err = k.passGap(ctx, l, err)
			}
			p.records, p.rejected, p.after, p.epoch, p.err, p.block = got.Records, got.Rejected, got.Next, got.Epoch, err, got.block
			p.cut(l.end)
			l.part.thin(p)
		}
		select {
		case l.out <- p:
			l.fetcher.hurry = p.stale(k)
		case <-ctx.Done():
			p.drop()
			return
		}
		if p.last || p.err != nil {
			return
		}
	}
}

// move leaves out what is not read.
func (l *lane) move() {
	if l.part.period == 0 {
		return
	}
	if next := min(l.part.next(l.fetcher.Next()), l.end); next > l.fetcher.Next() {
		l.fetcher.Move(next)
	}
	_, l.fetcher.until = l.part.of(l.fetcher.Next())
}

// passGap moves the lane past records that are gone, if OnGap allows it. The result then holds only the next offset,
// so that a claim moves on at once: the partition may have no records left.
func (k *Kafka) passGap(ctx context.Context, l *lane, err error) (Fetched, error) {
	var gap *OffsetError
	if k.config.OnGap == nil || !errors.As(err, &gap) || gap.Offset >= gap.Start {
		return Fetched{}, err
	}
	if err := k.config.OnGap(ctx, gap); err != nil {
		return Fetched{}, err
	}
	l.fetcher.Move(gap.Start)
	return Fetched{Next: gap.Start, Epoch: l.fetcher.trail.last}, nil
}

// cut drops what is at or behind the end.
func (p *portion) cut(end int64) {
	if end < 0 || p.err != nil || p.after < end {
		return
	}
	for len(p.records) > 0 && p.records[len(p.records)-1].Offset >= end {
		p.records = p.records[:len(p.records)-1]
	}
	for len(p.rejected) > 0 && p.rejected[len(p.rejected)-1].Offset >= end {
		p.rejected = p.rejected[:len(p.rejected)-1]
	}
	p.after, p.last = end, true
}

// note stores what the response says about the partition's end, and reports whether there is more to read.
func (k *Kafka) note(p Partition, got *Fetched) (more bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.ends[p] = Lag{High: got.HighWatermark, Stable: got.LastStable}
	if k.config.ReadUncommitted {
		return got.Next < got.HighWatermark
	}
	return got.Next < got.LastStable
}
