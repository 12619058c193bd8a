package kafkaconn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"weak"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Question is a request that kafka-go cannot encode: of a newer version or of another type. It is sent over
// kafka-go's connections in the encoding of package kmsg.
type Question struct {
	// Request is encoded in the newest version that both it and the broker know. It belongs to Ask: use a new one for
	// another try, because a connection may still be writing the first.
	Request kmsg.Request

	// Least is the oldest version that has what the caller needs. Most, unless 0, is the newest that the caller
	// understands. A broker that knows none of them gives kafka.UnsupportedVersion.
	Least, Most int16

	// Where it goes: to the coordinator of Group if that is set, else to Broker if that is not nil,
	// else to any broker.
	Group  string
	Broker func(protocol.Cluster) (protocol.Broker, error)

	// Choose, unless nil, sees the versions and features that the broker offers before the request is encoded. It may
	// change the request or return another Most.
	Choose func(Offer) int16

	// Write, unless nil, writes the whole request including size and header, in place of kmsg's encoder, which would
	// copy the bytes of a large one. Request then only determines the type of the answer.
	Write func(w io.Writer, version int16, correlation int32) error

	// Read, unless nil, reads the whole answer including size and header, in place of kmsg's decoder, which would
	// copy the bytes of a large one. Exchange returns its result. An error closes the connection.
	Read func(r io.Reader, version int16) (protocol.Message, error)

	Patience Patience
}

// errNoBroker is what speaks Kafka's protocol and knows no topics.
var errNoBroker = errors.New("no broker listens there")

// maxAnswer bounds the bytes of one answer: the metadata of a large cluster take a few MiB.
const maxAnswer = 64 << 20

// Ask sends a question and returns the answer. The context should have a deadline.
func (c *Cluster) Ask(ctx context.Context, q Question) (kmsg.Response, error) {
	q.Read = nil
	m, err := c.Exchange(ctx, q)
	if err != nil {
		return nil, err
	}
	return m.(answer).Response, nil
}

// Exchange is Ask for a question that has its own Read.
func (c *Cluster) Exchange(ctx context.Context, q Question) (protocol.Message, error) {
	x := &asked{ctx: ctx, cluster: c, question: q}
	var m protocol.Message = x
	switch {
	case q.Group != "":
		m = &askedOfGroup{x}
	case q.Broker != nil:
		m = &askedOfBroker{x}
	}
	return c.trips.RoundTrip(ctx, c.address, m)
}

// answer wraps a kmsg.Response as a protocol.Message.
type answer struct{ kmsg.Response }

func (a answer) ApiKey() protocol.ApiKey { return protocol.ApiKey(a.Key()) }

// asked is a Question that is being exchanged: a protocol.RawExchanger, to which kafka-go passes the connection instead of encoding and decoding the
// request.
type asked struct {
	ctx      context.Context // bounds the patience by its deadline
	cluster  *Cluster
	question Question
}

func (x *asked) ApiKey() protocol.ApiKey { return protocol.ApiKey(x.question.Request.Key()) }

// Required says that any version which the broker knows will do: RawExchange finds its own.
func (x *asked) Required(map[protocol.ApiKey]int16) bool { return true }

// correlation is the id of every request sent here. A constant suffices, because kafka-go gives a connection one
// request at a time and closes it after an error.
const correlation = 1

