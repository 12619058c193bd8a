//go:build unix

package e2e_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// What a learner finds of its past, on topics that it shares with others.
func TestLearnersPast(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for name, body := range map[string]func(*testing.T, *kafkatest.Broker){
		"foreign-transaction": testForeignTransaction, "two-pipelines": testTwoPipelines, "two-groups": testTwoGroups, "import": testImport,
		"life": testLife,
	} {
		t.Run(name, func(t *testing.T) { body(t, b) })
	}
}

// versions are those on the snapshot topic, in the order in which they were committed.
func (s *stream) versions() (all []uint64) {
	s.t.Helper()
	for _, r := range s.ReadCommitted(s.t, s.topic("snap")) {
		for _, h := range r.Headers {
			if h.Key == "lca-model-version" {
				v, err := strconv.ParseUint(string(h.Value), 10, 64)
				if err != nil {
					s.t.Fatal(err)
				}
				all = append(all, v)
			}
		}
	}
	return all
}

// grow checks that versions never go back, and waits until there is one beyond a version.
func (s *stream) grow(beyond uint64, p *program) uint64 {
	s.t.Helper()
	last, grown := uint64(0), s.growth("snap")
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		p.alive()
		if grown() {
			last = 0
			for _, v := range s.versions() {
				if v < last {
					s.t.Fatalf("version %d was published after %d", v, last)
				}
				last = v
			}
		}
		if last > beyond {
			return last
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the newest version is %d, want one beyond %d", last, beyond)
		}
	}
}

// growth returns a function that reports whether more of a topic can be read than when it was asked before, so that one that waits need not read all of it
// again and again.
func (s *stream) growth(suffix string) (grown func() bool) {
	was := map[int32]int64{}
	return func() bool {
		s.t.Helper()
		end := s.ListOffsets(s.t, s.topic(suffix), -1, 1)
		if maps.Equal(end, was) {
			return false
		}
		was = end
		return true
	}
}

// says waits until the program's log has a sentence.
func (p *program) says(text string) {
	p.s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		log, err := os.ReadFile(p.log)
		if err != nil {
			p.s.t.Fatal(err)
		}
		if strings.Contains(string(log), text) {
			return
		}
		if time.Now().After(deadline) {
			p.s.t.Fatalf("%s does not say %q:\n%s", p.args[0], text, lastLines(p.log, 20))
		}
	}
}

// endsWith waits for the end of a program by itself.
func (p *program) endsWith(code int) {
	p.s.t.Helper()
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		p.s.t.Fatalf("%s does not end", p.args[0])
	}
	if p.ExitCode() != code {
		p.s.t.Errorf("%s ended with exit code %d, want %d:\n%s", p.args[0], p.ExitCode(), code, lastLines(p.log, 5))
	}
}

