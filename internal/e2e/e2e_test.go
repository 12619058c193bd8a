//go:build unix

package e2e_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// digits is the data set that the demo carries: one list column of 64 pixels.
const digits = "../../cmd/lca-stream/internal/demo/toy/digits.arrow"

// sensorColumns are the features of the synthetic stream: its id is numeric too, and is no feature.
const sensorColumns = "[temperature, pressure, flow, current, voltage, vibration, speed, humidity]"

// What `run` whitens on a real broker is what the snapshots say: every value and score recomputed by
// the judge, every input record once, in order, versions never going back, bad ones dead-lettered; as Arrow, and as JSON.
func TestWhitenedRecordsAreRight(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for _, c := range []struct {
		name string
		settings
		load kafkatest.Load
	}{
		{"digits", settings{partitions: 2, features: "[x]", why: 3},
			kafkatest.Load{Data: digits, Format: "json", Rows: 2400, PerMessage: 25, Rate: 2000}},
		{"sensors", settings{partitions: 3, features: sensorColumns, why: 2},
			kafkatest.Load{Data: "sensors", Rows: 4000, PerMessage: perMessage, Rate: 4000, Bad: 0.02, Invalid: 0.05}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStream(t, b, c.name, c.settings)
			c.load.Topic = s.topic("in")
			run := s.program("run")
			parts := 5
			if testing.Short() {
				parts, c.load.Rows = 3, c.load.Rows/2
			}
			var done kafkatest.Loaded
			for part := range parts { // each whitened by a newer model than the last, however slow the machine is
				c.load.Seed = part + 1
				wait, _ := b.Load(t, c.load)
				loaded := wait()
				done.Rows, done.Messages = done.Rows+loaded.Rows, done.Messages+loaded.Messages
				done.Bad, done.Invalid = done.Bad+loaded.Bad, done.Invalid+loaded.Invalid
				s.await(s.name+".learn", int64(done.Messages+done.Bad), run)
			}
			s.await(s.name, int64(done.Messages+done.Bad), run)
			run.stop()
			v := s.check(done.Rows, parts)
			if v.Messages != done.Messages || v.DeadLetters != done.Bad || v.NullRows != done.Invalid {
				t.Errorf("judged %d messages, %d dead letters, %d null rows; written were %d, %d, %d",
					v.Messages, v.DeadLetters, v.NullRows, done.Messages, done.Bad, done.Invalid)
			}
		})
	}
}

// kill -9 at random moments while records flow: the same judge finds the same, and each episode as it computes it again.
func TestKillNine(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, c := range []struct {
		name string
		settings
		format   string
		kills    int
		programs []string
	}{
		{"kill-run", settings{partitions: 3, static: true, features: sensorColumns, budget: "1/200 rows"}, "arrow", 6, []string{"run"}},
		{"kill-both", settings{partitions: 3, features: sensorColumns, budget: "18/hour", imputes: true}, "json", 6, []string{"learn", "transform"}},
		{"kill-keyed", settings{partitions: 3, features: sensorColumns, budget: "1/200 rows", byKey: true}, "arrow", 4, []string{"learn", "transform"}},
	} {
		versions := 10
		if testing.Short() {
			if !c.byKey { // before the same judge TestChaosFailpoints ends learn and transform at each place that counts, and TestRegistry kills run
				continue
			}
			c.kills, versions = 2, 4
		}
		t.Run(c.name, func(t *testing.T) {
			s := newStream(t, b, c.name, c.settings)
			wait, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Format: c.format, Rows: 1 << 30, PerMessage: perMessage, Rate: 1500, Bad: 0.01, Invalid: 0.05, Apart: 20 * time.Second, Fault: 9000 / perMessage})
			var programs []*program
			for _, command := range c.programs {
				programs = append(programs, s.program(command))
			}
			open := 0 // episodes, when the transform was killed
			// More kills where each episode ended just before.
			for kill := 0; kill < c.kills || open == 0 && kill < 5*c.kills; kill++ {
				for _, p := range programs {
					// A kill counts only if work was committed since the last one.
					s.awaitVersions(2/len(programs), programs...)
					grown := s.growth("alarms")
					for range 600 { // those that last are still open then
						if grown() {
							if _, long := s.openEpisodes(); long > 0 {
								break
							}
						}
						time.Sleep(200 * time.Millisecond)
					}
					if kill < c.kills {
						time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond)
					}
					switch {
					case kill%2 == 0: // at a random moment
						p.Kill()
					case p.args[0] == "learn":
						p.killInside(s.topic("snap"))
					default:
						p.killInside(s.topic("out"))
					}
					if p.args[0] != "learn" {
						all, _ := s.openEpisodes()
						open += all
					}
					p.start()
				}
			}
			s.awaitVersions(2, programs...)
			s.awaitMovedCauses(programs...)
			stop()
			done := wait()
			s.await(s.name, int64(done.Messages+done.Bad), programs...)
			for _, p := range programs {
				p.stop()
			}
			v := s.check(done.Rows, versions)
			if v.Messages != done.Messages || v.DeadLetters != done.Bad {
				t.Errorf("judged %d messages, %d dead letters; written were %d, %d", v.Messages, v.DeadLetters, done.Messages, done.Bad)
			}
			if (v.ImputedRows > 0) != c.imputes {
				t.Errorf("%d rows have features that were filled", v.ImputedRows)
			}
			s.toldEpisodes(v)
			if open == 0 {
				t.Error("no episode was open at a kill")
			}
			if v.Aborted == 0 {
				t.Error("no kill hit an open transaction of the transform")
			}
		})
	}
}

// A second process takes the work over from one that stands still; when that one wakes up it finds
// itself fenced, writes nothing more, and ends with exit code 3.
func TestZombieIsFenced(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Older(kafkatest.Kafka39))
	s := newStream(t, b, "zombie", settings{partitions: 3, static: true, features: sensorColumns})
	wait, stop := b.Load(t, kafkatest.Load{Topic: s.topic("in"), Data: "sensors", Rows: 1 << 30, PerMessage: perMessage, Rate: 1500, Invalid: 0.05})
	old := s.program("run")
	s.await(s.name, 2000/perMessage, old)
	for range 2 {
		old.Pause()
		young := s.program("run")
		s.awaitVersions(2, young)
		old.Resume()
		select {
		case <-old.Done():
		case <-time.After(60 * time.Second):
			t.Fatal("the fenced process goes on")
		}
		if code := old.ExitCode(); code != 3 {
			t.Errorf("the fenced process ended with exit code %d, want 3", code)
		}
		old = young
	}
	stop()
	done := wait()
	s.await(s.name, int64(done.Messages), old)
	old.stop()
	if v := s.check(done.Rows, 5); v.Messages != done.Messages {
		t.Errorf("judged %d messages of %d", v.Messages, done.Messages)
	}
}
