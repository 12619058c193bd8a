package pipeline

import (
	"context"
	"log/slog"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// ReadBack reads one of our own topics, of one partition, in cases where a missed record would make the program do
// the same work again with another outcome.
//
// It reads to the high watermark, not to the last stable offset. The topic is shared: while a transaction of another
// producer is open, the last stable offset is before it, and so before records of ours that were committed after it
// began. So a reader waits until that transaction has ended. A transaction of our own is no obstacle, because the
// sink was opened first, which ends it.
type ReadBack struct {
	Topic   string
	Open    func(context.Context) (TopicReader, error)        // a reader of committed records from the topic's beginning
	OpenAt  func(context.Context, int64) (TopicReader, error) // … from an offset, or the beginning if that is later; nil = ReadTail reads all
	End     func(context.Context) (int64, error)              // the high watermark
	Begin   func(context.Context) (int64, error)              // the log start offset; only for what Written looks at
	TopicID func(context.Context) (string, error)             // … too; nil: it is not known
	Log     *slog.Logger                                      // logs what is waited for; nil: nothing
}

func (r *ReadBack) topicID(ctx context.Context) (string, error) {
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
	tailRecords = 32
	tailGrows   = 8
)

// Read calls each with everything that is committed up to the topic's present end, in order.
func (r *ReadBack) Read(ctx context.Context, each func(*source.Fetched) error) error {
	end, err := r.End(ctx)
	if err != nil {
		return err
	}
	return r.from(ctx, 0, end, each)
}

// ReadTail calls each with the last records up to the topic's present end. If they are not enough, it calls reset and
// begins again farther back. In the end everything is read, enough or not.
func (r *ReadBack) ReadTail(ctx context.Context, reset func(), each func(*source.Fetched) error, enough func() bool) error {
	end, err := r.End(ctx)
	if err != nil {
		return err
	}
	for back := int64(tailRecords); r.OpenAt != nil && back < end; back *= tailGrows {
		if err := r.from(ctx, end-back, end, each); err != nil || enough() {
			return err
		}
		reset()
	}
	return r.from(ctx, 0, end, each)
}

// How far back ReadRecent and ReadNewest go: in steps, each of more records than the one before. The first is the last record and the
// marker of its transaction. ReadRecent does not go beyond recentMost.
const (
	recentFirst = 2
	recentGrows = 8
	recentMost  = 1 << 13
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
	for size := int64(recentFirst); size <= recentMost; size *= recentGrows {
		from := max(end-size, since)
		if err := r.from(ctx, from, end, each); err != nil || enough() || from <= since {
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
	for size := int64(recentFirst); until > since && !found; size *= recentGrows {
		from := max(end-size, since)
		if err := r.from(ctx, from, until, each); err != nil {
			return 0, err
		}
		until = from
	}
	return end, nil
}

func (r *ReadBack) from(ctx context.Context, next, end int64, each func(*source.Fetched) error) error {
	if next >= end {
		return nil
	}
	open := r.Open
	if next > 0 {
		open = func(ctx context.Context) (TopicReader, error) { return r.OpenAt(ctx, next) }
	}
	log, err := open(ctx)
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
