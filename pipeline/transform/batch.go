package transform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unsafe"

	"github.com/lca-stream/lca-stream/internal/arrowjson"
	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

const (
	// zeroCopyNumbers is how many numbers of small messages are whitened together where they are float32 already: 64
	// KiB. A message with a quarter of that is whitened alone, from where it lies; smaller ones are copied together.
	zeroCopyNumbers = 16 << 10

	// gatheredNumbers is how many numbers of gathered rows are whitened together: 256 KiB of float64, which stay in the
	// L2 cache.
	gatheredNumbers = 32 << 10
)

// tooMuch refuses a message that whitens to more than MostWhitened.
func (t *Transform) tooMuch(m *source.Message, features []string) *source.RecordError {
	n, each := m.Record.NumRows(), t.Output.Added(features)
	if t.Output.Format.Of(m).Text() {
		each = t.Output.AddedText(features)
	}
	if size := n * each; size > encode.MostWhitened {
		return reject.Bad(m, reject.CodeOutputTooLarge, fmt.Errorf("%s of %s would take %d bytes when whitened, at most %d are written; send fewer rows per message", plural.Count(n, "row"), plural.Count(len(features), "feature"), size, encode.MostWhitened))
	}
	return nil
}

// addZeroCopy queues a message whose rows x need no gathering: lists of float32 without a null. That they are
// finite is taken for granted until they are whitened.
func (t *Transform) addZeroCopy(ctx context.Context, m *source.Message, x []float32) error {
	q := &t.queue
	if q.rows > 0 && (q.zeroCopy == nil || len(q.zeroCopy)+len(x) > zeroCopyNumbers) {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	alone := q.rows == 0 && len(x) >= zeroCopyNumbers/4
	switch {
	case alone:
		q.zeroCopy = x
	case q.rows == 0:
		q.near = slices.Grow(q.near, zeroCopyNumbers)
		q.zeroCopy = append(q.near[:0], x...)
	default:
		q.zeroCopy = append(q.zeroCopy, x...)
	}
	n := int(m.Record.NumRows())
	q.invalid = slices.Grow(q.invalid, n)[:q.rows+n]
	clear(q.invalid[q.rows:])
	if t.imputes() {
		q.noneMissing(n)
	}
	q.joined(q.append(m), n)
	if alone {
		return t.flush(ctx)
	}
	return nil
}

// addGathered queues a message after reading its rows as float64.
func (t *Transform) addGathered(ctx context.Context, m *source.Message) error {
	q, d := &t.queue, t.Features.Dim()
	n := int(m.Record.NumRows())
	sliced := n > reject.SliceOf(d)
	if q.rows > 0 && (q.zeroCopy != nil || sliced || len(q.gathered)+n*d > cap(q.gathered)) {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	if q.rows == 0 {
		q.room(max(min(n, reject.SliceOf(d))*d, gatheredNumbers))
	}
	if err := t.gather(ctx, q.append(m)); err != nil || !sliced {
		return err
	}
	return t.flush(ctx)
}

// room reserves memory for that number of gathered numbers; there must be none yet.
func (q *queue) room(numbers int) {
	if cap(q.gathered) < numbers {
		q.gathered = make([]float64, 0, numbers)
	}
}

// gather reads the rows of a message of the queue, or finds out why it is set aside. Of one that is larger than a
// slice only the reasons of its rows are kept, so that its rows are never all in memory as float64.
func (t *Transform) gather(ctx context.Context, p *pending) error {
	q, m, d := &t.queue, p.message, t.Features.Dim()
	n, used, before := int(m.Record.NumRows()), len(q.gathered), len(q.invalid)
	numbers := min(n, reject.SliceOf(d)) * d
	q.read.X = q.gathered[used : used : used+numbers]
	q.invalid = slices.Grow(q.invalid, n)
	q.read.KeepMissing = t.imputes()
	err := reject.GatherEach(&t.Features, &q.read, m.Record, func(int) error {
		q.invalid = append(q.invalid, q.read.Invalid...)
		if t.imputes() {
			q.noteMissing()
		}
		return ctx.Err()
	})
	switch {
	case err == nil:
		p.bad = t.invalid(m, q.invalid[before:])
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		p.bad = encode.Refused(m, err)
	}
	switch {
	case p.bad != nil:
		q.invalid, q.missing = q.invalid[:before], q.missing[:min(before, len(q.missing))]
		return nil
	case n*d > numbers:
		q.sliced = m
	default:
		q.gathered = q.gathered[:used+numbers]
	}
	q.joined(p, n)
	return nil
}

// gatherAgain reads all rows of the queue as float64 that were to be whitened from where they lie: that finds out
// which of them are not finite, and what becomes of their messages.
func (t *Transform) gatherAgain(ctx context.Context) error {
	q, d := &t.queue, t.Features.Dim()
	rows := q.rows
	q.empty()
	q.room(min(rows, reject.SliceOf(d)) * d)
	for i := range q.pending {
		p := &q.pending[i]
		if p.last == p.first {
			continue
		}
		p.first, p.last = 0, 0
		if err := t.gather(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// invalid applies source.on_invalid to the rows of a message, and counts.
func (t *Transform) invalid(m *source.Message, reasons []minibatch.Reason) *source.RecordError {
	count := 0
	for i, reason := range reasons {
		if reason == minibatch.ReasonNone {
			continue
		}
		count++
		if bad := t.invalidRow(m, i, reason); bad != nil {
			return bad
		}
	}
	t.counts.rows += uint64(len(reasons) - count)
	return nil
}

// invalidRow applies source.on_invalid to one row, and counts it.
func (t *Transform) invalidRow(m *source.Message, row int, reason minibatch.Reason) *source.RecordError {
	u := t.counts.rejected(reason.String(), 1)
	if u.N == 1 {
		u.Partition, u.Offset, u.Row = m.Partition, m.Offset, row
	}
	if u.N <= looked {
		u.Blame(t.Features.Unusable(m.Record, row))
	}
	switch t.OnInvalid {
	case reject.NullRow, reject.ImputeRow: // kept, with a null result
	case reject.RejectRow:
		return reject.InvalidRow(m, row, reason)
	case reject.StopAtRow:
		return reject.Bad(m, reject.CodeRowInvalid, reject.StopAtInvalid(m, row, reason))
	}
	return nil
}

// whiten returns what the rows of the queue have become. What the reasons say of a
// row holds afterwards: it is finite, or null.
func (t *Transform) whiten(ctx context.Context) (w encode.Whitened, err error) {
	q := &t.queue
	if q.rows == 0 {
		return w, nil
	}
	w = encode.Whitened{K: t.model.Model.Dim, Features: t.Features.Names}
	w.Y = t.made.numbers.take(q.rows * w.K)
	if t.Output.Scores() {
		w.Score = t.made.numbers.take(q.rows)
	}
	if t.Output.Recent && t.model.Model.Recent != nil {
		w.Recent, w.RecentP = t.made.numbers.take(q.rows), t.made.numbers.take(q.rows)
	}
	if err := t.coordinates(ctx, &w); err != nil {
		return w, err
	}
	if t.model.Model.Young() {
		t.young(&w)
		return w, nil
	}
	w.Invalid, w.Imputed = q.invalid, t.imputed()
	t.probabilities(&w)
	return w, t.explain(ctx, &w)
}

// coordinates whitens and scores the rows of the queue: from where they lie if all are finite, or else gathered.
func (t *Transform) coordinates(ctx context.Context, w *encode.Whitened) error {
	q := &t.queue
	if q.zeroCopy != nil {
		finite, err := inSlices(ctx, t, t.scorer.Score32, w.Y, w.Score, q.zeroCopy, q.rows)
		if err != nil {
			return err
		}
		// A number that is not finite shows in y, unless the model leaves its column out.
		if finite && (t.scorer.PropagatesNonFinite() || minibatch.Finite(q.zeroCopy)) {
			t.counts.rows += uint64(q.rows)
			t.lastRows32(w)
			return nil
		}
		if err := t.gatherAgain(ctx); err != nil {
			return err
		}
		w.Y, w.Score = w.Y[:q.rows*w.K], w.Score[:min(q.rows, len(w.Score))]
		w.Recent, w.RecentP = w.Recent[:min(q.rows, len(w.Recent))], w.RecentP[:min(q.rows, len(w.RecentP))]
	}
	finite, err := t.whitenGathered(ctx, w)
	if err == nil && !finite {
		t.bound(w.Y, w.K, w.Score)
	}
	return err
}

// whitenGathered whitens gathered rows: all together, or slice by slice, because those of a large message are not all in
// memory. What becomes of a row does not depend on the slices.
func (t *Transform) whitenGathered(ctx context.Context, w *encode.Whitened) (finite bool, err error) {
	q, k := &t.queue, t.model.Model.Dim
	if q.sliced == nil {
		t.lastRows(w, q.gathered, 0) // a null is one to the series, and then filled
		if err := t.fill(ctx, q.gathered, q.rows); err != nil {
			return false, err
		}
		return inSlices(ctx, t, t.scorer.Score, w.Y, w.Score, q.gathered, q.rows)
	}
	finite = true
	err = reject.GatherEach(&t.Features, &q.read, q.sliced.Record, func(first int) error {
		last := first + q.read.N
		t.lastRows(w, q.read.X[:q.read.N*k], first)
		if err := t.fill(ctx, q.read.X, q.read.N); err != nil {
			return err
		}
		good, err := inSlices(ctx, t, t.scorer.Score, w.Y[first*k:last*k], part(w.Score, first, last), q.read.X, q.read.N)
		finite = finite && good
		return err
	})
	return finite, err
}

// part is some of the scores; nil where there are none.
func part(score []float32, first, last int) []float32 {
	if score == nil {
		return nil
	}
	return score[first:last]
}

// inSlices whitens n rows of x slice by slice, unless the context ends.
func inSlices[X float32 | float64](ctx context.Context, t *Transform, whiten func(y, score []float32, x []X, n int) bool, y, score []float32, x []X, n int) (finite bool, err error) {
	d, step := t.model.Model.Dim, t.slice
	finite = true
	for first := 0; first < n; first += step {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		last := min(first+step, n)
		finite = whiten(y[first*d:last*d], part(score, first, last), x[first*d:last*d], last-first) && finite
	}
	return finite, nil
}

// bound keeps what is written finite: a row so far away that its coordinates are beyond float32 is null, like one
// with an Inf, and a score beyond it is the largest float32.
func (t *Transform) bound(y []float32, k int, score []float32) {
	for i, s := range score {
		if !minibatch.Finite(score[i : i+1]) {
			score[i] = float32(math.Copysign(math.MaxFloat32, float64(s)))
		}
	}
	for r, reason := range t.queue.invalid {
		if reason == minibatch.ReasonNone && !minibatch.Finite(y[r*k:(r+1)*k]) {
			t.queue.invalid[r] = minibatch.ReasonInf
			t.counts.rejected(minibatch.ReasonInf.String(), 1)
			t.counts.rows-- // it was counted when it was read
		}
	}
}

const (
	// slabLeast is how much a slab grows at least, and slabMost how many bytes are kept from batch to batch.
	slabLeast, slabMost = 8 << 10, 4 << 20

	// slabIdle is how many bytes are kept whether they are used or not.
	slabIdle = 256 << 10
)

// slab is memory for what a batch makes, which the next batch uses again: all of it has been put by
// then, or never will be. It does not keep what few batches need.
type slab[T any] struct {
	free []T // the part not in use
	all  []T // the whole memory, which is kept from batch to batch
	over int // elements that this batch needed in addition to all
}

// begin takes all of it back, and makes it large enough for a batch like the last one, up to most bytes.
func (s *slab[T]) begin(most int) {
	switch used := len(s.all) - cap(s.free); {
	case s.over > 0 && s.bytes(len(s.all)+s.over) <= most:
		s.all = make([]T, len(s.all)+s.over+s.over/8)
	case s.over == 0 && used < len(s.all)/8 && s.bytes(len(s.all)) > slabIdle:
		s.all = nil
	}
	s.free, s.over = s.all[:0], 0
}

// trim lets go of what the batch needed in addition to all. begin still knows how much that was, unless all of it
// together is more than most bytes.
func (s *slab[T]) trim(most int) {
	if s.over > 0 {
		s.free = s.all[:0]
	}
	if s.bytes(len(s.all)+s.over) > most {
		s.over = 0
	}
}

func (s *slab[T]) bytes(n int) int {
	var one T
	return n * int(unsafe.Sizeof(one))
}

// room returns an empty slice with room for size elements.
func (s *slab[T]) room(size int) []T {
	if cap(s.free) < size {
		n := max(size, slabLeast)
		s.free = make([]T, 0, n)
		s.over += n
	}
	return s.free
}

// use says that the first n of what room returned are in use now. If they have outgrown it, they are elsewhere.
func (s *slab[T]) use(n int) {
	if n <= cap(s.free) {
		s.free = s.free[n:n]
	}
}

// take is room and use of n elements.
func (s *slab[T]) take(n int) []T {
	all := s.room(n)[:n:n]
	s.use(n)
	return all
}

// made is what a batch becomes. It lives until that is put; then its memory serves another batch, of any partition.
type made struct {
	messages []sink.Message
	inputs   []*source.Message // of messages
	headers  []source.Header   // of messages
	digits   []byte            // their offsets
	numbers  slab[float32]     // y, −log p and probabilities
	gains    slab[lca.Gain]    // of lca_why
	filled   slab[int16]       // of lca_imputed
	values   slab[byte]        // outputs in one piece
	pieces   [][]byte          // the others

	begins []int64 // offsets of the first messages of the parts of the batch; none: it has no parts

	// Of a part of the batch that is written in any order.
	first    int // the messages before this one are of other parts
	parts    []madePart
	shuffled struct { // messages and inputs as they were written
		messages []sink.Message
		inputs   []*source.Message
	}
}

// madePart is what one input has become, where inputs are written in any order.
type madePart struct {
	last int                 // the messages before this one that are no other part's are its own
	bad  *source.RecordError // why the input is set aside; nil: it is not
}

func (d *made) begin(messages int) {
	const headers, digits = 9, 8 // of a message: headers of its own, and digits of its offset as a rule
	d.messages, d.inputs = slices.Grow(d.messages[:0], messages), slices.Grow(d.inputs[:0], messages)
	d.headers, d.digits = slices.Grow(d.headers[:0], headers*messages), slices.Grow(d.digits[:0], digits*messages)
	d.pieces, d.parts = slices.Grow(d.pieces[:0], encode.LeastPieces*messages), d.parts[:0]
	d.begins, d.first = d.begins[:0], 0
	d.numbers.begin(slabMost)
	d.gains.begin(slabMost)
	d.filled.begin(slabMost)
	d.values.begin(slabMost)
}

// add takes an output, or a dead letter, of an input.
func (d *made) add(out sink.Message, in *source.Message) {
	d.messages, d.inputs = append(d.messages, out), append(d.inputs, in)
}

// endPart says that all has been added that the next input becomes.
func (d *made) endPart(bad *source.RecordError) {
	d.parts = append(d.parts, madePart{len(d.messages), bad})
}

// beginPart says that what is added from now on is of the messages from an offset on.
func (d *made) beginPart(offset int64) {
	d.begins, d.first, d.parts = append(d.begins, offset), len(d.messages), d.parts[:0]
}

// cuts reports whether a part of the batch begins behind an offset and not behind another.
func (d *made) cuts(last, next int64) bool {
	if len(d.begins) == 0 {
		return true
	}
	i, found := slices.BinarySearch(d.begins, next)
	return found || i > 0 && d.begins[i-1] > last
}

// inOrder brings what inputs have become into an order: that of place[0], place[1] and so on. After each part it calls settle, which may add a message.
func (d *made) inOrder(place []int32, settle func(i int, bad *source.RecordError) error) error {
	s := &d.shuffled
	s.messages, d.messages = d.messages, append(slices.Grow(s.messages[:0], len(d.messages)), d.messages[:d.first]...)
	s.inputs, d.inputs = d.inputs, append(slices.Grow(s.inputs[:0], len(d.inputs)), d.inputs[:d.first]...)
	for i, n := range place {
		first, part := d.first, &d.parts[n]
		if n > 0 {
			first = d.parts[n-1].last
		}
		d.messages, d.inputs = append(d.messages, s.messages[first:part.last]...), append(d.inputs, s.inputs[first:part.last]...)
		if err := settle(i, part.bad); err != nil {
			return err
		}
	}
	clear(s.messages)
	clear(s.inputs)
	return nil
}

func (d *made) number(n int64) []byte {
	at := len(d.digits)
	d.digits = strconv.AppendInt(d.digits, n, 10)
	return d.digits[at:len(d.digits):len(d.digits)]
}

// forget lets go of what the batch was made of, which may be large: it is put, or never will be.
func (d *made) forget() {
	clear(d.messages)
	clear(d.inputs)
	clear(d.headers)
	clear(d.pieces)
	clear(d.parts)
	d.numbers.trim(slabMost)
	d.gains.trim(slabMost)
	d.filled.trim(slabMost)
	d.values.trim(slabMost)
}

// bytes is what it takes once it has forgotten.
func (d *made) bytes() int {
	return sizeOf(d.messages) + sizeOf(d.inputs) + sizeOf(d.headers) + sizeOf(d.digits) + sizeOf(d.pieces) +
		sizeOf(d.parts) + sizeOf(d.shuffled.messages) + sizeOf(d.shuffled.inputs) +
		d.numbers.bytes(cap(d.numbers.all)) + d.gains.bytes(cap(d.gains.all)) + d.filled.bytes(cap(d.filled.all)) + d.values.bytes(cap(d.values.all))
}

func sizeOf[T any](s []T) int {
	var one T
	return cap(s) * int(unsafe.Sizeof(one))
}

// write makes the output of a message, unless it has none. w is what the rows of the queue have become.
func (t *Transform) write(ctx context.Context, p *pending, w *encode.Whitened) error {
	bad, err := t.become(ctx, p, w)
	if err != nil {
		return err
	}
	if t.unordered {
		t.made.endPart(bad)
		return nil
	}
	return t.settle(p.message, bad)
}

// become adds the output of a message to what the batch becomes, or returns why the message is set aside.
func (t *Transform) become(ctx context.Context, p *pending, w *encode.Whitened) (bad *source.RecordError, err error) {
	m, bad := p.message, p.bad
	if m.Tombstone() { // it passes: what it deletes in the input it deletes in the output
		t.counts.passed(reject.ReasonTombstone, 1)
		t.made.add(t.pass(m), m)
		return nil, nil
	}
	var value []byte
	var rest [][]byte
	switch {
	case bad != nil:
	case p.last > p.first:
		rows := w.Rows(p.first, p.last)
		if value, rest, bad = t.encode(ctx, m, &rows); bad == nil {
			t.tell(p, w)
		} else if w.Recent != nil {
			bad.Version = t.model.Version
		}
	case m.Record.NumRows() == 0:
		t.counts.passed(reject.ReasonNoRows, 1)
	default:
		value, rest, bad = t.withoutModel(ctx, p)
	}
	if bad != nil {
		return bad, ctx.Err() // a schema was waited for
	}
	if value != nil {
		t.made.add(t.wrap(m, value, rest), m)
	}
	return nil, nil
}

// settle sets a bad message aside, and counts. It comes in the order of the input.
func (t *Transform) settle(m *source.Message, bad *source.RecordError) error {
	if bad != nil {
		return t.refuse(m, bad)
	}
	t.rejects.Add(t.window(), false)
	return nil
}

// refuse sets a bad message aside, or stops.
func (t *Transform) refuse(m *source.Message, bad *source.RecordError) error {
	var stop *reject.Stop
	if errors.As(bad.Err, &stop) {
		return stop
	}
	dead, err := t.setAside(m, bad)
	if err != nil {
		return err
	}
	t.made.add(dead, m)
	return nil
}

// encode makes an output: as pieces of its input and of w, or else in one piece.
func (t *Transform) encode(ctx context.Context, m *source.Message, w *encode.Whitened) (value []byte, rest [][]byte, bad *source.RecordError) {
	if as := t.Output.Format.Of(m); as != encode.FormatArrow {
		value, err := t.encodeAs(ctx, as, m, w)
		if err != nil {
			return nil, nil, encode.Refused(m, err)
		}
		t.made.values.use(len(value))
		return value[:len(value):len(value)], nil, nil
	}
	d := t.made
	first := len(d.pieces)
	if all, ok := t.output.Pieces(d.pieces, m.Record, w); ok {
		d.pieces = all
		return all[first], all[first+1 : len(all) : len(all)], nil
	}
	value, rest, err := t.output.Encode(d.values.room(min(2*len(m.Value)+4*len(w.Y), encode.LeastApart)+1024), m.Record, w)
	if err != nil {
		return nil, nil, encode.Refused(m, err)
	}
	written := len(value)
	for i := 1; i < len(rest); i += 2 { // the pieces between are the message's and w's
		written += len(rest[i])
	}
	d.values.use(written)
	return value[:len(value):len(value)], rest, nil
}

// encodeAs makes an output that is not Arrow, in one piece.
func (t *Transform) encodeAs(ctx context.Context, as encode.Format, m *source.Message, w *encode.Whitened) ([]byte, error) {
	const perNumber = jsontext.MostFloat32 * 2 / 3 // as a rule
	room := len(m.Value) + (w.K+10)*perNumber*int(m.Record.NumRows())
	dst := t.made.values.room(min(room, encode.LeastApart))
	t.json.Most, t.named.Most = t.most, t.most
	defer t.lose(m)
	switch {
	case as == encode.FormatInput:
		return nil, &reject.Stop{Err: fmt.Errorf("%s@%d is Protobuf, which is read and not written", m.Partition, m.Offset), Remedy: "set transform.format to json or arrow"}
	case as == encode.FormatAvro && m.Format != format.Avro:
		return t.named.Convert(ctx, dst, m, w)
	case as == encode.FormatAvro:
		return t.named.Record(ctx, dst, m, w)
	case as == encode.FormatJSONSchema:
		dst, body, err := t.named.Prefix(ctx, dst, m, w.K)
		if err != nil {
			return nil, err
		}
		return t.json.Extend(dst, body, m.Record, w, false)
	case m.Format == format.JSON:
		return t.json.Extend(dst, m.Value, m.Record, w, true)
	case m.Format == format.JSONSchema:
		_, body, _ := format.SchemaID(m.Value)
		return t.json.Extend(dst, body, m.Record, w, true)
	}
	return t.json.Convert(dst, m.Record, w, m.Format == format.Arrow || m.Format == "")
}

// lose counts the times of a message that are null in its output, because the format cannot write them, and says once that there are any.
func (t *Transform) lose(m *source.Message) {
	n := uint64(t.json.Lost + t.named.Lost)
	if n == 0 {
		return
	}
	t.json.Lost, t.named.Lost = 0, 0
	if t.Stats.LostTimes.Add(n) == n {
		t.Log.Warn("times of the source are null in the output, because its format cannot write them: they are beyond its range, or times of day of no day; lca_left_out_values_total counts them",
			"partition", m.Partition.String(), "offset", m.Offset, "times", n)
	}
}

// withoutModel applies transform.until_model; under Hold no message comes before the first model.
func (t *Transform) withoutModel(ctx context.Context, p *pending) (value []byte, rest [][]byte, bad *source.RecordError) {
	m := p.message
	if t.UntilModel == Drop && !p.null {
		t.counts.rejected(reject.ReasonNoModel, uint64(m.Record.NumRows()))
		return nil, nil, nil
	}
	f, err := minibatch.ResolveRecordWithout(m.Record, t.Columns, t.Series.ColumnName())
	if err != nil {
		return nil, nil, encode.Refused(m, err)
	}
	k := len(f.Names)
	if bad := t.tooMuch(m, f.Names); bad != nil {
		return nil, nil, bad
	}
	if value, rest, bad = t.encode(ctx, m, &encode.Whitened{K: k, Features: f.Names}); bad == nil && !p.null {
		t.counts.passedWithoutModel(m)
	}
	return value, rest, bad
}

// Text that is made of columns may be far larger than they are: NUL becomes six bytes, and each row repeats a value of a dictionary. So it
// is measured before it is made, counts in the memory of the process, and is made only as far as the output topic may take it.

// Becomes is at most how many bytes of text are made of a message's columns, without ours; 0: none, or those of its value. It is for
// source.KafkaConfig.
func (c *TransformConfig) Becomes(m *source.Message) int64 {
	as := c.Output.Format.Of(m)
	if m.Record == nil || !c.Output.Passthrough || as == encode.FormatArrow || as.Copies(m.Format) {
		return 0
	}
	return arrowjson.Size(m.Record, encode.MostWhitened)
}

// texts is at most about how many bytes of text are made of a batch in addition to what its messages take. It also finds out how many are made
// of one message.
func (t *Transform) texts(ctx context.Context, b *source.Batch, features []string) (size int64) {
	t.most = encode.MostWhitened
	if t.Output.Format == encode.FormatArrow {
		return 0
	}
	fresh := false
	t.most = t.mostText(ctx, false)
	each := t.Output.AddedText(features)
	for i := range b.Messages {
		m := &b.Messages[i]
		if m.Record == nil || t.Output.Format.Of(m) == encode.FormatArrow {
			continue
		}
		one := m.Record.NumRows()*each + m.Becomes
		if m.Becomes == 0 {
			one += t.Becomes(m)
		}
		if one+int64(len(m.Value)) > int64(t.most) && !fresh {
			t.most, fresh = t.mostText(ctx, true), true // the topic may take more by now
		}
		size += min(one, int64(t.most))
	}
	return size
}

// mostText is how many bytes of text are made of one message.
func (t *Transform) mostText(ctx context.Context, again bool) int {
	if t.Takes == nil {
		return encode.MostWhitened
	}
	if most := t.Takes(ctx, again); most > 0 {
		return min(most, encode.MostWhitened)
	}
	return encode.MostWhitened // the broker does not say
}
