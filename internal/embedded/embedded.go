// Package embedded is a Kafka broker inside the process, for `lca-stream demo` and for quick tests.
//
// It speaks enough of the protocol for everything this project does: groups, transactions,
// read_committed, compaction. It is not a database: one goroutine serves all requests, nothing is
// replicated, and by default nothing outlives the process. A real broker stays the reference;
// internal/kafkatest runs the same tests on both.
//
//	b, err := embedded.Start(embedded.Config{})
//	…
//	defer b.Close()
//	dial(b.Addr())
//
// Memory is bounded by Config.RetentionBytes for each partition: once a second everything older
// is dropped, as a real broker does with retention.bytes, and compacted topics are compacted.
// Two limits come from the broker inside: memory is given back in whole segments, so a partition
// may hold RetentionBytes + SegmentBytes; and a compacted topic is bounded by its keys only, so
// create it with CreateTopic, which exempts it from retention by size. Compaction moves the start
// of the log here, which Kafka's does not: a reader below it is told "offset out of range".
package embedded

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Config says what to start. The zero value is one broker in memory on a free port.
type Config struct {
	// Ports to listen on at 127.0.0.1, one broker for each; 0 is any free port. Empty: one broker
	// on any free port. Fixed ports in 32768–60999 may collide with outgoing connections.
	Ports []int
	// DataDir keeps topics, offsets and transactions on disk, so that a second Start with the same directory
	// continues. Empty keeps everything in memory.
	DataDir string
	// RetentionBytes bounds each partition that is not compacted. Default 64 MiB; −1: no bound.
	RetentionBytes int64
	// SegmentBytes is the unit in which memory is freed. Default 4 MiB.
	SegmentBytes int64
	// MaxMessageBytes is the largest record batch that a topic takes by default. Default 1 MiB, as in Kafka.
	MaxMessageBytes int64
	// TransactionMaxTimeout bounds the transaction timeout that producers may request. Default 15 min, as in Kafka.
	TransactionMaxTimeout time.Duration
	// Transactions2 offers version 2 of transactions (KIP-890), for tests of how a client uses its answers. It does
	// not fence reliably: the EndTxn of a former owner, one epoch behind, is taken for a repetition by the new owner.
	// Without it the broker behaves as Kafka 3.9 does, including the features that it announces, because clients
	// judge by features as well as by request versions.
	Transactions2 bool
}

// Broker is a running broker. Its methods may be called from any goroutine.
type Broker struct {
	cluster *kfake.Cluster
	stop    chan struct{}
	stopped sync.WaitGroup
	once    sync.Once

	mu      sync.Mutex          // held while a topic is compacted; nothing is written meanwhile
	written map[string]struct{} // topics that transactions have written to
}

const (
	// sweepEvery is the interval of retention and compaction; between two runs a partition can grow by what a producer
	// writes in that time.
	sweepEvery = time.Second
	// compactAgain is when compaction is tried again that an open transaction has put off.
	compactAgain = 20 * time.Millisecond
	// never is longer than any broker runs, in milliseconds.
	never = "8640000000"
)

// Start returns a broker that accepts connections.
func Start(c Config) (*Broker, error) {
	if c.RetentionBytes == 0 {
		c.RetentionBytes = 64 << 20
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = 4 << 20
	}
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.BrokerConfigs(brokerConfigs(c))}
	if len(c.Ports) > 0 {
		opts = append(opts, kfake.Ports(c.Ports...))
	}
	if !c.Transactions2 {
		opts = append(opts, kfake.MaxVersions(kversion.V3_9_0()))
	}
	if c.DataDir != "" {
		opts = append(opts, kfake.DataDir(c.DataDir))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("embedded: start the broker: %w", err)
	}
	b := &Broker{cluster: cluster, stop: make(chan struct{}), written: map[string]struct{}{}}
	cluster.ControlKey(int16(kmsg.Produce), b.noteWritten)
	b.stopped.Add(1)
	go b.sweep()
	return b, nil
}

func brokerConfigs(c Config) map[string]string {
	m := map[string]string{
		"log.retention.bytes": strconv.FormatInt(c.RetentionBytes, 10),
		"log.segment.bytes":   strconv.FormatInt(c.SegmentBytes, 10),

		"log.cleaner.backoff.ms": never, // sweep compacts
	}
	if c.MaxMessageBytes > 0 {
		m["message.max.bytes"] = strconv.FormatInt(c.MaxMessageBytes, 10)
	}
	if c.TransactionMaxTimeout > 0 {
		m["transaction.max.timeout.ms"] = strconv.FormatInt(c.TransactionMaxTimeout.Milliseconds(), 10)
	}
	return m
}

// sweep drops what retention and compaction allow to drop.
func (b *Broker) sweep() {
	defer b.stopped.Done()
	timer := time.NewTimer(sweepEvery)
	defer timer.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-timer.C:
			b.cluster.ApplyRetention()
			next := sweepEvery
			if !b.Compact() {
				next = compactAgain
			}
			timer.Reset(next)
		}
	}
}

// noteWritten notes the topics of a transaction, and waits until none is compacted. The broker does what is asked of it after that, before anything else.
func (b *Broker) noteWritten(r kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // the broker's signature
	b.mu.Lock()
	defer b.mu.Unlock()
	p := r.(*kmsg.ProduceRequest)
	for i := range p.Topics {
		if p.TransactionID == nil {
			break
		}
		name := p.Topics[i].Topic
		if info := b.cluster.TopicIDInfo(p.Topics[i].TopicID); name == "" && info != nil {
			name = info.Topic
		}
		b.written[name] = struct{}{}
	}
	return nil, nil, false
}

// Compact compacts, unless a transaction is open in a compacted topic: the broker inside would let records that may be aborted take the place of those
// before them. Kafka's cleaner does not look beyond the last stable offset.
func (b *Broker) Compact() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.written {
		info := b.cluster.TopicInfo(name)
		if info == nil {
			delete(b.written, name)
			continue
		}
		if policy := info.Configs["cleanup.policy"]; policy == nil || !strings.Contains(*policy, "compact") {
			continue
		}
		for _, p := range b.cluster.PartitionInfos(name) {
			if p.LastStableOffset < p.HighWatermark {
				return false
			}
		}
	}
	b.cluster.Compact()
	return true
}

// Addr returns the address for clients: the first one of Addrs.
func (b *Broker) Addr() string { return b.Addrs()[0] }

// Addrs returns the addresses of all brokers, host:port.
func (b *Broker) Addrs() []string { return b.cluster.ListenAddrs() }

// CreateTopic creates a topic. A compacted topic is exempt from retention by size unless configs sets it: the
// underlying broker applies its default to compacted topics too, which Kafka does not.
func (b *Broker) CreateTopic(name string, partitions int32, configs map[string]string) error {
	with := make(map[string]string, len(configs)+1)
	if configs["cleanup.policy"] == "compact" {
		with["retention.bytes"] = "-1"
	}
	for k, v := range configs {
		with[k] = v
	}
	if err := b.cluster.CreateTopic(name, partitions, with); err != nil {
		return fmt.Errorf("embedded: create topic %q: %w", name, err)
	}
	return nil
}

// Cluster returns the underlying broker, for tests that inject faults.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Close closes all connections and frees everything; with a DataDir the state stays there. It may be called more than
// once.
func (b *Broker) Close() {
	b.once.Do(func() {
		close(b.stop)
		b.stopped.Wait()
		b.cluster.Close()
	})
}