// RawExchange writes the question to a connection and reads its answer.
func (x *asked) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	q := &x.question
	offer, err := x.cluster.offers.of(rw, Patience{Quiet: q.Patience.Quiet}.of(x.ctx, rw), x.cluster.ClientID())
	if err != nil {
		return nil, err
	}
	rw = q.Patience.of(x.ctx, rw)
	most := q.Most
	if q.Choose != nil {
		most = q.Choose(offer)
	}
	if most == 0 || most > q.Request.MaxVersion() {
		most = q.Request.MaxVersion()
	}
	newest := offer.Newest(q.Request.Key())
	if key := protocol.ApiKey(q.Request.Key()); newest < 0 && key == protocol.Metadata {
		return nil, fmt.Errorf("%w: %w", errNoBroker, kafka.UnsupportedVersion)
	}
	version := min(most, newest)
	if version < q.Least {
		return nil, fmt.Errorf("%s v%d is needed and the broker speaks v%d: %w", kmsg.NameForKey(q.Request.Key()), q.Least, version, kafka.UnsupportedVersion)
	}
	q.Request.SetVersion(version)
	write := q.Write
	if write == nil {
		write = func(w io.Writer, _ int16, _ int32) error { return writeKmsg(w, x.cluster.ClientID(), q.Request) }
	}
	if err := write(rw, version, correlation); err != nil {
		return nil, err
	}
	if q.Read != nil {
		return q.Read(rw, version)
	}
	return readAnswer(rw, q.Request)
}

// exchangeKmsg writes one request to a connection and reads its answer.
func exchangeKmsg(rw io.ReadWriter, clientID string, request kmsg.Request) (protocol.Message, error) {
	if err := writeKmsg(rw, clientID, request); err != nil {
		return nil, err
	}
	return readAnswer(rw, request)
}

func writeKmsg(w io.Writer, clientID string, request kmsg.Request) error {
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))
	_, err := w.Write(f.AppendRequest(nil, request, correlation))
	return err
}

func readAnswer(r io.Reader, request kmsg.Request) (protocol.Message, error) {
	response := request.ResponseKind()
	response.SetVersion(request.GetVersion())
	if err := readKmsg(r, response); err != nil {
		return nil, err
	}
	return answer{response}, nil
}

func readKmsg(r io.Reader, response kmsg.Response) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 4 || size > maxAnswer {
		return fmt.Errorf("kafkaconn: an answer of %d bytes to %s", size, kmsg.NameForKey(response.Key()))
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	body = body[4:] // skip the correlation id: a connection has one request at a time
	const apiVersions = 18
	if response.IsFlexible() && response.Key() != apiVersions { // ApiVersions has the old header in all versions
		rest, err := skipTags(body)
		if err != nil {
			return err
		}
		body = rest
	}
	if response.Key() == apiVersions && len(body) >= 2 && kafka.Error(binary.BigEndian.Uint16(body)) == kafka.UnsupportedVersion {
		response.SetVersion(0) // a broker that does not know the version answers in version 0 (KIP-511)
	}
	if err := response.ReadFrom(body); err != nil {
		return fmt.Errorf("kafkaconn: the answer to %s does not parse: %w", kmsg.NameForKey(response.Key()), err)
	}
	return nil
}

