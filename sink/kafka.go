package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// KafkaConfig configures a producer.
type KafkaConfig struct {
	Cluster *kafkaconn.Cluster

	// TransactionalID is the name of the work: one for each input partition, one for the learner of each model.
	// Opening it takes the work over, which fences the former owner. It must not be empty.
	TransactionalID string

	// Former are names of the same work in earlier releases. They are taken over first, so that an owner of such a
	// release is fenced too.
	Former []string

	// Timeout is how long a transaction may stay open before the broker aborts it. Put stops earlier. Default 45 s,
	// or the broker's transaction.max.timeout.ms where that is less.
	Timeout time.Duration

	// Request is how long to wait for an answer while no byte moves. Default 15 s, at most a third of Timeout.
	Request time.Duration

	Compress bool // batches, where a sample of their topic gains by it

	// Link is shared by the producers of a process. Nil gives this producer one of its own.
	Link *Link

	// BatchBytes bounds a record batch of several messages before it is compressed, as the topic's max.message.bytes does. Default 8 MiB, at most
	// 16 MiB: readers decompress a batch as a whole.
	BatchBytes int

	// Log receives what is retried and what was aborted. Nil discards it.
	Log *slog.Logger
}

const (
	// defaultTimeout is how long what a crash leaves open holds readers up, unless the work is taken over. It outlasts a leader that moves and a
	// broker that is restarted, and leaves Put time for three requests.
	defaultTimeout = 45 * time.Second

	// defaultRequest is longer than a broker takes to answer while it stops, collects garbage or gives its partitions away.
	defaultRequest = 15 * time.Second

	// defaultBatchBytes is more than most transactions of the transform hold: a second batch costs another round
	// trip.
	defaultBatchBytes = 8 << 20

	mostBatchBytes = 16 << 20

	// endWithin is how long Put goes on after its context has ended, to end its transaction: an open one would hold
	// up readers until its timeout.
	endWithin = 5 * time.Second
)

// Kafka is a transactional producer: each Put is one transaction. Methods may be called from any
// goroutine; Puts wait for each other.
//
// Its states, and the only ways between them:
//
//	         Put                    EndTxn sent
//	ready ──────────▶ open ───────────────────────▶ committing
//	  ▲                │ error                        │  │ answered
//	  │   new epoch    ▼               no answer      │  │
//	  ├────────────── ending ◀────────────────────────┘  │
//	  ├──────────────────────────────────────────────────┘
//	                   │ a newer owner exists      │ refused, or the context ended first
//	                   ▼                           ▼
//	                 fenced                       lost ──(the next Put: ending again)
//
// Leaving "ending" takes a new producer epoch. After that nothing that was sent under the old one
// can take effect any more, however late it arrives, so what a caller reads then is final. In version 2 of
// transactions every end takes a new epoch, and EndTxn is repeated while there is no answer: see txn.go.
type Kafka struct {
	config KafkaConfig
	log    *slog.Logger
	coord  coordinators
	limits limits

	request   time.Duration // the longest wait for one answer
	timeout   time.Duration // transaction timeout: as configured, unless the cluster or the link required another
	ceiling   time.Duration // upper bound of timeout
	stretched bool          // timeout was raised, and the broker does not know yet
	expires   time.Time     // before this the broker does not abort the last transaction for its age
	tooLate   int           // size in bytes of the last transaction that ran out of time

	mu       sync.Mutex
	state    state
	producer producer
	next     map[topicPartition]*int32 // next sequence number in this epoch
	doubt    bool                      // a request of this epoch was never answered, so it may still arrive

	offered atomic.Int32 // transaction.version as the coordinator last announced it
	version int          // transaction version, 1 or 2, of the current or the last transaction; 0 before the first
	old     bool         // a broker refused version 2
	used    bool         // the epoch was used by a transaction of version 1

	shares shares      // messages of the current Put by partition
	late   atomic.Bool // the current Put ran out of time while its bytes were on their way
	packer packer
}

type state int

const (
	ready state = iota
	open
	committing
	ending
	isFenced
	lost
	closed
)

var (
	errLost     = errors.New("lost: the last transaction could not be ended")
	errFound    = errors.New("the last transaction is settled only now: read the committed offsets again")
	errOutlived = errors.New("the transaction was open for longer than its timeout, and the broker has aborted it")
	errClosed   = errors.New("closed")
)

