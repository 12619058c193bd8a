package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// persistent repeats requests whose connection a broker has closed: because it is busy or restarts, or the token of the login has ended.
type persistent struct {
	kafka.RoundTripper
	limit atomic.Int64 // nanoseconds; 0: nothing is repeated
	log   *slog.Logger
}

const (
	firstPause = 50 * time.Millisecond
	longPause  = time.Second
)

// repeatable are the requests that do the same if a broker has taken the first and only its answer was lost.
var repeatable = []protocol.ApiKey{
	protocol.Fetch, protocol.ListOffsets, protocol.Metadata, protocol.OffsetFetch, protocol.FindCoordinator, protocol.DescribeGroups, protocol.ListGroups,
	protocol.ApiVersions, protocol.OffsetForLeaderEpoch, protocol.DescribeAcls, protocol.DescribeConfigs, describeCluster, describeProducers, describeTransactions, listTransactions, describeNewGroups,
	protocol.CreateTopics,     // the second says that the topic exists, which is as good
	protocol.CreatePartitions, // … that there are as many
	protocol.OffsetCommit,     // of no member
	protocol.InitProducerId,   // another epoch, or the same
}

// Requests that kafka-go has no name for.
const (
	describeCluster      protocol.ApiKey = 60
	describeProducers    protocol.ApiKey = 61
	describeTransactions protocol.ApiKey = 65
	listTransactions     protocol.ApiKey = 66
	describeNewGroups    protocol.ApiKey = 69
)

// Persist lets requests outlive connections that brokers close, for so long, from now on. It is for programs that look or set things up and
// end, once a broker has answered: one that is asked with the wrong protocol closes connections too. Processes that stay retry what they
// do as a whole.
func (c *Cluster) Persist(limit time.Duration) { c.persistent.limit.Store(int64(limit)) }

// RoundTrip is that of kafka.RoundTripper.
func (p *persistent) RoundTrip(ctx context.Context, address net.Addr, r kafka.Request) (kafka.Response, error) {
	limit, began := time.Duration(p.limit.Load()), time.Now()
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		response, err := p.RoundTripper.RoundTrip(ctx, address, r)
		since := time.Since(began)
		switch {
		case limit == 0 || err == nil || ctx.Err() != nil || !closed(err) || !slices.Contains(repeatable, r.ApiKey()):
			return response, err
		case since > limit:
			return response, fmt.Errorf("gave up after %s: %w", since.Round(time.Second), err)
		}
		p.log.Warn("a broker closed the connection; asking again", "what", r.ApiKey().String(), "error", err, "gives_up_after", limit)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return response, err
		}
	}
}

// closed reports whether a connection has ended before the answer, or could not be made because its broker is down for a moment.
func closed(err error) bool {
	for _, one := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED, syscall.ECONNREFUSED,
		kafka.BrokerNotAvailable, // kafka-go: its layout has lost the broker
	} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
