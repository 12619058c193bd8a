package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// byColumn gives the rows of a message to the models that a column names. A model's rows keep their order.
func (k *KeyedLearn) byColumn(ctx context.Context, msg *source.Message) error {
	values, err := k.By.Column(msg.Record)
	if err != nil {
		var column *modelkey.ColumnError
		if errors.As(err, &column) {
			return k.reject(msg, bad(msg, column.Code, err))
		}
		return err
	}
	defer values.Release()
	touched, err := k.plansOf(ctx, msg, &values)
	if err != nil {
		return err
	}
	for len(touched) > 0 { // mostly all models have the same features
		plan := touched[0].plan
		if err := k.rowsOf(ctx, msg, &values, plan, touched); err != nil {
			return err
		}
		rest := touched[:0:0]
		for _, t := range touched {
			if t.plan != plan {
				rest = append(rest, t)
			} else {
				t.learnt = msg.Offset + 1
			}
		}
		touched = rest
	}
	return nil
}

// rowModel is a model of a message's rows.
type rowModel struct {
	*keyedModel
	plan *minibatch.Features
	x    []float64
	at   []uint32 // ordinals of x
	all  int
}

// plansOf returns the models of a message's rows in the order in which they come, without those that know the message. It
// returns none where one of them cannot read the message: then none learns from it.
func (k *KeyedLearn) plansOf(ctx context.Context, msg *source.Message, values *modelkey.Values) ([]*rowModel, error) {
	var touched []*rowModel
	for row := range values.Len() {
		value, ok := values.At(row)
		if !ok {
			if err := k.noKey(msg, row); err != nil {
				return nil, err
			}
			continue
		}
		if _, seen := k.byValue[value]; seen {
			continue
		}
		m := k.models[value]
		if m == nil {
			m = k.model(strings.Clone(value)) // the message's memory is used again, and the model stays
		}
		t := &rowModel{keyedModel: m}
		if k.byValue[value] = t; msg.Offset < m.learnt {
			t.keyedModel = nil
			k.release(m)
			continue
		}
		if err := k.begins(ctx, m); err != nil {
			clear(k.byValue)
			return nil, err
		}
		touched = append(touched, t)
	}
	defer clear(k.byValue)
	for i, t := range touched {
		var err error
		if t.plan, err = k.planFor(ctx, t.keyedModel, msg); err == nil && (i == 0 || t.plan != touched[i-1].plan) {
			err = k.readable(t.plan, msg)
		}
		if err != nil {
			for _, other := range touched[i+1:] {
				k.release(other.keyedModel)
			}
			return nil, k.refuse(t.keyedModel, msg, err)
		}
	}
	return touched, nil
}

// rowsOf gives the rows of the models with one plan to them.
func (k *KeyedLearn) rowsOf(ctx context.Context, msg *source.Message, values *modelkey.Values, plan *minibatch.Features, touched []*rowModel) error {
	for _, t := range touched {
		if t.plan == plan {
			k.byValue[t.value] = t
		}
	}
	defer clear(k.byValue)
	if err := readable(plan, &k.rows, msg.Record); err != nil { // another plan's rows may be there
		return err
	}
	return eachSlice(plan, &k.rows, msg.Record, func(first int) error {
		if err := k.invalid(&k.rows, msg, first); err != nil {
			return err
		}
		for i, reason := range k.rows.Invalid {
			value, ok := values.At(first + i)
			t := k.byValue[value]
			if !ok || t == nil {
				continue
			}
			if reason == minibatch.ReasonNone {
				t.x = append(t.x, k.rows.X[i*k.rows.Dim:(i+1)*k.rows.Dim]...)
				t.at = append(t.at, uint32(t.all))
			}
			t.all++
		}
		for _, t := range touched {
			if t.plan != plan || t.all == 0 {
				continue
			}
			if err := k.take(ctx, t.keyedModel, msg, plan, t.x, t.at, t.all); err != nil {
				return err
			}
			t.x, t.at, t.all = t.x[:0], t.at[:0], 0
		}
		return nil
	})
}

func rowError(row int, err error) error { return fmt.Errorf("row %d: %w", row, err) }

// groups puts messages of one model next to each other, so that a model comes into memory once for all of them. Those of
// a model stay in their order, and the models are in the order of their first messages.
type groups struct {
	rank  map[string]int
	of    []int // rank of each message
	start []int // of each rank
	all   []int
}

// order returns the places of the messages in that order.
func (g *groups) order(by modelkey.By, msgs []source.Message) []int {
	if g.rank == nil {
		g.rank = map[string]int{}
	}
	clear(g.rank)
	g.of, g.start, g.all = g.of[:0], append(g.start[:0], 0), g.all[:0]
	ranks := 0
	for i := range msgs {
		value, ok := by.OfMessage(&msgs[i])
		r, seen := g.rank[string(value)]
		if !ok || !seen {
			r = ranks
			ranks++
			g.start = append(g.start, 0)
			if ok {
				g.rank[string(value)] = r
			}
		}
		g.of = append(g.of, r)
		g.start[r+1]++
		g.all = append(g.all, 0)
	}
	for r := range ranks {
		g.start[r+1] += g.start[r]
	}
	for i, r := range g.of {
		g.all[g.start[r]] = i
		g.start[r]++
	}
	return g.all
}
