package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// Found is what a checkpoint topic holds of one model: the chunks of two slots, and the claims to own it. Every other
// key belongs to another writer.
type Found struct {
	Model, Topic string

	slots  [2]SlotParts
	claims []Owner // in the order of the topic
	value  string  // a model of a value with our model's id as its base; "": there is none
}

// SlotParts are the chunks that a slot holds now; an overwritten chunk belongs to a newer sequence.
type SlotParts struct {
	Parts map[int]ChunkPart

	read       bool // decode has run; the fields below are its result
	checkpoint *Checkpoint
	fault      error
}

// ChunkPart is a chunk of a checkpoint, as it was read.
type ChunkPart struct {
	sequence uint64
	n        int
	data     []byte
	damaged  bool // the checksum does not match
}

func (f *Found) reset() { *f = Found{Model: f.Model, Topic: f.Topic} }

// Take adds one record of the topic.
func (f *Found) Take(key string, value []byte, headers []source.Header) {
	rest, ok := strings.CutPrefix(key, f.Model+"/")
	if !ok {
		return
	}
	if f.takeClaim(rest, value) {
		return
	}
	if id, _, _, ok := SplitStateKey(key); ok && value != nil && OfValue(id, f.Model) {
		f.value = id
	}
	var slot, chunk int
	if n, err := fmt.Sscanf(rest, "%d/%d", &slot, &chunk); n != 2 || err != nil || slot < 0 || slot > 1 || chunk < 0 {
		return // another model whose id begins with ours
	}
	if rest != fmt.Sprintf("%d/%d", slot, chunk) {
		return
	}
	s := &f.slots[slot]
	s.read = false
	if s.Parts == nil {
		s.Parts = map[int]ChunkPart{}
	}
	if value == nil {
		delete(s.Parts, chunk)
		return
	}
	s.Parts[chunk] = ChunkPartOf(value, headers)
}

// ChunkPartOf reads a chunk from the value and the headers of its record.
func ChunkPartOf(value []byte, headers []source.Header) ChunkPart {
	p := ChunkPart{data: append([]byte(nil), value...), damaged: source.LastHeader(headers, "lca-crc32c") != ChecksumText(value)}
	p.sequence, _ = strconv.ParseUint(source.LastHeader(headers, "lca-checkpoint"), 10, 64)
	if _, n, ok := strings.Cut(source.LastHeader(headers, "lca-chunk"), "/"); ok {
		p.n, _ = strconv.Atoi(n)
	}
	return p
}

// Decode decodes the slot's checkpoint, once: nil without an error for an empty slot.
func (s *SlotParts) Decode() (*Checkpoint, error) {
	if !s.read {
		s.checkpoint, s.fault = s.join()
		s.read = true
	}
	return s.checkpoint, s.fault
}

func (s *SlotParts) join() (*Checkpoint, error) {
	if len(s.Parts) == 0 {
		return nil, nil
	}
	first := s.Parts[0]
	if first.damaged || first.n < 1 {
		return nil, errors.New("its first chunk is missing or damaged")
	}
	if err := ReadableFormat(first.data); err != nil {
		return nil, err
	}
	var data []byte
	for k := range first.n {
		p, ok := s.Parts[k]
		if !ok || p.damaged || p.sequence != first.sequence {
			return nil, fmt.Errorf("chunk %d of %d is missing or damaged", k, first.n)
		}
		data = append(data, p.data...)
	}
	c := new(Checkpoint)
	if err := c.UnmarshalBinary(data); err != nil {
		return nil, err
	}
	return c, nil
}

// sequence returns the highest sequence number of the slot's chunks.
func (s *SlotParts) sequence() (n uint64) {
	for _, p := range s.Parts {
		n = max(n, p.sequence)
	}
	return n
}

// newest returns the newest checkpoint, nil if there is none. It never returns one that is known to be superseded,
// because versions that were published since would come again with other content. So an unreadable newest checkpoint
// is an error, whether it is damaged or written by a newer binary: the previous one is not used in its place.
func (f *Found) newest() (*Checkpoint, error) {
	var best *Checkpoint
	var broken error
	unread := uint64(0)
	for i := range f.slots {
		c, err := f.slots[i].Decode()
		switch {
		case errors.Is(err, ErrNewerFormat):
			return nil, f.refuse(i, err, "use the newer binary; or set another snapshot.model_id, and start with `learn --from-snapshot FILE` from an export of the model")
		case err != nil:
			unread = f.slots[i].sequence()
			broken = f.refuse(i, err, "set another snapshot.model_id, and start with `learn --from-snapshot FILE` from an export of the model")
		case c != nil && (best == nil || c.Sequence > best.Sequence):
			best = c
		}
	}
	if broken != nil && (best == nil || unread >= best.Sequence) {
		return nil, broken
	}
	return best, nil
}

