package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// FetcherConfig configures a Fetcher. Zero sizes and times take their defaults.
type FetcherConfig struct {
	Cluster   *kafkaconn.Cluster
	Partition Partition
	Offset    int64  // first offset to read
	Epochs    Epochs // leader epoch of the record before Offset; without an entry it is not checked
	TopicID   string // id of the topic that Offset belongs to, see Note: another topic of this name gives a *RecreatedError; "" = the first one found
	Remedy    string // what to do then: that depends on what the topic is for

	// ReadUncommitted also returns the records of open and aborted transactions. By default a reader sees only
	// committed records, and stops before the first open transaction.
	ReadUncommitted bool

	// PassGaps reads on at the partition's beginning when it has moved past the position: for topics of state, of which only
	// what is there counts. Otherwise Fetch ends with an *OffsetError there.
	PassGaps bool

	// SetAside returns a batch that cannot be read as a Rejected. Otherwise Fetch ends with an error there.
	SetAside bool

	MaxBytes        int           // of one response, except that one batch always fits; default 4 MiB
	MaxMessageBytes int           // of one value; default 16 MiB
	MaxBatchBytes   int           // of one batch, decompressed: larger ones are rejected; default 4 times MaxMessageBytes, but at least 16 MiB
	MaxWait         time.Duration // how long a broker waits for records; default 500 ms
	RetryFor        time.Duration // how long a broker may be away before Fetch returns the error; default 1 min
}

// batchesPerMessage and leastBatch bound a decompressed batch. Producers put many messages into a batch, and before compression they may be
// far larger than a topic's max.message.bytes. Small messages make batches no smaller.
const (
	batchesPerMessage = 4
	leastBatch        = 16 << 20
)

// responseOverhead is room for what a Fetch response holds besides records: the list of aborted
// transactions, 16 bytes each.
const responseOverhead = 1 << 20

// leastWanted is the least that is requested where only some more offsets are wanted: fewer bytes cost as much.
const leastWanted = 16 << 10

func (c FetcherConfig) withDefaults() FetcherConfig {
	c.MaxBytes = orDefault(c.MaxBytes, 4<<20)
	c.MaxMessageBytes = orDefault(c.MaxMessageBytes, format.DefaultMaxBytes)
	c.MaxBatchBytes = orDefault(c.MaxBatchBytes, max(batchesPerMessage*c.MaxMessageBytes, leastBatch))
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

// Fetched is the result of one Fetch.
type Fetched struct {
	Records  []Record   // in order; keys and values point into a buffer that is not reused
	Rejected []Rejected // in order; their offsets lie between those of Records
	Next     int64      // the offset to read next; behind the last record if transactions ended or compaction removed records
	Epoch    int32      // leader epoch of the record before Next; -1: not known

	HighWatermark int64 // end of the partition
	LastStable    int64 // before the first open transaction

	block *block // memory that Records point into
}

// Rejected is a batch that is too large or cannot be read. It begins at its first offset or at the position,
// whichever is later.
type Rejected struct {
	*RecordError
	Last      int64  // its last offset
	Raw       []byte // the whole batch as the broker stores it; nil if it is too large to fetch
	Timestamp int64  // of its newest record; 0 if the header is not reliable
}

// Fetcher reads the raw records of one partition, without those of aborted transactions. It remembers its position.
// It is not safe for concurrent use.
//
// It holds no memory between calls. One call needs the memory of one response, at most MaxBytes or one batch of
// MaxBatchBytes, plus 1 MiB; and as much again for what its records take in addition to their bytes, including
// decompressed bytes, or one batch if that takes more.
type Fetcher struct {
	config  FetcherConfig
	next    int64
	until   int64 // offset behind what is wanted next; 0: there is no such bound
	each    int64 // bytes per offset of the last response
	ask     int   // bytes to request next, see nextRequestBytes
	pace    pace
	least   int  // lower bound of ask after a damaged batch: the batch and the header behind it
	doubts  int  // how often the batch at the position was damaged
	hurry   bool // the broker answers the next request at once, even with nothing
	trail   trail
	topic   [16]byte // id of the topic; noTopicID: not known yet
	bound   bool     // the position belongs to that id
	decoder *recordbatch.Decoder

	memory *Memory // nil: unbounded, and the reader keeps the records
	whole  bool    // the range has an end: it takes the memory that its batches need, see Memory
	usual  int     // what the last response took if that was more than the lane's part, else 0
	grant  grant   // for the next response, or the current one

	own   *blocks // see Reuse
	given *block  // of the last Fetch, where own is set
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
		decoder: recordbatch.NewDecoder(c.MaxBatchBytes, nil),
	}
}

