package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The pass-through is what any service on Kafka pays before it has done anything: it copies keys and
// values, exactly once, with the client library that is known to be the fastest in Go. It runs in a
// process of its own, this test binary with passEnv set.
const passEnv = "LCA_BENCH_PASS"

type passConfig struct {
	Brokers, Input, Output, Group string
	Messages                      int
	Twice                         bool // write each value as the key, too: as many bytes as x and y, and nothing to make
	AtLeastOnce                   bool // no transactions: offsets are committed when what they stand for has been written
}

func TestMain(m *testing.M) {
	text := os.Getenv(passEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var c passConfig
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func passThrough(b *testing.B, c passConfig) result {
	b.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), passEnv+"="+string(text), "GOMAXPROCS="+threads())
	cmd.Stderr = os.Stderr
	r := lastLine(b, cmd)
	r.CPU = spent(cmd)
	return r
}

// copier is a client that reads and writes, and keeps what it has written so far.
type copier interface {
	PollFetches(context.Context) kgo.Fetches
	Produce(context.Context, *kgo.Record, func(*kgo.Record, error))
	Flush(context.Context) error
	Begin() error
	Keep(context.Context) error
	Close()
}

// inTransactions copies exactly once.
type inTransactions struct{ *kgo.GroupTransactSession }

func (s inTransactions) Flush(ctx context.Context) error { return s.Client().Flush(ctx) }

func (s inTransactions) Keep(ctx context.Context) error {
	if ok, err := s.End(ctx, kgo.TryCommit); err != nil || !ok {
		return fmt.Errorf("committed %v: %w", ok, err)
	}
	return nil
}

// withoutTransactions copies at least once.
type withoutTransactions struct{ *kgo.Client }

func (s withoutTransactions) Begin() error                   { return nil }
func (s withoutTransactions) Keep(ctx context.Context) error { return s.CommitUncommittedOffsets(ctx) }

func (c *passConfig) open() (copier, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers), kgo.ConsumerGroup(c.Group), kgo.ConsumeTopics(c.Input),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.FetchMaxBytes(64 << 20), kgo.FetchMaxPartitionBytes(16 << 20), kgo.ProducerBatchMaxBytes(8 << 20), kgo.MaxBufferedRecords(1e6),
	}
	if c.AtLeastOnce {
		s, err := kgo.NewClient(append(options, kgo.DisableAutoCommit())...)
		return withoutTransactions{s}, err
	}
	s, err := kgo.NewGroupTransactSession(append(options, kgo.TransactionalID(c.Group+"-txn"))...)
	return inTransactions{s}, err
}

func (c *passConfig) run(ctx context.Context) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	defer s.Close()
	done := 0
	var first time.Time
	for done < c.Messages {
		fetches := s.PollFetches(ctx)
		if fetches.NumRecords() == 0 {
			continue
		}
		if first.IsZero() {
			first = time.Now()
		}
		if err := s.Begin(); err != nil {
			return err
		}
		count, err := c.copy(ctx, s, fetches, c.Messages-done)
		if err != nil {
			return err
		}
		if err := s.Keep(ctx); err != nil {
			return err
		}
		done += count
	}
	return json.NewEncoder(os.Stdout).Encode(result{Messages: done, Wall: time.Since(first).Seconds()})
}

// copy fills one transaction: 8 MiB, 100 ms, or all there is.
func (c *passConfig) copy(ctx context.Context, s copier, fetches kgo.Fetches, most int) (count int, err error) {
	const txnBytes, txnTime = 8 << 20, 100 * time.Millisecond
	began, size := time.Now(), 0
	failed := make(chan error, 1)
	for {
		fetches.EachRecord(func(r *kgo.Record) {
			count++
			size += len(r.Value)
			key := r.Key
			if c.Twice {
				key = r.Value
			}
			s.Produce(ctx, &kgo.Record{Topic: c.Output, Partition: r.Partition, Key: key, Value: r.Value, Timestamp: r.Timestamp}, func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		})
		if size >= txnBytes || time.Since(began) > txnTime || count >= most {
			break
		}
		soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		fetches = s.PollFetches(soon)
		cancel()
	}
	if err := s.Flush(ctx); err != nil {
		return count, err
	}
	select {
	case err := <-failed:
		return count, err
	default:
		return count, nil
	}
}