func (f *Found) refuse(slot int, err error, remedy string) error {
	return &reject.Stop{
		Err:    fmt.Errorf("checkpoint %d of model %q in slot %d of topic %s: %w", f.slots[slot].sequence(), f.Model, slot, f.Topic, err),
		Remedy: remedy,
	}
}

// enough reports whether records farther back cannot change the result: both slots are whole, and their owner is
// known.
func (f *Found) enough() bool {
	for i := range f.slots {
		if c, err := f.slots[i].Decode(); err != nil || c == nil || c.Format == firstFormat {
			return false
		}
	}
	return true
}

func (f *Found) chunks() (n [2]int) {
	for i := range f.slots {
		for k := range f.slots[i].Parts {
			n[i] = max(n[i], k+1)
		}
	}
	return n
}

func (f *Found) old() (old [2]bool) {
	for i := range f.slots {
		c, err := f.slots[i].Decode()
		old[i] = err == nil && c != nil && c.Format == firstFormat
	}
	return old
}

// ReadBack reads one of our own topics, of one partition, in cases where a missed record would make the program do
// the same work again with another outcome.
//
// It reads to the high watermark, not to the last stable offset. The topic is shared: while a transaction of another
// producer is open, the last stable offset is before it, and so before records of ours that were committed after it
// began. So a reader waits until that transaction has ended. A transaction of our own is no obstacle, because the
// sink was opened first, which ends it.
type ReadBack struct {
	Topic   string
	Open    func(ctx context.Context, from int64) (TopicReader, error) // a reader of committed records from an offset, or the beginning if that is later
	End     func(context.Context) (int64, error)                       // the high watermark
	Begin   func(context.Context) (int64, error)                       // the log start offset; only for what Written looks at
	TopicID func(context.Context) (string, error)                      // "", or nil: it is not known
	Log     *slog.Logger                                               // logs what is waited for; nil: nothing
}

// CurrentTopicID returns the id that the topic has now; "" if it is not known.
func (r *ReadBack) CurrentTopicID(ctx context.Context) (string, error) {
	if r.TopicID == nil {
		return "", nil
	}
	return r.TopicID(ctx)
}

const (
	// waitQuietly is how long another producer's transaction may be open before the wait is logged: most take
	// milliseconds.
	waitQuietly = 2 * time.Second
	// waitAgain is the interval of later log lines.
	waitAgain = 30 * time.Second
)

// The last records are read first, and more until they suffice. Otherwise a topic that is never compacted down to its
// last segment would be read from end to end, gigabytes of it. A chunk is at most 900 kB.
const (
	TailRecords = 32
	TailGrows   = 8
)

// Read calls each with everything that is committed up to the topic's present end, in order.
func (r *ReadBack) Read(ctx context.Context, each func(*source.Fetched) error) error {
	end, err := r.End(ctx)
	if err != nil {
		return err
	}
	return r.From(ctx, 0, end, each)
}

// ReadTail calls each with the last records up to the topic's present end. If they are not enough, it calls reset and
// begins again farther back. In the end everything is read, enough or not.
func (r *ReadBack) ReadTail(ctx context.Context, reset func(), each func(*source.Fetched) error, enough func() bool) error {
	end, err := r.End(ctx)
	if err != nil {
		return err
	}
	for back := int64(TailRecords); back < end; back *= TailGrows {
		if err := r.From(ctx, end-back, end, each); err != nil || enough() {
			return err
		}
		reset()
	}
	return r.From(ctx, 0, end, each)
}

// How far back ReadRecent and ReadNewest go: in steps, each of more records than the one before. The first is the last record and the
// marker of its transaction. ReadRecent does not go beyond RecentMost.
const (
	RecentFirst = 2
	recentGrows = 8
	RecentMost  = 1 << 13
)

// ReadRecent calls each with the last records up to the topic's present end, but with none before since, and again with
// more of them until they are enough, or as many as it is worth. A since beyond the end is that of a former topic.
func (r *ReadBack) ReadRecent(ctx context.Context, since int64, each func(*source.Fetched) error, enough func() bool) error {
	end, err := r.End(ctx)
	if err != nil {
		return err
	}
	if since > end {
		since = 0
	}
	for size := int64(RecentFirst); size <= RecentMost; size *= recentGrows {
		from := max(end-size, since)
		if err := r.From(ctx, from, end, each); err != nil || enough() || from <= since {
			return err
		}
	}
	return nil
}

