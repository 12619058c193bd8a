package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// write makes the output of a message, unless it has none. w is what the rows of the queue have become.
func (t *Transform) write(ctx context.Context, p *pending, w *Whitened) error {
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

// become adds the output of a message and its alarms to what the batch becomes, or returns why the message is set aside.
func (t *Transform) become(ctx context.Context, p *pending, w *Whitened) (bad *source.RecordError, err error) {
	m, bad := p.message, p.bad
	if m.Tombstone() { // it passes: what it deletes in the input it deletes in the output
		t.counts.passed(reasonTombstone, 1)
		t.made.add(t.pass(m), m)
		return nil, nil
	}
	var value []byte
	var rest [][]byte
	switch {
	case bad != nil:
	case p.last > p.first:
		rows := w.rows(p.first, p.last)
		if value, rest, bad = t.encode(ctx, m, &rows); bad == nil {
			bad = t.tell(p, w)
		}
	case m.Record.NumRows() == 0:
		t.counts.passed(reasonNoRows, 1)
	default:
		value, rest, bad = t.withoutModel(ctx, p)
	}
	if bad != nil {
		return bad, ctx.Err() // a schema was waited for
	}
	if value != nil {
		t.made.add(t.wrap(m, value, rest), m)
	}
	if p.last > p.first {
		for _, alarm := range t.queue.alarms {
			t.made.add(alarm, m)
		}
	}
	return nil, nil
}

// settle sets a bad message aside, and counts. It comes in the order of the input.
func (t *Transform) settle(m *source.Message, bad *source.RecordError) error {
	if bad != nil {
		return t.refuse(m, bad)
	}
	t.rejects.add(t.window(), false)
	return nil
}

// refuse sets a bad message aside, or stops.
func (t *Transform) refuse(m *source.Message, bad *source.RecordError) error {
	var stop *Stop
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
func (t *Transform) encode(ctx context.Context, m *source.Message, w *Whitened) (value []byte, rest [][]byte, bad *source.RecordError) {
	if as := t.Output.Format.of(m); as != FormatArrow {
		value, err := t.encodeAs(ctx, as, m, w)
		if err != nil {
			return nil, nil, refused(m, err)
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
	value, rest, err := t.output.Encode(d.values.room(min(2*len(m.Value)+4*len(w.Y), leastApart)+1024), m.Record, w)
	if err != nil {
		return nil, nil, refused(m, err)
	}
	written := len(value)
	for i := 1; i < len(rest); i += 2 { // the pieces between are the message's and w's
		written += len(rest[i])
	}
	d.values.use(written)
	return value[:len(value):len(value)], rest, nil
}

// encodeAs makes an output that is not Arrow, in one piece.
func (t *Transform) encodeAs(ctx context.Context, as Format, m *source.Message, w *Whitened) ([]byte, error) {
	const perNumber = jsontext.MostFloat32 * 2 / 3 // as a rule
	room := len(m.Value) + (w.K+10)*perNumber*int(m.Record.NumRows())
	dst := t.made.values.room(min(room, leastApart))
	t.json.most, t.named.most = t.most, t.most
	switch {
	case as == FormatInput:
		return nil, &Stop{Err: fmt.Errorf("%s@%d is Protobuf, which is read and not written", m.Partition, m.Offset), Remedy: "set transform.format to json or arrow"}
	case as == FormatAvro && m.Format != format.Avro:
		return t.named.convert(ctx, dst, m, w)
	case as == FormatAvro:
		return t.named.record(ctx, dst, m, w)
	case as == formatJSONSchema:
		dst, body, err := t.named.prefix(ctx, dst, m, w.K)
		if err != nil {
			return nil, err
		}
		return t.json.extend(dst, body, m.Record, w, false)
	case m.Format == format.JSON:
		return t.json.extend(dst, m.Value, m.Record, w, true)
	case m.Format == format.JSONSchema:
		_, body, _ := format.SchemaID(m.Value)
		return t.json.extend(dst, body, m.Record, w, true)
	}
	return t.json.convert(dst, m.Record, w, m.Format == format.Arrow || m.Format == "")
}

// withoutModel applies transform.until_model; under Hold no message comes before the first model.
func (t *Transform) withoutModel(ctx context.Context, p *pending) (value []byte, rest [][]byte, bad *source.RecordError) {
	m := p.message
	if t.UntilModel == Drop && !p.null {
		t.counts.rejected(reasonNoModel, uint64(m.Record.NumRows()))
		return nil, nil, nil
	}
	f, err := minibatch.ResolveRecord(m.Record, t.Columns)
	if err != nil {
		return nil, nil, refused(m, err)
	}
	k := len(f.Names)
	if bad := t.tooMuch(m, f.Names); bad != nil {
		return nil, nil, bad
	}
	if value, rest, bad = t.encode(ctx, m, &Whitened{K: k, Features: f.Names}); bad == nil && !p.null {
		t.counts.passedWithoutModel(m)
	}
	return value, rest, bad
}

// refused gives an error of a message the code under which the message is set aside.
func refused(m *source.Message, err error) *source.RecordError {
	var feature *minibatch.FeatureError
	if errors.As(err, &feature) {
		return bad(m, feature.Code, err)
	}
	var output *OutputError
	if errors.As(err, &output) {
		return bad(m, output.Code, err)
	}
	if errors.Is(err, errNotAvro) {
		return bad(m, codeNotAvro, err)
	}
	if errors.Is(err, errTooLong) {
		return bad(m, codeOutputTooLarge, err)
	}
	return bad(m, codeRefused, err)
}

// bad is an error of a message with its place and code.
func bad(m *source.Message, code string, err error) *source.RecordError {
	return &source.RecordError{Partition: m.Partition, Offset: m.Offset, Code: code, Err: err}
}