// skipTags skips the tagged fields of a header.
func skipTags(b []byte) ([]byte, error) {
	short := fmt.Errorf("kafkaconn: the header of an answer does not parse: %w", io.ErrUnexpectedEOF)
	take := func() (uint64, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	tags, ok := take()
	for ; ok && tags > 0; tags-- {
		var size uint64
		if _, ok = take(); !ok {
			break
		}
		if size, ok = take(); ok {
			if ok = size <= uint64(len(b)); ok {
				b = b[size:]
			}
		}
	}
	if !ok {
		return nil, short
	}
	return b, nil
}

// Offer is the versions and features that one broker supports.
type Offer struct {
	newest   map[int16]int16
	features map[string]int16
	read     time.Time
}

// offerAge is how long an offer is used. Its versions hold for as long as the connection lives, but a feature may be
// finalized in between.
const offerAge = time.Minute

// Newest returns the newest version of a request that the broker knows, or -1 if it does not know the request.
func (o Offer) Newest(key int16) int16 {
	if v, ok := o.newest[key]; ok {
		return v
	}
	return -1
}

// Feature returns the level of a feature that the cluster has finalized, such as transaction.version. It is 0 if the
// cluster has not finalized it or does not know it (KIP-584).
func (o Offer) Feature(name string) int16 { return o.features[name] }

// Finalized asks any broker for the level of a feature: see Offer.Feature.
func (c *Cluster) Finalized(ctx context.Context, feature string) (level int16, err error) {
	offer, err := c.offer(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("kafkaconn: finalized features: %w", err)
	}
	return offer.Feature(feature), nil
}

// offer asks a broker what it speaks; nil: any.
func (c *Cluster) offer(ctx context.Context, broker func(protocol.Cluster) (protocol.Broker, error)) (offer Offer, err error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none, not all
	_, err = c.Ask(ctx, Question{Request: request, Least: 1, Most: 12, Broker: broker, Choose: func(o Offer) int16 {
		offer = o
		return 12
	}})
	return offer, err
}

// offers remembers the offer of each connection. kafka-go asks for versions too, but keeps only those that it knows
// itself, and no features. A connection ends when its broker is replaced, so that an offer never belongs to an older
// broker.
type offers struct {
	mu    sync.Mutex
	known map[weak.Pointer[protocol.Conn]]Offer
}

// of returns the offer of the broker at the other end of a connection. patient is the same connection with deadlines,
// for asking.
func (o *offers) of(rw, patient io.ReadWriter, clientID string) (Offer, error) {
	conn, ok := rw.(*protocol.Conn)
	if !ok {
		return askOffer(patient, clientID)
	}
	key := weak.Make(conn)
	o.mu.Lock()
	known, ok := o.known[key]
	o.mu.Unlock()
	if ok && time.Since(known.read) < offerAge {
		return known, nil
	}
	offer, err := askOffer(patient, clientID)
	if err != nil {
		return Offer{}, err
	}
	offer.read = time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = make(map[weak.Pointer[protocol.Conn]]Offer)
	}
	o.known[key] = offer
	if !ok {
		runtime.AddCleanup(conn, o.forget, key)
	}
	return offer, nil
}

func (o *offers) forget(key weak.Pointer[protocol.Conn]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, key)
}

// askOffer asks with version 3, the first with features (Kafka 2.4). An older broker answers in version 0 that it
// does not know this version; then it is asked in the way of kafka-go.
func askOffer(rw io.ReadWriter, clientID string) (Offer, error) {
	r := kmsg.NewPtrApiVersionsRequest()
	r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = 3, "lca-stream", "2"
	m, err := exchangeKmsg(rw, clientID, r)
	if err != nil {
		return Offer{}, err
	}
	response := m.(answer).Response.(*kmsg.ApiVersionsResponse)
	if kafka.Error(response.ErrorCode) == kafka.UnsupportedVersion {
		return askOldOffer(rw, clientID)
	}
	if response.ErrorCode != 0 {
		return Offer{}, kafka.Error(response.ErrorCode)
	}
	o := Offer{newest: make(map[int16]int16, len(response.ApiKeys)), features: make(map[string]int16)}
	for _, k := range response.ApiKeys {
		o.newest[k.ApiKey] = k.MaxVersion
	}
	for _, f := range response.FinalizedFeatures {
		o.features[f.Name] = f.MaxVersionLevel
	}
	return o, nil
}

func askOldOffer(rw io.ReadWriter, clientID string) (Offer, error) {
	m, err := protocol.RoundTrip(rw, 0, correlation, clientID, &apiversions.Request{})
	if err != nil {
		return Offer{}, err
	}
	o := Offer{newest: make(map[int16]int16)}
	for _, k := range m.(*apiversions.Response).ApiKeys {
		o.newest[k.ApiKey] = k.MaxVersion
	}
	return o, nil
}

type askedOfGroup struct{ *asked }

func (g *askedOfGroup) Group() string { return g.question.Group }

type askedOfBroker struct{ *asked }

func (b *askedOfBroker) Broker(c protocol.Cluster) (protocol.Broker, error) {
	return b.question.Broker(c)
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
	ID         [16]byte // all zero if the broker has none (before Kafka 2.8, Redpanda)
	Err        error    // kafka.UnknownTopicOrPartition, authorization, …
	Partitions map[int32]Partition
}

