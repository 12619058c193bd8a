package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/cluster"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// FetcherConfig says what a Fetcher reads. Zero sizes and times take their defaults.
type FetcherConfig struct {
	Cluster   *cluster.Cluster
	Partition Partition
	Offset    int64  // of the first record to read
	Epochs    Epochs // of Offset; no entry: what was before it does not matter

	// ReadUncommitted also gives the records of open and aborted transactions. By default a
	// reader sees committed records only, and stops before the first open transaction.
	ReadUncommitted bool

	MaxBytes        int           // of one response, except that one batch always fits; default 4 MiB
	MaxMessageBytes int           // of one value: a batch of more than 4 times this is rejected; default 16 MiB
	MaxWait         time.Duration // that a broker waits for records; default 500 ms
	RetryFor        time.Duration // a broker may be away this long before Fetch gives up; default 1 min
}

// batchesPerMessage: a batch may decompress to this many times MaxMessageBytes. Producers put many
// messages into a batch, and compressed they may go far over a topic's max.message.bytes.
const batchesPerMessage = 4

// responseOverhead is room for what a Fetch response holds beside records: the list of aborted
// transactions, 16 bytes each.
const responseOverhead = 1 << 20

func (c FetcherConfig) withDefaults() FetcherConfig {
	c.MaxBytes = orDefault(c.MaxBytes, 4<<20)
	c.MaxMessageBytes = orDefault(c.MaxMessageBytes, DefaultMaxBytes)
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

// Rejected is a record that is too large, or a batch that is: then the offsets to Last with it.
type Rejected struct {
	*RecordError
	Last int64
}

// Fetcher reads one partition: raw records, with those of aborted transactions left out. It
// remembers its position. It is not safe for concurrent use.
//
// By itself it holds no memory between calls. One call needs that of one response, at most MaxBytes or one
// batch of at most 4 MaxMessageBytes, plus 1 MiB; if the batches are compressed, that again for
// each of them, decompressed.
type Fetcher struct {
	config  FetcherConfig
	next    int64
	ask     int // bytes of the next response, see whole
	trail   trail
	decoder *recordbatch.Decoder
	blocks  *blocks // nil: the records are their reader's for good
}

// NewFetcher returns a fetcher positioned at c.Offset. It does not connect yet.
func NewFetcher(c FetcherConfig) *Fetcher {
	c = c.withDefaults()
	last, known := c.Epochs[c.Partition]
	if !known {
		last = noEpoch
	}
	return &Fetcher{config: c, next: c.Offset, ask: c.MaxBytes, trail: newTrail(last), decoder: recordbatch.NewDecoder(c.maxBatchBytes())}
}

// Move sets the position. Nothing is known of what is before it.
func (f *Fetcher) Move(next int64) { f.next, f.trail.last = next, noEpoch }

// Next is the position: the offset of the record that Fetch gives next.
func (f *Fetcher) Next() int64 { return f.next }

// Fetch asks the leader once and returns what it has, after MaxWait perhaps nothing. It retries
// what retrying can cure, for RetryFor. Other errors: an *OffsetError when the partition does not
// have the position (any more), one that wraps recordbatch.ErrCorrupt for a damaged batch.
func (f *Fetcher) Fetch(ctx context.Context) (Fetched, error) {
	r := newRetry(f.config.Cluster, f.config.RetryFor, fmt.Sprintf("fetch %s@%d", f.config.Partition, f.next))
	for {
		got, err := f.once(ctx)
		if err == nil {
			r.succeeded()
			f.next = got.Next
			f.trail.read(got.Epoch)
			return got, nil
		}
		if held := (*throttledError)(nil); errors.As(err, &held) { // no fault, and so no part of the retries
			if err := sleep(ctx, held.delay); err != nil {
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
	ctx, cancel := context.WithTimeout(ctx, f.config.MaxWait+cluster.RequestTimeout)
	defer cancel()
	if err := f.check(ctx); err != nil {
		return Fetched{}, err
	}
	request := fetchRequest{
		partition:       f.config.Partition,
		trail:           f.trail,
		offset:          f.next,
		maxBytes:        int32(f.ask),
		maxWaitMs:       int32(f.config.MaxWait.Milliseconds()),
		readUncommitted: f.config.ReadUncommitted,
		limit:           max(f.config.MaxBytes, f.config.maxBatchBytes()) + responseOverhead,
		blocks:          f.blocks,
	}
	response, err := request.send(ctx, f.config.Cluster)
	if err != nil {
		return Fetched{}, err
	}
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
	if err := f.decode(&got, response); err != nil {
		return Fetched{}, err
	}
	f.ask = whole(f.ask, f.config.MaxBytes, len(response.records)-f.decoder.Left(), f.decoder.Left())
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
// that there is no such topic.
func (f *Fetcher) findLeader(ctx context.Context) error {
	p := f.config.Partition
	topics, err := f.config.Cluster.Metadata(ctx, p.Topic)
	if err != nil {
		return nil
	}
	if err := topics[p.Topic].Err; errors.Is(err, kafka.UnknownTopicOrPartition) {
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

// decode fills in records, rejected records and the next offset.
func (f *Fetcher) decode(got *Fetched, response *fetchResponse) error {
	hidden := newAborted(response.aborted)
	f.decoder.Reset(response.records)
	for {
		var b recordbatch.Batch
		err := f.decoder.Next(&b)
		if errors.Is(err, io.EOF) {
			return f.cutOff(got, response)
		}
		if err == nil {
			err = f.decodeBatch(got, &b, hidden)
		}
		if err != nil && got.Next > f.next {
			return nil // what came before it is good; the next call meets it again, at once
		}
		if err != nil {
			return err
		}
		got.Next, got.Epoch = max(got.Next, b.LastOffset+1), b.LeaderEpoch
	}
}

func (f *Fetcher) decodeBatch(got *Fetched, b *recordbatch.Batch, hidden aborted) error {
	switch {
	case b.Control:
		end, err := f.decoder.Marker(b)
		if err == nil && end == recordbatch.Aborted {
			hidden.end(b)
		}
		return err
	case b.LastOffset < f.next:
		return nil // a broker may begin its answer before what was asked for
	case !f.config.ReadUncommitted && hidden.hides(b):
		return nil
	}
	before := len(got.Records)
	recs, err := f.decoder.Records(got.Records, b)
	if errors.Is(err, recordbatch.ErrTooLarge) {
		got.Rejected = append(got.Rejected, f.reject(max(b.BaseOffset, f.next), b.LastOffset, fmt.Errorf("%d records, to offset %d, cannot be read: %w", b.Count, b.LastOffset, err)))
		return nil
	}
	if err != nil {
		return err
	}
	got.Records = recs[:before]
	for i := range recs[before:] {
		// The batch may have begun before the position. A value over the limit stays: it is in memory
		// already, the decoder refuses it, and the dead letter must hold its bytes untouched.
		if r := &recs[before+i]; r.Offset >= f.next {
			got.Records = append(got.Records, *r)
		}
	}
	return nil
}

// cutOff deals with a last batch that is not whole. It comes whole with the next response, unless
// it is the first one: then it is over our limit, and rejected.
func (f *Fetcher) cutOff(got *Fetched, response *fetchResponse) error {
	b, size, ok := f.decoder.Tail()
	if got.Next > f.next || !ok {
		return nil
	}
	if limit := f.config.maxBatchBytes(); size > int64(limit) && b.LastOffset >= f.next {
		got.Rejected = append(got.Rejected, f.reject(max(b.BaseOffset, f.next), b.LastOffset, fmt.Errorf("a batch of %d bytes, %d records, to offset %d, more than the limit of %d (4 times source.max_message_bytes)", size, b.Count, b.LastOffset, limit)))
		got.Next, got.Epoch = b.LastOffset+1, b.LeaderEpoch
		return nil
	}
	return fmt.Errorf("the broker sent %d bytes of a batch of %d", len(response.records), size)
}

func (f *Fetcher) reject(first, last int64, err error) Rejected {
	return Rejected{&RecordError{Partition: f.config.Partition, Offset: first, Code: CodeTooLarge, Err: err}, last}
}
