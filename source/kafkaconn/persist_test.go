package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// closing is a network whose brokers close connections before the first answers.
type closing struct {
	err  error
	left int // -1: always
	sent int
}

func (c *closing) RoundTrip(context.Context, net.Addr, kafka.Request) (kafka.Response, error) {
	if c.sent++; c.left != 0 {
		c.left--
		return nil, fmt.Errorf("read: %w", c.err)
	}
	return &metadata.Response{}, nil
}

// A request is repeated if it may be, for as long as it was said, where a connection was closed and nothing else happened.
func TestPersist(t *testing.T) {
	for _, c := range []struct {
		name    string
		network closing
		request kafka.Request
		limit   time.Duration
		sent    int    // -1: several
		says    string // "": it succeeds
	}{
		{"a closed connection", closing{err: io.EOF, left: 3}, &metadata.Request{}, 10 * time.Second, 4, ""},
		{"half an answer", closing{err: io.ErrUnexpectedEOF, left: 1}, &metadata.Request{}, 10 * time.Second, 2, ""},
		{"the layout has lost a broker", closing{err: kafka.BrokerNotAvailable, left: 1}, &metadata.Request{}, 10 * time.Second, 2, ""},
		{"for good", closing{err: io.EOF, left: -1}, &metadata.Request{}, 10 * time.Second, -1, "gave up after 1"},
		{"no patience", closing{err: io.EOF, left: 1}, &metadata.Request{}, 0, 1, "EOF"},
		{"what is not known to be done", closing{err: io.EOF, left: 1}, &endtxn.Request{}, 10 * time.Second, 1, "EOF"},
		{"a token that has ended", closing{err: &Error{Err: &refusal{err: kafka.SASLAuthenticationFailed, passes: true}}, left: 2}, &metadata.Request{}, 10 * time.Second, 3, ""},
		{"a token that never was right", closing{err: &refusal{err: kafka.SASLAuthenticationFailed}, left: 1}, &metadata.Request{}, 10 * time.Second, 1, "SASL"},
		{"a refusal", closing{err: kafka.SASLAuthenticationFailed, left: 1}, &metadata.Request{}, 10 * time.Second, 1, "SASL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, began := &persistent{RoundTripper: &c.network, log: slog.New(slog.DiscardHandler)}, time.Now()
				p.limit.Store(int64(c.limit))
				_, err := p.RoundTrip(t.Context(), nil, c.request)
				if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !errors.Is(err, c.network.err)) {
					t.Errorf("%v, want %q", err, c.says)
				}
				if c.sent >= 0 && c.network.sent != c.sent || c.network.sent > 30 || time.Since(began) > c.limit+longPause {
					t.Errorf("sent %d times in %v", c.network.sent, time.Since(began))
				}
			})
		})
	}
}
