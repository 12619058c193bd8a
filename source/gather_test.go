package source

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// onClock returns a reader of a partition to which a message comes every so often, without a broker: its lane
// hands over what there is, as Kafka.run does.
func onClock(t *testing.T, rate *Rate, every time.Duration) *Kafka {
	p := Partition{Topic: "load"}
	k := &Kafka{
		config:   KafkaConfig{Rate: rate, GatherBytes: 4 << 20, GatherWait: 100 * time.Millisecond, Memory: NewMemory(1<<30, 1)},
		position: Offsets{p: 0}, epochs: Epochs{}, shared: make(chan *portion),
	}
	l := &lane{}
	came := make(chan recordbatch.Record, 1<<20)
	go func() {
		for n := int64(0); ; n++ {
			if sleep(t.Context(), every) != nil {
				return
			}
			came <- recordbatch.Record{Offset: n, Timestamp: time.Now().UnixMilli(), Value: []byte("x")}
		}
	}()
	go func() {
		for hurry := false; ; {
			got := &portion{lane: l, partition: p}
			if len(came) == 0 && hurry {
				got.nothing = true
			} else {
				select {
				case r := <-came:
					got.records = append(got.records, r)
				case <-t.Context().Done():
					return
				}
			}
			for len(came) > 0 {
				got.records = append(got.records, <-came)
			}
			for _, r := range got.records {
				got.after = r.Offset + 1
			}
			got.read = k.reads.Load()
			select {
			case k.shared <- got:
				hurry = got.stale(k)
			case <-t.Context().Done():
				return
			}
		}
	}()
	return k
}

// work reads for ten seconds, with transactions that take so long. each sees every batch with messages.
func work(t *testing.T, k *Kafka, transaction time.Duration, each func(Batch)) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		b, err := k.Read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		each(b)
		b.Release()
		time.Sleep(transaction)
	}
}

// age is how long ago a message came. Times have no fractions of a millisecond.
func age(m Message) time.Duration { return time.Since(m.Time).Truncate(time.Millisecond) }

// Where transactions are shorter than the pauses between messages, each message has a batch at once.
func TestNoMessageWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batches := 0
		work(t, onClock(t, NewRate(500), 10*time.Millisecond), 5*time.Millisecond, func(b Batch) {
			if batches++; len(b.Messages) != 1 || age(b.Messages[0]) > 0 {
				t.Errorf("%d messages, the first of them %v old", len(b.Messages), age(b.Messages[0]))
			}
		})
		if batches < 990 {
			t.Errorf("%d batches of 1000 messages", batches)
		}
	})
}

// A batch has what came during the last transaction and the pause after it, to within the message of that very
// moment.
func TestBatchesFollowTheLoad(t *testing.T) {
	for _, c := range []struct{ transaction, pause time.Duration }{
		{10 * time.Millisecond, 5 * time.Millisecond},
		{50 * time.Millisecond, 25 * time.Millisecond},
		{2 * time.Second, 100 * time.Millisecond}, // GatherWait
	} {
		t.Run(c.transaction.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				batches, want := 0, int((c.transaction+c.pause)/time.Millisecond)
				work(t, onClock(t, NewRate(500), time.Millisecond), c.transaction, func(b Batch) {
					batches++
					if n := len(b.Messages); batches > 1 && (n < want-1 || n > want+1 || age(b.Messages[n-1]) > time.Millisecond) {
						t.Errorf("batch %d has %d messages, want %d; the last of them is %v old", batches, n, want, age(b.Messages[n-1]))
					}
				})
				if batches < 2 {
					t.Errorf("%d batches", batches)
				}
			})
		})
	}
}

// Readers that share a Rate give no more batches than it allows, and each has its turn. Full batches count as well.
func TestRateBoundsAllReaders(t *testing.T) {
	const readers, rate, seconds = 100, 500, 10
	for _, c := range []struct {
		name   string
		gather int           // bytes
		oldest time.Duration // of the messages of a batch
	}{
		{"batches that have all there is", 4 << 20, (readers + 1) * time.Second / rate},
		{"full batches", 1, seconds * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var wait sync.WaitGroup
				var batches atomic.Int64
				shared := NewRate(rate)
				for range readers {
					k := onClock(t, shared, 10*time.Millisecond)
					k.config.GatherBytes = c.gather
					wait.Go(func() {
						work(t, k, time.Millisecond, func(b Batch) {
							batches.Add(1)
							if oldest := age(b.Messages[0]); oldest > c.oldest {
								t.Errorf("a message has waited for %v", oldest)
							}
						})
					})
				}
				wait.Wait()
				if n, most := batches.Load(), int64(rate*(seconds+allowance.Seconds())); n > most || n < most*9/10 {
					t.Errorf("%d batches, want nearly %d", n, most)
				}
			})
		})
	}
}
