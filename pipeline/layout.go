package pipeline

import (
	"fmt"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
)

// One model for all rows and a model for each value do not share topics: each would take no notice of what the other has learnt.

// ofValue reports whether an id is that of a value's model, with a base id.
func ofValue(id, base string) bool {
	of, _, _, ok := modelkey.Split(id)
	return ok && of == base
}

// ValuesThere refuses a topic for the model of all rows that holds models of values.
func ValuesThere(topic, id, base string) error {
	return &Stop{
		Err:    fmt.Errorf("topic %s holds model %q, which is that of one value of model.by, and model %q is one for all rows", topic, id, base),
		Remedy: "set model.by as it was, or another snapshot.topic and checkpoint.topic, or another snapshot.model_id, for the model of all rows",
	}
}

// OtherBy refuses a topic whose models are of values that were found elsewhere in the messages: equal values need not be of the same machine. former
// is "" where that is not known.
func OtherBy(topic, id, former string, by modelkey.By) error {
	if former == "" || former == by.String() {
		return nil
	}
	return &Stop{
		Err:    fmt.Errorf("topic %s holds model %q of model.by: %s, and model.by is %s", topic, id, former, by),
		Remedy: "set model.by as it was, or another snapshot.model_id, for models of their own",
	}
}

// allRowsThere refuses a topic for models of values that holds the model of all rows.
func allRowsThere(topic, id string) error {
	return &Stop{
		Err:    fmt.Errorf("topic %s holds model %q, which is one for all rows, and model.by is set", topic, id),
		Remedy: "set another checkpoint.topic and snapshot.topic for the models by key, and make them with `lca-stream topics init`, or set model.by: none",
	}
}
