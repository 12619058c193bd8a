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
//	c.Ask(ctx, kafkaconn.Question{…})      // a request that kafka-go does not know, or routes or decodes wrongly
//	log.Error(…, c.Explain(err))           // "unexpected EOF" → what to check
//
// Open does not connect: the first request does. All waiting is bounded by the context of a call
// and by RequestTimeout.
package kafkaconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/lca-stream/lca-stream/internal/credentials"
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

// RightsGrace is how long a process that could read may lack a right to a topic, a group or a transactional id: those who replace rights often take the old ones
// away first. One that never could ends at once, because a person waits at its start, and so does one that looks or sets things up (Persist).
const RightsGrace = 15 * time.Second

// MayReturn reports whether an error is of such a right, which has been missing since a time.
func (c *Cluster) MayReturn(err error, since time.Time) bool {
	return c.allowed.Load() && c.persistent.limit.Load() == 0 && time.Since(since) <= RightsGrace &&
		(errors.Is(err, kafka.TopicAuthorizationFailed) || errors.Is(err, kafka.GroupAuthorizationFailed) || errors.Is(err, kafka.TransactionalIDAuthorizationFailed))
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

// TLS configures encryption to the brokers, and the client's certificate if they require one.
type TLS struct {
	Enabled           bool
	CAFile            string // PEM certificates to trust; "" trusts the system's
	CertFile, KeyFile string // PEM client certificate and key, both or neither; read again at each connection, so they may be renewed
	ServerName        string // expected name in the broker's certificate; "" is the dialled host
}

// config returns nil if TLS is off.
func (t TLS) config() (*tls.Config, error) {
	if !t.Enabled {
		if t.CAFile != "" || t.CertFile != "" || t.KeyFile != "" {
			return nil, errors.New("kafkaconn: kafka.tls has files but kafka.tls.enabled is false")
		}
		return nil, nil
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: t.ServerName,
	}
	var err error
	if c.RootCAs, err = credentials.Authorities(t.CAFile, "kafka.tls.ca_file"); err != nil {
		return nil, fmt.Errorf("kafkaconn: %w", err)
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("kafkaconn: kafka.tls.cert_file and kafka.tls.key_file go together: set both or neither")
	}
	if t.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			return nil, fmt.Errorf("kafkaconn: kafka.tls.cert_file and key_file: %w", err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			return &pair, err
		}
	}
	return c, nil
}

// BrokerOffer is a broker, and what it speaks.
type BrokerOffer struct {
	protocol.Broker
	Offer Offer
}

// Offers asks each broker of the cluster what it speaks, and returns them by their ids.
func (c *Cluster) Offers(ctx context.Context) (all []BrokerOffer, err error) {
	var brokers []protocol.Broker
	for i := 0; i == 0 || i < len(brokers); i++ {
		var at protocol.Broker
		offer, err := c.offer(ctx, func(cluster protocol.Cluster) (protocol.Broker, error) {
			if brokers == nil {
				for _, b := range cluster.Brokers {
					brokers = append(brokers, b)
				}
				slices.SortFunc(brokers, func(a, b protocol.Broker) int { return cmp.Compare(a.ID, b.ID) })
			}
			if len(brokers) == 0 {
				return protocol.Broker{}, errNoBroker
			}
			at = brokers[i]
			return at, nil
		})
		if err != nil {
			return nil, fmt.Errorf("kafkaconn: what the brokers speak: %w", err)
		}
		all = append(all, BrokerOffer{at, offer})
	}
	return all, nil
}

// Error is an error with its remedy: what to check.
type Error struct {
	Err    error
	Remedy string
}

// Error returns the error followed by the remedy.
func (e *Error) Error() string { return e.Err.Error() + " (" + e.Remedy + ")" }

// Unwrap returns the error.
func (e *Error) Unwrap() error { return e.Err }

