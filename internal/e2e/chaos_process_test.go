//go:build unix && chaos

package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// kill -9 a thousand times, each time inside a transaction: in the default configuration and in others, of one
// process that does both, and of a learner and a transform; on every broker that is supported; with messages that name
// their schema, too.
func TestChaosKill(t *testing.T) {
	both := []string{"learn", "transform"}
	for _, c := range []struct {
		name     string
		kind     kafkatest.Kind
		kills    int
		settings settings
		commands []string
	}{
		{"run, as it is set up", kafkatest.Kafka41, 250, settings{budget: "1/200 rows"}, []string{"run"}},
		{"learn + transform, as they are set up", kafkatest.Kafka41, 250, settings{budget: "18/hour"}, both},
		{"run, static", kafkatest.Kafka41, 100, settings{static: true}, []string{"run"}},
		{"run, Avro in and out", kafkatest.Kafka41, 30, settings{format: "avro", rate: 500, budget: "1/200 rows"}, []string{"run"}},
		{"learn + transform, JSON Schema in and out", kafkatest.Kafka41, 30, settings{format: "json_schema", budget: "1/200 rows"}, both},
		{"learn + transform, a model for each key", kafkatest.Kafka41, 60, settings{byKey: true, budget: "1/200 rows"}, both},
		{"learn + transform, a model for each key", kafkatest.Kafka39, 30, settings{byKey: true}, both},
		{"run, as it is set up", kafkatest.Kafka39, 100, settings{}, []string{"run"}},
		{"learn + transform, as they are set up", kafkatest.Kafka39, 70, settings{}, both},
		{"run, as it is set up", kafkatest.Kafka38, 80, settings{}, []string{"run"}},
		{"learn + transform, as they are set up", kafkatest.Kafka38, 70, settings{}, both},
	} {
		t.Run(fmt.Sprintf("%s, %s", c.name, c.kind), func(t *testing.T) {
			c.settings.partitions = 3
			if c.settings.format != "" {
				c.settings.registry = kafkatest.StartRegistry(t)
			}
			s := newChaos(t, kafkatest.Start(t, c.kind), "kill", c.settings)
			for _, command := range c.commands {
				s.begin(command)
			}
			for kill := range c.kills {
				p := s.programs[kill%len(s.programs)]
				s.progress(s.group(p), 20, s.programs...)
				s.pause(500 * time.Millisecond)
				p.pauseInside(s.topics(p)...)
				before := s.before(s.group(p))
				p.Kill()
				since := time.Now()
				p.start()
				s.recovered(s.group(p), before, since, s.programs...)
			}
			s.progress(s.name, 20, s.programs...)
			if v := s.finish("kill -9, "+c.name, fmt.Sprintf("%d inside a transaction", c.kills)); v.Aborted == 0 {
				t.Error("no kill aborted records")
			}
		})
	}
}

// SIGTERM inside a transaction: the process commits it and aborts nothing. It should be gone within 5 s;
// a broker that answers later than that on a busy machine is counted and reported, not failed.
func TestChaosTerminate(t *testing.T) {
	const signals, within = 20, 5 * time.Second
	s := newChaos(t, kafkatest.Start(t, kafkatest.Kafka41), "term", settings{partitions: 3})
	p := s.begin("run")
	var slowest time.Duration
	late := 0
	for range signals {
		s.progress(s.name, 20, p)
		s.pause(500 * time.Millisecond)
		p.pauseInside(s.topic("out"))
		p.Terminate()
		since := time.Now()
		p.Resume()
		p.ended()
		took := time.Since(since)
		slowest = max(slowest, took)
		if took > within {
			t.Logf("the process took %v to end", took)
			late++
		}
		p.start()
	}
	s.progress(s.name, 20, p)
	v := s.finish("SIGTERM", fmt.Sprintf("%d inside a transaction; exit 0, slowest %v, %d times later than %v", signals, slowest.Round(10*time.Millisecond), late, within))
	if v.Aborted != 0 {
		t.Errorf("%d records were aborted by an orderly stop", v.Aborted)
	}
}

// Instances of a group that stand still inside a transaction for longer than the session (10 s) and
// the transaction (60 s) may last: others take over, and the one that wakes writes nothing of the
// past. It goes on as a member, or ends by itself and is started again.
func TestChaosZombie(t *testing.T) {
	const instances, rounds, still = 3, 4, 75 * time.Second
	for _, kind := range []kafkatest.Kind{kafkatest.Kafka41, kafkatest.Kafka39, kafkatest.Kafka38} {
		t.Run(string(kind), func(t *testing.T) {
			s := newChaos(t, kafkatest.Start(t, kind), "zombie", settings{partitions: 4})
			s.begin("learn")
			for range instances {
				s.begin("transform")
			}
			ended := 0
			for round := range rounds {
				s.progress(s.name, 50, s.programs...)
				i := 1 + round%instances
				if round == rounds-1 {
					i = 0 // the learner, of which there is no second
				}
				p := s.programs[i]
				p.pauseInside(s.topics(p)...)
				time.Sleep(still)
				if i > 0 {
					s.progress(s.name, 50) // by the others
				}
				p.Resume()
				if s.leftOrWorks(p) {
					ended++
					p.start()
				}
			}
			s.progress(s.name, 200, s.programs...)
			v := s.finish("SIGSTOP for 75 s, 3 transforms and a learner, group",
				fmt.Sprintf("%d inside a transaction; %d ended by themselves, the others went on", rounds, ended))
			if v.Aborted == 0 {
				t.Error("no records were aborted")
			}
		})
	}
}

