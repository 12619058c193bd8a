package sink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source"
)

const (
	// firstWait is short because the usual reason to wait is the transaction before: brokers answer
	// EndTxn before its markers are written, and refuse the next transaction for a few milliseconds.
	firstWait = 5 * time.Millisecond
	lastWait  = time.Second

	// quietFor is how long a request is repeated before the log says so.
	quietFor = 2 * time.Second

	// writers bounds the partitions written to at the same time.
	writers = 8
)

// repeat sends a request until it is carried out, refused for good, or ctx ends.
func (k *Kafka) repeat(ctx context.Context, what string, send func(context.Context) error) error {
	began, said := time.Now(), false
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		one, cancel := context.WithTimeout(ctx, k.request)
		err := send(one)
		cancel()
		if err == nil {
			return nil
		}
		if !retriable(err) {
			return fmt.Errorf("%s: %w", what, classify(err))
		}
		if !said && time.Since(began) > quietFor {
			k.log.Warn("a request is repeated", "request", what, "error", err)
			said = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: gave up after %v: %w: %w", what, time.Since(began).Round(time.Millisecond), ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// ask sends one request to the transaction's coordinator. refused reads the error from its answer.
func (k *Kafka) ask(ctx context.Context, m protocol.Message, refused func(protocol.Message) error) (protocol.Message, error) {
	return k.askAt(ctx, k.key(), m, refused)
}

func (k *Kafka) askAt(ctx context.Context, key coordinatorKey, m protocol.Message, refused func(protocol.Message) error) (protocol.Message, error) {
	res, err := k.coord.send(ctx, key, m)
	if err == nil {
		err = refused(res)
		k.coord.forgetAfter(key, err)
	}
	if err != nil && unanswered(err) {
		k.doubt = true
	}
	return res, err
}

// initialise gets a producer id and a new epoch. With our own id and epoch (after the first time)
// the broker refuses if somebody else has had the id since.
func (k *Kafka) initialise(ctx context.Context) error {
	return k.repeat(ctx, "InitProducerId", func(ctx context.Context) error {
		m, err := k.ask(ctx, &initproducerid.Request{
			TransactionalID: k.config.TransactionalID, TransactionTimeoutMs: int32(k.config.Timeout.Milliseconds()),
			ProducerID: k.id, ProducerEpoch: k.epoch,
		}, func(m protocol.Message) error { return failure(m.(*initproducerid.Response).ErrorCode) })
		if err != nil {
			return err
		}
		res := m.(*initproducerid.Response)
		k.id, k.epoch = res.ProducerID, res.ProducerEpoch
		k.next = make(map[topicPartition]*int32)
		k.doubt = false
		return nil
	})
}

// renew ends the transaction, whatever has become of it, and takes a new epoch.
//
// It aborts first, because only EndTxn compares epochs before it acts: InitProducerId from an owner
// of old would abort the transaction of the new one (on Apache Kafka), or even take the work back
// (on the embedded broker).
func (k *Kafka) renew(ctx context.Context) error {
	err := k.repeat(ctx, "EndTxn(abort)", func(ctx context.Context) error {
		err := k.sendEnd(ctx, false)
		if errors.Is(err, kafka.InvalidTransactionState) || errors.Is(err, kafka.InvalidProducerIDMapping) {
			return nil // nothing is open: it was committed, or never began; or the broker has forgotten us
		}
		return err
	})
	if err != nil {
		return err
	}
	return k.initialise(ctx)
}

// addPartitions tells the coordinator what to put markers into at the end.
func (k *Kafka) addPartitions(ctx context.Context, all []*share) error {
	req := &addpartitionstotxn.Request{TransactionalID: k.config.TransactionalID, ProducerID: k.id, ProducerEpoch: k.epoch}
	by := make(map[string][]int32)
	for _, s := range all {
		by[s.topic] = append(by[s.topic], s.id)
	}
	for _, topic := range slices.Sorted(maps.Keys(by)) {
		req.Topics = append(req.Topics, addpartitionstotxn.RequestTopic{Name: topic, Partitions: by[topic]})
	}
	return k.repeat(ctx, "AddPartitionsToTxn", func(ctx context.Context) error {
		_, err := k.ask(ctx, req, func(m protocol.Message) error {
			var f failures
			for _, t := range m.(*addpartitionstotxn.Response).Results {
				for _, p := range t.Results {
					f.add(t.Name, p.PartitionIndex, p.ErrorCode)
				}
			}
			return f.first
		})
		return err
	})
}

// addOffsets makes the group's offsets part of the transaction.
func (k *Kafka) addOffsets(ctx context.Context, group string) error {
	req := &addoffsetstotxn.Request{TransactionalID: k.config.TransactionalID, ProducerID: k.id, ProducerEpoch: k.epoch, GroupID: group}
	return k.repeat(ctx, "AddOffsetsToTxn", func(ctx context.Context) error {
		_, err := k.ask(ctx, req, func(m protocol.Message) error { return failure(m.(*addoffsetstotxn.Response).ErrorCode) })
		return err
	})
}

// write sends messages and offsets, partitions side by side.
func (k *Kafka) write(ctx context.Context, all []*share, claim source.Claim, commits bool) error {
	for _, s := range all {
		if k.next[s.topicPartition] == nil {
			k.next[s.topicPartition] = new(int32)
		}
	}
	if commits { // before the rest: refused offsets are the usual failure, and make writing pointless
		failpoint.Here("offsets.before")
		if err := k.commitOffsets(ctx, claim); err != nil {
			return err
		}
		failpoint.Here("offsets.after")
	}
	failpoint.Here("produce.before")
	defer failpoint.Here("produce.after")
	if len(all) == 1 {
		unsure, err := k.produce(ctx, all[0])
		k.doubt = k.doubt || unsure
		return err
	}
	unsure := make([]bool, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i, s := range all {
		g.Go(func() (err error) { unsure[i], err = k.produce(ctx, s); return err })
	}
	err := g.Wait()
	k.doubt = k.doubt || slices.Contains(unsure, true)
	return err
}

// commitOffsets makes the claim part of the transaction. The request is built by hand because
// kafka-go's own sets the leader epoch of every offset to 0, where −1 means "not known".
func (k *Kafka) commitOffsets(ctx context.Context, c source.Claim) error {
	req := &txnoffsetcommit.Request{
		TransactionalID: k.config.TransactionalID, GroupID: c.Group, ProducerID: k.id, ProducerEpoch: k.epoch,
		GenerationID: c.Generation, MemberID: c.Member, GroupInstanceID: c.InstanceID,
	}
	by := make(map[string][]txnoffsetcommit.RequestPartition)
	for p, next := range c.Next {
		epoch, known := c.Epochs[p]
		if !known {
			epoch = -1
		}
		by[p.Topic] = append(by[p.Topic], txnoffsetcommit.RequestPartition{
			Partition: p.ID, CommittedOffset: next, CommittedLeaderEpoch: epoch, CommittedMetadata: c.Metadata[p],
		})
	}
	for _, topic := range slices.Sorted(maps.Keys(by)) {
		slices.SortFunc(by[topic], func(a, b txnoffsetcommit.RequestPartition) int { return int(a.Partition - b.Partition) })
		req.Topics = append(req.Topics, txnoffsetcommit.RequestTopic{Name: topic, Partitions: by[topic]})
	}
	key := coordinatorKey{kafka.CoordinatorKeyTypeConsumer, c.Group}
	err := k.repeat(ctx, "TxnOffsetCommit", func(ctx context.Context) error {
		_, err := k.askAt(ctx, key, req, func(m protocol.Message) error {
			var f failures
			for _, t := range m.(*txnoffsetcommit.Response).Topics {
				for _, p := range t.Partitions {
					f.add(t.Name, p.Partition, p.ErrorCode)
				}
			}
			return f.first
		})
		if revoked(err) { // asked before "retriable": a rebalance does not pass for this generation
			return fmt.Errorf("%w: %w", ErrRevoked, err)
		}
		return err
	})
	return err
}

// commit ends the transaction. It is the one request that is not repeated without an answer: if the
// first copy was only late, it could end the next transaction. A new epoch makes it harmless.
func (k *Kafka) commit(ctx context.Context) error {
	var unknown error
	err := k.repeat(ctx, "EndTxn", func(ctx context.Context) error {
		err := k.sendEnd(ctx, true)
		if err != nil && unanswered(err) {
			unknown = err
			return nil
		}
		return err
	})
	if err == nil && unknown != nil {
		return fmt.Errorf("EndTxn: no answer, so it is not known whether this was committed: %w", unknown)
	}
	return err
}

func (k *Kafka) sendEnd(ctx context.Context, commit bool) error {
	_, err := k.ask(ctx, &endtxn.Request{
		TransactionalID: k.config.TransactionalID, ProducerID: k.id, ProducerEpoch: k.epoch, Committed: commit,
	}, func(m protocol.Message) error { return failure(m.(*endtxn.Response).ErrorCode) })
	return err
}

// produce writes one partition's records, batch after batch. unsure: a request was not answered.
func (k *Kafka) produce(ctx context.Context, s *share) (unsure bool, err error) {
	limit := k.limits.batch(s.topic, k.config.BatchBytes)
	for done := 0; done < len(s.records); {
		n, most := fit(s.sizes[done:], limit)
		lost, err := k.send(ctx, s, s.records[done:done+n], most)
		unsure = unsure || lost
		switch {
		case err == nil:
			done += n
		case !errors.Is(err, kafka.MessageSizeTooLarge) && !errors.Is(err, kafka.RecordListTooLarge):
			return unsure, err
		case n == 1:
			return unsure, k.tooLarge(ctx, s, done)
		default: // the limit is lower than we knew; the refused batch has used no sequence numbers
			limit = recordbatch.Size(s.records[done:done+n]) / 2
			k.limits.lower(s.topic, limit)
		}
	}
	return unsure, nil
}

// send writes one batch, of at most `most` bytes. It repeats the very same bytes: producer, epoch and
// sequence tell the broker that it has them already.
func (k *Kafka) send(ctx context.Context, s *share, recs []recordbatch.Record, most int) (unsure bool, err error) {
	next := k.next[s.topicPartition]
	req := newProduceRequest(k.spare.take(most), k.config.Cluster.ClientID(), k.config.TransactionalID, s.topicPartition, k.request, recs,
		recordbatch.Producer{ID: k.id, Epoch: k.epoch, Sequence: *next, Transactional: true},
		func(b []byte, batch int) []byte {
			return k.packer.pack(b, batch, s.topic, k.limits.batch(s.topic, k.config.BatchBytes))
		})
	err = k.repeat(ctx, fmt.Sprintf("Produce to %s/%d", s.topic, s.id), func(ctx context.Context) error {
		err := req.send(ctx, k.config.Cluster)
		if errors.Is(err, kafka.DuplicateSequenceNumber) {
			return nil // an earlier copy of these bytes was written
		}
		unsure = unsure || err != nil && unanswered(err)
		return err
	})
	if err != nil {
		return unsure, err
	}
	*next = recordbatch.NextSequence(*next, len(recs))
	if !unsure { // after a timeout a connection may still be writing these bytes
		k.spare.give(req.bytes)
	}
	return unsure, nil
}
