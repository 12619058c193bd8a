package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// UntilModel says what happens to records before there is a model.
type UntilModel uint8

// The policies of transform.until_model.
const (
	Hold        UntilModel = iota // nothing is read, see Follow.Hold
	PassThrough                   // written with lca null and version 0
	Drop                          // consumed and not written, counted
)

// OnInvalid says what happens to a row with a null, NaN or Inf feature.
type OnInvalid uint8

// The policies of source.on_invalid.
const (
	NullRow   OnInvalid = iota // the row is kept, its lca is null
	RejectRow                  // its message goes to the dead-letter topic
	StopAtRow                  // the process stops
)

// TransformConfig is what all partitions of one process share.
type TransformConfig struct {
	Group       string   // under which input offsets are committed: outputs say so, for two groups may write to one topic
	Topic       string   // output topic
	Columns     []string // source.features; decides only before there is a model, which names its own
	Output      OutputConfig
	Coordinates lca.Coordinates
	Components  lca.Components
	UntilModel  UntilModel
	OnInvalid   OnInvalid
	MaxModelAge time.Duration // 0 = no limit
	StopOnStale bool
	DeadLetter  DeadLetter
	DeadLog     *DeadLog // nil: not logged
	Follow      *Follow
	Stats       *Stats
	Log         *slog.Logger
	Now         func() time.Time
}

// Transform is the stage that whitens one partition. It is stateless: what it does to a record
// depends on the record and the current model alone.
type Transform struct {
	TransformConfig
	Committed func(context.Context) (source.Offsets, error) // offsets to go back to

	model    *PublishedModel // what scorer and features were made for
	scorer   *lca.Scorer
	slice    int             // rows between two looks at ctx
	ctx      context.Context // of Do
	features minibatch.Features
	output   *Output
	straight straight
	group    group
	labels   labels
	rejects  rejects
	counts   provisional
	bounds   timeBounds
	stale    bool
	outputs  []sink.Message    // of the batch at hand, the messages of its Work
	inputs   []*source.Message // the input of each
}

// Do whitens a batch with one model: the newest when the batch began. It ends with the context. Its Work lives until the next Do.
func (t *Transform) Do(ctx context.Context, b source.Batch) (Work, error) {
	if len(b.Messages) == 0 { // the clock of a quiet partition, or a claim that moves on past records without rows
		return Work{Commit: true}, nil
	}
	start := time.Now()
	t.ctx = ctx
	if err := t.adopt(t.Follow.Current()); err != nil {
		return Work{}, err
	}
	if err := t.checkAge(); err != nil {
		return Work{}, err
	}
	work := Work{Commit: true, Messages: slices.Grow(t.outputs[:0], len(b.Messages))}
	t.inputs = slices.Grow(t.inputs[:0], len(b.Messages))
	t.labels.begin(len(b.Messages))
	t.group.begin(len(b.Messages))
	t.straight.reset()
	for i := range b.Messages {
		if err := t.message(&work, &b.Messages[i]); err != nil {
			return Work{}, err
		}
	}
	if err := t.flushStraight(&work); err != nil {
		return Work{}, err
	}
	if err := t.flush(&work); err != nil {
		return Work{}, err
	}
	t.outputs = work.Messages
	t.Stats.Transform.observe(time.Since(start))
	return work, nil
}

// Kept counts what was put; there is nothing else to keep.
func (t *Transform) Kept() {
	failpoint.Here("transform.kept")
	t.rejects.keep()
	t.counts.keep(t.Stats, t.DeadLog)
	t.forget()
}

// forget lets go of the batch, which is put or comes again: what it was decoded to may be large.
func (t *Transform) forget() {
	clear(t.outputs)
	clear(t.inputs)
	t.group.forget()
	t.straight.forget()
	if t.output != nil {
		t.output.forget()
	}
}

// Rewind reads the committed offsets again: that is all the state there is, except for the counts, which
// come again with their messages.
func (t *Transform) Rewind(ctx context.Context) (source.Offsets, error) {
	t.rejects.rewind()
	t.counts.drop()
	t.forget()
	return t.Committed(ctx)
}

// adopt prepares for a model that has come into force since the last batch.
func (t *Transform) adopt(m *PublishedModel) error {
	if t.output == nil {
		t.output = NewOutput(t.Output)
	}
	if m == nil || m == t.model {
		return nil
	}
	view, err := m.Model.View(t.Coordinates, t.Components)
	if err != nil {
		return &Stop{Err: fmt.Errorf("snapshot %d: %w", m.Version, err)}
	}
	t.model, t.scorer = m, view.NewScorer()
	t.slice = sliceRows(m.Model.Dim, len(m.Model.Neighbours))
	t.features = minibatch.Features{Names: m.Features}
	return nil
}

// message takes one input message: its output, if it has one, comes after those before it.
func (t *Transform) message(work *Work, m *source.Message) error {
	if m.Tombstone() {
		return t.tombstone(work, m)
	}
	if m.Err == nil && t.model != nil && m.Record.NumRows() > 0 {
		if x := t.features.Float32(m.Record); x != nil {
			return t.straighten(work, m, x)
		}
	}
	if err := t.flushStraight(work); err != nil {
		return err
	}
	return t.roundabout(work, m)
}

