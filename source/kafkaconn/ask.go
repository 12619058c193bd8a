package kafkaconn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
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
	return c.Send(ctx, Request{Message: x, Group: q.Group, Broker: q.Broker, exchange: x.exchange})
}

// answer wraps a kmsg.Response as a protocol.Message.
type answer struct{ kmsg.Response }

func (a answer) ApiKey() protocol.ApiKey { return protocol.ApiKey(a.Key()) }

// asked is a Question that is being exchanged.
type asked struct {
	ctx      context.Context // bounds the patience by its deadline
	cluster  *Cluster
	question Question
}

func (x *asked) ApiKey() protocol.ApiKey { return protocol.ApiKey(x.question.Request.Key()) }

func (x *asked) exchange(rw io.ReadWriter) (protocol.Message, error) {
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
