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

// Hint is an error with a sentence that says what to check.
type Hint struct {
	Err  error
	Hint string
}

// Error returns the error followed by the hint.
func (h *Hint) Error() string { return h.Err.Error() + " (" + h.Hint + ")" }

// Unwrap returns the error.
func (h *Hint) Unwrap() error { return h.Err }

// Explain adds to err what an operator should check, if err does not say so itself. Brokers close the connection of a
// client that speaks the wrong security protocol, so the only trace of the cause is "unexpected EOF".
func (c *Cluster) Explain(err error) error {
	var already *Hint
	if err == nil || errors.As(err, &already) {
		return err
	}
	if hint := c.hint(err); hint != "" {
		return &Hint{Err: err, Hint: hint}
	}
	return err
}

func (c *Cluster) hint(err error) string {
	if hint := certificateHint(err); hint != "" {
		return hint
	}
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, kafka.SASLAuthenticationFailed):
		return "the broker refuses the credentials: check kafka.sasl.username, password and mechanism"
	case errors.Is(err, kafka.UnsupportedSASLMechanism):
		return "the broker does not offer this mechanism: check kafka.sasl.mechanism"
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
		return c.closedHint()
	case errors.As(err, &timeout) && timeout.Timeout():
		return c.silentHint()
	}
	return ""
}

func certificateHint(err error) string {
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

// closedHint lists what is worth checking after a broker closed the connection without an answer.
func (c *Cluster) closedHint() string {
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

// silentHint is for a broker that accepted a connection or a request and did not answer.
func (c *Cluster) silentHint() string {
	if c.config.TLS.Enabled {
		return "no answer in time: the broker is overloaded, a firewall drops packets, or the port speaks plain text (kafka.tls.enabled: false)"
	}
	return "no answer in time: the broker is overloaded, or a firewall drops packets"
}
