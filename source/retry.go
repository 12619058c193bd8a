package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

const (
	// retryFor bounds how long the reading side keeps trying before it returns the error: longer than a broker takes
	// to restart, or an election takes.
	retryFor = time.Minute

	// topicGrace is how long a topic may be unknown. A topic that was just created is not known to all brokers at
	// once, and to kafka-go's transport only after its metadata have aged.
	topicGrace = 5 * time.Second
	// readGrace is topicGrace for a topic that is being read. It is longer than programs wait that watch over their
	// topics, because these know which setting names the topic, and what to do.
	readGrace = 20 * time.Second

	// lookupGrace is the same for requests that do not use the transport's metadata.
	lookupGrace = time.Second

	// hangUpGrace is how long a broker may accept connections and close them when a process sends its first request.
	// A broker that starts or stops does so for a moment. One that is addressed with the wrong security protocol, with
	// or without TLS or SASL, does nothing else, and has no other way to say so.
	hangUpGrace = 7 * time.Second

	// sayAfter is how long a trouble lasts before it is logged: most elections and moves of a coordinator are over by
	// then. sayEvery is the interval of further lines about it.
	sayAfter = 2 * time.Second
	sayEvery = 30 * time.Second

	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// ErrNoTopic is the brokers' answer that there is no such topic, or that it has no such partition, given for longer
// than a new topic explains.
var ErrNoTopic = errors.New("the topic or partition does not exist")

// retry keeps the state of an operation that is being retried.
type retry struct {
	cluster *kafkaconn.Cluster
	what    string // such as "fetch events/3@1042", for errors and logs
	limit   time.Duration
	grace   time.Duration // for unknown topics
	hangUps time.Duration // how long brokers may only close connections; 0: as long as limit
	quiet   time.Duration // how long the trouble may last before it is logged
	started time.Time     // start of the trouble: of the first try, where it is known, or else its end; zero: there is none
	silence time.Time     // since when brokers have only closed connections
	denial  time.Time     // since when a right has been missing
	absence time.Time     // since when brokers have said that the topic does not exist
	other   time.Time     // since when brokers have said that the name is another topic's
	said    time.Time     // time of the last log line; zero: none
	tries   int           // failed tries
}

func newRetry(c *kafkaconn.Cluster, limit time.Duration, what string) *retry {
	return &retry{cluster: c, what: what, limit: limit, grace: topicGrace, quiet: sayAfter}
}

// again waits before another try. It returns the error to end with: at once if err will not pass by itself, else when
// the limit is reached or the context ends.
func (r *retry) again(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.started.IsZero() { // also after tries that an answer has ended
		r.started = time.Now()
	}
	since := time.Since(r.started)
	switch {
	case !retriable(err) && !r.mayReturn(err):
		return r.failed(err)
	case r.missing(err):
		return r.failed(fmt.Errorf("%w: create it, or correct its name: %w", ErrNoTopic, err))
	case r.replaced(err):
		return r.failed(err)
	case r.hungUp(err):
		return r.failed(fmt.Errorf("gave up after %s: %w", since.Round(time.Second), err))
	case since > r.limit:
		return r.failed(fmt.Errorf("gave up after %s: %w", since.Round(time.Second), err))
	}
	if since >= r.quiet && time.Since(r.said) > sayEvery {
		r.said = time.Now()
		r.say(err, since)
	}
	return r.pause(ctx)
}

// say logs the trouble, and at the start of a program when it will be given up: later what has given up is begun again.
func (r *retry) say(err error, since time.Duration) {
	about := []any{"what", r.what, "error", r.cluster.Explain(err), "for", since.Round(time.Second)}
	if r.quiet == 0 {
		about = append(about, "gives_up_after", r.limit)
	}
	r.cluster.Log().Warn("retrying", about...)
}

// mayReturn reports whether a right is missing that this process has had, and not for too long.
func (r *retry) mayReturn(err error) bool {
	if r.denial.IsZero() {
		r.denial = time.Now()
	}
	return r.cluster.MayReturn(err, r.denial) && time.Since(r.denial) <= r.limit
}

// missing reports whether brokers have denied the topic for too long.
func (r *retry) missing(err error) bool {
	if !errors.Is(err, kafka.UnknownTopicOrPartition) {
		r.absence = time.Time{}
		return false
	}
	if r.absence.IsZero() {
		r.absence = time.Now()
	}
	return time.Since(r.absence) > min(r.grace, r.limit)
}

// hungUp reports whether brokers have only closed connections for too long.
func (r *retry) hungUp(err error) bool {
	switch {
	case r.hangUps == 0:
		return false
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET):
		r.silence = time.Time{}
		return false
	case r.silence.IsZero():
		r.silence = time.Now()
	}
	return time.Since(r.silence) > r.hangUps
}

// pause waits, longer each time.
func (r *retry) pause(ctx context.Context) error {
	delay := min(minBackoff<<min(r.tries, 10), maxBackoff)
	r.tries++
	return sleep(ctx, delay/2+rand.N(delay/2)) // spread, so that members do not retry in step
}

