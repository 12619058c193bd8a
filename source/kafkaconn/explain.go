package kafkaconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/segmentio/kafka-go"
)

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
		return "the broker's certificate is for another name: set kafka.tls.server_name or dial that name"
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