// tombstone passes a null value on in its place: what it deletes in the input it deletes in the output.
func (t *Transform) tombstone(work *Work, m *source.Message) error {
	if err := t.flushStraight(work); err != nil {
		return err
	}
	if err := t.flush(work); err != nil {
		return err
	}
	t.rejects.add(t.window(), false)
	t.counts.passed(reasonTombstone, 1)
	work.Messages = append(work.Messages, t.pass(m))
	t.inputs = append(t.inputs, m)
	return nil
}

// roundabout takes a message whose rows must be gathered and looked at, or that has none.
func (t *Transform) roundabout(work *Work, m *source.Message) error {
	bad := m.Err
	if bad == nil && t.model != nil && m.Record.NumRows() > 0 {
		taken, err := t.gather(work, m)
		if taken == nil || err != nil {
			return err
		}
		bad = taken
	}
	if err := t.flush(work); err != nil {
		return err
	}
	var value []byte
	var rest [][]byte
	switch {
	case bad != nil:
	case m.Record.NumRows() == 0:
		t.counts.passed(reasonNoRows, 1)
	case t.model == nil:
		value, rest, bad = t.withoutModel(m)
	}
	return t.finish(work, m, value, rest, bad)
}

// finish adds the output of a message, which begins with value, unless that is nil, or its dead letter if it is bad.
func (t *Transform) finish(work *Work, m *source.Message, value []byte, rest [][]byte, bad *source.RecordError) error {
	if bad == nil {
		t.rejects.add(t.window(), false)
		if value != nil {
			work.Messages = append(work.Messages, t.wrap(m, value, rest))
			t.inputs = append(t.inputs, m)
		}
		return nil
	}
	var stop *Stop
	if errors.As(bad.Err, &stop) {
		return stop
	}
	dead, err := t.setAside(m, bad)
	if err != nil {
		return err
	}
	work.Messages = append(work.Messages, dead)
	t.inputs = append(t.inputs, m)
	return nil
}

func (t *Transform) window() int { return t.DeadLetter.window() }

func stopAtRow(m *source.Message, row int, reason minibatch.Reason) *Stop {
	return &Stop{
		Err:  fmt.Errorf("%s@%d: row %d has a feature that is %v", m.Partition, m.Offset, row, reason),
		Hint: "mend the producer, or set source.on_invalid to null or dead_letter",
	}
}

// invalid applies source.on_invalid and counts.
func (t *Transform) invalid(m *source.Message, rows *minibatch.Rows) *source.RecordError {
	count := uint64(0)
	for i, reason := range rows.Invalid {
		if reason == minibatch.ReasonNone {
			continue
		}
		t.counts.rejected(reason.String(), 1)
		count++
		switch t.OnInvalid {
		case RejectRow:
			return bad(m, codeRowInvalid, fmt.Errorf("row %d has a feature that is %v", i, reason))
		case StopAtRow:
			return bad(m, codeRowInvalid, stopAtRow(m, i, reason))
		}
	}
	t.counts.rows += uint64(rows.N) - count
	return nil
}

// withoutModel applies transform.until_model; under Hold no message comes before the first model.
func (t *Transform) withoutModel(m *source.Message) (value []byte, rest [][]byte, bad *source.RecordError) {
	if t.UntilModel == Drop {
		t.counts.rejected(reasonNoModel, uint64(m.Record.NumRows()))
		return nil, nil, nil
	}
	f, err := minibatch.ResolveRecord(m.Record, t.Columns)
	if err != nil {
		return nil, nil, refused(m, err)
	}
	n, k := int(m.Record.NumRows()), len(f.Names)
	if bad := tooMuch(m, k); bad != nil {
		return nil, nil, bad
	}
	none := make([]minibatch.Reason, n)
	for i := range none {
		none[i] = minibatch.ReasonNull
	}
	value, rest, err = t.output.Encode(nil, m.Record, make([]float32, n*k), k, make([]float32, n), none)
	if err != nil {
		return nil, nil, refused(m, err)
	}
	return value, rest, nil
}

// checkAge applies transform.max_model_age.
func (t *Transform) checkAge() error {
	if t.MaxModelAge == 0 || t.model == nil {
		return nil
	}
	age := t.model.Age(t.Now())
	old := age > t.MaxModelAge
	if old && t.StopOnStale {
		return &Stop{
			Err:  fmt.Errorf("snapshot %d is %v old, more than transform.max_model_age = %v", t.model.Version, age.Round(time.Second), t.MaxModelAge),
			Hint: "see whether the learner runs, or set transform.on_stale to warn",
		}
	}
	if old && !t.stale {
		t.Log.Warn("the current model is older than transform.max_model_age", "version", t.model.Version, "age", age.Round(time.Second))
	}
	t.stale = old
	return nil
}

func refused(m *source.Message, err error) *source.RecordError {
	var feature *minibatch.FeatureError
	if errors.As(err, &feature) {
		return bad(m, feature.Code, err)
	}
	var output *OutputError
	if errors.As(err, &output) {
		return bad(m, output.Code, err)
	}
	return bad(m, codeRefused, err)
}

func bad(m *source.Message, code string, err error) *source.RecordError {
	return &source.RecordError{Partition: m.Partition, Offset: m.Offset, Code: code, Err: err}
}
