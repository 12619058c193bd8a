package sink

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Transactions have two versions. A transaction is of one of them from its begin to its end.
//
//	        adds a partition        adds the group          next epoch
//	1       AddPartitionsToTxn      AddOffsetsToTxn         InitProducerId
//	2       Produce v12             TxnOffsetCommit v5      the answer to EndTxn v5
//
// Version 2 (KIP-890, Kafka 4.0) is spoken where the cluster has finalized transaction.version 2. There each
// transaction has an epoch of its own, because EndTxn takes the next one, commit or abort. So:
//
//   - A request that arrives after the end of its transaction is refused, whatever it is and however
//     late. It cannot join the next one. In version 1 we take a new epoch after each request without an
//     answer; for a request that the network repeats after it was answered, nothing can be done.
//   - EndTxn may be repeated. The coordinator knows the repetition by its epoch, which is one lower than
//     its own: the same end is answered as the first copy was, once the markers are written, and the other end is
//     refused with INVALID_TXN_STATE. So the outcome of a commit without an answer can be found out.
//   - A former owner has an epoch that is at least two lower (the end of its transaction is one, the
//     new owner's InitProducerId another), or meets a transaction that is not at its end: it is fenced.
//   - No InitProducerId is needed after a failure. What version 1 has to fear between an EndTxn that
//     asks whether we still are the owner, and InitProducerId, does not exist.
//
// The coordinator's connection says, with each transaction, what is finalized. A cluster whose brokers
// are of several releases cannot finalize version 2; if a broker refuses it all the same, version 1 stays.

// feature is the name of the cluster's feature level (KIP-584).
const feature = "transaction.version"

var errTooOld = errors.New("a broker does not speak transactions version 2, though the cluster has finalized it: the next transaction is of version 1")

// see notes which transaction version the coordinator offers. It returns the newest request version to use, at most
// most.
func (k *Kafka) see(most int16) func(kafkaconn.Offer) int16 {
	return func(o kafkaconn.Offer) int16 {
		level := o.Feature(feature)
		if o.Newest(kmsg.EndTxn.Int16()) < 5 || o.Newest(kmsg.TxnOffsetCommit.Int16()) < 5 || o.Newest(kmsg.Produce.Int16()) < version2Produce {
			level = min(level, 1)
		}
		k.offered.Store(int32(level))
		return most
	}
}

// choose decides the version of the next transaction.
//
// The first transaction of version 2 needs an epoch that version 1 has not used. Until the markers of the last
// transaction are written, leaders take batches of its epoch as part of it, and do not ask the coordinator, which
// would refuse them for now. Where version 1 follows, AddPartitionsToTxn asks.
func (k *Kafka) choose(ctx context.Context) error {
	version := 1
	if k.offered.Load() >= 2 && !k.old {
		version = 2
	}
	if version == k.version {
		return nil
	}
	if k.used {
		k.doubt = true
		if err := k.settle(ctx); err != nil {
			return err
		}
	}
	k.log.Debug("the version of transactions", "version", version)
	k.version = version
	return nil
}

// tooOld wraps a broker's refusal of version 2 in an error that does not count as permanent.
func (k *Kafka) tooOld(err error) error {
	if k.version == 2 && errors.Is(err, kafka.UnsupportedVersion) {
		return fmt.Errorf("%w (%s)", errTooOld, err.Error()) // not wrapped: it passes with the next transaction
	}
	return err
}

// become switches to a new epoch and resets what belongs to the old one.
func (k *Kafka) become(p producer) {
	k.producer = p
	k.next = make(map[topicPartition]*int32)
	k.doubt, k.used = false, false
}

// commit2 ends a transaction of version 2. It repeats the request until there is an answer.
func (k *Kafka) commit2(ctx context.Context) error {
	return k.repeat(ctx, "EndTxn", func(ctx context.Context) error {
		next, err := k.endTxn(ctx, k.producer, true)
		if err == nil {
			k.become(next)
		}
		return err
	})
}

// renew2 ends a transaction of version 2, whatever its state, and takes the epoch that follows. committed: an EndTxn
// without an answer had been carried out.
func (k *Kafka) renew2(ctx context.Context) (committed bool, err error) {
	var next producer
	end := func(ctx context.Context) (err error) {
		next, err = k.endTxn(ctx, k.producer, committed)
		if errors.Is(err, kafka.InvalidTransactionState) && !committed {
			// The epoch has ended already, so this request cannot commit anything. It only asks.
			committed = true
			next, err = k.endTxn(ctx, k.producer, true)
		}
		return err
	}
	// The first answer comes before the markers are written, the second one after: what the caller then reads is
	// final, and no reader waits for us.
	for _, what := range []string{"EndTxn(abort)", "EndTxn(abort), for its markers"} {
		if err := k.repeat(ctx, what, end); err != nil {
			if errors.Is(err, kafka.InvalidProducerIDMapping) { // the broker has forgotten us
				return false, k.initialise(ctx)
			}
			return false, err
		}
	}
	k.become(next)
	return committed, nil
}
