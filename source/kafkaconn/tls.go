package kafkaconn

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/lca-stream/lca-stream/internal/credentials"
)

// TLS configures encryption to the brokers, and the client's certificate if they require one.
type TLS struct {
	Enabled            bool
	CAFile             string // PEM certificates to trust; "" trusts the system's
	CertFile, KeyFile  string // PEM client certificate and key, both or neither; read again at each connection, so they may be renewed
	ServerName         string // expected name in the broker's certificate; "" is the dialled host
	InsecureSkipVerify bool   // accept any certificate; for tests only
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
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify,
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
