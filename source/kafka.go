package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// KafkaConfig configures a Kafka source. Zero sizes and times take their defaults.
type KafkaConfig struct {
	Cluster *kafkaconn.Cluster
	Start   Offsets // partitions to read, and the first offset of each
	Epochs  Epochs  // leader epochs of the records before Start: a log that was truncated before it gives a *TruncatedError

	// TopicIDs are the ids of the topics that Start belongs to, by name and spelled as in Note. Another topic of the
	// same name gives a *RecreatedError. Without an entry it is the id that OpenKafka finds.
	TopicIDs map[string]string

	// End bounds the range: the offset behind the last one, for each partition of Start. Nil reads forever. At the
	// end Read returns ErrEnd. A bounded range is always read in the same order, one message of each partition in
	// turn, and cut into the same batches. A replay has one reader per partition and merges them by the timestamps of
	// their records (pipeline.Merge). So it repeats itself only where the timestamps are the same, which they are not
	// in a mirror with timestamps of its own (LogAppendTime).
	End Offsets

	// OneIn, if it is more than 1, reads one offset in as many of a range with an end: stretches of consecutive offsets, spread
	// evenly over each partition, and the same whenever the range is the same. What lies between is not fetched.
	OneIn int64

	// OnGap is called before records are skipped that retention deleted before they were read. If it returns nil,
	// reading goes on at gap.Start; otherwise Read returns its error. If OnGap is nil, Read returns gap.
	OnGap func(ctx context.Context, gap *OffsetError) error

	Claim   Claim           // template of the claims; Read fills in Next
	Decoder *format.Decoder // nil: values stay bytes; a null value has no record either way

	MaxMessageBytes int                  // of one value: the Decoder refuses larger ones, and batches of 4 times this, or of 16 MiB if that is more, are rejected; default 16 MiB
	GatherBytes     int                  // Read returns when it has this much; default 4 MiB
	GatherParts     int                  // how many of a reader's parts of Memory a batch may take; 0 = 1
	Becomes         func(*Message) int64 // at most about how many bytes are made of a message, where that may be far more than it decodes to; nil: it is not
	GatherWait      time.Duration        // how long Read gathers after the first message; default 100 ms
	Rate            *Rate                // shared bound of batches, which then follow the load and wait for less than GatherWait; nil: every batch waits for GatherWait
	IdleWait        time.Duration        // Read returns an empty batch when nothing has come for this long; 0 = it waits forever
	Memory          *Memory              // shared by the readers of the process; default 512 MiB for this reader alone
	RetryFor        time.Duration        // how long a broker may be away; default 1 min
}

// Lag is how far a reader is behind.
type Lag struct {
	High   int64 // end of the partition
	Stable int64 // end for a read_committed reader
	Next   int64 // offset of the next message of Read
}

// Kafka reads partitions of topics. Order within a partition is kept; of several partitions the one that has waited
// longest comes first.
//
// Its memory is bounded by its part of Memory; one batch of records and one message always fit. So every batch that
// Read returns must be released.
//
// Read, Seek and Close are for one goroutine; Lag for any.
type Kafka struct {
	config     KafkaConfig
	partitions []Partition       // in order
	position   Offsets           // next offset of each partition that Read returns
	epochs     Epochs            // leader epochs for position
	topics     map[string]string // ids of the topics that are read, by name

	lanes  []*lane
	stop   context.CancelFunc
	wait   sync.WaitGroup
	shared chan *portion // from all lanes, for a range without an end
	head   *portion      // the portion that Read takes messages from
	reads  atomic.Int64  // how often the portions of lanes became stale, see gathering
	due    int           // number of lanes whose next response comes at once
	given  time.Time     // when Read last returned a batch
	turn   int           // lane of the next message, for a range with an end
	failed error         // error of a lane, or ErrEnd; returned after the messages before it
	behind bool          // position has moved since the last claim

	mutex sync.Mutex        // guards writes to position, and the fields below
	ends  map[Partition]Lag // without Next
	space *space            // of a released batch
}

// OpenKafka checks that the partitions exist, and starts to read ahead.
func OpenKafka(ctx context.Context, c KafkaConfig) (*Kafka, error) {
	if len(c.Start) == 0 {
		return nil, errors.New("source: no partitions to read")
	}
	c.MaxMessageBytes = orDefault(c.MaxMessageBytes, format.DefaultMaxBytes)
	c.GatherBytes = orDefault(c.GatherBytes, 4<<20)
	c.GatherWait = orDefault(c.GatherWait, 100*time.Millisecond)
	if c.End != nil {
		c.Rate = nil // the batches of a range with an end depend on its records alone
	}
	if c.Memory == nil {
		c.Memory = NewMemory(8*mostUnit, 1)
	}
	k := &Kafka{config: c, position: c.Start.Clone(), epochs: make(Epochs), topics: make(map[string]string), ends: make(map[Partition]Lag)}
	maps.Copy(k.epochs, c.Epochs)
	maps.Copy(k.topics, c.TopicIDs)
	k.partitions = c.Start.Partitions()
	if err := k.check(ctx); err != nil {
		return nil, err
	}
	k.start()
	return k, nil
}

