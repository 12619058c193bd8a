package pipeline

import (
	"fmt"
	"strconv"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// In the place of the first chunk of its checkpoint, MODEL_ID/0/0, a retired model leaves a record of a few bytes with the headers
//
//	lca-retired          true
//	lca-model-version    its last version, after which those of its key go on
//	lca-learnt-offset    rows below this offset of the source were its, and are not learnt again
//	lca-last-row         as of a checkpoint
//	lca-model-id, lca-group
//
// There are at most mostRetired of them in a partition. Those that were written first are deleted then, and a record
//
//	BASE/PARTITION/retired    lca-model-version: the highest version of those that were deleted
//
// says at which version models begin that have no record. So versions of a key never go back.

// mostRetired bounds the records of retired models in a partition.
const mostRetired = 1 << 16

// mostStale bounds those in the order that are not retired any more.
const mostStale = 1 << 10

// retiredValue is the value of these records: without one they would delete.
const retiredValue = "retired"

// retiredModels are the retired models of an index.
type retiredModels struct {
	n     int            // number of those in the index
	order []retiredModel // those in the index, and some that are not any more, in the order of their records
	floor uint64         // version at which models begin that have no record
	most  int            // 0: mostRetired
}

type retiredModel struct {
	value   string
	version uint64
}

// set puts what is known of a model into the index.
func (t *KeyedStates) set(value string, s keyedState) {
	t.unset(value)
	t.index[value] = s
	if !s.retired {
		return
	}
	g := &t.gone
	g.n++
	g.order = append(g.order, retiredModel{value, s.version})
	if len(g.order) > 2*g.n+mostStale {
		t.tidy()
	}
}

// unset removes a model from the index.
func (t *KeyedStates) unset(value string) {
	if t.index[value].retired {
		t.gone.n--
	}
	delete(t.index, value)
}

// tidy leaves those in the order of retired models that are retired still.
func (t *KeyedStates) tidy() {
	order := t.gone.order[:0]
	for _, g := range t.gone.order {
		if t.still(g) {
			order = append(order, g)
		}
	}
	t.gone.order = order
}

func (t *KeyedStates) still(g retiredModel) bool {
	s := t.index[g.value]
	return s.retired && s.version == g.version
}

// surplus returns retired models beyond mostRetired, those first that were retired first, as far as they may be forgotten.
func (t *KeyedStates) surplus(may func(value string, s *keyedState) bool) (all []retiredModel) {
	most := t.gone.most
	if most == 0 {
		most = mostRetired
	}
	for _, g := range t.gone.order {
		if t.gone.n-len(all) <= most {
			break
		}
		s := t.index[g.value]
		if t.still(g) && may(g.value, &s) {
			all = append(all, g)
		}
	}
	return all
}

// dropped notes that the record of a retired model is no longer on the topic.
func (t *KeyedStates) dropped(value string, version uint64) {
	t.unset(value)
	t.gone.floor = max(t.gone.floor, version)
	if len(t.gone.order) > 0 && t.gone.order[0].value == value {
		t.gone.order = t.gone.order[1:]
	}
}

// retirement are the records that put a retired model in the place of a checkpoint of some chunks.
func (t *KeyedStates) retirement(id string, s *keyedState, chunks int, at *int64) []sink.Message {
	writer := Checkpoints{Topic: t.Topic, ModelID: id, chunks: [2]int{chunks}}
	msgs := writer.delete([]sink.Message{{
		Topic: t.Topic, Key: writer.key(0, 0), Value: []byte(retiredValue), Offset: at,
		Headers: []source.Header{
			text("lca-model-id", id), text(headerRetired, "true"), text(headerVersion, strconv.FormatUint(s.version, 10)),
			text(headerLearnt, strconv.FormatInt(s.learnt, 10)), text(headerLastRow, strconv.FormatInt(s.heard, 10)), text(headerGroup, t.Owner.Group),
		},
	}}, 0, 1)
	for i := range msgs {
		msgs[i].Partition = t.Partition
	}
	return msgs
}

// forgotten deletes the record of a retired model.
func (t *KeyedStates) forgotten(id string) []sink.Message {
	writer := Checkpoints{Topic: t.Topic, ModelID: id}
	return []sink.Message{{Topic: t.Topic, Partition: t.Partition, Key: writer.key(0, 0)}}
}

// Last returns the version after which those of a value go on that has no model: that of the model that was retired; 0 if there was none.
func (t *KeyedStates) Last(value string) uint64 {
	s, known := t.index[value]
	switch {
	case !known:
		return t.gone.floor
	case s.retired:
		return max(s.version, t.gone.floor)
	}
	return 0
}

func (t *KeyedStates) floorKey() string { return fmt.Sprintf("%s/%d/retired", t.ModelID, t.Partition) }

// floorMessage says at which version models begin that have no record.
func (t *KeyedStates) floorMessage(version uint64) sink.Message {
	return sink.Message{
		Topic: t.Topic, Partition: t.Partition, Key: []byte(t.floorKey()), Value: []byte(retiredValue),
		Headers: []source.Header{text(headerVersion, strconv.FormatUint(version, 10)), text(headerGroup, t.Owner.Group)},
	}
}

// takeFloor adds a record to the index if it is one that says where models begin.
func (t *KeyedStates) takeFloor(r *source.Record) bool {
	if string(r.Key) != t.floorKey() {
		return false
	}
	if version, err := strconv.ParseUint(source.LastHeader(r.Headers, headerVersion), 10, 64); err == nil {
		t.gone.floor = max(t.gone.floor, version)
	}
	return true
}