// Another producer's transaction on the checkpoint topic is open, and stays so, while a learner saves more
// checkpoints and is killed. The next one waits for what lies behind, says so, may be stopped meanwhile, and
// goes on where the first one was: versions do not go back.
func testForeignTransaction(t *testing.T, b *kafkatest.Broker) {
	s := newStream(t, b, "foreign", settings{partitions: 2, features: sensorColumns})
	_, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 20, PerMessage: perMessage, Rate: 2000})
	defer stop()
	learn := s.program("learn")
	first := s.grow(0, learn)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.TransactionalID("another-program"), kgo.TransactionTimeout(14*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(ctx, &kgo.Record{Topic: s.topic("check"), Key: []byte("x/0/0"), Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	behind := s.grow(first+2000, learn)
	learn.Kill()
	learn.start()
	learn.says("waiting for a transaction that another producer has left open")
	learn.stop()
	learn.start()
	learn.says("waiting for a transaction that another producer has left open")
	if err := c.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	s.grow(behind+1000, learn)
	learn.stop()
}

// Two pipelines with one model id start at the same moment on topics that are empty: one of them learns, the
// other ends with exit code 2 and the name of the first, and does no harm, then and at its next start.
func testTwoPipelines(t *testing.T, b *kafkatest.Broker) {
	s := newStream(t, b, "pair", settings{partitions: 1, features: sensorColumns})
	b.CreateTopic(t, "pair-other", 1, nil)
	for _, topic := range []string{s.topic("in"), "pair-other"} {
		_, stop := b.Load(t, kafkatest.Load{Topic: topic, Data: "sensors", Rows: 1 << 20, PerMessage: perMessage, Rate: 1000})
		defer stop()
	}
	one := s.program("learn")
	two := s.program("learn", "--set", "source.group=pair-other", "--set", "source.topic=pair-other")
	var winner, loser *program
	select {
	case <-one.Done():
		winner, loser = two, one
	case <-two.Done():
		winner, loser = one, two
	case <-time.After(time.Minute):
		t.Fatal("both learn one model")
	}
	loser.endsWith(2)
	loser.says("belongs to the learner of topic")
	first := s.grow(0, winner)
	loser.start()
	loser.endsWith(2)
	s.grow(first+1000, winner)
	winner.stop()
}

// Two groups learn from one topic under one model id, with checkpoint topics of their own, so that their claims do
// not meet. The snapshots say whose they are: a learner ends with exit code 2 and the name of the other one, both
// perhaps where they begin at the same moment, and of the two that are started again one goes on. One without a
// checkpoint does not even begin. A transform of one more group follows the model.
func testTwoGroups(t *testing.T, b *kafkatest.Broker) {
	s := newStream(t, b, "groups", settings{partitions: 1, features: sensorColumns})
	for _, topic := range []string{"groups-check-2", "groups-check-3"} {
		b.CreateTopic(t, topic, 1, map[string]string{"cleanup.policy": "compact"})
	}
	_, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 20, PerMessage: perMessage, Rate: 1000})
	defer stop()
	one, two := s.program("learn"), s.program("learn", "--set", "source.group=groups-second", "--set", "checkpoint.topic=groups-check-2")
	s.lastOf(one, two)
	third := s.program("learn", "--set", "source.group=groups-third", "--set", "checkpoint.topic=groups-check-3")
	third.endsWith(2)
	third.says("belongs to the learner of topic")
	whitens := s.program("transform", "--set", "source.group=groups-fourth")
	for deadline := time.Now().Add(time.Minute); len(b.ReadCommitted(t, s.topic("out"))) == 0; time.Sleep(50 * time.Millisecond) {
		if whitens.alive(); time.Now().After(deadline) {
			t.Fatal("a transform of another group has no model")
		}
	}
	whitens.stop()
	winner := s.lastOf(one, two) // which may be the other one now: it may publish before it has read what that one had
	winner.stop()
}

// lastOf is the one of two programs that has learnt all that was there when the other ended, and publishes 1000 rows more. Both are
// started again whenever both have ended.
func (s *stream) lastOf(one, two *program) *program {
	s.t.Helper()
	ended := func(p *program) bool {
		select {
		case <-p.Done():
			p.endsWith(2)
			p.says("belongs to the learner of topic")
			return true
		default:
			return false
		}
	}
	var alone *program
	from, newest, grown := uint64(0), uint64(0), s.growth("snap")
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		a, b := ended(one), ended(two)
		if a && b {
			one.start()
			two.start()
		}
		if a == b {
			alone = nil
			continue
		}
		if grown() {
			newest = slices.Max(append(s.versions(), 0))
		}
		if alone == nil {
			from = max(newest, perMessage*uint64(s.ListOffsets(s.t, s.topic("in"), -1, 0)[0]))
		}
		if alone = one; a {
			alone = two
		}
		if newest > from+1000 {
			return alone
		}
	}
	s.t.Fatal("after 2 minutes neither learns alone")
	return nil
}

