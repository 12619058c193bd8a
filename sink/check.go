package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

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