// leftOrWorks gives a process that was asleep 20 s to end by itself, with exit code 3 or 2.
func (c *chaos) leftOrWorks(p *program) (left bool) {
	c.t.Helper()
	select {
	case <-p.Done():
		if code := p.ExitCode(); code != 3 && code != 2 {
			c.t.Errorf("%s ended with exit code %d", p.args[0], code)
		}
		return true
	case <-time.After(20 * time.Second):
		return false
	}
}

// left waits for the end that was asked for; false if the process was too young to hear of it.
func (c *chaos) left(p *program) bool {
	c.t.Helper()
	<-p.Done()
	if code := p.ExitCode(); code > 0 {
		c.t.Errorf("%s ended with exit code %d after SIGTERM", p.args[0], code)
	}
	return p.ExitCode() == 0
}

// Joins and leaves, orderly and not, of four transforms on eight partitions; with a model for each key, of three learners
// and three transforms.
func TestChaosRebalance(t *testing.T) {
	for kind, changes := range map[kafkatest.Kind]int{kafkatest.Kafka41: 50, kafkatest.Kafka39: 25, kafkatest.Kafka38: 25} {
		t.Run(string(kind), func(t *testing.T) { rebalances(t, kind, changes) })
	}
	t.Run("by key", func(t *testing.T) { keyedRebalances(t, kafkatest.Kafka41, 50) })
}

func rebalances(t *testing.T, kind kafkatest.Kind, changes int) {
	const instances = 4
	s := newChaos(t, kafkatest.Start(t, kind), "rebalance", settings{partitions: 8, budget: "1/200 rows", series: "key"})
	s.begin("learn")
	transforms := s.crew("transform", instances)
	for transforms.changes() < changes {
		transforms.change()
		s.pause(2 * time.Second)
		if transforms.changes()%5 == 0 {
			s.progress(s.name, 50, s.programs...)
		}
	}
	s.progress(s.name, 50, s.programs...)
	s.finish("rebalances, 4 instances, 8 partitions", transforms.String())
}

func keyedRebalances(t *testing.T, kind kafkatest.Kind, changes int) {
	const instances = 3
	s := newChaos(t, kafkatest.Start(t, kind), "rebalance", settings{partitions: 8, byKey: true, budget: "1/200 rows"})
	crews := []*crew{s.crew("learn", instances), s.crew("transform", instances)}
	for i := range changes {
		crews[i%2].change()
		s.pause(2 * time.Second)
		if i%5 == 4 {
			s.progress(s.name, 50, s.programs...)
			s.progress(s.name+".learn", 50, s.programs...)
		}
	}
	s.progress(s.name, 50, s.programs...)
	s.finish("rebalances, a model for each key, 8 partitions", fmt.Sprintf("3 learners: %v; 3 transforms: %v", crews[0], crews[1]))
}

// crew is processes of one command that come and go, one of which is always there.
type crew struct {
	*chaos
	live, away            []*program
	joins, leaves, killed int
}

// crew starts processes of a command.
func (c *chaos) crew(command string, instances int) *crew {
	c.t.Helper()
	all := &crew{chaos: c}
	for range instances {
		all.live = append(all.live, c.begin(command))
	}
	return all
}

func (c *crew) changes() int { return c.joins + c.leaves + c.killed }

func (c *crew) String() string {
	return fmt.Sprintf("%d joins, %d SIGTERM, %d kill -9", c.joins, c.leaves, c.killed)
}

// change lets one that was away join, or one leave, orderly or not.
func (c *crew) change() {
	c.t.Helper()
	if len(c.away) > 0 && (len(c.live) <= 1 || c.random.IntN(2) == 0) {
		p := c.away[0]
		c.away, c.live, c.programs = c.away[1:], append(c.live, p), append(c.programs, p)
		p.start()
		c.joins++
		return
	}
	i := c.random.IntN(len(c.live))
	p := c.live[i]
	c.live = slices.Delete(c.live, i, i+1)
	c.programs = slices.DeleteFunc(slices.Clone(c.programs), func(q *program) bool { return q == p })
	c.away = append(c.away, p)
	if c.random.IntN(4) == 0 {
		p.Kill()
		c.killed++
	} else if p.Terminate(); c.left(p) {
		c.leaves++
	} else {
		c.killed++
	}
}