// ReadNewest calls take with the records from since to the topic's present end, which it returns. The last ones come first, in stretches that grow, each in
// order. It ends with the stretch in which take has reported what is looked for: the last of these is the newest. There is no other bound, so
// what was not found is not there. A since beyond the end is that of a former topic: nothing is read.
func (r *ReadBack) ReadNewest(ctx context.Context, since int64, take func(*source.Record) bool) (end int64, err error) {
	if end, err = r.End(ctx); err != nil {
		return 0, err
	}
	found := false
	each := func(got *source.Fetched) error {
		for i := range got.Records {
			found = take(&got.Records[i]) || found
		}
		return nil
	}
	until := end
	for size := int64(RecentFirst); until > since && !found; size *= recentGrows {
		from := max(end-size, since)
		if err := r.From(ctx, from, until, each); err != nil {
			return 0, err
		}
		until = from
	}
	return end, nil
}

// From calls each with what is committed from next to end.
func (r *ReadBack) From(ctx context.Context, next, end int64, each func(*source.Fetched) error) error {
	if next >= end {
		return nil
	}
	log, err := r.Open(ctx, next)
	if err != nil {
		return err
	}
	w := waiting{of: r, since: time.Now(), say: waitQuietly}
	for next < end {
		got, err := log.Fetch(ctx)
		if err != nil {
			return err
		}
		w.saw(next, end, &got)
		next = got.Next
		if err := each(&got); err != nil {
			return err
		}
	}
	w.over()
	return nil
}

// waiting logs, now and then, that a reader waits for another producer's open transaction.
type waiting struct {
	of    *ReadBack
	since time.Time     // when it last moved
	say   time.Duration // how long until it is logged next
	said  bool
}

func (w *waiting) saw(next, end int64, got *source.Fetched) {
	if len(got.Records) > 0 || got.Next != next {
		w.since, w.say = time.Now(), waitQuietly
		return
	}
	waited := time.Since(w.since)
	if waited < w.say || w.of.Log == nil {
		return
	}
	w.say, w.said = waited+waitAgain, true
	w.of.Log.Warn("waiting for a transaction that another producer has left open on our topic: it ends with that producer, or by its transaction.timeout.ms; "+
		"one that never ends is found and aborted with kafka-transactions.sh find-hanging and abort",
		"topic", w.of.Topic, "offset", next, "until", end, "waited", waited.Round(time.Second))
}

func (w *waiting) over() {
	if w.said {
		w.of.Log.Info("the open transaction has ended", "topic", w.of.Topic)
	}
}

// SplitStateKey reads MODEL_ID/SLOT/CHUNK from the right.
func SplitStateKey(key string) (id string, slot, chunk int, ok bool) {
	rest, last, found := modelkey.CutLast(key)
	id, middle, found2 := modelkey.CutLast(rest)
	if !found || !found2 {
		return "", 0, 0, false
	}
	slot, err := strconv.Atoi(middle)
	chunk, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || id+"/"+strconv.Itoa(slot)+"/"+strconv.Itoa(chunk) != key {
		return "", 0, 0, false
	}
	return id, slot, chunk, true
}

// OtherFeatures says which features a model was learnt from, and which are asked for instead.
func OtherFeatures(learnt []string, asks string, now []string) string {
	gone := slices.DeleteFunc(slices.Clone(learnt), func(f string) bool { return slices.Contains(now, f) })
	come := slices.DeleteFunc(slices.Clone(now), func(f string) bool { return slices.Contains(learnt, f) })
	var differ []string
	if len(gone) > 0 {
		differ = append(differ, "no longer: "+ShortList(gone))
	}
	if len(come) > 0 {
		differ = append(differ, "new: "+ShortList(come))
	}
	if len(differ) == 0 {
		differ = append(differ, "the same in another order")
	}
	return fmt.Sprintf("was learnt from features [%s], and %s [%s] (%s)", ShortList(learnt), asks, ShortList(now), strings.Join(differ, "; "))
}

// ShortList joins names, at most shownNames of them.
func ShortList(names []string) string {
	const shownNames = 40
	if more := len(names) - shownNames; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:shownNames], ", "), more)
	}
	return strings.Join(names, ", ")
}