// A model is imported over one whose learner runs: that learner ends with exit code 3, and the next goes on from the
// import. Its own model does not come back. Features that do not fit end a learner before it harms the one that runs.
func testImport(t *testing.T, b *kafkatest.Broker) {
	s := newStream(t, b, "import", settings{partitions: 1, features: sensorColumns})
	_, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 20, PerMessage: perMessage, Rate: 2000})
	defer stop()
	learn := s.program("learn")
	first := s.grow(1000, learn) // the first model of all has no row score yet, and is not imported
	model := filepath.Join(t.TempDir(), "model.arrows")
	s.command("snapshot", "export", "-o", model)
	newest := s.grow(first+2000, learn)

	for _, c := range []struct{ command, set, says string }{
		{"learn", "source.features=[temperature, pressure]", "was learnt from features [temperature, pressure, flow, current, voltage, vibration, speed, humidity], and source.features now says [temperature, pressure] (no longer: flow, current"},
		{"run", "source.features=[temperature, rpm]", "new: rpm"},
		{"transform", "source.features=[humidity]", "source.features now says [humidity]"},
		{"replay", "source.features=[temperature, pressure]", "a snapshot of these cannot take its place"},
		{"learn", "lca.metric=diagonal", "lca.metric was full and is now diagonal"},
		{"run", "lca.metric=isotropic", "lca.metric was full and is now isotropic"},
	} {
		misfit := s.program(c.command, "--set", c.set)
		misfit.endsWith(2)
		misfit.says(c.says)
	}
	learn.alive()

	s.command("snapshot", "import", "--file", model)
	learn.endsWith(3)
	versions := s.versions()
	imported := versions[len(versions)-1]
	if imported <= newest {
		t.Errorf("it was imported as version %d, after %d", imported, newest)
	}
	learn.start()
	s.grow(imported+1000, learn)
	learn.stop()
}

// The life of `run` in its log: what a reader needs to know is there at info, in this order, once; one line per minute
// stands for what comes often; and debug says what each stage does.
func testLife(t *testing.T, b *kafkatest.Broker) {
	s := newStream(t, b, "life", settings{partitions: 2, features: sensorColumns})
	wait, _ := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 6000, PerMessage: perMessage, Rate: 4000, Bad: 0.02, Invalid: 0.05})
	run := s.program("run")
	done := wait()
	s.await(s.name, int64(done.Messages+done.Bad), run)
	s.await(s.name+".learn", 4000/perMessage, run)
	run.stop()
	run.inOrder(
		`"starting","command":"run"`, `"joining the group"`, `"partitions are assigned","stage":"transform","partitions":"0, 1"`,
		`"a partition is read from its committed offset"`, `"a model is here","model_id":"default","version":`,
		`"stopping: what is in progress is finished first"`, `"stopped","records_left":0`)
	run.inOrder(`"the learner reads on","model_id":"default","offsets":"0=0, 1=0","because":"the model has no checkpoint"`, `"learning","features":8`,
		`"the learner has stopped","model_id":"default","records_left":`)
	run.says(`"messages are set aside on dead_letter.topic","reason":"`)
	run.says(`"rows are not whitened","reason":"n`)
	for _, debug := range []string{`"read","stage":"learn"`, `"committed","stage":"learn"`, `"committed","stage":"transform","partition":"life-in/`} {
		run.says(`"level":"DEBUG","msg":` + debug)
	}
	log := lastLines(run.log, 1<<20)
	if n := strings.Count(log, `"level":"INFO"`) + strings.Count(log, `"level":"WARN"`); n > 50 {
		t.Errorf("%d lines at info and above", n)
	}
	run.start()
	s.await(s.name, int64(done.Messages+done.Bad), run)
	run.says(` is the newest","rows_learnt":`)
	run.stop()
}

// inOrder wants the log to say all of it, one after the other.
func (p *program) inOrder(texts ...string) {
	p.s.t.Helper()
	log := lastLines(p.log, 1<<20)
	for _, text := range texts {
		_, rest, found := strings.Cut(log, text)
		if !found {
			p.s.t.Errorf("%s does not say %s, or says it earlier", p.args[0], text)
			continue
		}
		log = rest
	}
}
