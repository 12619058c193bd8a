package pipeline

import (
	"context"
	"fmt"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// engine is what whitening needs besides the messages. A product costs less per row over many rows than over few, so
// neighbouring messages are whitened together; a row's numbers do not depend on its company.
type engine struct {
	model    *PublishedModel // the model that scorer and features were made for; nil: none yet
	scorer   *lca.Scorer
	slice    int // rows that are whitened between two checks of the context
	features minibatch.Features
	output   *Output
	json     *jsonOutput
	named    *registeredOutput
	queue    queue

	workspace lca.Workspace // of the scorers of KeyedTransform
}

// adopt prepares for a model that has come since the last batch; nil: there is none yet.
func (e *engine) adopt(c *TransformConfig, m *PublishedModel) error {
	if e.output == nil {
		if err := c.checkChoices(); err != nil {
			return &Stop{Err: err}
		}
		e.output, e.json = NewOutput(c.Output), newJSONOutput(c.Output)
		e.named = newRegisteredOutput(&c.Output, c.Registry, c.Topic, &c.Engines.registered)
	}
	if m == nil || m == e.model {
		return nil
	}
	view, err := m.Model.View(c.Coordinates, c.Components)
	if err != nil {
		return &Stop{Err: fmt.Errorf("snapshot %d: %w", m.Version, err)}
	}
	e.model, e.scorer = m, view.NewScorer()
	e.slice = sliceRows(m.Model.Dim, len(m.Model.Neighbours))
	e.features = minibatch.Features{Names: m.Features}
	return nil
}

// forget lets go of the messages, which may be large.
func (e *engine) forget() {
	e.queue.forget()
	if e.output != nil {
		e.output.forget()
	}
}

// queue is neighbouring messages whose rows are whitened together: either all of them lie where they are, or all
// are gathered.
type queue struct {
	pending []pending
	rows    int                // number of rows of all messages
	invalid []minibatch.Reason // for each row, why it cannot be whitened, if so
	missing []int16            // for each row, how many features are to be filled; empty unless OnInvalid is ImputeRow

	zeroCopy []float32       // the rows, if they were not gathered
	gathered []float64       // the rows, if they were gathered
	sliced   *source.Message // the only one with rows, which are gathered slice by slice when they are whitened

	near []float32 // memory for the rows of small messages, which zeroCopy then is
	wide []float64 // memory for a slice of zeroCopy as float64

	rare   []rare         // rows that are told of in addition to the output, in order
	shown  []rare         // those of them that may be among the strangest, the strangest first
	gains  []lca.Gain     // why the rare rows have their scores
	picked []float64      // memory for rare rows
	alarms []sink.Message // alarms of the message that is being written
	read   minibatch.Rows // the rows of the message that is being gathered
}

// pending is a message that waits for its output.
type pending struct {
	message     *source.Message
	first, last int                 // its rows are rows first … last−1 of the queue; equal where there is nothing to whiten
	bad         *source.RecordError // why the message is set aside; nil: it is not
	null        bool                // its rows are null, whatever transform.until_model says
}

// add puts a message at the end of the queue. The messages before it go first where its rows cannot join theirs.
func (t *Transform) add(ctx context.Context, m *source.Message) error {
	bad := m.Err
	if bad == nil && t.model != nil && m.Record != nil && m.Record.NumRows() > 0 {
		if bad = t.tooMuch(m, t.features.Names); bad == nil {
			if x := t.features.Float32(m.Record); x != nil {
				return t.addZeroCopy(ctx, m, x)
			}
			return t.addGathered(ctx, m)
		}
	}
	t.queue.append(m).bad = bad
	return nil
}

// append adds a message that has no rows yet.
func (q *queue) append(m *source.Message) *pending {
	q.pending = append(q.pending, pending{message: m})
	return &q.pending[len(q.pending)-1]
}

// joined says that the next rows of the queue are those of p.
func (q *queue) joined(p *pending, rows int) {
	p.first = q.rows
	q.rows += rows
	p.last = q.rows
}

// flush whitens the queue and writes its outputs.
func (t *Transform) flush(ctx context.Context) error {
	q := &t.queue
	w, err := t.whiten(ctx)
	if err != nil {
		return err
	}
	for i := range q.pending {
		if err := t.write(ctx, &q.pending[i], &w); err != nil {
			return err
		}
	}
	q.reset()
	return nil
}

// reset empties the queue.
func (q *queue) reset() {
	q.pending = q.pending[:0]
	q.empty()
}

// empty drops the rows, but keeps the messages.
func (q *queue) empty() {
	q.rows, q.invalid, q.missing = 0, q.invalid[:0], q.missing[:0]
	q.zeroCopy, q.gathered, q.sliced = nil, q.gathered[:0], nil
	q.rare, q.shown = q.rare[:0], q.shown[:0]
}

// forget lets go of messages, which are put or come again, and of memory that few batches need.
func (q *queue) forget() {
	q.reset()
	clear(q.pending[:cap(q.pending)])
	clear(q.alarms[:cap(q.alarms)])
	if cap(q.invalid) > sliceNumbers {
		q.invalid, q.missing = nil, nil
	}
	if cap(q.rare) > mostRare {
		q.rare, q.gains, q.picked, q.alarms = nil, nil, nil, nil
	}
}
