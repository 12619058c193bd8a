package pipeline

import (
	"fmt"
	"strconv"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// An operator who has a partition read from another offset moves all its models at once, however many there are. On the checkpoint
// topic this is one record,
//
//	BASE/PARTITION/reset    lca-learnt-offset: where reading goes on, lca-group
//
// which counts for the checkpoints before it: rows from that offset on are in none of them. Only the newest stays when the topic is
// compacted. That suffices, because nothing below the offset of the newest reset is read again.

// resetValue is the value of these records: without one they would delete.
const resetValue = "reset"

func (t *KeyedStates) resetKey() string {
	return fmt.Sprintf("%s/%d/%s", t.ModelID, t.Partition, resetValue)
}

// Move returns the record after which all models of the partition learn rows from an offset on, whatever they have learnt.
func (t *KeyedStates) Move(to int64) sink.Message {
	return sink.Message{
		Topic: t.Topic, Partition: t.Partition, Key: []byte(t.resetKey()), Value: []byte(resetValue),
		Headers: []source.Header{text(headerLearnt, strconv.FormatInt(to, 10)), text(headerGroup, t.Owner.Group)},
	}
}

// takeReset moves the models in the index if a record says so.
func (t *KeyedStates) takeReset(r *source.Record) bool {
	if string(r.Key) != t.resetKey() {
		return false
	}
	to, err := strconv.ParseInt(source.LastHeader(r.Headers, headerLearnt), 10, 64)
	if err != nil || source.LastHeader(r.Headers, headerGroup) != t.Owner.Group {
		return true
	}
	for value, s := range t.index {
		if s.learnt > to {
			s.learnt = to
			t.index[value] = s
		}
	}
	return true
}
