package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// FetcherConfig says what a Fetcher reads. Zero sizes and times take their defaults.
type FetcherConfig struct {
	Cluster   *kafkaconn.Cluster
	Partition Partition
	Offset    int64  // of the first record to read
	Epochs    Epochs // of Offset; no entry: what was before it does not matter
	TopicID   string // of the topic that Offset belongs to, see Note: another one of its name gives a *RecreatedError; "" = the one that is found first

	// ReadUncommitted also gives the records of open and aborted transactions. By default a
	// reader sees committed records only, and stops before the first open transaction.
	ReadUncommitted bool

	// SetAside gives a batch that cannot be read as a Rejected, where Fetch would end with an error otherwise.
	SetAside bool

	MaxBytes        int           // of one response, except that one batch always fits; default 4 MiB
	MaxMessageBytes int           // of one value: a batch of more than 4 times this is rejected; default 16 MiB
	MaxWait         time.Duration // that a broker waits for records; default 500 ms
	RetryFor        time.Duration // a broker may be away this long before Fetch gives up; default 1 min
}

// batchesPerMessage: a batch may decompress to this many times MaxMessageBytes. Producers put many
// messages into a batch, and compressed they may go far over a topic's max.message.bytes.
const batchesPerMessage = 4

// responseOverhead is room for what a Fetch response holds besides records: the list of aborted
// transactions, 16 bytes each.
const responseOverhead = 1 << 20

func (c FetcherConfig) withDefaults() FetcherConfig {
	c.MaxBytes = orDefault(c.MaxBytes, 4<<20)
	c.MaxMessageBytes = orDefault(c.MaxMessageBytes, format.DefaultMaxBytes)
	c.MaxWait = orDefault(c.MaxWait, 500*time.Millisecond)
	c.RetryFor = orDefault(c.RetryFor, retryFor)
	return c
}

func orDefault[T int | time.Duration](v, fallback T) T {
	if v <= 0 {
		return fallback
	}
	return v
}

func (c *FetcherConfig) maxBatchBytes() int { return batchesPerMessage * c.MaxMessageBytes }

// Fetched is what one Fetch gives.
type Fetched struct {
	Records  []recordbatch.Record // in order; keys and values point into a buffer of their own, for good
	Rejected []Rejected           // in order; their offsets lie between those of Records
	Next     int64                // the offset to read next; beyond the last record where transactions ended or compaction took records
	Epoch    int32                // the leader epoch of what is before Next; -1: not known

	HighWatermark int64 // end of the partition
	LastStable    int64 // before the first open transaction
	LogStart      int64 // the first offset there is; -1 if the broker is too old to say

	block *block // what Records point into
}

// Rejected is a batch that is too large or cannot be read, from the position or its first offset on, whichever
// is later.
type Rejected struct {
	*RecordError
	Last      int64  // its last offset
	Raw       []byte // all of it as the broker keeps it; nil where it is too large to fetch
	Timestamp int64  // of its newest record; 0 where its header cannot be relied on
}

// Fetcher reads one partition: raw records, with those of aborted transactions left out. It
// remembers its position. It is not safe for concurrent use.
//
// By itself it holds no memory between calls. One call needs that of one response, at most MaxBytes or one
// batch of at most 4 MaxMessageBytes, plus 1 MiB, and once more as much for what its records take in addition to their
// bytes, decompressed ones too, or one batch if that takes more.
type Fetcher struct {
	config  FetcherConfig
	next    int64
	ask     int // bytes of the next response, see whole
	pace    pace
	least   int // the same, after a damaged batch: with the header of the one behind it
	doubts  int // how often the batch at the position has come damaged
	trail   trail
	topic   [16]byte // id of the topic; noTopicID: not known yet
	bound   bool     // to that id: the position belongs to it
	decoder *recordbatch.Decoder

	memory *Memory // nil: as much as is needed, and the records are their reader's for good
	whole  bool    // of a range with an end: takes what its batches need, see Memory
	usual  int     // what the last response took, if that was more than the lane's part; else 0
	grant  grant   // for the next response, or the one at hand
}

// NewFetcher returns a fetcher positioned at c.Offset. It does not connect yet.
func NewFetcher(c FetcherConfig) *Fetcher {
	c = c.withDefaults()
	last, known := c.Epochs[c.Partition]
	if !known {
		last = noEpoch
	}
	topic := parseTopicID(c.TopicID)
	return &Fetcher{
		config: c, next: c.Offset, ask: c.MaxBytes, trail: newTrail(last), topic: topic, bound: topic != noTopicID,
		decoder: recordbatch.NewDecoder(c.maxBatchBytes(), nil),
	}
}

// Move sets the position. Nothing is known of what is before it.
func (f *Fetcher) Move(next int64) { f.next, f.trail.last = next, noEpoch }

// Next is the position: the offset of the record that Fetch gives next.
func (f *Fetcher) Next() int64 { return f.next }