// Move sets the position. What is before it is not known.
func (f *Fetcher) Move(next int64) { f.next, f.trail.last = next, noEpoch }

// Want says that no more is wanted than is before an offset, so that responses need not be larger; 0: there is no such bound.
func (f *Fetcher) Want(until int64) { f.until = until }

// Reuse says that the records of a Fetch are not used any more when the next one begins: that takes their memory. It is not for fetchers of a Kafka
// source, which share theirs.
func (f *Fetcher) Reuse() {
	const kept = 2 // times as much: a response may exceed MaxBytes a little, and its records take memory too
	f.own = &blocks{mostBytes: kept * f.config.MaxBytes}
}

// blocks returns where the memory of responses comes from; nil: the garbage collector.
func (f *Fetcher) blocks() *blocks {
	if f.own != nil {
		return f.own
	}
	return f.memory.blocks()
}

// Next returns the position: the offset of the record that Fetch returns next.
func (f *Fetcher) Next() int64 { return f.next }

// Fetch sends one request to the leader and returns the records, possibly none after MaxWait. For RetryFor it retries
// what may pass by itself. It returns a *RecreatedError, a *TruncatedError, an *OffsetError if the partition does not
// have the position (any more), or an error of recordbatch for a batch that cannot be read. A batch with a wrong
// checksum is fetched again several times within a few seconds, because the network may have damaged it.
func (f *Fetcher) Fetch(ctx context.Context) (Fetched, error) {
	r := newRetry(f.config.Cluster, f.config.RetryFor, fmt.Sprintf("fetch %s@%d", f.config.Partition, f.next))
	r.grace = readGrace
	f.given.drop()
	f.given = nil
	for {
		if err := f.foresee(ctx); err != nil {
			return Fetched{}, err
		}
		got, err := f.once(ctx)
		if err == nil {
			r.succeeded()
			f.config.Cluster.Allow()
			f.next, f.doubts, f.bound = got.Next, 0, f.topic != noTopicID
			f.trail.read(got.Epoch)
			if f.own != nil {
				f.given = got.block
			}
			return got, nil
		}
		if damaged := (*damagedError)(nil); errors.As(err, &damaged) && f.doubts < mostDoubts {
			if err := f.doubt(ctx, r, damaged); err != nil {
				return Fetched{}, err
			}
			continue
		}
		if held := (*throttledError)(nil); errors.As(err, &held) { // not a fault, so it does not count as a retry
			r.succeeded()
			if err := sleep(ctx, held.delay); err != nil {
				return Fetched{}, err
			}
			continue
		}
		if large := (*largeError)(nil); errors.As(err, &large) {
			r.succeeded()
			if f.grant, err = f.memory.batches.waitFor(ctx, large.need); err != nil {
				return Fetched{}, err
			}
			continue
		}
		if errors.As(err, new(*TruncatedError)) {
			return Fetched{}, err
		}
		if errors.Is(err, kafka.OffsetOutOfRange) {
			at := f.next
			if err = f.outOfRange(ctx); err != nil {
				return Fetched{}, err
			}
			if f.next > at {
				continue
			}
			err = kafka.LeaderNotAvailable // the position is in range after all: the leader is changing
		}
		if gone := f.findLeader(ctx); gone != nil {
			err = gone // the transport may only say that it cannot route the request
		}
		if err = r.again(ctx, err); err != nil {
			return Fetched{}, err
		}
	}
}

