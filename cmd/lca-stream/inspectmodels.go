package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
)

// value finds the models of a message's rows, if there is one for each value.
func (i *inspection) value(m *source.Message, v *verdict) {
	if !i.by.Keyed() || v.Error != "" {
		return
	}
	v.Models = map[string]int64{}
	take := func(value []byte, ok bool, rows int64) {
		if !ok {
			v.Homeless += rows
			return
		}
		v.Models[modelkey.ID(i.base, v.Partition, value)] += rows
	}
	if i.by.Place != modelkey.Column {
		value, ok := i.by.OfMessage(m)
		take(value, ok, v.Rows)
		return
	}
	values, err := i.by.Column(m.Record)
	if err != nil {
		v.Code, v.Error, v.Models = "model_column", logs.Plain(err.Error()), nil
		if c := (*modelkey.ColumnError)(nil); errors.As(err, &c) {
			v.Code = c.Code
		}
		return
	}
	defer values.Release()
	for row := range values.Len() {
		value, ok := values.At(row)
		take([]byte(value), ok, 1)
	}
}

// modelFeatures returns the features by which a message is read, nil: they are to be chosen. Without source.features each model has those of its
// own first message, and so have the first models here; a message of several is read by those of the first by id.
func (i *inspection) modelFeatures(v *verdict) *minibatch.Features {
	if id := i.chooses(v); id != "" {
		if f := i.ofModel[id]; f != nil || len(i.ofModel) < mostKeys {
			return f
		}
	}
	return i.features
}

// chose notes the features that were chosen by a message.
func (i *inspection) chose(v *verdict, f *minibatch.Features) {
	if i.features == nil {
		i.features = f
	}
	if id := i.chooses(v); id != "" {
		if i.ofModel == nil {
			i.ofModel = map[string]*minibatch.Features{}
		}
		i.ofModel[id] = f
	}
}

// chooses returns the model whose features a message is read by; "": there is one choice for all.
func (i *inspection) chooses(v *verdict) string {
	if len(i.columns) > 0 || len(v.Models) == 0 {
		return ""
	}
	return slices.Min(slices.Collect(maps.Keys(v.Models)))
}

// models says which models the rows have; "" where there is one for all rows.
func (v *verdict) models() string {
	ids := slices.Sorted(maps.Keys(v.Models))
	says := ""
	switch {
	case len(ids) == 1:
		says = "; model " + ids[0]
	case len(ids) > 1:
		says = fmt.Sprintf("; %d models, such as %s", len(ids), ids[0])
	}
	if v.Homeless > 0 {
		says += fmt.Sprintf("; %s without a value, and so without a model (no_key)", plural.Count(v.Homeless, "row"))
	}
	return says
}
