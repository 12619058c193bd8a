package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// fencedBy finds out who has fenced us: another owner, or the coordinator. The coordinator aborts a transaction that
// outlives its timeout, as during a long network outage, and takes the next epoch for that. Then no process has the
// work, and we take it back. fencedBy returns nil in that case, and the given error otherwise.
//
// What tells them apart is the age of our transaction, which the coordinator does not abort before its timeout, and the state of the
// transactional id (DescribeTransactions, Kafka 3.0). With ours at epoch e:
//
//	the coordinator's own abort           epoch e+1, an abort
//	another owner, our transaction open   the same for milliseconds, then e+2, empty
//	another owner, nothing of ours open   epoch e+1, empty; then its transactions, at e+1 and more
//
// We take epoch e+2 by asking for the one after e+1, which the coordinator gives only while that is the epoch
// there is (KIP-360). Another owner that is caught in its first milliseconds asks without an epoch, and so has
// a later one than we, which fences us after all. An owner that aborts its own first transaction at e+1 takes another
// epoch at once.
func (k *Kafka) fencedBy(ctx context.Context, fenced error) error {
	if !errors.Is(fenced, ErrFenced) || k.producer.id < 0 || time.Now().Before(k.expires) {
		return fenced
	}
	var now *kmsg.DescribeTransactionsResponseTransactionState
	err := k.repeat(ctx, "DescribeTransactions", func(ctx context.Context) (err error) {
		now, err = k.describe(ctx)
		return err
	})
	if ctx.Err() != nil {
		return fmt.Errorf("the transaction was fenced, and it is not known by whom: %w", err)
	}
	if err != nil { // an old broker, or no right to ask
		return fmt.Errorf("%w (not known by whom: %w)", fenced, err)
	}
	aborted := now.State == "PrepareAbort" || now.State == "CompleteAbort" || now.State == "PrepareEpochFence"
	if !aborted || now.ProducerID != k.producer.id || now.ProducerEpoch != k.producer.epoch+1 {
		return fenced
	}
	k.log.Warn("the transaction was open for longer than its timeout, and the broker has aborted it; no other process has the work, going on", "timeout", k.timeout)
	k.producer.epoch = now.ProducerEpoch
	return k.initialise(ctx)
}

func (k *Kafka) describe(ctx context.Context) (*kmsg.DescribeTransactionsResponseTransactionState, error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{k.config.TransactionalID}
	m, err := k.ask(ctx, kafkaconn.Question{Request: req}, func(m kmsg.Response) error {
		states := m.(*kmsg.DescribeTransactionsResponse).TransactionStates
		if len(states) != 1 {
			return fmt.Errorf("an answer about %d transactional ids", len(states))
		}
		return failure(states[0].ErrorCode)
	})
	if err != nil {
		return nil, err
	}
	return &m.(*kmsg.DescribeTransactionsResponse).TransactionStates[0], nil
}

const (
	// leastTimeout is the shortest transaction timeout that is requested where a cluster allows no more.
	leastTimeout = time.Second

	// mostTimeout is how far a timeout is raised: what brokers allow by default (transaction.max.timeout.ms).
	mostTimeout = 15 * time.Minute
)

// setTimeout changes the timeout that the next InitProducerId requests.
func (k *Kafka) setTimeout(d time.Duration) {
	k.timeout = d
	k.request = min(k.config.Request, d/3)
}

// lowerTimeout adapts to a cluster that refuses the timeout. It returns false if err has another cause or no timeout
// is left to try.
func (k *Kafka) lowerTimeout(err error) bool {
	if !errors.Is(err, kafka.InvalidTransactionTimeout) || k.timeout <= leastTimeout {
		return false
	}
	k.ceiling = max(k.timeout/2, leastTimeout)
	k.setTimeout(k.ceiling)
	k.log.Warn("the cluster allows no transaction of this length (transaction.max.timeout.ms); going on with a shorter one, set kafka.transaction_timeout to say so", "timeout", k.ceiling)
	return true
}

// stretch raises the timeout if a transaction was late again and not much smaller than the one before: what cannot be
// divided, such as a checkpoint, needs its time on a slow link.
func (k *Kafka) stretch(bytes int) {
	if again := k.tooLate > 0 && bytes >= k.tooLate-k.tooLate/8; !again {
		k.tooLate = bytes
		return
	}
	if longer := min(2*k.timeout, k.ceiling); longer > k.timeout {
		k.setTimeout(longer)
		k.stretched = true
		k.log.Warn("a transaction was late twice; the next one gets more time", "bytes", bytes, "timeout", longer)
	}
}

// granted announces a raised timeout to the broker. No transaction may be open.
func (k *Kafka) granted(ctx context.Context) error {
	if !k.stretched {
		return nil
	}
	k.stretched = false
	return k.initialise(ctx)
}