// OpenKafka takes the transactional id over: it fences the former owner and ends what that one left
// open. Only then may the caller read committed offsets: before, the former owner could still move
// them. It tries until ctx ends.
func OpenKafka(ctx context.Context, c KafkaConfig) (*Kafka, error) {
	if c.Cluster == nil || c.TransactionalID == "" {
		return nil, errors.New("sink: a cluster and a transactional id are needed")
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.Request <= 0 {
		c.Request = defaultRequest
	}
	if c.BatchBytes <= 0 {
		c.BatchBytes = defaultBatchBytes
	}
	c.BatchBytes = min(c.BatchBytes, mostBatchBytes)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Link == nil {
		c.Link = NewLink(defaultSpare)
	}
	for _, id := range c.Former {
		old := c
		old.TransactionalID = id
		if err := newKafka(old).takeOver(ctx); err != nil {
			return nil, err
		}
	}
	k := newKafka(c)
	failpoint.Here("fence.before")
	if err := k.takeOver(ctx); err != nil {
		return nil, err
	}
	failpoint.Here("fence.after")
	if err := k.choose(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

func newKafka(c KafkaConfig) *Kafka {
	k := &Kafka{
		config: c, log: c.Log.With("transactional_id", c.TransactionalID),
		coord:    coordinators{cluster: c.Cluster, nodes: make(map[coordinatorKey]int32)},
		limits:   limits{cluster: c.Cluster, known: make(map[string]int), told: make(map[string]told)},
		ceiling:  max(c.Timeout, mostTimeout),
		producer: noProducer,
		packer:   packer{on: c.Compress, with: &c.Link.compressor, topics: make(map[string]*sampled)},
	}
	k.setTimeout(c.Timeout)
	return k
}

func (k *Kafka) takeOver(ctx context.Context) error {
	if err := k.initialise(ctx); err != nil {
		return fmt.Errorf("sink: take over transactional id %q: %w", k.config.TransactionalID, k.config.Cluster.Explain(err))
	}
	return nil
}

// Put writes msgs and commits claim in one transaction. See the package documentation for what its
// errors mean. The messages are not kept.
func (k *Kafka) Put(ctx context.Context, msgs []Message, claim source.Claim) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch k.state {
	case isFenced:
		return k.explain(ErrFenced)
	case lost:
		return k.explain(k.find(ctx))
	case closed:
		return k.explain(errClosed)
	}
	if err := ctx.Err(); err != nil {
		return k.explain(err) // nothing was sent
	}
	commits := claim.Group != "" && len(claim.Next) > 0
	if len(msgs) == 0 && !commits {
		return nil
	}
	err := k.settle(ctx)
	if err == nil {
		err = k.inTurn(ctx, msgs, func() error { return k.transact(ctx, msgs, claim, commits) })
	}
	if err != nil {
		return k.failed(ctx, err)
	}
	if k.doubt {
		// It is committed already, so this is no concern of the caller: the next Put tries again.
		if err := k.settle(ctx); err != nil {
			k.log.Warn("a new producer epoch is needed and was refused; trying again with the next transaction", "error", err)
		}
	}
	return nil
}

// Close makes later Puts fail. There is never an open transaction to end, because Put leaves none.
// The cluster stays open: it belongs to the caller.
func (k *Kafka) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = closed
	return nil
}

// transact runs one transaction, in as few round trips as the order of requests allows.
func (k *Kafka) transact(ctx context.Context, msgs []Message, claim source.Claim, commits bool) error {
	all, err := k.shares.sort(msgs, time.Now())
	defer k.shares.forget()
	if err != nil {
		return err
	}
	// Stop before the broker would abort the transaction and fence us.
	ctx, cancel := context.WithTimeout(ctx, k.timeout*3/4)
	defer cancel()
	if err := k.checkSizes(ctx, all); err != nil {
		return err // nothing was sent yet
	}
	failpoint.Here("begin.before")
	if err := k.choose(ctx); err != nil {
		return err
	}
	k.state, k.expires = open, time.Now().Add(k.timeout*9/10) // clocks may differ in their pace
	k.used = k.version < 2
	if len(all) > 0 && k.version < 2 {
		if err := k.addPartitions(ctx, all); err != nil {
			return err
		}
	}
	failpoint.Here("begin.after")
	if commits && k.version < 2 {
		if err := k.addOffsets(ctx, claim.Group); err != nil {
			return err
		}
	}
	if err := k.write(ctx, all, claim, commits); err != nil {
		return err
	}
	failpoint.Here("commit.before")
	k.state = committing
	if err := k.commit(ctx); err != nil {
		return err
	}
	failpoint.Here("commit.after")
	k.state = ready
	return nil
}

// settle takes a new epoch if a request of the current one may still be on its way. A late AddPartitionsToTxn would
// open a transaction that is never ended.
func (k *Kafka) settle(ctx context.Context) error {
	if !k.doubt {
		return nil
	}
	k.state = ending
	if _, err := k.end(ctx); err != nil {
		if errors.Is(err, ErrFenced) {
			k.state = isFenced
		}
		return err
	}
	k.state = ready
	return nil
}

// end makes sure that no transaction is open, and takes a new epoch.
func (k *Kafka) end(ctx context.Context) (committed bool, err error) {
	if committed, err = k.renew(ctx); err != nil {
		err = k.fencedBy(ctx, err)
	}
	if err == nil {
		err = k.granted(ctx)
	}
	return committed, err
}

// find settles an outcome that failed could not settle. It writes nothing, because what the caller has read since is
// from before the outcome was final.
func (k *Kafka) find(ctx context.Context) error {
	if _, err := k.end(ctx); err != nil {
		if errors.Is(err, ErrFenced) {
			k.state = isFenced
			return err
		}
		return fmt.Errorf("%w: %w", errLost, err)
	}
	k.state = ready
	return errFound
}

// failed settles the outcome of a transaction that went wrong, before Put returns its error.
func (k *Kafka) failed(ctx context.Context, cause error) error {
	if k.state == ready { // refused before anything was sent
		return k.explain(cause)
	}
	k.log.Debug("transaction failed; ending it with a new producer epoch", "error", cause)
	k.state = ending
	k.old = k.old || errors.Is(cause, errTooOld)
	ctx, cancel := linger(ctx, endWithin)
	defer cancel()
	committed, err := k.ended(ctx, cause)
	if err != nil {
		if errors.Is(err, ErrFenced) {
			k.state = isFenced
			if errors.Is(cause, ErrFenced) {
				return k.explain(err)
			}
			return k.explain(fmt.Errorf("%w (found after: %w)", err, cause))
		}
		k.state = lost
		return k.explain(fmt.Errorf("%w: %w (after: %w)", errLost, err, cause))
	}
	k.state = ready
	if committed {
		k.log.Debug("it was committed: only the answer was missing")
		return nil
	}
	if errors.Is(cause, ErrFenced) {
		return k.explain(errOutlived)
	}
	return k.explain(cause)
}

// ended is end for a transaction that went wrong. A fenced one has ended already.
func (k *Kafka) ended(ctx context.Context, cause error) (committed bool, err error) {
	if errors.Is(cause, ErrFenced) {
		return false, k.fencedBy(ctx, cause)
	}
	return k.end(ctx)
}

func (k *Kafka) explain(err error) error {
	return fmt.Errorf("sink: transaction of %q: %w", k.config.TransactionalID, k.config.Cluster.Explain(err))
}

// linger returns a context that ends d after ctx does.
func linger(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return longer, func() { stop(); cancel() }
}

// checkWithin bounds the wait for an answer to Check: the caller has records to read.
const checkWithin = 5 * time.Second

// Check asks the brokers whether this process still owns the work. An owner that has nothing to write would otherwise
// not notice that another process has taken it. Check writes nothing. It returns ErrFenced if another owner has the
// work; any other error means that there was no answer, and the next Put will tell.
//
// The request is DescribeTransactions (Kafka 3.0). If the answer names another producer or epoch than ours, Check
// ends a transaction that is not open: the coordinator then compares epochs, and knows the producer id that follows
// an exhausted epoch.
func (k *Kafka) Check(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.state == isFenced:
		return k.explain(ErrFenced)
	case k.state != ready: // the next Put finds out
		return nil
	case k.doubt:
		return k.checked(k.settle(ctx))
	}
	one, cancel := context.WithTimeout(ctx, min(k.request, checkWithin))
	defer cancel()
	now, err := k.describe(one)
	k.doubt = false // a request of a check that arrives late changes nothing
	switch {
	case err == nil && now.ProducerID == k.producer.id && now.ProducerEpoch == k.producer.epoch:
		return nil
	case errors.Is(err, kafka.TransactionalIDNotFound): // forgotten for its age: no process has it
		return nil
	case errors.Is(err, kafka.UnsupportedVersion):
		return k.checked(k.checkByEnd(one))
	case err != nil:
		return fmt.Errorf("sink: check transactional id %q: %w", k.config.TransactionalID, k.config.Cluster.Explain(err))
	}
	k.doubt = true
	return k.checked(k.settle(ctx))
}

