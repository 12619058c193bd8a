package kafkaconn

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Mechanism is how a user shows the password to brokers.
type Mechanism string

// The mechanisms; "" is SASLNone.
const (
	SASLNone        Mechanism = "none"
	SASLPlain       Mechanism = "plain"
	SASLScramSHA256 Mechanism = "scram_sha_256"
	SASLScramSHA512 Mechanism = "scram_sha_512"
)

// Mechanisms returns every Mechanism.
func Mechanisms() []Mechanism {
	return []Mechanism{SASLNone, SASLPlain, SASLScramSHA256, SASLScramSHA512}
}

// SASL configures the user name and password shown to brokers.
type SASL struct {
	Mechanism    Mechanism
	Username     string
	Password     string
	PasswordFile string // instead of Password: its content without the line end, read by Open
}

// mechanism returns nil when SASL is off.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.off() {
		return nil, nil
	}
	password, err := s.password()
	if err != nil {
		return nil, err
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

func (s SASL) password() (string, error) {
	switch {
	case s.PasswordFile == "":
		return s.Password, nil
	case s.Password != "":
		return "", errors.New("kafkaconn: kafka.sasl.password and kafka.sasl.password_file are both set: keep one")
	}
	content, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("kafkaconn: kafka.sasl.password_file: %w", err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}
