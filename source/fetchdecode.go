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
		r := f.reject(max(b.BaseOffset, got.Next), b.LastOffset, code, fmt.Errorf("%d records, to offset %d, cannot be read: %w", b.Count, b.LastOffset, err))
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
		got.Rejected = append(got.Rejected, f.reject(max(b.BaseOffset, f.next), b.LastOffset, format.CodeTooLarge, fmt.Errorf("a batch of %d bytes, %d records, to offset %d, more than the limit of %d (4 times source.max_message_bytes, but at least 16 MiB)", size, b.Count, b.LastOffset, limit)))
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