// checked acts on the result of a check.
func (k *Kafka) checked(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrFenced) {
		k.state = isFenced
	}
	return k.explain(err)
}

// checkByEnd asks brokers before Kafka 3.0. EndTxn(abort) of version 1 compares epochs first, and takes no new one.
// Without an answer the next Put takes a new epoch, so that the late request cannot end a later transaction.
func (k *Kafka) checkByEnd(ctx context.Context) error {
	_, err := k.endTxn(ctx, k.producer, false)
	if errors.Is(err, kafka.InvalidTransactionState) || errors.Is(err, kafka.InvalidProducerIDMapping) {
		return nil // nothing is open
	}
	return classify(err, k.version)
}

// TimestampError is a message whose timestamp its topic does not take. Nothing of the Put is visible.
type TimestampError struct {
	Topic         string
	Known         bool          // whether the broker tells what the topic takes
	Before, After time.Duration // AnyTime: without a bound
	Err           error
}

// AnyTime is the bound of a topic that has none, or one of more than 292 years.
const AnyTime time.Duration = math.MaxInt64

// Error says which setting to raise.
func (e *TimestampError) Error() string {
	const remedy = "raise the topic's message.timestamp.before.max.ms or message.timestamp.after.max.ms, or set its message.timestamp.type to LogAppendTime"
	if !e.Known {
		return fmt.Sprintf("topic %s does not take the time of a message: %v: %s", e.Topic, e.Err, remedy)
	}
	return fmt.Sprintf("topic %s takes times %s, and not that of a message: %v: %s", e.Topic, e.takes(), e.Err, remedy)
}

