//go:build unix && chaos

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// Two pipelines that share the topics of models and checkpoints: with the same model id the second is refused by
// name and the first does not notice; with ids of their own both are killed again and again, and both are right.
func TestChaosTwoPipelines(t *testing.T) {
	const kills = 40
	b := kafkatest.Start(t, kafkatest.Kafka41)
	one := newChaos(t, b, "one", settings{partitions: 2})
	two := newChaos(t, b, "two", settings{partitions: 2})
	shared := []string{"--set", "snapshot.topic=" + one.topic("snap"), "--set", "checkpoint.topic=" + one.topic("check")}
	p := one.begin("run")
	one.progress(one.name, 50, p)
	intruder := two.program(append([]string{"run"}, shared...)...)
	two.ends(intruder, "default", one.name)
	one.progress(one.name, 50, p)
	q := two.begin(append([]string{"run", "--set", "snapshot.model_id=other"}, shared...)...)
	two.progress(two.name, 50, p, q)
	for kill := range kills {
		c, victim := one, p
		if kill%2 == 1 {
			c, victim = two, q
		}
		c.progress(c.name, 20, p, q)
		c.pause(300 * time.Millisecond)
		victim.pauseInside(c.topic("out"), one.topic("check"), one.topic("snap"))
		before := c.before(c.name)
		victim.Kill()
		since := time.Now()
		victim.start()
		c.recovered(c.name, before, since, p, q)
	}
	one.finish("two pipelines, one pair of model topics: the first", fmt.Sprintf("%d kill -9 of either, inside a transaction; the second was refused under the same model id", kills))
	two.end()
	done := two.wait()
	two.await(two.name, int64(done.Messages+done.Bad), q)
	q.stop()
	v := two.Check(t, kafkatest.Check{Input: two.topic("in"), Output: two.topic("out"), DeadLetters: two.topic("dead"), Snapshots: one.topic("snap"), ModelID: "other", MinRows: done.Rows, MinVersions: 10})
	two.report("two pipelines, one pair of model topics: the second", fmt.Sprintf("%d kill -9 of either, inside a transaction", kills),
		fmt.Sprintf("%d rows, %d dead letters", v.Rows, v.DeadLetters))
}

// firstEdition is the last commit before checkpoints, offsets and transactions changed their form.
const firstEdition = "ea16bb4"

// buildOld builds the first edition from the history of this repository.
func buildOld(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "lca-stream-1")
	script := fmt.Sprintf(`set -e; cd "$(git rev-parse --show-toplevel)"; git archive %s | tar -x -C %s; cd %s; go build -o %s ./cmd/lca-stream`, firstEdition, dir, dir, bin)
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("build commit %s (a full clone is needed): %v\n%s", firstEdition, err, out)
	}
	return bin
}

// From the first edition to this one and back, each time by kill -9 inside a transaction or by SIGTERM: this one
// goes on from where the first stopped; the first, on what this one has left, either goes on or ends with exit
// code 2, except a transform, which does not read our snapshots and waits for one that it can read (docs/upgrade.md); and in the end every
// record is there once.
func TestChaosUpgrade(t *testing.T) {
	const rounds = 4
	old := buildOld(t)
	for _, commands := range [][]string{{"run"}, {"learn", "transform"}} {
		t.Run(strings.Join(commands, " + "), func(t *testing.T) {
			s := newChaos(t, kafkatest.Start(t, kafkatest.Kafka41), "upgrade", settings{partitions: 2})
			s.random = rand.New(rand.NewPCG(s.seed, 3))
			for _, command := range commands {
				s.begin(command)
			}
			refused := 0
			for round := range rounds {
				for _, p := range s.programs {
					s.swap(p, old, round%2 == 0)
				}
				refused += s.settle()
				for _, p := range s.programs {
					s.swap(p, "", round%2 == 1)
				}
				if n := s.settle(); n > 0 {
					t.Fatalf("%d programs of this edition ended by themselves", n)
				}
				s.progress(s.name, 50, s.programs...)
				s.progress(s.name+".learn", 50, s.programs...)
			}
			s.finish("first edition and back, "+strings.Join(commands, " + "),
				fmt.Sprintf("%d times, by kill -9 inside a transaction and by SIGTERM; the first edition refused what this one had left %d times", rounds, refused))
		})
	}
}

// swap ends a program, if it still runs, and starts another build of it.
func (c *chaos) swap(p *program, bin string, kill bool) {
	c.t.Helper()
	select {
	case <-p.Done():
	default:
		switch waits := bin == "" && p.args[0] == "transform"; { // the first edition's
		case kill && waits: // it is in no transaction
			p.Kill()
		case kill:
			p.killInside(c.topics(p)...)
		default:
			p.Terminate()
			p.ended()
		}
	}
	c.bin, c.former = bin, c.former || bin != ""
	p.start()
}

// settle gives the programs 20 s, and counts those that have ended with exit code 2 and said why.
func (c *chaos) settle() (ended int) {
	c.t.Helper()
	deadline := time.After(20 * time.Second)
	for _, p := range c.programs {
		select {
		case <-p.Done():
			if code := p.ExitCode(); code != 2 {
				c.t.Errorf("%s ended with exit code %d\n%s", p.args[0], code, lastLines(p.log, 3))
			}
			log, err := os.ReadFile(p.log)
			if err != nil {
				c.t.Fatal(err)
			}
			c.t.Logf("%s: %s", p.args[0], lastLine(log))
			ended++
		case <-deadline:
			return ended
		}
	}
	return ended
}
