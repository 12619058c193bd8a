package kafkaconn

import (
	"context"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Request is a request that bypasses kafka-go's handling of its type. Three requests need that: Fetch responses are
// decoded by our own code, kafka-go does not route Heartbeat to the coordinator (heartbeat.Request lacks a Group
// method), and for Produce it would copy every byte of a batch once more.
type Request struct {
	Message protocol.Message // as kafka-go encodes it; with Write, only its type counts

	// Where it goes: to the coordinator of Group if that is set, else to Broker if that is not
	// nil, else to any broker.
	Group  string
	Broker func(protocol.Cluster) (protocol.Broker, error)

	// Write writes the whole request, its size and header included. Nil encodes as kafka-go does.
	Write func(w io.Writer, version int16, correlation int32) error

	// Read reads the response: version is the one negotiated, r starts with the response's size.
	// Nil decodes as kafka-go does. An error closes the connection.
	Read func(r io.Reader, version int16) (protocol.Message, error)

	Patience Patience

	exchange func(io.ReadWriter) (protocol.Message, error) // replaces Write and Read: see Ask
}

// Send sends the request and returns the response. The context should have a deadline: without
// one a silent broker keeps a connection and a goroutine forever.
func (c *Cluster) Send(ctx context.Context, r Request) (protocol.Message, error) {
	e := &exchange{ctx: ctx, request: r, clientID: c.config.ClientID}
	var m protocol.Message = e
	switch {
	case r.Group != "":
		m = &groupExchange{e}
	case r.Broker != nil:
		m = &brokerExchange{e}
	}
	return c.trips.RoundTrip(ctx, c.address, m)
}

// exchange is a protocol.RawExchanger: kafka-go passes it the connection and the version that the broker and kafka-go
// have in common, instead of encoding and decoding the request.
type exchange struct {
	ctx      context.Context // bounds the patience by its deadline
	request  Request
	clientID string
	version  int16
}

func (e *exchange) ApiKey() protocol.ApiKey { return e.request.Message.ApiKey() }

func (e *exchange) Required(versions map[protocol.ApiKey]int16) bool {
	e.version = versions[e.ApiKey()]
	return true
}

// correlation is the id of every request sent here. A constant suffices, because kafka-go gives a connection one
// request at a time and closes it after an error.
const correlation = 1

func (e *exchange) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if e.request.exchange != nil {
		return e.request.exchange(rw)
	}
	rw = e.request.Patience.of(e.ctx, rw)
	if e.request.Write != nil {
		if err := e.request.Write(rw, e.version, correlation); err != nil {
			return nil, err
		}
		return e.request.Read(rw, e.version)
	}
	if e.request.Read == nil {
		return protocol.RoundTrip(rw, e.version, correlation, e.clientID, e.request.Message)
	}
	if err := protocol.WriteRequest(rw, e.version, correlation, e.clientID, e.request.Message); err != nil {
		return nil, err
	}
	return e.request.Read(rw, e.version)
}

type groupExchange struct{ *exchange }

func (g *groupExchange) Group() string { return g.request.Group }

type brokerExchange struct{ *exchange }

func (b *brokerExchange) Broker(c protocol.Cluster) (protocol.Broker, error) {
	return b.request.Broker(c)
}

// Leader returns the broker that leads a partition by the transport's layout, which may be a few seconds old.
func Leader(c protocol.Cluster, topic string, partition int32) (protocol.Broker, error) {
	t, ok := c.Topics[topic]
	if !ok {
		return protocol.Broker{}, protocol.NewErrNoTopic(topic)
	}
	p, ok := t.Partitions[partition]
	if !ok {
		return protocol.Broker{}, protocol.NewErrNoPartition(topic, partition)
	}
	b, ok := c.Brokers[p.Leader]
	if !ok {
		return protocol.Broker{}, protocol.NewErrNoLeader(topic, partition)
	}
	return b, nil
}

// Topic is what a broker reports about a topic now.
type Topic struct {
	Name       string
	ID         [16]byte // all zero if the broker has none (before Kafka 2.8, Redpanda)
	Err        error    // kafka.UnknownTopicOrPartition, authorization, …
	Partitions map[int32]Partition
}

// Partition is what a broker reports about one partition now.
type Partition struct {
	Leader   int32 // node id; -1 if there is none
	Epoch    int32 // leader epoch; -1 if the broker does not tell (before Kafka 2.1)
	Replicas int   // number of replicas
	InSync   int   // replicas that keep up with the leader
}

// Metadata asks a broker for topics, past the transport's cache, so that a topic that was just created or a leader
// that was just elected is known. Without names it asks for all topics. The error is that of the request; each topic
// has its own.
func (c *Cluster) Metadata(ctx context.Context, topics ...string) (map[string]Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	request.AllowAutoTopicCreation = false
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, t)
	}
	m, err := c.Ask(ctx, Question{Request: request, Least: 4, Most: 12})
	if err != nil {
		return nil, fmt.Errorf("kafkaconn: metadata: %w", err)
	}
	found := make(map[string]Topic)
	for _, t := range m.(*kmsg.MetadataResponse).Topics {
		if t.Topic == nil {
			continue
		}
		found[*t.Topic] = newTopic(&t)
	}
	for _, name := range topics {
		if _, ok := found[name]; !ok {
			found[name] = Topic{Name: name, Err: kafka.UnknownTopicOrPartition}
		}
	}
	return found, nil
}

// Ping returns nil once any broker has answered, whatever rights the user has.
func (c *Cluster) Ping(ctx context.Context) error {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none, not all
	_, err := c.Ask(ctx, Question{Request: request, Least: 1, Most: 12})
	return err
}

func newTopic(t *kmsg.MetadataResponseTopic) Topic {
	topic := Topic{Name: *t.Topic, ID: t.TopicID, Partitions: make(map[int32]Partition, len(t.Partitions))}
	if t.ErrorCode != 0 {
		topic.Err = kafka.Error(t.ErrorCode)
	}
	for _, p := range t.Partitions {
		topic.Partitions[p.Partition] = Partition{Leader: p.Leader, Epoch: p.LeaderEpoch, Replicas: len(p.Replicas), InSync: len(p.ISR)}
	}
	return topic
}
