package source

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// noTopicID is where the id of a topic is not known, or brokers have none (before Kafka 2.8).
var noTopicID [16]byte

// RecreatedError says that a topic was deleted and created again under its name. Nothing of the new one was
// read: fetches ask for the id of the old one, which brokers do not know any more.
type RecreatedError struct {
	Topic   string
	Was, Is string // ids, see Note
}

// Error says what happened and what can be done about it.
func (e *RecreatedError) Error() string {
	return fmt.Sprintf("topic %s was deleted and created again: what is read is the topic with id %s, and the id is now %s; nothing of the new topic was read: "+
		"`lca-stream offsets show` says what is known of the old one, and `lca-stream offsets reset --to earliest` begins with the new one", e.Topic, e.Was, e.Is)
}

// Unwrap is what a broker says of the old id: at first it may only be that it has old metadata.
func (e *RecreatedError) Unwrap() error { return kafka.UnknownTopicID }

// same compares the id that metadata have for the topic with that of the fetches, once one is known. A
// fetcher that was given no id takes it from there, until it has read something.
func (f *Fetcher) same(id [16]byte) error {
	switch {
	case id == noTopicID || id == f.topic:
		return nil
	case f.topic == noTopicID || !f.bound:
		f.topic = id
		return nil
	}
	return &RecreatedError{Topic: f.config.Partition.Topic, Was: topicID(f.topic), Is: topicID(id)}
}

// replaced reports whether metadata have had another id for the topic for longer than a broker that lags behind
// explains.
func (r *retry) replaced(err error) bool {
	if !errors.As(err, new(*RecreatedError)) {
		r.other = time.Time{}
		return false
	}
	if r.other.IsZero() {
		r.other = time.Now()
	}
	return time.Since(r.other) > min(lookupGrace, r.limit)
}

// parseTopicID reads what topicID has spelled; anything else is noTopicID.
func parseTopicID(text string) (id [16]byte) {
	if b, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(b) == len(id) {
		id = [16]byte(b)
	}
	return id
}
