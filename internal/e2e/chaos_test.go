//go:build unix && chaos

package e2e_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// The tests behind the tag chaos are `make chaos`: the same program, brokers and judge as everywhere
// in this package, with every fault that docs/guarantees.md names, and many of each. A fault counts
// only if it took effect: work in flight was aborted, or a connection in use was broken.

var (
	seedFlag    = flag.Uint64("seed", 0, "of the faults; 0: from the clock")
	resultsFlag = flag.String("results", "", "file that gets one line of a Markdown table for each run")
)

// failpointRounds is how often the program ends at each place of failpoints_test.go.
const failpointRounds = 20

// failpointsByKey are the places at which the program ends with a model for each key: all.
var failpointsByKey = places

func chosenSeed() uint64 {
	if *seedFlag == 0 {
		return uint64(time.Now().UnixNano())
	}
	return *seedFlag
}

// chaos is a stream under load, with what goes wrong chosen by a seed.
type chaos struct {
	*stream
	random   *rand.Rand
	seed     uint64
	wait     func() kafkatest.Loaded
	end      func()
	programs []*program
	recovery []time.Duration // from each fault to the first commit after it
	fewest   int             // versions that must have whitened rows; 0: 10
}

// load is 1500 rows per second, some of them useless, until it is ended.
var load = kafkatest.Load{Data: "sensors", Rows: 1 << 30, PerMessage: 20, Rate: 1500, Bad: 0.01, Invalid: 0.05}

func newChaos(t *testing.T, b *kafkatest.Broker, name string, s settings) *chaos {
	t.Helper()
	seed := chosenSeed()
	t.Logf("%s: -seed %d", name, seed)
	if s.features == "" {
		s.features = sensorColumns
	}
	c := &chaos{stream: newStream(t, b, name, s), seed: seed, random: rand.New(rand.NewPCG(seed, 0))}
	l := load
	l.Topic, l.Seed, l.Rate, l.Format, l.Registry = c.topic("in"), int(seed%1e6)+1, cmp.Or(s.rate, l.Rate), s.format, c.registry
	if l.Format == "avro" {
		l.PerMessage = 1
	}
	if s.budget != "" {
		l.Apart = 20 * time.Second
	}
	c.wait, c.end = b.Load(t, l)
	return c
}

func (c *chaos) begin(args ...string) *program {
	c.t.Helper()
	p := c.program(args...)
	c.programs = append(c.programs, p)
	return p
}

// group is what moves when a program works, and topics are those of its transactions.
func (c *chaos) group(p *program) string {
	if p.args[0] == "learn" {
		return c.name + ".learn"
	}
	return c.name
}

func (c *chaos) topics(p *program) []string {
	switch p.args[0] {
	case "learn":
		return []string{c.topic("check"), c.topic("snap")}
	case "transform":
		return []string{c.topic("out"), c.topic("dead")}
	}
	return []string{c.topic("out"), c.topic("check"), c.topic("snap")}
}

// progress waits for n further messages of a group while programs live.
func (c *chaos) progress(group string, n int64, programs ...*program) {
	c.t.Helper()
	c.await(group, c.committed(group)+n, programs...)
}

// before is what a group has committed while a transaction of its hangs.
func (c *chaos) before(group string) (sum int64) {
	c.t.Helper()
	for _, next := range c.LastCommitted(c.t, group) {
		sum += next
	}
	return sum
}

// recovered waits for the first commit of a group, and notes how long after `since` it came.
func (c *chaos) recovered(group string, before int64, since time.Time, programs ...*program) time.Duration {
	c.t.Helper()
	c.await(group, before+1, programs...)
	d := time.Since(since)
	c.recovery = append(c.recovery, d)
	return d
}

func (c *chaos) pause(most time.Duration) { time.Sleep(time.Duration(c.random.Int64N(int64(most)))) }

// finish ends the load, lets everything drain, stops the programs in order, and calls the judge.
func (c *chaos) finish(what, faults string) kafkatest.Verdict {
	c.t.Helper()
	c.end()
	done := c.wait()
	c.await(c.name, int64(done.Messages+done.Bad), c.programs...)
	for _, p := range c.programs {
		p.stop()
	}
	v := c.check(done.Rows, cmp.Or(c.fewest, 10))
	if v.Messages != done.Messages || v.DeadLetters != done.Bad {
		c.t.Errorf("judged %d messages, %d dead letters; written were %d, %d", v.Messages, v.DeadLetters, done.Messages, done.Bad)
	}
	c.t.Logf("%d messages under %d versions; %d records of aborted transactions", v.Messages, v.Versions, v.Aborted)
	text := fmt.Sprintf("%d rows, %d dead letters", v.Rows, v.DeadLetters)
	if c.budget != "" {
		c.toldEpisodes(v)
		text += fmt.Sprintf(", %d episodes in %d records", v.Alarms["episode_opened"], v.Alarms["episode_opened"]+v.Alarms["episode_updated"]+v.Alarms["episode_closed"])
	}
	if n := len(c.recovery); n > 0 {
		slices.Sort(c.recovery)
		text += fmt.Sprintf("; first commit %v, %v, %v", c.percentile(50), c.percentile(99), c.recovery[n-1].Round(10*time.Millisecond))
	}
	c.report(what, faults, text)
	return v
}

func (c *chaos) percentile(p int) time.Duration {
	return c.recovery[min(len(c.recovery)-1, len(c.recovery)*p/100)].Round(10 * time.Millisecond)
}

// report writes a line of the table in docs/chaos.md, which says above that all promises held, and when.
func (c *chaos) report(what, faults, found string) {
	c.t.Helper()
	report(c.t, c.Kind, c.seed, what, faults, found)
}

func report(t *testing.T, kind kafkatest.Kind, seed uint64, what, faults, found string) {
	t.Helper()
	if t.Failed() {
		found = "**BROKEN** " + found
	}
	line := fmt.Sprintf("| %s | %s | %s | %s | `%d` |\n", what, strings.TrimPrefix(string(kind), "kafka-"), faults, found, seed)
	t.Log(line)
	if *resultsFlag == "" {
		return
	}
	f, err := os.OpenFile(*resultsFlag, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(line)
		if e := f.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		t.Errorf("results: %v", err)
	}
}
