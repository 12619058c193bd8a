package source

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// noTopicID stands for an id that is not known, or that brokers do not have (before Kafka 2.8).
var noTopicID [16]byte

// RecreatedError reports that a topic was deleted and created again under its name. Nothing of the new one was read,
// because fetches name the id of the old one, which brokers no longer know.
type RecreatedError struct {
	Topic   string
	Was, Is string // ids, see Note
	Remedy  string // see FetcherConfig
}

// remedyRecreated is what to do where positions are those of the old topic.
const remedyRecreated = "`lca-stream offsets show` says what is known of the old one, and `lca-stream offsets reset --to earliest` begins with the new one"

// Error says what happened and what can be done about it.
func (e *RecreatedError) Error() string {
	text := fmt.Sprintf("topic %s was deleted and created again: what is read is the topic with id %s, and the id is now %s; nothing of the new topic was read", e.Topic, e.Was, e.Is)
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}

// Unwrap returns the error code that a broker gives for the old id. At first the cause may only be old metadata.
func (e *RecreatedError) Unwrap() error { return kafka.UnknownTopicID }

// same compares the topic's id in the metadata with that of the fetches. A fetcher without an id takes it from the
// metadata until it has read something.
func (f *Fetcher) same(id [16]byte) error {
	switch {
	case id == noTopicID || id == f.topic:
		return nil
	case f.topic == noTopicID || !f.bound:
		f.topic = id
		return nil
	}
	return &RecreatedError{Topic: f.config.Partition.Topic, Was: topicID(f.topic), Is: topicID(id), Remedy: f.config.Remedy}
}

// replaced reports whether metadata have shown another id for the topic for too long for a broker that only lags behind.
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

// parseTopicID is the inverse of topicID; other texts give noTopicID.
func parseTopicID(text string) (id [16]byte) {
	if b, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(b) == len(id) {
		id = [16]byte(b)
	}
	return id
}
