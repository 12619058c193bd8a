package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/format"
)

// mostDoubts is how often a batch with a wrong checksum is fetched again, over five seconds or so.
const mostDoubts = 8

// damagedError is a batch that did not come as it was produced.
type damagedError struct {
	err  error
	size int
}

func (e *damagedError) Error() string { return e.err.Error() }

// Unwrap returns what the decoder said.
func (e *damagedError) Unwrap() error { return e.err }

// doubt waits before a damaged batch is fetched again. Then the broker is asked for a little more than the
// batch, because only the header of the one behind it tells for sure where it ends.
func (f *Fetcher) doubt(ctx context.Context, r *retry, damaged *damagedError) error {
	f.doubts++
	f.least = min(damaged.size, f.config.maxBatchBytes()) + 1<<10
	if f.doubts == 1 {
		r.cluster.Log().Warn("a record batch came damaged; fetching it again", "what", r.what, "error", damaged.err)
	}
	return r.pause(ctx)
}

// decode fills in records, rejected records and the next offset. It stops when they hold more than a part in addition to
// their bytes, and returns how many bytes of the response it has not dealt with: they come again.
func (f *Fetcher) decode(got *Fetched, response *fetchResponse, p part) (left int, err error) {
	hidden := newAborted(response.aborted)
	f.decoder.Reset(response.records)
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
			return left, nil // what came before it is good; the next call meets it again, at once
		case err != nil:
			return left, err
		case again && len(hidden) > 0:
			return f.decoder.Left(), nil
		}
	}
}

// unreadable deals with a batch whose header cannot be relied on. It may have been the end of an aborted
// transaction, so again says that the broker has to tell once more which ones are.
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

// decodeBatch deals with a batch whose header is sound.
func (f *Fetcher) decodeBatch(got *Fetched, b *recordbatch.Batch, hidden aborted, p part) (again bool, err error) {
	switch {
	case b.Control:
		again = f.marker(b, hidden)
	case b.LastOffset < got.Next: // a broker may begin its answer before what was asked for
	case !f.config.ReadUncommitted && hidden.hides(b):
	default:
		err = f.records(got, b, p)
	}
	if err == nil {
		got.Next, got.Epoch = max(got.Next, b.LastOffset+1), b.LeaderEpoch
	}
	return again, err
}

// marker takes note of the end of a transaction. Of one that cannot be read it is not known whether it was an
// abort; to go on with the list of aborted transactions could hide the next one of that producer. The list
// that comes with the next response begins behind it.
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

// records adds those of a data batch, from the position on.
func (f *Fetcher) records(got *Fetched, b *recordbatch.Batch, p part) error {
	before := len(got.Records)
	recs, err := f.decoder.Records(got.Records, b)
	code := CodeBatchInvalid
	if errors.Is(err, recordbatch.ErrTooLarge) {
		if code = format.CodeTooLarge; f.room(p) < f.config.maxBatchBytes() {
			clear(recs[before:])
			return &largeError{int64(f.config.maxBatchBytes())}
		}
	}
	if err != nil && code == CodeBatchInvalid && !f.config.SetAside {
		return err
	}
	if err != nil {
		r := f.reject(max(b.BaseOffset, got.Next), b.LastOffset, code, fmt.Errorf("%d records, to offset %d, cannot be read: %w", b.Count, b.LastOffset, err))
		r.Raw, r.Timestamp = b.Raw(), b.MaxTimestamp
		got.Rejected = append(got.Rejected, r)
		clear(recs[before:])
		return nil
	}
	got.Records = recs[:before]
	for i := range recs[before:] {
		// The batch may have begun before the position. A value over the limit stays: it is in memory
		// already, the decoder refuses it, and the dead letter must hold its bytes untouched.
		if r := &recs[before+i]; r.Offset >= got.Next {
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
		got.Rejected = append(got.Rejected, f.reject(max(b.BaseOffset, f.next), b.LastOffset, format.CodeTooLarge, fmt.Errorf("a batch of %d bytes, %d records, to offset %d, more than the limit of %d (4 times source.max_message_bytes)", size, b.Count, b.LastOffset, limit)))
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
