//go:build unix && chaos

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// soon is how soon after brokers are back something should be committed, on a machine that has nothing
// else to do: what is later is counted and reported, not failed.
const soon = 5 * time.Second

// The only broker dies inside a transaction, by SIGKILL and by SIGTERM in turn. The program stays.
func TestChaosBroker(t *testing.T) {
	const deaths = 10
	late := 0
	s := newChaos(t, kafkatest.Start(t, kafkatest.Kafka41), "broker", settings{partitions: 3})
	p := s.begin("run")
	for death := range deaths {
		s.progress(s.name, 20, p)
		s.pause(500 * time.Millisecond)
		p.pauseInside(s.topics(p)...)
		before := s.before(s.name)
		if death%2 == 0 {
			s.Kill()
		} else {
			p.Resume() // an orderly stop of the broker waits for no paused process
			s.Stop()
		}
		p.Resume()
		s.Restart()
		if took := s.recovered(s.name, before, time.Now(), p); took > soon {
			t.Logf("death %d: the first commit came %v after the broker was back", death, took)
			late++
		}
	}
	s.progress(s.name, 20, p)
	s.finish("the only broker dies", fmt.Sprintf("%d SIGKILL, %d SIGTERM, inside a transaction; %d times later than %v", (deaths+1)/2, deaths/2, late, soon))
}

// One of three brokers dies, each in turn, so that leaders and coordinators move: replication factor
// 3, min.insync.replicas 2.
func TestChaosCluster(t *testing.T) {
	const deaths = 6
	s := newChaos(t, kafkatest.StartN(t, kafkatest.Kafka41, 3), "cluster", settings{partitions: 3})
	p := s.begin("run")
	for death := range deaths {
		s.progress(s.name, 20, p)
		p.pauseInside(s.topics(p)...)
		before := s.before(s.name)
		node := death % 3
		if death%2 == 0 {
			s.Kill(node)
			p.Resume()
		} else {
			p.Resume()
			s.Stop(node)
		}
		s.recovered(s.name, before, time.Now(), p) // while the node is away
		s.Restart(node)
	}
	s.progress(s.name, 20, p)
	s.finish("one of three brokers dies, leaders move", fmt.Sprintf("%d SIGKILL, %d SIGTERM", (deaths+1)/2, deaths/2))
}

// The network breaks in each way there is, between the program and a healthy broker: it reconnects
// by itself, and no transaction stays open.
func TestChaosNetwork(t *testing.T) {
	const rounds = 3
	b := kafkatest.StartWith(t, kafkatest.Kafka41, kafkatest.Setup{Proxied: true})
	way := b.Proxies()[0]
	s := newChaos(t, b, "network", settings{partitions: 3, brokers: b.Proxied()})
	p := s.begin("run")
	faults := []struct {
		name   string
		broken bool // nothing can be committed meanwhile
		do     func()
	}{
		{"cut", true, way.Cut},
		{"reset", false, way.Reset},
		{"black hole", true, way.BlackHole},
		{"latency", false, func() { way.Delay(time.Duration(20+s.random.IntN(80)) * time.Millisecond) }},
		{"slow", false, func() { way.Slow(50_000 + s.random.IntN(50_000)) }},
	}
	for round := range rounds {
		for _, f := range faults {
			s.progress(s.name, 20, p)
			p.pauseInside(s.topics(p)...)
			f.do()
			p.Resume()
			for range 1 + round*2 { // one long and one short
				s.pause(4 * time.Second)
			}
			before := s.before(s.name)
			if f.broken {
				time.Sleep(time.Second)
				if now := s.before(s.name); now != before {
					t.Errorf("%s: %d records were committed through a broken network", f.name, now-before)
				}
			}
			if err := way.Heal(); err != nil {
				t.Fatal(err)
			}
			took := s.recovered(s.name, before, time.Now(), p)
			t.Logf("%s: the first commit %v after it was restored", f.name, took.Round(time.Millisecond))
		}
	}
	s.progress(s.name, 20, p)
	s.finish("network", fmt.Sprintf("%d × cut, reset, black hole, latency 20–100 ms, 50–100 kB/s", rounds))
}

// A quota of the broker slows the program down: lag grows, memory does not, and all is right once the
// quota is gone.
func TestChaosQuota(t *testing.T) {
	const memoryBoundMiB = 300
	s := newChaos(t, kafkatest.Start(t, kafkatest.Kafka41), "quota", settings{partitions: 3})
	p := s.begin("run")
	s.progress(s.name, 20, p)
	s.Quota(t, "lca-stream", 60_000) // bytes per second, each way; the load is about 150 kB/s in and 250 kB/s out
	time.Sleep(60 * time.Second)
	before := s.before(s.name)
	lag := -before
	for _, end := range s.ListOffsets(t, s.topic("in"), -1, 0) {
		lag += end
	}
	if lag < 500 {
		t.Errorf("the lag is %d records: the quota did not bind", lag)
	}
	s.Quota(t, "lca-stream", 0)
	s.recovered(s.name, before, time.Now(), p)
	s.progress(s.name, 100, p)
	peak := testtools.PeakMiB(t, p.Pid())
	if peak > memoryBoundMiB {
		t.Errorf("%d MiB at the peak, more than %d", peak, memoryBoundMiB)
	}
	s.finish("broker quota of 60 kB/s for 60 s", fmt.Sprintf("%d records behind in the end, %d MiB at the peak", lag, peak))
}
