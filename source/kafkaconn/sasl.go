package kafkaconn

import (
	"context"
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
	PasswordFile string // instead of Password: its content without the line end, read for each login
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
	password, err := credentials.Renewed(s.Password, s.PasswordFile, "kafka.sasl.password")
	if err != nil {
		return nil, fmt.Errorf("kafkaconn: %w", err)
	}
	if s.Username == "" {
		return nil, fmt.Errorf("kafkaconn: kafka.sasl.mechanism is %s but kafka.sasl.username is empty", s.Mechanism)
	}
	with := func(password string) (sasl.Mechanism, error) {
		switch s.Mechanism {
		case SASLPlain:
			return plain.Mechanism{Username: s.Username, Password: password}, nil
		case SASLScramSHA256:
			return scram.Mechanism(scram.SHA256, s.Username, password)
		case SASLScramSHA512:
			return scram.Mechanism(scram.SHA512, s.Username, password)
		}
		return nil, fmt.Errorf("%q is none of %v", s.Mechanism, Mechanisms())
	}
	m, err := with(password())
	if err != nil {
		return nil, fmt.Errorf("kafkaconn: kafka.sasl.mechanism: %w", err)
	}
	if s.PasswordFile == "" {
		return m, nil
	}
	return renewed{m.Name(), func() (sasl.Mechanism, error) { return with(password()) }}, nil
}

// renewed is a mechanism whose password is read at each login.
type renewed struct {
	name string
	now  func() (sasl.Mechanism, error)
}

// Name returns the mechanism's name in the protocol.
func (r renewed) Name() string { return r.name }

// Start begins a login.
func (r renewed) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	m, err := r.now()
	if err != nil {
		return nil, nil, fmt.Errorf("kafkaconn: kafka.sasl.password_file: %w", err)
	}
	return m.Start(ctx)
}

func (s SASL) off() bool { return s.Mechanism == "" || s.Mechanism == SASLNone }
