//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// rebuilt is a machine that is another one from some row on.
type rebuilt struct {
	random *rand.Rand
	rows   int64
	from   time.Time
}

func newRebuilt(seed uint64) *rebuilt {
	return &rebuilt{random: rand.New(rand.NewPCG(45, seed)), from: time.Now().Add(-48 * time.Hour).Truncate(time.Second)}
}

// startRebuilt begins a stream of the machine as it was, with a learner and a transform that have read it.
func startRebuilt(t *testing.T, name string, usual int, set string) (s *stream, m *rebuilt, learner, transform *program) {
	t.Helper()
	s = newStream(t, kafkatest.Shared(t, kafkatest.Kafka41), name, settings{partitions: 1, features: "[a, b, c]", budget: "1/20000 rows", learner: set})
	m = newRebuilt(3)
	m.produce(s, usual, false)
	learner, transform = s.program("learn"), s.program("transform")
	s.await(s.name+".learn", int64(usual), learner)
	s.await(s.name, int64(usual), transform)
	return s, m, learner, transform
}

func (m *rebuilt) produce(s *stream, rows int, other bool) {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DefaultProduceTopic(s.topic("in")))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	var all []*kgo.Record
	for range rows {
		a, b, c := m.random.NormFloat64(), m.random.NormFloat64(), m.random.NormFloat64()
		if other {
			a += 6
		}
		all = append(all, &kgo.Record{Value: fmt.Appendf(nil, `{"a": %g, "b": %g, "c": %g}`, a, b, a+b+c), Timestamp: m.from.Add(time.Duration(m.rows) * 10 * time.Second)})
		m.rows++
	}
	if err := cl.ProduceSync(context.Background(), all...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// episodeRecord is what this test needs of a record of the topic of alarms.
type episodeRecord struct {
	Type, ID, By string
	Reason       *string
	From         struct{ Offset int64 }
	Rows         int64
	At           map[int32]int64
}

// open is told, of the one episode that the other machine is.
func (m *rebuilt) open(s *stream, usual int64) []*episodeRecord {
	s.t.Helper()
	told := m.told(s, usual)
	if len(told) != 1 || told[0].Type == "episode_closed" {
		s.t.Fatalf("the other machine is %d episodes", len(told))
	}
	return told
}

// told are the last records of the episodes that begin with the other machine, in order.
func (m *rebuilt) told(s *stream, usual int64) (all []*episodeRecord) {
	s.t.Helper()
	of := map[string]int{}
	for _, e := range s.ofAlarms("episode_opened", "episode_updated", "episode_closed") {
		if e.From.Offset < usual {
			continue
		}
		i, known := of[e.ID]
		if !known {
			i = len(all)
			of[e.ID], all = i, append(all, e)
		}
		all[i] = e
	}
	return all
}

// A machine that was rebuilt is an episode, until someone says that it is normal now. The learner follows once, although it is killed before it has heard of that, and again
// when it has just followed; the episode closes, and the machine is no other one. That no change is learnt by itself makes no difference.
func TestAcceptedEpisode(t *testing.T) {
	t.Parallel()
	const usual, other = 3000, 1000
	s, m, learner, transform := startRebuilt(t, "accepted", usual, ", accept_after: never")
	m.produce(s, other, true)
	s.await(s.name+".learn", m.rows, learner)
	s.await(s.name, m.rows, transform)
	told := m.open(s, usual)
	id := told[0].ID
	learner.Kill()
	t.Logf("%s", s.command("episodes", "accept", id, "--by", "anna"))
	if facts := s.facts(); len(facts) != 0 {
		t.Fatalf("no learner runs, and there are the facts %+v", facts)
	}
	learner.start()
	facts := s.awaitFacts(1, learner)
	learner.Kill()
	if f := facts[0]; f.ID != id || f.By != "anna" || f.Rows < other/2 || f.At[0] < usual+other {
		t.Errorf("%+v: %d rows at %v", f, f.Rows, f.At)
	}
	learner.start()
	s.command("episodes", "accept", id, "--by", "anna") // again, which is harmless
	if again := s.awaitFacts(2, learner)[1]; again.Rows != 0 {
		t.Errorf("accepted again, %d rows are learnt", again.Rows)
	}
	for deadline := time.Now().Add(2 * time.Minute); told[0].Type != "episode_closed"; told = m.told(s, usual) {
		if time.Now().After(deadline) {
			t.Fatal("the episode does not close")
		}
		m.produce(s, 100, true)
		s.await(s.name, m.rows, learner, transform)
	}
	m.produce(s, 1000, true)
	s.await(s.name, m.rows, learner, transform)
	s.await(s.name+".learn", m.rows, learner, transform)
	t.Logf("%s", s.command("episodes", "show", id))
	learner.stop()
	transform.stop()
	told = m.told(s, usual)
	if reason := told[0].Reason; reason == nil || *reason != "accepted" {
		t.Errorf("closed as %v", reason)
	}
	unusual := int64(0)
	for _, e := range told[1:] {
		unusual += e.Rows
	}
	if unusual > 500 { // some are false ones, of a level behind few rows: nearly all would be, were the machine not known
		t.Errorf("%d of the next 1000 rows are of other episodes", unusual)
	}
	if facts := s.facts(); len(facts) != 2 {
		t.Errorf("%d facts of 2 commands", len(facts))
	}
	s.check(int(m.rows), 3)
	renamed, with, without := s.replayed("--model-id", s.name), s.replayed(), s.replayed("--set", "alarms.topic=")
	if with != renamed || with == without {
		t.Errorf("a replay gives %v, under another id %v, and without what was accepted %v", with, renamed, without)
	}
}

// replayed says what a replay has learnt.
func (s *stream) replayed(more ...string) (got struct {
	NLL      float64 `json:"nll"`
	Rows     int64   `json:"rows"`
	Outliers int64   `json:"outlier_rows"`
	Passing  int64   `json:"passing_rows"`
}) {
	s.t.Helper()
	out := s.command(append([]string{"replay", "--json", "--to", "latest", "--output", filepath.Join(s.t.TempDir(), "model.arrows"), "--set", "logger.level=error"}, more...)...)
	line := out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	s.t.Logf("%s", line)
	return got
}

// ofAlarms are the records of some types on the topic of alarms.
func (s *stream) ofAlarms(types ...string) (all []*episodeRecord) {
	s.t.Helper()
	for _, r := range s.ReadCommitted(s.t, s.topic("alarms")) {
		var kind struct{ Type string }
		if err := json.Unmarshal(r.Value, &kind); err != nil {
			s.t.Fatalf("%v: %s", err, r.Value)
		}
		if !slices.Contains(types, kind.Type) {
			continue
		}
		e := new(episodeRecord)
		if err := json.Unmarshal(r.Value, e); err != nil {
			s.t.Fatalf("%v: %s", err, r.Value)
		}
		all = append(all, e)
	}
	return all
}

// facts are what learners have accepted.
func (s *stream) facts() []*episodeRecord { return s.ofAlarms("episode_accepted") }

func (s *stream) awaitFacts(n int, learner *program) []*episodeRecord {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		learner.alive()
		if facts := s.facts(); len(facts) >= n {
			return facts
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("there are no %d facts after 2 minutes", n)
		}
	}
}
