//go:build unix && chaos

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// The network is away inside a transaction for longer than the broker lets a transaction stay open: the broker
// aborts it and fences its owner, no other process takes the work, and the programs go on by themselves.
func TestChaosLongCut(t *testing.T) {
	const rounds, away = 4, time.Minute // the timeout of transactions is 45 s
	for _, c := range []struct {
		kind     kafkatest.Kind
		settings settings
		commands []string
	}{
		{kafkatest.Kafka41, settings{static: true}, []string{"run"}},
		{kafkatest.Kafka41, settings{}, []string{"learn", "transform"}},
		{kafkatest.Kafka39, settings{static: true}, []string{"run"}},
		{kafkatest.Kafka39, settings{}, []string{"learn", "transform"}},
	} {
		what := strings.Join(c.commands, " + ")
		if c.settings.static {
			what += ", static"
		}
		t.Run(fmt.Sprintf("%s, %s", what, c.kind), func(t *testing.T) {
			b := kafkatest.StartWith(t, c.kind, kafkatest.Setup{Proxied: true})
			way := b.Proxies()[0]
			c.settings.partitions, c.settings.brokers = 3, b.Proxied()
			s := newChaos(t, b, "away", c.settings)
			s.fewest = 3 // the network is away most of the time
			for _, command := range c.commands {
				s.begin(command)
			}
			for round := range rounds {
				p := s.programs[round%len(s.programs)]
				s.progress(s.group(p), 20, s.programs...)
				p.pauseInside(s.topics(p)...)
				if round%2 == 0 {
					way.Cut()
				} else {
					way.BlackHole()
				}
				p.Resume()
				time.Sleep(away)
				before := s.before(s.group(p))
				if err := way.Heal(); err != nil {
					t.Fatal(err)
				}
				s.recovered(s.group(p), before, time.Now(), s.programs...)
			}
			s.awaitVersions(2*s.fewest, s.programs...) // behind a cut the transform catches up with one version, sooner than the learner makes another
			s.finish(fmt.Sprintf("network away for %v: %s", away, what), fmt.Sprintf("%d inside a transaction, cut and black hole", rounds))
		})
	}
}

// Sixty-four partitions with messages of 64 kB behind 50 kB/s: it commits, one partition after the other, and all
// is there once.
func TestChaosQuotaManyPartitions(t *testing.T) {
	const partitions, quota = 64, 50_000
	b := kafkatest.StartWith(t, kafkatest.Kafka41, kafkatest.Setup{HeapMiB: 400})
	s := &chaos{stream: newStream(t, b, "narrow", settings{partitions: partitions, features: sensorColumns}), seed: chosenSeed()}
	small, _ := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 64 * 100, PerMessage: 20, Seed: 1})
	first := small()
	p := s.begin("run")
	s.await(s.name, int64(first.Messages), p) // there is a model
	s.Quota(t, "lca-stream", quota)
	large, _ := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 2 * partitions * 850, PerMessage: 850, Seed: 2})
	second := large()
	began, last, slowest := time.Now(), time.Now(), time.Duration(0)
	for seen := s.committed(s.name); seen < int64(first.Messages+second.Messages); {
		p.alive()
		if now := s.committed(s.name); now > seen {
			seen, slowest, last = now, max(slowest, time.Since(last)), time.Now()
		}
		if silent := time.Since(last); silent > 4*time.Minute {
			p.explain()
			t.Fatalf("nothing was committed for %v", silent)
		}
		if time.Since(began) > 12*time.Minute {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	behind := int64(first.Messages+second.Messages) - s.committed(s.name)
	s.Quota(t, "lca-stream", 0)
	s.await(s.name, int64(first.Messages+second.Messages), p)
	p.stop()
	v := s.check(first.Rows+second.Rows, 1)
	s.report(fmt.Sprintf("quota of %d kB/s with %d partitions, messages of 64 kB", quota/1000, partitions), fmt.Sprintf("%d messages", second.Messages),
		fmt.Sprintf("%d behind after %v, the longest time without a commit %v; %d rows",
			behind, time.Since(began).Round(time.Second), slowest.Round(time.Second), v.Rows))
}
