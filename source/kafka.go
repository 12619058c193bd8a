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

	Claim           Claim // template of the claims; Read fills in Next
	ReadUncommitted bool
	Decoder         *format.Decoder // nil: values stay bytes; a null value has no record either way

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
			return fmt.Errorf("source: %s does not exist: topic %q has %d partitions", p, p.Topic, len(parts))
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
