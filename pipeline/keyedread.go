package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// message gives the rows of a message to their models. The transform sets aside what cannot be used.
func (k *KeyedLearn) message(ctx context.Context, msg *source.Message) error {
	if msg.Err != nil {
		return k.reject(msg, msg.Err)
	}
	if msg.Record == nil || msg.Record.NumRows() == 0 {
		return nil
	}
	if k.By.Place == modelkey.Column {
		return k.byColumn(ctx, msg)
	}
	value, ok := k.By.OfMessage(msg)
	if !ok {
		return k.noKey(msg, 0)
	}
	m := k.models[string(value)] // without an allocation
	if m == nil {
		m = k.model(string(value))
	}
	if msg.Offset < m.learnt {
		k.release(m)
		return nil
	}
	if err := k.begins(ctx, m); err != nil {
		return err
	}
	plan, err := k.planFor(ctx, m, msg)
	if err == nil {
		err = k.readable(plan, msg)
	}
	if err != nil {
		return k.refuse(m, msg, err)
	}
	err = eachSlice(plan, &k.rows, msg.Record, func(first int) error {
		if err := k.invalid(&k.rows, msg, first); err != nil {
			return err
		}
		k.x, k.ordinals = k.x[:0], k.ordinals[:0]
		for i, reason := range k.rows.Invalid {
			if reason == minibatch.ReasonNone {
				k.x = append(k.x, k.rows.X[i*k.rows.Dim:(i+1)*k.rows.Dim]...)
				k.ordinals = append(k.ordinals, uint32(i))
			}
		}
		return k.take(ctx, m, msg, plan, k.x, k.ordinals, k.rows.N)
	})
	m.learnt = msg.Offset + 1
	return err
}

// readable finds out whether a plan reads all rows of a message.
func (k *KeyedLearn) readable(plan *minibatch.Features, msg *source.Message) error {
	if err := readable(plan, &k.rows, msg.Record); err != nil {
		return err
	}
	if k.Rejects != nil {
		k.inWindow(&k.rejects, false)
	}
	return nil
}

// planFor returns what reads the rows of a model. One that is not in memory has to be, where its features are not known. With
// source.features they follow from their number: that of a list's elements may be another one for each model.
func (k *KeyedLearn) planFor(ctx context.Context, m *keyedModel, msg *source.Message) (*minibatch.Features, error) {
	switch {
	case m.one != nil:
		return m.plan, nil
	case m.held.plan != nil:
		return m.held.plan, nil
	}
	if s, saved := k.States.index[m.value]; saved && !m.fresh {
		if s.plan != nil {
			return s.plan, nil
		}
		if plan := k.chosen[s.dim]; plan != nil {
			return plan, nil
		}
		if err := k.load(ctx, m, nil); err != nil {
			return nil, err
		}
		return m.plan, nil
	}
	if k.fixed != nil {
		return k.fixed, nil
	}
	f, leftOut, err := minibatch.ChooseWithout(msg.Record, k.Columns, k.By.ColumnName())
	if err != nil {
		return nil, err
	}
	plan := k.planOf(f.Names)
	if len(k.Columns) > 0 {
		k.chosen[plan.Dim()] = plan
	}
	if slices.Equal(f.Names, k.Columns) {
		k.fixed = plan
	}
	if !k.saidLeftOut {
		k.saidLeftOut = true
		warnLeftOut(k.Log, f, leftOut)
	}
	return plan, nil
}

// refuse passes over a message that a model cannot learn from, unless the fault is not the message's.
func (k *KeyedLearn) refuse(m *keyedModel, msg *source.Message, err error) error {
	k.release(m)
	var feature *minibatch.FeatureError
	if !errors.As(err, &feature) {
		return err
	}
	return k.reject(msg, refused(msg, err))
}

// reject skips a bad record, as Learn.reject does.
func (k *KeyedLearn) reject(msg *source.Message, bad *source.RecordError) error {
	var stop *Stop
	if errors.As(bad.Err, &stop) {
		return stop
	}
	return k.passOver(&k.rejects, msg, bad)
}

// noKey passes over a row without a value of model.by, and over all rows of its message if the value is the message's.
func (k *KeyedLearn) noKey(msg *source.Message, row int) error {
	if k.StopAtRow {
		return &Stop{Err: bad(msg, codeRowInvalid, rowError(row, errNoKey)), Remedy: "fix the producer, or set source.on_invalid to null or dead_letter"}
	}
	return nil
}
