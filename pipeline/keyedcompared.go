package pipeline

import (
	"context"
	"fmt"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// A model that has a checkpoint may have an older one than its newest version, although the newest model of the partition has not: a
// checkpoint topic was made again from an older copy, and a replay has put some of the models back. To find that out takes a reading of all snapshots of the partition, so
// a learner does it once for a checkpoint topic, before it publishes the first version of a model that it has not begun itself. It then writes the record
//
//	BASE/PARTITION/compared    lca-topic-id: of the checkpoint topic, lca-group
//
// A copy on another topic has the id of the former one, and a replay deletes the record: both are compared again. Where brokers tell no ids
// (before Kafka 2.8) each start compares. So does one that finds no snapshot of ours, and so nothing by which it could tell that the checkpoints are
// the newest.

const (
	comparedValue = "compared"
	headerTopicID = "lca-topic-id"
)

func (t *KeyedStates) comparedKey() string {
	return fmt.Sprintf("%s/%d/%s", t.ModelID, t.Partition, comparedValue)
}

// takeCompared notes a record that says for which topic the models were compared.
func (t *KeyedStates) takeCompared(r *source.Record) bool {
	if string(r.Key) != t.comparedKey() {
		return false
	}
	if t.compared = ""; r.Value != nil && source.LastHeader(r.Headers, headerGroup) == t.Owner.Group {
		t.compared = source.LastHeader(r.Headers, headerTopicID)
	}
	return true
}

// comparedMessage says that the models on the topic of an id were compared.
func (t *KeyedStates) comparedMessage(id string) sink.Message {
	return sink.Message{
		Topic: t.Topic, Partition: t.Partition, Key: []byte(t.comparedKey()), Value: []byte(comparedValue),
		Headers: []source.Header{text(headerTopicID, id), text(headerGroup, t.Owner.Group)},
	}
}

// CompareAgain returns the record after which the models of the partition are compared with their snapshots again.
func (t *KeyedStates) CompareAgain() sink.Message {
	return sink.Message{Topic: t.Topic, Partition: t.Partition, Key: []byte(t.comparedKey())}
}

// topicID returns the id of the topic, as it was when it was asked for first; "" if brokers tell none.
func (t *KeyedStates) topicID(ctx context.Context) (string, error) {
	if t.TopicID == nil || t.id != "" {
		return t.id, nil
	}
	id, err := t.TopicID(ctx)
	t.id = id
	return id, err
}

// mayPublish refuses to publish, or to delete, versions of a model that has an older checkpoint than its newest version, or of one that
// another pipeline publishes too.
func (k *KeyedLearn) mayPublish(ctx context.Context, m *keyedModel) error {
	if k.Owns != nil {
		if err := k.Owns(ctx); err != nil {
			return err
		}
	}
	if k.lost == nil {
		id, err := k.States.topicID(ctx)
		if err != nil || id != "" && id == k.States.compared && k.trusted {
			return err
		}
		if err := k.compare(ctx); err != nil {
			return err
		}
	}
	if len(k.lost) == 0 {
		return nil
	}
	if id := modelkey.ID(k.ModelID, k.Partition.ID, []byte(m.value)); k.lost[id] > 0 {
		return k.lostModel(id)
	}
	return nil
}

// noteCompared adds the record that says that the models were compared and none is lost, if it is not there.
func (k *KeyedLearn) noteCompared() {
	if t := k.States; k.lost != nil && len(k.lost) == 0 && t.id != t.compared && !k.noting {
		k.pending, k.noting = append(k.pending, t.comparedMessage(t.id)), true
	}
}