// once sends one request and decodes the response.
func (f *Fetcher) once(ctx context.Context) (Fetched, error) {
	quiet := f.config.MaxWait + kafkaconn.RequestTimeout
	short, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	if err := f.check(short); err != nil {
		return Fetched{}, err
	}
	part := f.part()
	ask := f.wanted()
	ctx, end := context.WithTimeout(ctx, longestAnswer)
	defer end()
	request := fetchRequest{
		partition:       f.config.Partition,
		topic:           f.topic,
		trail:           f.trail,
		offset:          f.next,
		maxBytes:        int32(max(f.pace.limit(min(ask, part.response)), f.least)),
		patience:        kafkaconn.Patience{Quiet: quiet},
		maxWaitMs:       int32(f.config.MaxWait.Milliseconds()),
		readUncommitted: f.config.ReadUncommitted,
		limit:           max(part.response, part.batch, f.least) + part.overhead,
		again:           part.overhead < responseOverhead,
		blocks:          f.blocks(),
	}
	if f.hurry {
		request.maxWaitMs = 0
	}
	began := time.Now()
	response, err := request.send(ctx, f.config.Cluster)
	if err != nil {
		f.grant.back(0)
		return Fetched{}, err
	}
	unpaced := f.pace.bytes >= f.ask && ask == f.ask
	f.pace.took(time.Since(began), len(response.records))
	got, err := f.take(response, part, unpaced)
	if err != nil {
		f.grant.back(0)
		response.block.drop()
	} else if got.Next > f.next {
		f.each = int64(len(response.records)) / (got.Next - f.next)
	}
	return got, err
}

// wanted returns the bytes to request: fewer than usual where only some more offsets are wanted.
func (f *Fetcher) wanted() int {
	if f.until <= f.next || f.each == 0 {
		return f.ask
	}
	about := f.each * min(f.until-f.next, int64(f.ask)) // no offset has less than a byte
	return min(f.ask, max(int(about+about/4), leastWanted))
}

// take converts a response to the result of Fetch. unpaced: the response is not small because of the link.
func (f *Fetcher) take(response *fetchResponse, p part, unpaced bool) (Fetched, error) {
	if response.need > 0 {
		return Fetched{}, &largeError{response.need}
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
	}
	left, err := f.decode(&got, response, p)
	if err != nil {
		return Fetched{}, err
	}
	if f.least = 0; unpaced {
		f.ask = nextRequestBytes(f.ask, f.config.MaxBytes, len(response.records)-left, left)
	}
	got.block.records = got.Records
	return got, nil
}

// nextRequestBytes returns how many bytes to request, at most most, after a response to a request of asked bytes.
// taken of them were whole batches, and cut bytes of a batch that was cut off will come again. With large batches
// these can be nearly half of all that is read. Then the request shrinks to what came whole, because most batches of
// a producer have about the same size.
func nextRequestBytes(asked, most, taken, cut int) int {
	switch {
	case cut < asked/8:
		return asked
	case taken < most/2: // batches of different sizes
		return most
	}
	return min(taken, most)
}

// findLeader asks a broker who leads the partition, because the transport notices a change late. If it fails, the
// next try goes to the former leader. It returns the broker's answer that the topic does not exist, or is another one
// by now.
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

// outOfRange turns the broker's refusal into an error that names the available range. It returns nil if the position
// is in range by now: a new leader may lag behind for a moment, and a gap may be passed.
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
	if f.config.PassGaps && f.next < starts[p] {
		f.Move(starts[p])
	}
	if starts[p] <= f.next && f.next <= ends[p] {
		return nil
	}
	return &OffsetError{Partition: p, Offset: f.next, Start: starts[p], End: ends[p]}
}

// mostDoubts is how often a batch with a wrong checksum is fetched again, over five seconds or so.
const mostDoubts = 8

// moreRoom is how many times as much memory is asked for, when a batch that is compressed turns out not to fit. Only decompressing it tells how much
// it takes; with all that the largest batch may take at once, the lanes of small ones would wait for one another.
const moreRoom = 4

// damagedError is a batch that does not have the bytes that were produced.
type damagedError struct {
	err  error
	size int
}

func (e *damagedError) Error() string { return e.err.Error() }

// Unwrap returns the decoder's error.
func (e *damagedError) Unwrap() error { return e.err }

