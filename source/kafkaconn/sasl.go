package kafkaconn

import (
	"fmt"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/lca-stream/lca-stream/internal/credentials"
)

// Mechanism is how a user shows the password to brokers.
type Mechanism string

// The mechanisms; "" is SASLNone.
const (
	SASLNone        Mechanism = "none"
	SASLPlain       Mechanism = "plain"
	SASLScramSHA256 Mechanism = "scram_sha_256"
	SASLScramSHA512 Mechanism = "scram_sha_512"
	SASLOAuthBearer Mechanism = "oauthbearer"
)

// Mechanisms returns every Mechanism.
func Mechanisms() []Mechanism {
	return []Mechanism{SASLNone, SASLPlain, SASLScramSHA256, SASLScramSHA512, SASLOAuthBearer}
}

// SASL configures what is shown to brokers: user name and password, or a token.
type SASL struct {
	Mechanism    Mechanism
	Username     string
	Password     string
	PasswordFile string // instead of Password: its content without the line end, read by Open
	OAuth        OAuth  // of SASLOAuthBearer, which has no user name and password
}

// mechanism returns nil when SASL is off.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.off() {
		return nil, nil
	}
	if s.Mechanism == SASLOAuthBearer {
		b, err := newBearer(s.OAuth)
		if err != nil {
			return nil, fmt.Errorf("kafkaconn: %w", err)
		}
		return b, nil
	}
	password, err := credentials.Secret(s.Password, s.PasswordFile, "kafka.sasl.password")
	if err != nil {
		return nil, fmt.Errorf("kafkaconn: %w", err)
	}
	if s.Username == "" {
		return nil, fmt.Errorf("kafkaconn: kafka.sasl.mechanism is %s but kafka.sasl.username is empty", s.Mechanism)
	}
	var m sasl.Mechanism
	switch s.Mechanism {
	case SASLPlain:
		m = plain.Mechanism{Username: s.Username, Password: password}
	case SASLScramSHA256:
		m, err = scram.Mechanism(scram.SHA256, s.Username, password)
	case SASLScramSHA512:
		m, err = scram.Mechanism(scram.SHA512, s.Username, password)
	default:
		err = fmt.Errorf("%q is none of %v", s.Mechanism, Mechanisms())
	}
	if err != nil {
		return nil, fmt.Errorf("kafkaconn: kafka.sasl.mechanism: %w", err)
	}
	return m, nil
}

func (s SASL) off() bool { return s.Mechanism == "" || s.Mechanism == SASLNone }