// Fetch asks the leader once and returns what it has, after MaxWait perhaps nothing. It retries
// what retrying can cure, for RetryFor. Other errors: a *RecreatedError, a *TruncatedError, an *OffsetError when the partition does not
// have the position (any more), one that wraps an error of recordbatch for a batch that cannot be read. A batch
// with a wrong checksum is fetched again first, some times in some seconds: it may have been the network.
func (f *Fetcher) Fetch(ctx context.Context) (Fetched, error) {
	r := newRetry(f.config.Cluster, f.config.RetryFor, fmt.Sprintf("fetch %s@%d", f.config.Partition, f.next))
	for {
		got, err := f.once(ctx)
		if err == nil {
			r.succeeded()
			f.next, f.doubts, f.bound = got.Next, 0, f.topic != noTopicID
			f.trail.read(got.Epoch)
			return got, nil
		}
		if damaged := (*damagedError)(nil); errors.As(err, &damaged) && f.doubts < mostDoubts {
			if err := f.doubt(ctx, r, damaged); err != nil {
				return Fetched{}, err
			}
			continue
		}
		if held := (*throttledError)(nil); errors.As(err, &held) { // no fault, and so no part of the retries
			if err := sleep(ctx, held.delay); err != nil {
				return Fetched{}, err
			}
			continue
		}
		if large := (*largeError)(nil); errors.As(err, &large) {
			if f.grant, err = f.memory.waitFor(ctx, f.memory.batches, large.need); err != nil {
				return Fetched{}, err
			}
			continue
		}
		if errors.As(err, new(*TruncatedError)) {
			return Fetched{}, err
		}
		if errors.Is(err, kafka.OffsetOutOfRange) {
			if err = f.outOfRange(ctx); err != nil {
				return Fetched{}, err
			}
			err = kafka.LeaderNotAvailable // the range has it after all: leaders are changing
		}
		if gone := f.findLeader(ctx); gone != nil {
			err = gone // the transport may only say that it cannot route the request
		}
		if err = r.again(ctx, err); err != nil {
			return Fetched{}, err
		}
	}
}

// once is one request and the decoding of its response.
func (f *Fetcher) once(ctx context.Context) (Fetched, error) {
	quiet := f.config.MaxWait + kafkaconn.RequestTimeout
	short, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	if err := f.check(short); err != nil {
		return Fetched{}, err
	}
	part := f.part()
	ctx, end := context.WithTimeout(ctx, longestAnswer)
	defer end()
	request := fetchRequest{
		partition:       f.config.Partition,
		topic:           f.topic,
		trail:           f.trail,
		offset:          f.next,
		maxBytes:        int32(max(f.pace.limit(min(f.ask, part.response)), f.least)),
		patience:        kafkaconn.Patience{Quiet: quiet},
		maxWaitMs:       int32(f.config.MaxWait.Milliseconds()),
		readUncommitted: f.config.ReadUncommitted,
		limit:           max(part.response, part.batch, f.least) + responseOverhead,
		blocks:          f.memory.blocks(),
	}
	began := time.Now()
	response, err := request.send(ctx, f.config.Cluster)
	if err != nil {
		f.grant.back(0)
		return Fetched{}, err
	}
	unpaced := f.pace.bytes >= f.ask
	f.pace.took(time.Since(began), len(response.records))
	got, err := f.take(response, part, unpaced)
	if err != nil {
		f.grant.back(0)
		response.block.drop()
	}
	return got, err
}

// take makes of a response what Fetch gives. unpaced: it is not the link that has made it small.
func (f *Fetcher) take(response *fetchResponse, p part, unpaced bool) (Fetched, error) {
	if response.throttled > 0 {
		return Fetched{}, &throttledError{response.throttled}
	}
	if response.code != 0 {
		return Fetched{}, kafka.Error(response.code)
	}
	got := Fetched{
		Records:       response.block.records[:0],
		block:         response.block,
		Next:          f.next,
		Epoch:         f.trail.last,
		HighWatermark: response.highWatermark,
		LastStable:    response.lastStable,
		LogStart:      response.logStart,
	}
	left, err := f.decode(&got, response, p)
	if err != nil {
		return Fetched{}, err
	}
	if f.least = 0; unpaced {
		f.ask = whole(f.ask, f.config.MaxBytes, len(response.records)-left, left)
	}
	got.block.records = got.Records
	return got, nil
}

// whole returns how many bytes to ask for, at most the given ones, after a response to asked with so many bytes
// of whole batches and so many of one that was cut off, which come again. Where batches are large these can be
// nearly half of all that is read; then as much is asked for as came whole, since most producers' batches
// are alike.
func whole(asked, most, taken, cut int) int {
	switch {
	case cut < asked/8:
		return asked
	case taken < most/2: // of batches that are not alike
		return most
	}
	return min(taken, most)
}

// findLeader asks a broker who leads the partition, because the transport notices only after a
// while. It may fail: then the next try goes where the last one went. The error is the broker's word
// that there is no such topic, or that it is another one by now.
func (f *Fetcher) findLeader(ctx context.Context) error {
	p := f.config.Partition
	topics, err := f.config.Cluster.Metadata(ctx, p.Topic)
	if err != nil {
		return nil
	}
	if err := topics[p.Topic].Err; errors.Is(err, kafka.UnknownTopicOrPartition) {
		return err
	}
	if err := f.same(topics[p.Topic].ID); err != nil {
		return err
	}
	f.trail.leader = -1
	if now, ok := topics[p.Topic].Partitions[p.ID]; ok {
		f.trail.moved(now)
	}
	return nil
}

// outOfRange turns the broker's refusal into an error that names the range. It returns nil if the
// position is in range by now: a new leader may lag behind for a moment.
func (f *Fetcher) outOfRange(ctx context.Context) error {
	p := f.config.Partition
	starts, err := ListOffsets(ctx, f.config.Cluster, []Partition{p}, Earliest)
	if err != nil {
		return err
	}
	ends, err := ListOffsets(ctx, f.config.Cluster, []Partition{p}, Latest)
	if err != nil {
		return err
	}
	if starts[p] <= f.next && f.next <= ends[p] {
		return nil
	}
	return &OffsetError{Partition: p, Offset: f.next, Start: starts[p], End: ends[p]}
}
