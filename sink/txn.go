package sink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source"
)

const (
	// firstWait is short because the most frequent reason to wait is the previous transaction: brokers answer EndTxn
	// before its markers are written, and refuse the next transaction for a few milliseconds.
	firstWait = 5 * time.Millisecond
	lastWait  = time.Second

	// quietFor is how long a request is repeated before it is logged.
	quietFor = 2 * time.Second

	// sayEvery is the interval of later log lines, so that a coordinator that is away for an hour fills no log.
	sayEvery = 30 * time.Second

	// writers bounds the partitions that are written concurrently.
	writers = 8
)

// repeat sends a request until it is carried out, refused for good, or ctx ends.
func (k *Kafka) repeat(ctx context.Context, what string, send func(context.Context) error) error {
	return k.repeatPatiently(ctx, what, func(ctx context.Context) error {
		one, cancel := context.WithTimeout(ctx, k.request)
		defer cancel()
		return send(one)
	})
}

// repeatPatiently is repeat for requests that bound each attempt themselves.
func (k *Kafka) repeatPatiently(ctx context.Context, what string, send func(context.Context) error) error {
	began := time.Now()
	say := began.Add(quietFor)
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := send(ctx)
		if err == nil {
			if say.After(began.Add(quietFor)) {
				k.log.Info("a request that was repeated has been carried out", "request", what, "after", time.Since(began).Round(time.Millisecond))
			}
			return nil
		}
		if !retriable(err) && !k.config.Cluster.MayReturn(err, began) { // a right that is missing leaves the transaction as it is
			return fmt.Errorf("%s: %w", what, classify(err, k.version))
		}
		if now := time.Now(); now.After(say) {
			k.log.Warn("a request is repeated", "request", what, "error", err, "for", now.Sub(began).Round(time.Second))
			say = now.Add(sayEvery)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: gave up after %v: %w: %w", what, time.Since(began).Round(time.Millisecond), ctx.Err(), err)
		case <-time.After(wait/2 + rand.N(wait)): // spread, so that partitions do not repeat in step
		}
	}
}

// initialise gets a producer id and a new epoch. After the first time it names our own id and epoch, which the broker
// refuses if another process has had the id since (KIP-360; transactions themselves are KIP-98).
func (k *Kafka) initialise(ctx context.Context) error {
	for {
		err := k.repeat(ctx, "InitProducerId", func(ctx context.Context) error {
			p, err := k.initProducer(ctx, k.producer)
			if err == nil {
				k.become(p)
			}
			return err
		})
		if err == nil || !k.lowerTimeout(err) {
			return err
		}
	}
}

// renew ends the transaction, whatever its state, and takes a new epoch. It reports whether the transaction is known
// to be committed, which only version 2 can tell.
//
// It aborts first, because only EndTxn compares epochs before it acts. InitProducerId from a former owner would abort
// the transaction of the new owner (on Apache Kafka), or even take the work back (on the embedded broker).
func (k *Kafka) renew(ctx context.Context) (committed bool, err error) {
	if k.version == 2 {
		return k.renew2(ctx)
	}
	err = k.repeat(ctx, "EndTxn(abort)", func(ctx context.Context) error {
		_, err := k.endTxn(ctx, k.producer, false)
		if errors.Is(err, kafka.InvalidTransactionState) || errors.Is(err, kafka.InvalidProducerIDMapping) {
			return nil // nothing is open: it was committed, or never began; or the broker has forgotten us
		}
		return err
	})
	if err != nil {
		return false, err
	}
	return false, k.initialise(ctx)
}

// write sends messages and offsets, several partitions concurrently.
func (k *Kafka) write(ctx context.Context, all []*share, claim source.Claim, commits bool) error {
	for _, s := range all {
		if k.next[s.topicPartition] == nil {
			k.next[s.topicPartition] = new(int32)
		}
	}
	if commits { // first, because refused offsets are the most frequent failure, and make writing pointless
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
	k.together(ctx, all, unsure)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	if k.version == 2 && slices.ContainsFunc(all, func(s *share) bool { return s.done == 0 }) {
		g.SetLimit(1) // see together
	}
	for i, s := range all {
		g.Go(func() error {
			lost, err := k.produce(ctx, s)
			unsure[i] = unsure[i] || lost
			return err
		})
	}
	err := g.Wait()
	k.doubt = k.doubt || slices.Contains(unsure, true)
	return err
}

// commit ends the transaction. In version 1 it is the one request that is not repeated without an answer: if the
// first copy was only late, the second could end the next transaction. A new epoch makes a late copy harmless.
func (k *Kafka) commit(ctx context.Context) error {
	if k.version == 2 {
		return k.commit2(ctx)
	}
	var unknown error
	err := k.repeat(ctx, "EndTxn", func(ctx context.Context) error {
		_, err := k.endTxn(ctx, k.producer, true)
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

// produce writes one partition's records, batch after batch. unsure: a request was not answered.
func (k *Kafka) produce(ctx context.Context, s *share) (unsure bool, err error) {
	limit := k.limits.batch(s.topic, k.config.BatchBytes)
	for done := s.done; done < len(s.records); {
		n, most := fit(s.sizes[done:], limit)
		lost, base, err := k.send(ctx, s, s.records[done:done+n], most)
		unsure = unsure || lost
		switch {
		case err == nil:
			s.written(done, n, base)
			done += n
		case errors.Is(err, kafka.InvalidTimestamp):
			return unsure, k.untimely(ctx, s.topic, err)
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

// send writes one batch of at most `most` bytes. It repeats exactly the same bytes: from producer, epoch and sequence
// the broker knows that it has them already. base is the offset of the first record; -1 if it is not known.
func (k *Kafka) send(ctx context.Context, s *share, recs []recordbatch.Record, most int) (unsure bool, base int64, err error) {
	next := k.next[s.topicPartition]
	encode, room := k.packer.encoding(recs, s.topic, k.limits.batch(s.topic, k.config.BatchBytes), most)
	req := newProduceRequest(k.version, k.config.Link.spare.take(room), k.config.Cluster.ClientID(), k.config.TransactionalID, s.topicPartition, k.request, recs,
		recordbatch.Producer{ID: k.producer.id, Epoch: k.producer.epoch, Sequence: *next, Transactional: true}, encode)
	defer func() { k.config.Link.spare.give(req.bytes) }()
	err = k.repeatPatiently(ctx, fmt.Sprintf("Produce to %s/%d", s.topic, s.id), func(ctx context.Context) error {
		var err error
		base, err = req.send(ctx, k.config.Cluster, k.patience(req.size()))
		if err != nil && tooSlow(err) {
			k.late.Store(true)
		}
		if errors.Is(err, kafka.DuplicateSequenceNumber) {
			return nil // an earlier copy of these bytes was written
		}
		unsure = unsure || err != nil && unanswered(err)
		return k.tooOld(err)
	})
	if err != nil {
		return unsure, -1, err
	}
	*next = recordbatch.NextSequence(*next, len(recs))
	return unsure, base, nil
}
