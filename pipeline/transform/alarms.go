package transform

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Alarms says where events go that an operator should know of, as records of their own.
type Alarms struct {
	Topic     string // "" = nowhere
	Partition int32  // partition of Topic that records with the key ModelID go to
	ModelID   string // key of the records

	To func(id string) int32 // the partition for a key, as Kafka's own clients choose it; nil where there is one model for all rows
}

// AlarmBytes is the smallest max.message.bytes with which a topic takes every alarm: names are cut for it.
const AlarmBytes = 32 << 10

const (
	// nameBytes is how long a feature's name in an alarm is at most. In JSON it may be six times as long.
	nameBytes = 120

	// The types of alarms.
	AlarmDrift    = "drift"
	AlarmReturned = "regime_returned"
	AlarmModel    = "model_changed"
)

// Alarm is the value of an alarm's record.
type Alarm struct {
	Type    string       `json:"type"`
	Time    time.Time    `json:"time"`
	ModelID string       `json:"model_id"`
	Version uint64       `json:"version"`
	Source  reject.Place `json:"source"`
	Message string       `json:"message"`
}

// Message makes the record of an event.
func (a *Alarms) Message(event Alarm) sink.Message {
	event.Time = source.Calendar(event.Time)
	event.ModelID = a.ModelID
	return a.record(a.ModelID, a.Partition, event)
}

// Accepted makes the record that a command about an episode was followed.
func (a *Alarms) Accepted(fact *episode.Acceptance) sink.Message { return a.ofEpisode(fact.ID, fact) }

// ofEpisode makes a record about an episode: all about those of a series are in one partition.
func (a *Alarms) ofEpisode(id string, value any) sink.Message {
	key, partition := episode.Key(id), a.Partition
	if a.To != nil {
		partition = a.To(key)
	}
	return a.record(key, partition, value)
}

// record is a message of the topic.
func (a *Alarms) record(key string, partition int32, value any) sink.Message {
	return sink.Message{Topic: a.Topic, Partition: partition, Key: []byte(key), Value: asJSON(value), Headers: []source.Header{reject.Text(reject.ContentType, "application/json")}}
}

// asJSON is a value of which every number and time is one that JSON has.
func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("pipeline: alarm: " + err.Error())
	}
	return b
}

// shortName is the name of a feature, cut at nameBytes.
func shortName(name string) string {
	if len(name) <= nameBytes {
		return name
	}
	return strings.ToValidUTF8(name[:nameBytes], "") + "…"
}
