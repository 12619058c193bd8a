package sink

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// defaultLimit is max.message.bytes of a topic without a setting of its own.
const defaultLimit = 1048588

// MostMessage is the largest message, as a batch of its own and not compressed, that clients read with their default settings, in bytes: those that are made
// with librdkafka take 100 MB of an answer, and of what a batch decompresses to (receive.message.max.bytes), others take more.
const MostMessage = 95 << 20

// limits remembers how large a record batch each topic takes. A broker refuses a batch that is larger as a whole,
// even if each of its records alone would fit.
type limits struct {
	cluster *kafkaconn.Cluster
	mu      sync.Mutex
	known   map[string]int
	told    map[string]told // by the broker; known may be a guess
}

// told is what the broker last said of a topic; 0: nothing.
type told struct {
	limit int
	at    time.Time
}

const (
	// textPerByte is how many bytes of text a topic may take for one of its max.message.bytes, where batches are compressed: rows of text as
	// people have them compress to a tenth at best.
	textPerByte = 16

	// askAgain is how often at most a topic's limit is asked for again because there is a text of more.
	askAgain = time.Second
)

// MostText returns at most how many bytes of text are worth making of one message for a topic; 0: not known. again: there is more, and the
// limit may have been raised.
func (k *Kafka) MostText(ctx context.Context, topic string, again bool) int {
	k.limits.mu.Lock()
	last, asked := k.limits.told[topic]
	k.limits.mu.Unlock()
	if !asked || again && time.Since(last.at) > askAgain {
		one, cancel := context.WithTimeout(ctx, k.request)
		defer cancel()
		last.limit = k.limits.ask(one, topic)
	}
	if !k.config.Compress {
		return last.limit
	}
	return last.limit * textPerByte
}

// batch returns the largest batch to send to a topic.
func (l *limits) batch(topic string, most int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if limit, ok := l.known[topic]; ok && limit > 0 {
		return min(limit, most)
	}
	return min(defaultLimit, most)
}

// lower notes that a topic refused a batch of twice the size.
func (l *limits) lower(topic string, to int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[topic] = to
}

// ask reads a topic's limit from the broker and remembers it. It returns 0 if the broker does not tell, because a
// right or the topic is missing; then the limit is found by refusals.
func (l *limits) ask(ctx context.Context, topic string) int {
	limit, err := l.describe(ctx, topic)
	if err != nil {
		limit = 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[topic], l.told[topic] = limit, told{limit, time.Now()}
	return limit
}

func (l *limits) describe(ctx context.Context, topic string) (int, error) {
	const name = "max.message.bytes"
	values, err := l.settings(ctx, topic, name)
	if err != nil {
		return 0, err
	}
	value, ok := values[name]
	if !ok {
		return 0, errors.New("no such setting")
	}
	return strconv.Atoi(value)
}

// settings reads some of a topic's settings, by name.
func (l *limits) settings(ctx context.Context, topic string, names ...string) (map[string]string, error) {
	res, err := l.cluster.Client().DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: names}}})
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(names))
	for _, r := range res.Resources {
		if r.Error != nil {
			return nil, r.Error
		}
		for _, e := range r.ConfigEntries {
			values[e.ConfigName] = e.ConfigValue
		}
	}
	return values, nil
}

// has returns the remembered limit, and whether the topic was ever asked for.
func (l *limits) has(topic string) (limit int, asked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit, asked = l.known[topic]
	return limit, asked
}

// checkSizes finds messages that their topics will not take, or readers, before a transaction is opened for them.
func (k *Kafka) checkSizes(ctx context.Context, all []*share) error {
	for _, s := range all {
		limit, asked := k.limits.has(s.topic)
		if !asked {
			one, cancel := context.WithTimeout(ctx, k.request)
			limit = k.limits.ask(one, s.topic)
			cancel()
		}
		for i := range s.records {
			if recordbatch.Size(nil)+s.sizes[i] <= least(limit) {
				continue
			}
			var err error
			if limit, err = k.checkSize(ctx, s, i, limit); err != nil {
				return err
			}
		}
	}
	return nil
}

// least is the least of what a topic takes and what readers take; a limit of 0 is not known.
func least(limit int) int {
	if limit <= 0 {
		return MostMessage
	}
	return min(limit, MostMessage)
}

// checkSize is checkSizes of record i of a share, which seems to be too large; limit is what its topic takes. It reads that again where it is
// exceeded, because it may have been raised.
func (k *Kafka) checkSize(ctx context.Context, s *share, i, limit int) (now int, err error) {
	one := s.records[i : i+1]
	if size := recordbatch.Size(one); size > MostMessage {
		return limit, &TooLargeError{Index: s.index[i], Topic: s.topic, Partition: s.id, Size: size, Limit: MostMessage, ForReaders: true}
	}
	if limit <= 0 || k.packer.size(one, limit) <= limit {
		return limit, nil
	}
	if limit = k.limits.ask(ctx, s.topic); limit > 0 && k.packer.size(one, limit) > limit {
		return limit, k.tooLarge(ctx, s, i)
	}
	return limit, nil
}

// tooLarge returns the error for record i of a share, with the limit as it is now and not as it was remembered.
func (k *Kafka) tooLarge(ctx context.Context, s *share, i int) error {
	limit := k.limits.ask(ctx, s.topic)
	size := k.packer.size(s.records[i:i+1], max(limit, 0))
	return &TooLargeError{Index: s.index[i], Topic: s.topic, Partition: s.id, Size: size, Limit: limit}
}