// doubt waits before a damaged batch is fetched again. The next request is for a little more than the batch, because
// only the header behind it shows where it ends.
func (f *Fetcher) doubt(ctx context.Context, r *retry, damaged *damagedError) error {
	f.doubts++
	f.least = min(damaged.size, f.config.MaxBatchBytes) + 1<<10
	if f.doubts == 1 {
		r.cluster.Log().Warn("a record batch came damaged; fetching it again", "what", r.what, "error", damaged.err)
	}
	return r.answered(ctx)
}

// decode fills in records, rejected batches and the next offset. It stops when the records hold more than a part in
// addition to their bytes. It returns how many bytes of the response are left: they come again.
func (f *Fetcher) decode(got *Fetched, response *fetchResponse, p part) (left int, err error) {
	hidden := newAborted(response.aborted)
	f.decoder.Reset(response.records)
	defer f.decoder.Reset(nil) // the response may be large, and the next one far away
	f.decoder.Limit(f.room(p))
	held := 0
	defer func() { f.settle(got, held) }()
	for {
		var b recordbatch.Batch
		left = f.decoder.Left()
		err := f.decoder.Next(&b)
		if errors.Is(err, io.EOF) {
			return left, f.cutOff(got, response)
		}
		if held > p.held {
			return left, nil
		}
		again := false
		if err == nil {
			again, err = f.decodeBatch(got, &b, hidden, p)
			held += f.decoder.Held()
		} else {
			again, err = f.unreadable(got, &b, err)
		}
		switch {
		case err != nil && got.Next > f.next:
			return left, nil // what came before it is good; the next call starts with it
		case err != nil:
			return left, err
		case again && len(hidden) > 0:
			return f.decoder.Left(), nil
		}
	}
}

// unreadable handles a batch whose header is not reliable. It may have been the end of an aborted transaction, so the
// list of aborted transactions must be fetched again: again is true.
func (f *Fetcher) unreadable(got *Fetched, b *recordbatch.Batch, cause error) (again bool, err error) {
	code := CodeBatchInvalid
	switch {
	case errors.Is(cause, recordbatch.ErrFraming):
		return false, &damagedError{cause, 0} // where to go on is not known
	case errors.Is(cause, recordbatch.ErrChecksum) && f.doubts < mostDoubts:
		return false, &damagedError{cause, len(b.Raw())}
	case errors.Is(cause, recordbatch.ErrChecksum):
		code = CodeBatchDamaged
	case errors.Is(cause, recordbatch.ErrUnsupported) && b.LastOffset < got.Next:
		return false, nil // an old format's message before what was asked for
	}
	if !f.config.SetAside {
		return false, cause
	}
	last := min(b.LastOffset, got.HighWatermark-1)
	if following, ok := f.decoder.Following(); ok {
		last = following - 1
	}
	last = max(last, got.Next)
	r := f.reject(got.Next, last, code, cause)
	r.Raw = b.Raw()
	got.Rejected, got.Next, got.Epoch = append(got.Rejected, r), last+1, noEpoch
	return true, nil
}

// decodeBatch decodes a batch whose header is sound.
func (f *Fetcher) decodeBatch(got *Fetched, b *recordbatch.Batch, hidden aborted, p part) (again bool, err error) {
	switch {
	case b.Control:
		again = f.marker(b, hidden)
	case b.LastOffset < got.Next: // a broker may begin its answer before the requested offset
	case !f.config.ReadUncommitted && hidden.hides(b):
	default:
		err = f.records(got, b, p)
	}
	if err == nil {
		got.Next, got.Epoch = max(got.Next, b.LastOffset+1), b.LeaderEpoch
	}
	return again, err
}

// marker notes the end of a transaction. If the marker cannot be read, it is not known whether the transaction was
// aborted, and with the present list of aborted transactions the producer's next one could be hidden. The list in the
// next response begins behind the marker.
func (f *Fetcher) marker(b *recordbatch.Batch, hidden aborted) (again bool) {
	end, err := f.decoder.Marker(b)
	if err == nil && end == recordbatch.Aborted {
		hidden.end(b)
	}
	if err != nil {
		f.config.Cluster.Log().Warn("a broker's control batch does not parse; it holds no data", "partition", f.config.Partition.String(), "offset", b.BaseOffset, "error", err)
	}
	return err != nil && hidden.active(b)
}

