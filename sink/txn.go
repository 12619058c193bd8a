package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
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
	var said error // of the last attempt that ctx did not cut short, which says why
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := send(ctx)
		if ctx.Err() == nil {
			said = err
		}
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
			return fmt.Errorf("%s: gave up after %v: %w: %w", what, time.Since(began).Round(time.Millisecond), ctx.Err(), cmp.Or(said, err))
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
	k.log.Warn("the cluster allows no transaction of this length (transaction.max.timeout.ms); going on with a shorter one", "timeout", k.ceiling)
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

// producer is our identity for the brokers. The epoch grows with each owner of a transactional id, and in version 2
// with each transaction. An exhausted epoch is followed by another id with epoch 0.
type producer struct {
	id    int64
	epoch int16
}

// noProducer asks for an id and an epoch without having had one.
var noProducer = producer{-1, -1}

// ask sends one request to the transaction's coordinator. refused extracts the error from the answer.
func (k *Kafka) ask(ctx context.Context, q kafkaconn.Question, refused func(kmsg.Response) error) (kmsg.Response, error) {
	return k.askAt(ctx, coordinatorKey{kafka.CoordinatorKeyTypeTransaction, k.config.TransactionalID}, q, refused)
}

func (k *Kafka) askAt(ctx context.Context, key coordinatorKey, q kafkaconn.Question, refused func(kmsg.Response) error) (kmsg.Response, error) {
	res, err := k.coord.ask(ctx, key, q)
	if err == nil {
		err = refused(res)
		k.coord.forgetAfter(key, err)
	}
	if err != nil && unanswered(err) {
		k.doubt = true
	}
	return res, err
}

// initProducer asks for an id and a new epoch, which fences all older ones.
func (k *Kafka) initProducer(ctx context.Context, was producer) (producer, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &k.config.TransactionalID, int32(k.timeout.Milliseconds())
	req.ProducerID, req.ProducerEpoch = was.id, was.epoch
	m, err := k.ask(ctx, kafkaconn.Question{Request: req, Choose: k.see(5)}, func(m kmsg.Response) error {
		return failure(m.(*kmsg.InitProducerIDResponse).ErrorCode)
	})
	if err != nil {
		return noProducer, err
	}
	res := m.(*kmsg.InitProducerIDResponse)
	return producer{res.ProducerID, res.ProducerEpoch}, nil
}

// addPartitions tells the coordinator which partitions need markers at the end. In version 2 their leaders do.
func (k *Kafka) addPartitions(ctx context.Context, all []*share) error {
	by := make(map[string][]int32)
	for _, s := range all {
		by[s.topic] = append(by[s.topic], s.id)
	}
	return k.repeat(ctx, "AddPartitionsToTxn", func(ctx context.Context) error {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = k.config.TransactionalID, k.producer.id, k.producer.epoch
		for _, topic := range slices.Sorted(maps.Keys(by)) {
			t := kmsg.NewAddPartitionsToTxnRequestTopic()
			t.Topic, t.Partitions = topic, by[topic]
			req.Topics = append(req.Topics, t)
		}
		// Versions from 4 on are for brokers.
		_, err := k.ask(ctx, kafkaconn.Question{Request: req, Most: 3}, func(m kmsg.Response) error {
			var f failures
			for _, t := range m.(*kmsg.AddPartitionsToTxnResponse).Topics {
				for _, p := range t.Partitions {
					f.add(t.Topic, p.Partition, p.ErrorCode)
				}
			}
			return f.first
		})
		return err
	})
}

// addOffsets makes the group's offsets part of the transaction. In version 2 the group's coordinator does.
func (k *Kafka) addOffsets(ctx context.Context, group string) error {
	return k.repeat(ctx, "AddOffsetsToTxn", func(ctx context.Context) error {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = k.config.TransactionalID, k.producer.id, k.producer.epoch, group
		_, err := k.ask(ctx, kafkaconn.Question{Request: req, Most: 4}, func(m kmsg.Response) error {
			return failure(m.(*kmsg.AddOffsetsToTxnResponse).ErrorCode)
		})
		return ofGroup(group, err)
	})
}

// ofGroup names the group in the error of a right that is missing.
func ofGroup(group string, err error) error {
	if errors.Is(err, kafka.GroupAuthorizationFailed) {
		return fmt.Errorf("group %q: %w", group, err)
	}
	return err
}