// Partition is what a broker reports about one partition now.
type Partition struct {
	Leader   int32 // node id; -1 if there is none
	Epoch    int32 // leader epoch; -1 if the broker does not tell (before Kafka 2.1)
	Replicas int   // number of replicas
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
			found[name] = Topic{Err: kafka.UnknownTopicOrPartition}
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
	topic := Topic{ID: t.TopicID, Partitions: make(map[int32]Partition, len(t.Partitions))}
	if t.ErrorCode != 0 {
		topic.Err = kafka.Error(t.ErrorCode)
	}
	for _, p := range t.Partitions {
		topic.Partitions[p.Partition] = Partition{Leader: p.Leader, Epoch: p.LeaderEpoch, Replicas: len(p.Replicas)}
	}
	return topic
}

// persistent repeats requests whose connection a broker has closed: because it is busy or restarts, or the token of the login has ended.
type persistent struct {
	kafka.RoundTripper
	limit atomic.Int64 // nanoseconds; 0: nothing is repeated
	log   *slog.Logger
}

const (
	firstPause = 50 * time.Millisecond
	longPause  = time.Second
)

// repeatable are the requests that do the same if a broker has taken the first and only its answer was lost.
var repeatable = []protocol.ApiKey{
	protocol.Fetch, protocol.ListOffsets, protocol.Metadata, protocol.OffsetFetch, protocol.FindCoordinator, protocol.DescribeGroups, protocol.ListGroups,
	protocol.ApiVersions, protocol.OffsetForLeaderEpoch, protocol.DescribeAcls, protocol.DescribeConfigs, describeCluster, describeProducers, describeTransactions, listTransactions, describeNewGroups,
	protocol.CreateTopics,     // the second says that the topic exists, which is as good
	protocol.CreatePartitions, // … that there are as many
	protocol.OffsetCommit,     // of no member
	protocol.InitProducerId,   // another epoch, or the same
}

// Requests that kafka-go has no name for.
const (
	describeCluster      protocol.ApiKey = 60
	describeProducers    protocol.ApiKey = 61
	describeTransactions protocol.ApiKey = 65
	listTransactions     protocol.ApiKey = 66
	describeNewGroups    protocol.ApiKey = 69
)

// Persist lets requests outlive connections that brokers close, for so long, from now on. It is for programs that look or set things up and
// end, once a broker has answered: one that is asked with the wrong protocol closes connections too. Processes that stay retry what they
// do as a whole.
func (c *Cluster) Persist(limit time.Duration) { c.persistent.limit.Store(int64(limit)) }

// RoundTrip is that of kafka.RoundTripper.
func (p *persistent) RoundTrip(ctx context.Context, address net.Addr, r kafka.Request) (kafka.Response, error) {
	limit, began := time.Duration(p.limit.Load()), time.Now()
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		response, err := p.RoundTripper.RoundTrip(ctx, address, r)
		since := time.Since(began)
		switch {
		case limit == 0 || err == nil || ctx.Err() != nil || !closed(err) || !slices.Contains(repeatable, r.ApiKey()):
			return response, err
		case since > limit:
			return response, fmt.Errorf("gave up after %s: %w", since.Round(time.Second), err)
		}
		p.log.Warn("a broker closed the connection, or a token had ended; asking again", "what", r.ApiKey().String(), "error", err, "gives_up_after", limit)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return response, err
		}
	}
}

// closed reports whether a connection has ended before the answer, or could not be made because its broker is down for a moment, or has refused a token
// that ended just then.
func closed(err error) bool {
	if token := (*refusal)(nil); errors.As(err, &token) && token.passes {
		return true
	}
	for _, one := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED, syscall.ECONNREFUSED,
		kafka.BrokerNotAvailable, // kafka-go: its layout has lost the broker
	} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