// records adds the records of a data batch from the position on.
func (f *Fetcher) records(got *Fetched, b *recordbatch.Batch, p part) error {
	before := len(got.Records)
	recs, err := f.decoder.Records(got.Records, b)
	code := CodeBatchInvalid
	if errors.Is(err, recordbatch.ErrTooLarge) {
		if code = format.CodeTooLarge; f.room(p) < f.config.MaxBatchBytes {
			clear(recs[before:])
			return &largeError{int64(min(moreRoom*f.room(p), f.config.MaxBatchBytes))}
		}
	}
	if err != nil && code == CodeBatchInvalid && !f.config.SetAside {
		return err
	}
	if err != nil {
		r := f.reject(max(b.BaseOffset, got.Next), b.LastOffset, code, fmt.Errorf("%s, to offset %d, cannot be read: %w", plural.Count(b.Count, "record"), b.LastOffset, err))
		r.Raw, r.Timestamp = b.Raw(), b.MaxTimestamp
		got.Rejected = append(got.Rejected, r)
		clear(recs[before:])
		return nil
	}
	got.Records = recs[:before]
	for i := range recs[before:] {
		// The batch may begin before the position. A value over the limit stays: it is in memory already, the decoder
		// refuses it, and the dead letter must hold its bytes unchanged.
		if r := &recs[before+i]; r.Offset >= got.Next {
			got.Records = append(got.Records, *r)
		}
	}
	return nil
}

// cutOff handles a last batch that is not whole. It comes whole with the next response. If it is also the first one,
// it is larger than our limit and is rejected.
func (f *Fetcher) cutOff(got *Fetched, response *fetchResponse) error {
	b, size, ok := f.decoder.Tail()
	if got.Next > f.next || !ok {
		return nil
	}
	if limit := f.config.MaxBatchBytes; size > int64(limit) && b.LastOffset >= f.next {
		got.Rejected = append(got.Rejected, f.reject(max(b.BaseOffset, f.next), b.LastOffset, format.CodeTooLarge, fmt.Errorf("a batch of %d bytes, %d records, to offset %d, more than the limit of %d", size, b.Count, b.LastOffset, limit)))
		got.Next, got.Epoch = b.LastOffset+1, b.LeaderEpoch
		return nil
	}
	if response.cut {
		return &largeError{size + size/4}
	}
	return fmt.Errorf("the broker sent %d bytes of a batch of %d", len(response.records), size)
}

func (f *Fetcher) reject(first, last int64, code string, err error) Rejected {
	return Rejected{RecordError: &RecordError{Partition: f.config.Partition, Offset: first, Offsets: last - first + 1, Code: code, Err: err}, Last: last}
}

// abortedTxn is an entry of a Fetch response: an aborted transaction that overlaps what was
// fetched, named by its producer and the offset of its first record.
type abortedTxn struct{ producer, first int64 }

// aborted records which batches of one Fetch response belong to aborted transactions. The broker
// returns those batches even to a read_committed reader, with the list of what to leave out.
//
// An entry is active from its first offset to the next abort marker of that producer. The marker
// ends it even if the transaction's records are gone: after compaction a marker outlives them, and
// an entry that it does not end would hide the producer's next, committed transaction.
type aborted map[int64][]int64 // producer to first offsets, ascending

// newAborted sorts the entries by offset: some brokers (Redpanda) do not.
func newAborted(list []abortedTxn) aborted {
	a := make(aborted, len(list))
	for _, txn := range list {
		a[txn.producer] = append(a[txn.producer], txn.first)
	}
	for _, firsts := range a {
		slices.Sort(firsts)
	}
	return a
}

// hides reports whether a data batch was aborted.
func (a aborted) hides(b *recordbatch.Batch) bool {
	return b.Producer.Transactional && a.active(b)
}

// end takes note of an abort marker.
func (a aborted) end(marker *recordbatch.Batch) {
	if a.active(marker) {
		a[marker.Producer.ID] = a[marker.Producer.ID][1:]
	}
}

// active reports whether an aborted transaction of the batch's producer covers it. It compares with the batch's last
// offset, because compaction keeps that one.
func (a aborted) active(b *recordbatch.Batch) bool {
	firsts := a[b.Producer.ID]
	return len(firsts) > 0 && firsts[0] <= b.LastOffset
}