// Explain adds to err what an operator should check, if err does not say so itself. Brokers close the connection of a
// client that speaks the wrong security protocol, so the only trace of the cause is "unexpected EOF".
func (c *Cluster) Explain(err error) error {
	var already *Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	if remedy := c.remedy(err); remedy != "" {
		return &Error{Err: err, Remedy: remedy}
	}
	return err
}

func (c *Cluster) remedy(err error) string {
	if remedy := certificateRemedy(err); remedy != "" {
		return remedy
	}
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, kafka.SASLAuthenticationFailed) && c.config.SASL.Mechanism == SASLOAuthBearer:
		return "the broker refuses the token: check kafka.sasl.oauth.scopes and extensions, and which issuer and audience the broker expects"
	case errors.Is(err, kafka.SASLAuthenticationFailed):
		return "the broker refuses the credentials: check kafka.sasl.username, password and mechanism"
	case errors.Is(err, kafka.UnsupportedSASLMechanism):
		return "the broker does not offer this mechanism: check kafka.sasl.mechanism"
	case errors.Is(err, kafka.IllegalSASLState):
		return "this listener asks for no login: set kafka.sasl.mechanism: none, or use the port of a SASL listener"
	case errors.Is(err, errNoBroker):
		return "it may be the port of a controller (KRaft): check kafka.brokers"
	case errors.Is(err, kafka.TopicAuthorizationFailed):
		return "the user needs READ on input topics, WRITE on output topics and DESCRIBE on both"
	case errors.Is(err, kafka.GroupAuthorizationFailed):
		return "the user needs READ on the group"
	case errors.Is(err, kafka.TransactionalIDAuthorizationFailed):
		return "the user needs WRITE on the transactional id"
	case errors.Is(err, kafka.ClusterAuthorizationFailed):
		return "the user needs IDEMPOTENT_WRITE on the cluster"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: check kafka.brokers, and the brokers' advertised.listeners"
	case errors.As(err, &dns):
		return "the name does not resolve: check kafka.brokers, and the brokers' advertised.listeners"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return c.closedRemedy()
	case errors.As(err, &timeout) && timeout.Timeout():
		return c.silentRemedy()
	}
	return ""
}

func certificateRemedy(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert *net.OpError
	switch {
	case errors.As(err, &authority):
		return "the broker's certificate is signed by an authority that is not trusted here: set kafka.tls.ca_file"
	case errors.As(err, &host):
		return "the broker's certificate is for another name: name the broker in kafka.brokers and advertised.listeners as its certificate does, or give it a certificate for this name"
	case errors.As(err, &invalid):
		return "the broker's certificate is not valid now, or not for this use"
	case errors.As(err, &record):
		return "the broker does not speak TLS on this port: set kafka.tls.enabled: false or use its TLS port"
	case errors.As(err, &alert) && alert.Op == "remote error": // crypto/tls: an alert from the other side
		return "the broker refused the TLS handshake: it may want a client certificate, kafka.tls.cert_file and key_file"
	}
	return ""
}

// closedRemedy lists what is worth checking after a broker closed the connection without an answer.
func (c *Cluster) closedRemedy() string {
	switch {
	case c.config.TLS.Enabled && !c.config.SASL.off():
		return "the broker closed the connection: it may speak plain text on this port, or refuse the credentials"
	case c.config.TLS.Enabled:
		return "the broker closed the connection: it may speak plain text on this port (kafka.tls.enabled: false), or want kafka.sasl"
	case !c.config.SASL.off():
		return "the broker closed the connection: it may expect TLS (kafka.tls.enabled: true), another kafka.sasl.mechanism, or other credentials"
	}
	return "the broker closed the connection: it may be restarting, or expect TLS (kafka.tls.enabled: true) or SASL (kafka.sasl)"
}

// silentRemedy is for a broker that accepted a connection or a request and did not answer.
func (c *Cluster) silentRemedy() string {
	if c.config.TLS.Enabled {
		return "no answer in time: the broker is overloaded, a firewall drops packets, or the port speaks plain text (kafka.tls.enabled: false)"
	}
	return "no answer in time: the broker is overloaded, or a firewall drops packets"
}