func (k *Kafka) check(ctx context.Context) error {
	known := make(map[string][]Partition)
	for _, p := range k.partitions {
		if _, bounded := k.config.End[p]; k.config.End != nil && !bounded {
			return fmt.Errorf("source: %s has a start but no end", p)
		}
		parts, asked := known[p.Topic]
		if !asked {
			topic, err := LookUp(ctx, k.config.Cluster, p.Topic)
			if err != nil {
				return err
			}
			if k.topics[p.Topic] == "" {
				k.topics[p.Topic] = topic.ID
			}
			parts, known[p.Topic] = topic.Partitions, topic.Partitions
		}
		if !slices.Contains(parts, p) {
			return fmt.Errorf("source: %s does not exist: topic %q has %s", p, p.Topic, plural.Count(len(parts), "partition"))
		}
	}
	return nil
}

// Seek moves the given partitions to other offsets, and the others back to what Read has returned. It drops what was
// read ahead, and clears an error that Read has returned.
func (k *Kafka) Seek(_ context.Context, to Offsets) error {
	for p := range to {
		if _, ok := k.position[p]; !ok {
			return fmt.Errorf("source: seek %s: it is not among the partitions that are read", p)
		}
	}
	k.halt()
	k.mutex.Lock()
	for p, next := range to {
		if next > k.position[p] { // what is before it was not read here
			delete(k.epochs, p)
		}
		k.position[p] = next
	}
	k.mutex.Unlock()
	k.start()
	return nil
}

// Close stops reading. The cluster stays open.
func (k *Kafka) Close() error {
	k.halt()
	k.failed = errors.New("source: read after Close")
	return nil
}

// Lag returns how far each partition is behind, as of its last response. A partition without a response yet is left
// out.
func (k *Kafka) Lag() map[Partition]Lag {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	lag := maps.Clone(k.ends)
	for p, l := range lag {
		l.Next = k.position[p]
		lag[p] = l
	}
	return lag
}

// Read returns the next messages. It waits for the first, then gathers until GatherBytes or GatherWait, or with a Rate
// until it has what there is. The batch may have no messages and only move the claim past the markers of
// transactions, or be empty after IdleWait. For a range with an end it gathers until GatherBytes or the end, however
// long that takes, and then returns ErrEnd. Errors stay until Seek.
func (k *Kafka) Read(ctx context.Context) (Batch, error) {
	b := Batch{Claim: k.config.Claim, space: k.takeSpace()}
	b.Messages = b.space.messages
	g := k.gather()
	defer g.stop()
	part := decodedPerByte * k.config.GatherBytes
	if k.config.End == nil { // otherwise the batches would depend on other readers
		part = min(part, max(1, k.config.GatherParts)*k.config.Memory.reader())
	}
	var size taken
	for size.bytes < k.config.GatherBytes && size.memory < part {
		p, err := g.next(ctx, len(b.Messages) > 0)
		if err != nil && !g.begun && !(k.behind && errors.Is(err, ErrEnd)) {
			return Batch{}, err
		}
		if err != nil || p == nil {
			break
		}
		if p.nothing {
			continue
		}
		full, err := k.take(ctx, &b, p, &size, part)
		if err != nil {
			b.Release()
			return Batch{}, err
		}
		g.begin()
		if full {
			break
		}
	}
	g.turn(ctx, time.Time{}) // a full batch does not rest
	k.given = time.Now()
	b.Memory = int64(size.memory)
	b.Claim.Next, b.Claim.Epochs, k.behind = k.position.Clone(), k.epochs.Clone(), false
	return b, nil
}

// portion returns the next portion for Read, or nil after the timeout.
func (k *Kafka) portion(ctx context.Context, timeout <-chan time.Time) (*portion, error) {
	if k.failed != nil {
		return nil, k.failed
	}
	if k.config.End != nil {
		return k.inTurn(ctx)
	}
	if k.head != nil && !k.head.empty() {
		return k.head, nil
	}
	select {
	case p := <-k.shared:
		return k.received(p)
	case <-timeout:
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// received notes what a lane has passed on, and whether its next response comes at once.
func (k *Kafka) received(p *portion) (*portion, error) {
	if p.lane.due {
		k.due--
	}
	if p.lane.due = p.more || p.stale(k); p.lane.due {
		k.due++
	}
	k.head, k.failed = p, p.err
	return p, p.err
}

// inTurn returns the portion whose first record comes next in a range with an end: that of the first lane, from the
// one whose turn it is, that is not at its end. It depends only on the records, not on how they were cut into
// responses.
func (k *Kafka) inTurn(ctx context.Context) (*portion, error) {
	for range k.lanes {
		l := k.lanes[k.turn]
		k.turn = (k.turn + 1) % len(k.lanes)
		if err := k.fill(ctx, l); err != nil {
			return nil, err
		}
		if !l.head.empty() {
			return l.head, nil
		}
	}
	k.failed = ErrEnd
	return nil, k.failed
}

// fill waits until the lane has a record or is at its end.
func (k *Kafka) fill(ctx context.Context, l *lane) error {
	for l.head == nil || l.head.empty() && !l.head.last {
		select {
		case l.head = <-l.out:
		case <-ctx.Done():
			k.turn = (k.turn + len(k.lanes) - 1) % len(k.lanes) // it is still its turn
			return context.Cause(ctx)
		}
		if l.head.err != nil {
			k.failed = l.head.err
			return k.failed
		}
		if l.head.last && l.head.empty() {
			k.moveTo(l.head, l.head.after)
		}
	}
	return nil
}

// moveTo moves the position into or behind a portion. Its epoch is that of the portion's last record. That is right
// for earlier records too, because the check asks where that epoch, or the last one before it, ends.
func (k *Kafka) moveTo(p *portion, next int64) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.position[p.partition] = next
	if delete(k.epochs, p.partition); p.epoch >= 0 {
		k.epochs[p.partition] = p.epoch
	}
	k.behind = true
}

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
	return got.Next < got.LastStable
}