// sleep returns nil after the delay, or the reason why ctx ended before.
func sleep(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// succeeded ends a trouble, and logs that if the trouble was logged. It is called for any answer that another try follows for reasons
// that are no fault of the brokers: what they do wrong after that is another trouble, with all its time before it.
func (r *retry) succeeded() {
	if !r.said.IsZero() {
		r.cluster.Log().Info("recovered", "what", r.what, "tries", r.tries+1, "after", time.Since(r.started).Round(time.Millisecond))
	}
	r.started, r.silence, r.denial, r.absence, r.other, r.said = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// answered ends a trouble, and waits before another try.
func (r *retry) answered(ctx context.Context) error {
	r.succeeded()
	return r.pause(ctx)
}

func (r *retry) failed(err error) error {
	return fmt.Errorf("source: %s: %w", r.what, r.cluster.Explain(err))
}

// retrying calls f until it succeeds or its error is final.
func retrying[T any](ctx context.Context, r *retry, f func(context.Context) (T, error)) (T, error) {
	for {
		v, err := f(ctx)
		if err == nil {
			r.succeeded()
			return v, nil
		}
		if err = r.again(ctx, err); err != nil {
			var zero T
			return zero, err
		}
	}
}

// Passing reports whether the trouble behind an error of this package passes by itself, though it has lasted longer
// than the operation waited. A caller with work under way may go on trying.
func Passing(err error) bool {
	return retriable(err) && !errors.Is(err, ErrNoTopic) && !errors.As(err, new(*RecreatedError))
}

// retriable reports whether another try, with newer metadata, may succeed after err.
func retriable(err error) bool {
	var code kafka.Error
	if errors.As(err, &code) {
		return retriableCode(code)
	}
	for _, passing := range []error{
		protocol.ErrNoTopic,                        // the transport's layout is older than the topic
		protocol.ErrNoPartition,                    // … than the partition
		protocol.ErrNoLeader,                       // … or shows the moment between two leaders
		errNoAnswer,                                // a part of ListOffsets failed
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, // the broker restarts, or has closed an idle connection
		context.DeadlineExceeded, os.ErrDeadlineExceeded, // of our own request: no answer in time
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, // the broker is down or going down
		syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT, // the network has a fault
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	// While a pod restarts, its name does not resolve.
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return true
	}
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func retriableCode(code kafka.Error) bool {
	switch code {
	case kafka.UnknownTopicOrPartition: // created a moment ago, or the metadata are old; bounded by topicGrace
	case kafka.UnknownTopicID, kafka.InconsistentTopicID: // the same; metadata decide, see RecreatedError
	case kafka.LeaderNotAvailable, kafka.ReplicaNotAvailable: // an election is on
	case kafka.NotLeaderForPartition, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch: // the leader has moved
	case kafka.BrokerNotAvailable: // kafka-go: the leader is not in its layout yet
	case kafka.RequestTimedOut, kafka.NetworkException: // between the brokers
	case kafka.KafkaStorageError: // a disk failed; another replica becomes leader
	case kafka.ListenerNotFound: // the leader has just started
	case kafka.OffsetNotAvailable: // a new leader does not know the high watermark yet
	case kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup: // the coordinator starts or moves
	case kafka.UnstableOffsetCommit: // a transaction of the group is about to end
	case kafka.ThrottlingQuotaExceeded: // asked to slow down
	default:
		return false
	}
	return true
}

// throttledError is a broker's answer to a client over its quota: it holds only how long to wait. The broker mutes
// the connection for as long; waiting here keeps a request from losing its time to that.
type throttledError struct{ delay time.Duration }

func (e *throttledError) Error() string {
	return fmt.Sprintf("over the broker's quota, to wait %s", e.delay)
}

// reachWait bounds one try to reach a broker. A request of the work itself may take much longer, and an address
// behind a firewall would keep it silent for as long.
const reachWait = 4 * time.Second

// Reach waits until any broker answers. The first failed try is logged at once, and each is passed to failed; after
// limit the last error is returned. Credentials that a broker refuses end it at once.
func Reach(ctx context.Context, c *kafkaconn.Cluster, limit time.Duration, failed func(error)) error {
	r := newRetry(c, limit, "connect to "+strings.Join(c.Brokers(), ", "))
	r.hangUps, r.quiet, r.started = hangUpGrace, 0, time.Now()
	_, err := retrying(ctx, r, func(ctx context.Context) (struct{}, error) {
		one, cancel := context.WithTimeout(ctx, reachWait)
		defer cancel()
		err := c.Ping(one)
		if err != nil {
			failed(c.Explain(err))
		}
		return struct{}{}, err
	})
	return err
}

// pace is how many bytes a reader requests at a time, as far as the link decides: few at first, twice as many while
// answers are quick, and half as many when they are slow. On a link of 50 kB/s, full-size answers for 64 partitions
// that catch up would take most of an hour, and nothing could be committed before the first of them was there.
type pace struct{ bytes int }

const (
	leastPace = 64 << 10
	mostPace  = 64 << 20 // more than any configuration requests

	// After an answer within quickAnswer more bytes are requested, after one of slowAnswer fewer.
	quickAnswer = time.Second
	slowAnswer  = 5 * time.Second

	// longestAnswer bounds an answer whose bytes come all the time.
	longestAnswer = 10 * time.Minute
)

// limit returns how many bytes to request, at most want.
func (p *pace) limit(want int) int {
	if p.bytes == 0 {
		p.bytes = leastPace
	}
	return min(want, p.bytes)
}

// took notes the duration of an answer. A late answer that was not full says nothing about the link, because the broker
// had waited for records.
func (p *pace) took(d time.Duration, bytes int) {
	switch full := bytes >= p.bytes/2; {
	case !full:
	case d < quickAnswer:
		p.bytes = min(2*p.bytes, mostPace)
	case d > slowAnswer:
		p.bytes = max(p.bytes/2, leastPace)
	}
}
