package pipeline

import (
	"time"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// ReplaceKeyed returns the checkpoint with which the learner of one value's model goes on from s, as Replace does for a model of all
// rows. c is that model's checkpoint, as t has loaded it; nil: it has none, and gets one, because a learner by key goes on from
// checkpoints alone, and its versions would go back. Rows below the offset of c are passed over as before.
func (l *Learn) ReplaceKeyed(t *KeyedStates, c *Checkpoint, s *snapshot.Snapshot, slots snapshot.Slots) ([]sink.Message, error) {
	_, partition, value, ok := modelkey.Split(s.ModelID)
	if !ok {
		panic("pipeline: internal error: the model belongs to no value")
	}
	writer := &Checkpoints{Topic: t.Topic, ModelID: s.ModelID, Owner: t.Owner, OneSlot: true}
	one := *l
	one.ModelID, one.Checkpoints, one.oneOfMany = s.ModelID, writer, true
	before := t.index[string(value)]
	if c == nil {
		c = &Checkpoint{ModelID: s.ModelID, Features: s.Features, Offsets: source.Offsets{{Topic: t.Owner.Topic, ID: partition}: before.learnt}}
	} else {
		writer.chunks[0] = before.chunks
	}
	next, err := one.replaced(c, s, slots)
	if err != nil {
		return nil, err
	}
	state := keyedState{learnt: before.learnt, version: s.Version, heard: before.heard}
	if before.retired || before.chunks == 0 { // it lives again from here on
		state.heard = time.Now().UnixMilli()
	}
	return t.messages(next, writer, &state, new(int64))
}