// gathering decides when a batch is complete.
//
// Without a Rate that is GatherWait after its first message. With one, a batch takes what the brokers have when it is
// asked for, and waits for no more: the messages that come while one batch is worked on are the next, so that sizes
// follow the load. A batch that is not full rests for half as long as the one before it was worked on, GatherWait at
// most. A broker refuses a transaction while it writes the markers of the last one, and the longer that takes, the
// more it costs to ask too early.
//
// To have all that the brokers have, a batch goes on in two cases. After a response that ends before its partition
// does, the next one comes at once. And a lane reads ahead, so that its response may be stale, which means older than
// the batch: then the lane asks again, and the broker answers at once even if there is nothing.
type gathering struct {
	k      *Kafka
	timer  *time.Timer // nil: no time limit
	begun  bool        // the batch has messages, or its claim has moved
	rested time.Time   // end of the rest
	turned bool        // the batch has had its turn of the Rate
}

// gather begins a batch.
func (k *Kafka) gather() *gathering {
	k.reads.Add(1)
	g := &gathering{k: k}
	if !k.given.IsZero() {
		now := time.Now()
		g.rested = now.Add(min(now.Sub(k.given)/2, k.config.GatherWait))
	}
	if k.config.IdleWait > 0 && k.config.End == nil {
		g.timer = time.NewTimer(k.config.IdleWait)
	}
	return g
}

// begin notes a portion: from the first one on the batch may take GatherWait.
func (g *gathering) begin() {
	if !g.begun && g.k.config.End == nil {
		g.stop()
		g.timer = time.NewTimer(g.k.config.GatherWait)
	}
	g.begun = true
}

func (g *gathering) timeout() <-chan time.Time {
	if g.timer == nil {
		return nil
	}
	return g.timer.C
}

// next returns what comes into the batch next; nil: it is complete. hurried: there is something to write.
func (g *gathering) next(ctx context.Context, hurried bool) (*portion, error) {
	k := g.k
	if !g.begun || !hurried || k.config.Rate == nil {
		return k.portion(ctx, g.timeout())
	}
	if k.due > 0 {
		if p, err := k.portion(ctx, g.timeout()); p != nil || err != nil {
			return p, err
		}
	}
	g.turn(ctx, g.rested)
	select { // what came while it waited for its turn
	case p := <-k.shared:
		g.timer.Reset(k.config.GatherWait)
		return k.received(p)
	default:
		return nil, nil
	}
}

// turn waits for the batch's turn of the Rate, and at least until then.
func (g *gathering) turn(ctx context.Context, then time.Time) {
	if g.turned || !g.begun || g.k.config.Rate == nil {
		return
	}
	g.turned = true
	if d := max(g.k.config.Rate.reserve(time.Now()), time.Until(then)); d > 0 {
		_ = sleep(ctx, d) // at the end of ctx there is all the more reason to go on with what there is
		g.k.reads.Add(1)
	}
}

func (g *gathering) stop() {
	if g.timer != nil {
		g.timer.Stop()
	}
}

// Rate bounds how many batches per second all readers that share it give. What was not used of the last
// allowance is not lost: after a pause that number may come at once.
type Rate struct {
	interval time.Duration // between two batches
	saved    time.Duration // the longest pause that counts

	mu   sync.Mutex
	next time.Time // when the next batch is due
}

// allowance is the longest pause of a Rate whose batches may come at once after it: long enough that batches
// at random times rarely wait for one another, and short enough to be no burst that a broker would notice.
const allowance = 100 * time.Millisecond

// NewRate returns a bound of that number of batches per second, at least one.
func NewRate(perSecond int) *Rate {
	return &Rate{interval: time.Second / time.Duration(max(perSecond, 1)), saved: allowance}
}

// reserve takes the next turn, and returns how long it is until then.
func (r *Rate) reserve(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if earliest := now.Add(-r.saved); r.next.Before(earliest) {
		r.next = earliest
	}
	turn := r.next
	r.next = turn.Add(r.interval)
	return max(turn.Sub(now), 0)
}
