package learn

import (
	"errors"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// A learner of one model for all rows refuses a topic with checkpoints of models of values, and a learner by key one with the checkpoint
// of a model for all rows. Other models, and what was deleted, are no obstacle.
func TestLayoutsAreNotMixed(t *testing.T) {
	record := func(key, value string) source.Record {
		r := source.Record{Key: []byte(key)}
		if value != "" {
			r.Value = []byte(value)
		}
		return r
	}
	refused := func(err error, says string) {
		t.Helper()
		var stop *reject.Stop
		if !errors.As(err, &stop) || !strings.Contains(err.Error(), says) || stop.Remedy == "" {
			t.Errorf("%v, want %q and a remedy", err, says)
		}
	}
	one := func(r source.Record) error {
		all := &checkpoint.Checkpoints{ReadBack: checkpoint.ReadBack{Topic: "check"}, ModelID: "fleet"}
		f := &checkpoint.Found{Model: "fleet", Topic: "check"}
		f.Take(string(r.Key), r.Value, r.Headers)
		_, err := all.Newest(f)
		return err
	}
	refused(one(record("fleet/3/press%201/0/0", "state")), `holds model "fleet/3/press%201", which is that of one value`)
	for _, r := range []source.Record{record("fleet/3/press/0/0", ""), record("other/3/press/0/0", "state"), record("fleet/3/reset", "reset"), record("start/fleet/in/3", "{}")} {
		if err := one(r); err != nil {
			t.Errorf("%s: %v", r.Key, err)
		}
	}
	byKey := func(r source.Record) error {
		states := &KeyedStates{ReadBack: checkpoint.ReadBack{Topic: "check"}, Partition: 3, ModelID: "fleet", By: modelkey.By{Place: modelkey.Key}, index: map[string]keyedState{}}
		return states.take(&r)
	}
	refused(byKey(record("fleet/1/0", "state")), `holds model "fleet", which is one for all rows`)
	other := record("fleet/3/press/0/0", "state")
	other.Headers = []source.Header{reject.Text(reject.HeaderBy, "column:machine")}
	refused(byKey(other), `holds model "fleet/3/press" of model.by: column:machine, and model.by is key`)
	for _, r := range []source.Record{record("other/1/0", "state"), record("start/fleet/in/3", "{}")} {
		if err := byKey(r); err != nil {
			t.Errorf("%s: %v", r.Key, err)
		}
	}
}
