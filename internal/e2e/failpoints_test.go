//go:build unix

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// places are all that are marked with failpoint.Here, for the command that comes by.
var places = map[string][]string{
	"transform": {"fence.before", "fence.after", "takeover", "read", "begin.before", "begin.after", "offsets.before", "offsets.after",
		"produce.before", "produce.after", "commit.before", "commit.after", "transform.kept"},
	"learn": {"fence.before", "fence.after", "restore.before", "restore.after", "read", "snapshot.before", "checkpoint", "begin.before", "begin.after",
		"offsets.before", "offsets.after", "produce.before", "produce.after", "commit.before", "commit.after", "learn.kept"},
}

// The program ends at each of the places where that would hurt most, again and again, at the first
// time it comes by or a later one; then it goes on, and the judge finds everything once and right.
func TestChaosFailpoints(t *testing.T) {
	t.Parallel()
	bin := withPlaces(t)
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for _, c := range []struct {
		name   string
		byKey  bool
		series string
		places map[string][]string
		what   string
	}{
		{"places", false, "key", places, "learn + transform"},
		{"places-keyed", true, "", failpointsByKey, "learn + transform, a model for each key"},
	} {
		if len(c.places) == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := newStream(t, b, c.name, settings{partitions: 2, static: !c.byKey, features: sensorColumns, budget: "1/200 rows", byKey: c.byKey, series: c.series})
			s.bin = bin
			s.visitPlaces(c.places, c.what)
		})
	}
}

// visitPlaces lets the programs end at each place, and calls the judge.
func (s *stream) visitPlaces(places map[string][]string, what string) {
	t := s.t
	seed := chosenSeed()
	random := rand.New(rand.NewPCG(seed, 2))
	rate, first := 1500, int64(2000/perMessage)
	if s.byKey { // 50 keys, each of which has a model to fit and to choose, after about 280 rows
		rate, first = 800, 14_000/perMessage
	}
	wait, stop := s.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 30, PerMessage: perMessage, Rate: rate, Bad: 0.01, Invalid: 0.05, Seed: int(seed%1e6) + 1, Apart: 20 * time.Second, Fault: 2000 / perMessage})
	transform, learn := s.program("transform"), s.program("learn")
	s.await(s.name, 400/perMessage, transform, learn)
	s.await(s.name+".learn", first, transform, learn) // so that there is a checkpoint to restore
	type visit struct {
		*program
		place string
	}
	var visits []visit
	for _, p := range []*program{transform, learn} {
		for _, place := range places[p.args[0]] {
			visits = append(visits, visit{p, place})
		}
	}
	for range failpointRounds {
		random.Shuffle(len(visits), func(i, j int) { visits[i], visits[j] = visits[j], visits[i] })
		for _, v := range visits {
			times := 1 + random.IntN(2)
			if strings.HasPrefix(v.place, "restore") || strings.HasPrefix(v.place, "fence") { // there may be no second time
				times = 1
			}
			v.Kill()
			s.env = fmt.Sprintf("LCA_STREAM_FAILPOINT=%s:%d", v.place, times)
			v.start()
			select {
			case <-v.Done():
			case <-time.After(2 * time.Minute):
				t.Fatalf("%s: %s was not reached %d times", v.args[0], v.place, times)
			}
			if code := v.ExitCode(); code != 9 {
				t.Fatalf("%s: exit code %d, want 9\n%s", v.place, code, lastLines(v.log, 5))
			}
			s.env = ""
			v.start()
		}
	}
	s.await(s.name, s.committedSoFar(s.name)+400/perMessage, transform, learn)
	s.awaitMovedCauses(transform, learn)
	stop()
	done := wait()
	s.await(s.name, int64(done.Messages+done.Bad), transform, learn)
	transform.stop()
	learn.stop()
	v := s.check(done.Rows, 3)
	if v.Messages != done.Messages || v.DeadLetters != done.Bad {
		t.Errorf("judged %d messages, %d dead letters; written were %d, %d", v.Messages, v.DeadLetters, done.Messages, done.Bad)
	}
	if v.Aborted == 0 {
		t.Error("no record was aborted")
	}
	s.toldEpisodes(v)
	report(t, s.Kind, seed, "exit at a marked place, "+what, fmt.Sprintf("%d places, %d times each", len(visits), failpointRounds),
		fmt.Sprintf("%d rows, %d dead letters", v.Rows, v.DeadLetters))
}