// takes says from when to when a topic takes times.
func (e *TimestampError) takes() string {
	switch {
	case e.Before == AnyTime:
		return fmt.Sprintf("up to %v ahead", e.After)
	case e.After == AnyTime:
		return fmt.Sprintf("from %v ago on", e.Before)
	}
	return fmt.Sprintf("from %v ago to %v ahead", e.Before, e.After)
}

// Unwrap returns the broker's refusal.
func (e *TimestampError) Unwrap() error { return e.Err }

// Topic settings, in milliseconds. Kafka before 3.6 has only the last one.
const (
	timeBefore     = "message.timestamp.before.max.ms"
	timeAfter      = "message.timestamp.after.max.ms"
	timeDifference = "message.timestamp.difference.max.ms"
)

// untimely asks a topic that has refused a timestamp which ones it takes.
func (k *Kafka) untimely(ctx context.Context, topic string, cause error) error {
	e := &TimestampError{Topic: topic, Before: AnyTime, After: AnyTime, Err: cause}
	ctx, cancel := context.WithTimeout(ctx, k.request)
	defer cancel()
	values, err := k.limits.settings(ctx, topic, timeBefore, timeAfter, timeDifference)
	if err != nil {
		return e // no right, or no answer: the bounds are not known
	}
	for name, value := range values {
		ms, err := strconv.ParseInt(value, 10, 64)
		if err != nil || ms > math.MaxInt64/int64(time.Millisecond) {
			continue // without a bound
		}
		d := time.Duration(ms) * time.Millisecond
		if name != timeAfter {
			e.Before, e.Known = min(e.Before, d), true
		}
		if name != timeBefore {
			e.After, e.Known = min(e.After, d), true
		}
	}
	return e
}
