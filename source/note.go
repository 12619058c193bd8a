package source

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Note is what we commit with an offset: the id of its topic, because a name may be given to another topic later. As
// text it is JSON, {"v":1,"topic_id":"TUB3yqJWQDW3a-zhzGQ5ZA"}, with the id in Kafka's own spelling (kafka-topics.sh
// --describe), left out if the brokers have no ids. A learner adds "model", the model it learns, because a transform
// must not go on from there. One of models by key adds "models" instead: the topic of their checkpoints, "/" and what their ids
// begin with. A transform adds "since", and what it has written: see Outputs. Earlier releases pass over that.
type Note struct {
	Version int    `json:"v"`
	TopicID string `json:"topic_id,omitempty"`
	Model   string `json:"model,omitempty"`
	Models  string `json:"models,omitempty"`
	Since   Since  `json:"since,omitempty"`

	*Outputs // of a transform; nil: an earlier release has committed it
}

// Outputs say what a transform had written when it committed an offset, so that a later reader of the topics can tell whether the transaction that carried
// the offset was committed. Brokers before Kafka 3.9.1 may show the offset of one that was aborted (KAFKA-17507).
type Outputs struct {
	// All input before From was done before this transaction. What is made of later input is after Ends, by topic.
	From int64          `json:"from"`
	Ends map[string]End `json:"ends,omitempty"`
}

// End is where the partition of a topic ended before a transaction.
type End struct {
	TopicID   string `json:"topic_id,omitempty"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Written is the offset of the input after the last one that this transaction has written something of there; 0: it has written nothing there.
	Written int64 `json:"written,omitempty"`
}

// Since says, for each topic that a transform writes what it makes of a partition to, from which offset of the topic's
// partition on that was made after the position was last set by hand, or at the first start: what is before it says
// nothing about where the transform is.
type Since map[string]int64

const noteVersion = 1

// NewNote returns the note for an offset in a topic; model is "" except for a learner of one model.
func NewNote(topicID, model string) Note {
	return Note{Version: noteVersion, TopicID: topicID, Model: model}
}

// String returns the text that is committed.
func (n Note) String() string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // numbers and texts can always be encoded
	}
	return string(text)
}

// ParseNote parses a committed text. A text that is not ours, or the empty one of the first release, gives Version 0.
// A newer version than this program knows is an error, because it may forbid to go on.
func ParseNote(text string) (Note, error) {
	var n Note
	if err := json.Unmarshal([]byte(text), &n); err != nil || n.Version < 1 {
		return Note{}, nil
	}
	if n.Version > noteVersion {
		return Note{}, fmt.Errorf("source: the committed offset has metadata of version %d and this program reads %d: a newer lca-stream has committed it", n.Version, noteVersion)
	}
	return n, nil
}

// topicID spells an id as Kafka does; "" is that of a broker without ids.
func topicID(id [16]byte) string {
	if id == noTopicID {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}