// commitOffsets makes the claim part of the transaction.
func (k *Kafka) commitOffsets(ctx context.Context, c source.Claim) error {
	key := coordinatorKey{kafka.CoordinatorKeyTypeConsumer, c.Group}
	return k.repeat(ctx, "TxnOffsetCommit", func(ctx context.Context) error {
		q := kafkaconn.Question{Request: k.offsets(c), Most: 4}
		if k.version == 2 {
			q.Least, q.Most = 5, 5
		}
		_, err := k.askAt(ctx, key, q, func(m kmsg.Response) error {
			var f failures
			for _, t := range m.(*kmsg.TxnOffsetCommitResponse).Topics {
				for _, p := range t.Partitions {
					f.add(t.Topic, p.Partition, p.ErrorCode)
				}
			}
			return f.first
		})
		err = ofGroup(c.Group, err)
		if revoked(err) { // before "retriable": a rebalance does not pass for this generation
			return fmt.Errorf("%w: %w", ErrRevoked, err)
		}
		return k.tooOld(err)
	})
}

func (k *Kafka) offsets(c source.Claim) *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = k.config.TransactionalID, c.Group, k.producer.id, k.producer.epoch
	req.Generation, req.MemberID = c.Generation, c.Member
	if c.InstanceID != "" {
		req.InstanceID = &c.InstanceID
	}
	for _, p := range c.Next.Partitions() {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != p.Topic {
			t := kmsg.NewTxnOffsetCommitRequestTopic()
			t.Topic = p.Topic
			req.Topics = append(req.Topics, t)
		}
		o := kmsg.NewTxnOffsetCommitRequestTopicPartition() // leader epoch −1: not known
		o.Partition, o.Offset = p.ID, c.Next[p]
		if epoch, known := c.Epochs[p]; known {
			o.LeaderEpoch = epoch
		}
		if metadata := c.Metadata[p]; metadata != "" {
			o.Metadata = &metadata
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, o)
	}
	return req
}

// endTxn ends the transaction of a producer. In version 2 the answer holds our identity from now on.
func (k *Kafka) endTxn(ctx context.Context, was producer, commit bool) (producer, error) {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = k.config.TransactionalID, was.id, was.epoch, commit
	q := kafkaconn.Question{Request: req, Choose: k.see(4)}
	if k.version == 2 {
		q.Least, q.Choose = 5, k.see(5)
	}
	m, err := k.ask(ctx, q, func(m kmsg.Response) error { return failure(m.(*kmsg.EndTxnResponse).ErrorCode) })
	if err != nil || k.version < 2 {
		return was, err
	}
	res := m.(*kmsg.EndTxnResponse)
	return producer{res.ProducerID, res.ProducerEpoch}, nil
}

// coordinators remembers which broker coordinates a transactional id or a group. kafka-go looks the coordinator up
// before every request, which would double the round trips of a transaction.
type coordinators struct {
	cluster *kafkaconn.Cluster
	mu      sync.Mutex
	nodes   map[coordinatorKey]int32
}

type coordinatorKey struct {
	kind kafka.CoordinatorKeyType
	name string
}

// ask sends a request to the coordinator and returns its answer. After a failure that may mean that the coordinator
// has moved, the next call looks it up again.
func (c *coordinators) ask(ctx context.Context, key coordinatorKey, q kafkaconn.Question) (kmsg.Response, error) {
	id, err := c.find(ctx, key)
	if err != nil {
		return nil, err
	}
	q.Broker = func(l protocol.Cluster) (protocol.Broker, error) {
		if b, ok := l.Brokers[id]; ok {
			return b, nil
		}
		return protocol.Broker{}, kafka.BrokerNotAvailable
	}
	res, err := c.cluster.Ask(ctx, q)
	c.forgetAfter(key, err)
	return res, err
}

func (c *coordinators) find(ctx context.Context, key coordinatorKey) (int32, error) {
	c.mu.Lock()
	id, ok := c.nodes[key]
	c.mu.Unlock()
	if ok {
		return id, nil
	}
	res, err := c.cluster.Client().FindCoordinator(ctx, &kafka.FindCoordinatorRequest{Key: key.name, KeyType: key.kind})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return 0, fmt.Errorf("find the coordinator of %q: %w", key.name, err)
	}
	id = int32(res.Coordinator.NodeID)
	c.mu.Lock()
	c.nodes[key] = id
	c.mu.Unlock()
	return id, nil
}

// forgetAfter forgets a coordinator if err, which is of the request or in its answer, may mean that it has moved.
func (c *coordinators) forgetAfter(key coordinatorKey, err error) {
	moved := errors.Is(err, kafka.NotCoordinatorForGroup) || errors.Is(err, kafka.GroupCoordinatorNotAvailable) ||
		errors.Is(err, kafka.BrokerNotAvailable)
	if err == nil || !moved && !unanswered(err) {
		return
	}
	c.mu.Lock()
	delete(c.nodes, key)
	c.mu.Unlock()
}
