// Package kafkaconn turns brokers, TLS and SASL settings into a connection that the reading side
// (package source) and the writing side (package sink) share.
//
// Begin with [Open], and give the [Cluster] to those packages. Its own methods are for what they do not do:
//
//	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: []string{"localhost:9092"}})
//	if err != nil { … }
//	defer c.Close()
//	c.Client().InitProducerID(ctx, …)      // any request kafka-go knows
//	c.Metadata(ctx, "events")              // fresh from a broker, not from the transport's cache
//	c.Send(ctx, kafkaconn.Request{…})      // a request kafka-go routes or decodes wrongly
//	c.Ask(ctx, kafkaconn.Question{…})      // a request, or a version of one, that kafka-go does not know
//	log.Error(…, c.Explain(err))           // "unexpected EOF" → what to check
//
// Open does not connect: the first request does. All waiting is bounded by the context of a call
// and by RequestTimeout.
package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// RequestTimeout bounds every request of Client: a broker that accepts a connection and never
	// answers must not hang the caller. (kafka-go tells brokers half of it as produce timeout;
	// with no timeout set it would tell them 500 ms, too short for acks=all under load.)
	RequestTimeout = 30 * time.Second

	dialTimeout = 10 * time.Second

	// metadataTTL bounds how long kafka-go routes requests by an old cluster layout, after a leader has moved or a
	// topic was created.
	metadataTTL = 3 * time.Second
)

// Config says how to reach the brokers.
type Config struct {
	Brokers  []string // host:port, at least one; the others of the cluster are found through them
	ClientID string   // what brokers log and apply quotas to
	TLS      TLS
	SASL     SASL

	// Log gets a line when requests begin to be retried and when they recover; nil is silent.
	Log *slog.Logger

	// Dial opens a connection; nil is TCP with keep-alive. Tests put faulty networks here.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Cluster is a connection pool. It is safe for concurrent use.
type Cluster struct {
	config     Config
	transport  *kafka.Transport
	trips      kafka.RoundTripper // transport, with what is around it
	persistent *persistent        // the outermost of that
	client     *kafka.Client
	address    net.Addr
	offers     offers
	allowed    atomic.Bool // see Allowed
}

// Allow notes that brokers have let this process read.
func (c *Cluster) Allow() {
	if !c.allowed.Load() { // written once, because all readers look at it
		c.allowed.Store(true)
	}
}

// RightsGrace is how long a process that could read may lack a right to a topic or a group: those who replace rights often take the old ones
// away first. One that never could ends at once, because a person waits at its start, and so does one that looks or sets things up (Persist).
const RightsGrace = 15 * time.Second

// MayReturn reports whether an error is of such a right, which has been missing since a time.
func (c *Cluster) MayReturn(err error, since time.Time) bool {
	return c.allowed.Load() && c.persistent.limit.Load() == 0 && time.Since(since) <= RightsGrace && (errors.Is(err, kafka.TopicAuthorizationFailed) || errors.Is(err, kafka.GroupAuthorizationFailed))
}

// Open checks the configuration, loads certificates and password, and prepares the connections.
func Open(c Config) (*Cluster, error) {
	if err := validate(c); err != nil {
		return nil, err
	}
	tls, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	mechanism, err := c.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	if c.Dial == nil {
		c.Dial = dial
		if tls == nil {
			c.Dial = dialBare
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	transport := &kafka.Transport{
		Dial:        c.Dial,
		DialTimeout: dialTimeout,
		MetadataTTL: metadataTTL,
		ClientID:    c.ClientID,
		TLS:         tls,
		SASL:        mechanism,
	}
	var trips kafka.RoundTripper = transport
	if b, ok := mechanism.(*bearer); ok {
		trips = &bearerTransport{transport, b}
	}
	outer := &persistent{RoundTripper: trips, log: c.Log}
	address := kafka.TCP(c.Brokers...)
	return &Cluster{
		config:     c,
		transport:  transport,
		trips:      outer,
		persistent: outer,
		client:     &kafka.Client{Addr: address, Transport: outer, Timeout: RequestTimeout},
		address:    address,
	}, nil
}

// dial opens a connection that discards unsent bytes when it is closed. The bytes of an abandoned request would
// otherwise still take their time on a slow link, and the next request would wait for them.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = tcp.SetLinger(0)
	}
	return conn, err
}

func dialBare(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dial(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		return bare{tcp}, err
	}
	return conn, err
}

// Brokers returns the addresses through which the cluster is found.
func (c *Cluster) Brokers() []string { return c.config.Brokers }

// Client sends the requests that kafka-go has a method for, each bounded by RequestTimeout.
func (c *Cluster) Client() *kafka.Client { return c.client }

// Patient is Client without RequestTimeout, for requests that a broker answers only after a time that the caller has
// chosen, such as JoinGroup. The caller's context bounds them.
func (c *Cluster) Patient() *kafka.Client {
	return &kafka.Client{Addr: c.address, Transport: c.trips}
}

// Addr returns the bootstrap address, which requests of Client name.
func (c *Cluster) Addr() net.Addr { return c.address }

// Log returns the configured logger, or a silent one.
func (c *Cluster) Log() *slog.Logger { return c.config.Log }

// ClientID returns the configured client id.
func (c *Cluster) ClientID() string { return c.config.ClientID }

// Close closes idle connections at once, and those in use as soon as their request is answered.
func (c *Cluster) Close() { c.transport.CloseIdleConnections() }

func validate(c Config) error {
	if len(c.Brokers) == 0 {
		return errors.New("kafkaconn: no brokers: set kafka.brokers to at least one host:port")
	}
	var faults []error
	for _, b := range c.Brokers {
		if _, port, err := net.SplitHostPort(b); err != nil || port == "" || strings.ContainsAny(b, " /,") {
			faults = append(faults, fmt.Errorf("kafkaconn: kafka.brokers: %q is not host:port", b))
		}
	}
	return errors.Join(faults...)
}
