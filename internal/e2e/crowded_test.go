//go:build unix

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

var crowdedKills = flag.Int("kills", 4, "how often TestCrowdedCoordinator kills the program in a transaction")

// A broker before 3.9.1 whose group coordinator is busy shows offsets of aborted transactions as committed (KAFKA-17507). A program that is killed in a
// transaction, again and again, loses and repeats nothing all the same.
func TestCrowdedCoordinator(t *testing.T) {
	t.Parallel()
	b := kafkatest.StartWith(t, kafkatest.Kafka38, kafkatest.Setup{Properties: kafkatest.Crowded, HeapMiB: 512})
	s := newStream(t, b, "crowded", settings{partitions: 2, static: true, features: "[a, b]"})
	b.Crowd(t, s.topic("in"), 10_000)
	if said := s.command("doctor"); !strings.Contains(said, "warning  offsets      brokers 1 (") || !strings.Contains(said, "KAFKA-17507") {
		t.Errorf("doctor does not name the broker:\n%s", said)
	}
	stop := s.flow(3000)
	run := s.program("run")
	s.awaitShown(2000, run)
	aborted := func() int { return strings.Count(lastLines(run.log, 1<<30), "is that of an aborted transaction") }
	kills := 0
	for ; kills < *crowdedKills || aborted() == 0 && kills < 5**crowdedKills; kills++ { // until the broker has shown its fault, too
		run.killInside(s.topic("out"))
		before := s.committedSoFar(s.name)
		run.start()
		s.awaitShown(before+2000, run)
	}
	s.awaitShown(stop(), run)
	run.stop()
	faults, messages := b.Once(t, s.topic("in"), s.topic("out"), s.topic("dead"))
	if len(faults) > 0 {
		t.Errorf("%d messages, %d kills:\n%s", messages, kills, strings.Join(faults, "\n"))
	}
	t.Logf("%d messages, %d kills: %d take-overs found the offset of an aborted transaction", messages, kills, aborted())
}

// awaitShown waits until a broker with KAFKA-17507 shows offsets of that sum. It completes offsets by the producer's id alone, and may lose those of transactions
// that follow each other quickly: it then shows an older offset for good, although all is committed. A take-over commits how far is written.
func (s *stream) awaitShown(sum int64, run *program) {
	s.t.Helper()
	moved, last, deadline := time.Now(), int64(-1), time.Now().Add(4*time.Minute)
	for {
		run.alive()
		shown := s.committedSoFar(s.name)
		switch {
		case shown >= sum:
			s.await(s.name, sum, run)
			return
		case shown != last:
			moved, last = time.Now(), shown
		case time.Now().After(deadline):
			run.explain()
			s.t.Fatalf("group %s has committed %d of %d messages after 4 minutes", s.name, shown, sum)
		case time.Since(moved) > 20*time.Second:
			s.t.Logf("the broker shows %d of %d messages as committed for 20 s: a take-over", shown, sum)
			run.stop()
			run.start()
			moved = time.Now()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// committedSoFar is the sum of what a group shows as committed now.
func (s *stream) committedSoFar(group string) (sum int64) {
	for _, next := range s.LastCommitted(s.t, group) {
		sum += next
	}
	return sum
}

// flow writes messages of one row at a rate per second until stop is called, which returns how many there are.
func (s *stream) flow(rate int) (stop func() int64) {
	s.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DefaultProduceTopic(s.topic("in")), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	written := make(chan int64, 1)
	s.t.Cleanup(func() { cancel(); c.Close() })
	go func() {
		const every = 10 * time.Millisecond
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		n := int64(0)
		for ctx.Err() == nil {
			<-ticker.C
			for range max(1, rate*int(every)/int(time.Second)) {
				a := float64(n%97) / 10
				c.Produce(context.Background(), &kgo.Record{Key: []byte(strconv.FormatInt(n, 10)), Value: fmt.Appendf(nil, `{"a":%g,"b":%g}`, a, 3*a+float64(n%13))}, nil)
				n++
			}
		}
		if err := c.Flush(context.Background()); err != nil {
			n = -1
		}
		written <- n
	}()
	return func() int64 {
		s.t.Helper()
		cancel()
		n := <-written
		if n < 0 {
			s.t.Fatal("the input was not written")
		}
		return n
	}
}
