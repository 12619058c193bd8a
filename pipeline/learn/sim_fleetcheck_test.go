package learn

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

var simFleetSeeds = flag.Int("fleets", 150, "how many seeds of the simulation with a model for each key to run; with -short a tenth")

// Learners and transforms with a model for each key, several of each that share the partitions as groups, with zombies, crashes, lost answers, rebalances,
// evictions, compaction and retirements: every message comes out once and in order, with the values of the version of its own
// key's model that it names; versions never go back within a key; what is learnt of each key, published and saved is what a topic
// with its rows alone gives, byte for byte, since it was retired last; and each row is learnt once.
func TestFleetSimulation(t *testing.T) {
	undisturbed := newSimFleets(t)
	if *simSeed != 0 {
		s := simulateFleet(t, *simSeed, undisturbed)
		t.Log(strings.Join(s.trace, "\n"))
		return
	}
	workers, seeds := runtime.GOMAXPROCS(0), seedsOf(*simFleetSeeds)
	var mu sync.Mutex
	happened := map[string]int{}
	t.Run("seeds", func(t *testing.T) {
		for w := range workers {
			t.Run(strconv.Itoa(w), func(t *testing.T) {
				t.Parallel()
				for i := w; i < len(seeds) && !t.Failed(); i += workers {
					s := simulateFleet(t, seeds[i], undisturbed)
					mu.Lock()
					for what, n := range s.done {
						happened[what] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d seeds: %v", len(seeds), happened)
	for _, what := range []string{"kill", "freeze", "failed", "lost answer", "long pause", "fenced", "compaction", "models late", "foreign transaction", "retired", "back", "without a model", "evicted", "learner's offsets expired", "command", "fact"} {
		if happened[what] == 0 && !t.Failed() {
			t.Errorf("%q never happened: the simulation tests less than it says", what)
		}
	}
}

func TestFleetSimulationReplays(t *testing.T) {
	undisturbed := newSimFleets(t)
	for _, seed := range seedsOf(30) {
		a, b := simulateFleet(t, seed, undisturbed), simulateFleet(t, seed, undisturbed)
		if !slices.Equal(a.trace, b.trace) {
			t.Fatalf("two executions of seed %d differ: %s", seed, firstDifference(a.trace, b.trace))
		}
	}
}

func simulateFleet(t *testing.T, seed uint64, undisturbed *simFleets) *sim {
	s := executeFleet(t, seed, undisturbed, "")
	if len(s.broken) > 0 {
		last := s.trace[max(0, len(s.trace)-60):]
		t.Errorf("seed %d, %+v, %+v: %s\nafter %d steps; again with: go test ./pipeline/learn -run 'TestFleetSimulation$' -seed %d\n%s",
			seed, s.simWorld, *s.fleet, strings.Join(s.broken, "\n"), len(s.trace), seed, strings.Join(last, "\n"))
	}
	return s
}

// Mistakes that are made on purpose, each in one line of the simulation, are found by the promise that each breaks. The search begins
// near the first seed that found the mistake when the worlds were drawn as they are now.
func TestFleetSimulationFindsMistakes(t *testing.T) {
	const most = 400
	undisturbed := newSimFleets(t)
	for _, mistake := range []struct {
		name, breaks string
		first        uint64
	}{
		{"keyed: the index forgets retired models", `version \d+ after`, 137},
		{"keyed: the index forgets what is learnt", `has another state|came twice|is not that of|want`, 35},
		{"keyed: the index forgets last rows", `is not that of|retired`, 1},
		{"keyed: the index forgets cuts", `is not that of|retired|has another state`, 58},
		{"keyed: aborted offsets are believed", `is not there|want|never`, 71},
		{"keyed: markers are not exact", `has another state|is not that of|want`, 68},
		{"keyed: all that was read is committed", `has another state|want`, 1},
		{"keyed: unsaved as read", `has another state|is not that of|want`, 80},
		{"keyed: by another header", `is whitened by model`, 2},
		{"keyed: no catching up", `: no version after|: version \d+ after \d+`, 57},
		{"keyed: offsets before the fence", `again in|came twice|has another state|after`, 115},
		{"no fence", `again in|came twice|has another state|after`, 4},
		{"stale offsets", `again in`, 212},
		{"offsets lost", `again in|committed`, 3},
		{factsApart, `is not in the transaction of a checkpoint that has it`, 1},
		{commandsAgain, `was followed again`, 1},
		{noPositions, `is not in the transaction of a checkpoint that has it`, 1},
	} {
		t.Run(mistake.name, func(t *testing.T) {
			t.Parallel()
			broken := regexp.MustCompile(mistake.breaks)
			for seed := mistake.first; seed < mistake.first+most; seed++ {
				s := executeFleet(t, seed, undisturbed, mistake.name)
				if i := slices.IndexFunc(s.broken, broken.MatchString); i >= 0 {
					t.Logf("seed %d: %s", seed, s.broken[i])
					return
				}
			}
			t.Errorf("not found in %d seeds", most)
		})
	}
}

// simFaults are the faults that a check finds.
type simFaults struct{ *sim }

// errChecked ends a check that cannot go on.
type errChecked struct{}

func (f simFaults) Helper() {}

func (f simFaults) Context() context.Context { return context.Background() }

func (f simFaults) Errorf(format string, args ...any) { f.fault(format, args...) }

func (f simFaults) Fatalf(format string, args ...any) { f.fault(format, args...); panic(errChecked{}) }

func (f simFaults) Fatal(args ...any) { f.fault("%s", fmt.Sprint(args...)); panic(errChecked{}) }

// checkFleet compares what is on the topics with what is promised.
func (s *sim) checkFleet(undisturbed *simFleets) {
	defer func() {
		if r := recover(); r != nil && r != any(errChecked{}) {
			panic(r)
		}
	}()
	for len(s.open) > 0 {
		s.fence(s.open[0].id)
	}
	s.simBroker.complete(true)
	run := s.fleet.run()
	run.accepted = s.checkFleetCommands()
	for id := range int32(s.inputs) {
		p := source.Partition{Topic: "events", ID: id}
		s.checkFleetOutput(p)
		w := newWorld()
		w.fleet = p
		for _, topic := range []string{"snapshots", "checkpoints", "events"} {
			at := source.Partition{Topic: topic, ID: id}
			for _, e := range s.part(at).log {
				m := sink.Message{}
				if ours := topic != "events" && strings.HasPrefix(string(e.Key), "foreign/"); !e.mark && !ours && (e.txn == nil || e.txn.committed) {
					m = e.Message
					m.Topic = topic
				}
				w.topics[at] = append(w.topics[at], m)
			}
		}
		w.committed["g.learn"] = source.Offsets{p: s.offsets["g.learn"][p].next}
		undisturbed.of(s, p).check(simFaults{s}, w, run)
	}
}

// fleetVersion is a version of a model, and when it was published.
type fleetVersion struct {
	*snapshot.Snapshot
	at time.Time
}

// fleetVersions are the versions that were published in a partition, by id and version, and when models were retired.
func (s *sim) fleetVersions(p source.Partition) (all map[string]fleetVersion, retired map[string][]time.Time) {
	all, retired = map[string]fleetVersion{}, map[string][]time.Time{}
	var a snapshot.Assembler
	for _, e := range s.part(source.Partition{Topic: "snapshots", ID: p.ID}).log {
		if e.mark || e.txn == nil || !e.txn.committed || e.txn.id == "foreign" {
			continue
		}
		if err := a.Add(e.Key, e.Value, e.Headers, e.at); err != nil {
			s.fault("snapshot message %q: %v", e.Key, err)
		}
		if source.LastHeader(e.Headers, "lca-part") == snapshot.PartNeighbours {
			if snap, ok := a.Newest(source.LastHeader(e.Headers, "lca-model-id")); ok {
				all[fmt.Sprintf("%s@%d", snap.ModelID, snap.Version)] = fleetVersion{snap, e.at}
			}
		}
	}
	for _, e := range s.part(source.Partition{Topic: "checkpoints", ID: p.ID}).log {
		if !e.mark && e.txn != nil && e.txn.committed && source.LastHeader(e.Headers, reject.HeaderRetired) != "" {
			id := source.LastHeader(e.Headers, "lca-model-id")
			retired[id] = append(retired[id], e.at)
			s.done["retired"]++
		} else if n := source.LastHeader(e.Headers, "lca-checkpoint"); n == "1" && len(retired[source.LastHeader(e.Headers, "lca-model-id")]) > 0 {
			s.done["back"]++
		}
	}
	return all, retired
}

// checkFleetOutput wants every message of a partition once, in order, in the output or the dead letters, with the values of the
// version that it names of its own key's model.
func (s *sim) checkFleetOutput(p source.Partition) {
	versions, retired := s.fleetVersions(p)
	where := map[int64]string{}
	take := func(m sink.Message, topic string) int64 {
		offset := int64(s.number(m, "lca-source-offset"))
		if was := where[offset]; was != "" {
			s.fault("%v@%d is in %s and again in %s", p, offset, was, topic)
		}
		where[offset] = topic
		return offset
	}
	for _, e := range s.part(source.Partition{Topic: "dead of a"}).log {
		if e.visible() && int32(s.number(e.Message, "lca-source-partition")) == p.ID {
			take(e.Message, "dead letters")
		}
	}
	last, newest := int64(-1), map[string]uint64{}
	for _, e := range s.part(source.Partition{Topic: "out of a", ID: p.ID}).log {
		if !e.visible() {
			continue
		}
		offset := take(e.Message, "output")
		if offset <= last {
			s.fault("%v@%d comes after %d", p, offset, last)
		}
		last = offset
		in := s.decoded(p, offset, &s.part(p).log[offset])
		id := "fleet/a"
		if in.Key != nil {
			id = modelkey.ID(id, p.ID, in.Key)
		}
		version, named := s.number(e.Message, "lca-model-version"), source.LastHeader(e.Headers, "lca-model-id")
		model, known := versions[fmt.Sprintf("%s@%d", id, version)]
		gone := slices.ContainsFunc(retired[id], func(at time.Time) bool { return !at.After(e.at) })
		switch {
		case named != id:
			s.fault("%v@%d is whitened by model %s, and its own is %s", p, offset, named, id)
		case version == 0 && newest[id] > 0 && !gone:
			s.fault("%v@%d: model %s: no version after %d", p, offset, id, newest[id])
		case version > 0 && version < newest[id]:
			s.fault("%v@%d: model %s: version %d after %d", p, offset, id, version, newest[id])
		case version > 0 && (!known || model.at.After(e.at)):
			s.fault("%v@%d: version %d of model %s was not published", p, offset, version, id)
		default:
			s.compareFleet(in, id, model.Snapshot, e.Message)
		}
		if newest[id] = max(newest[id], version); version == 0 {
			s.done["without a model"]++
		}
	}
	for offset, e := range s.part(p).log {
		want := "output"
		if !e.mark && isFleetBad(e.feed) {
			want = "dead letters"
		}
		if got := where[int64(offset)]; !e.mark && got != want {
			s.fault("%v@%d is in %q, want %q", p, offset, got, want)
		}
	}
}

// compareFleet whitens an input again, with the one model that its output names.
func (s *sim) compareFleet(in source.Message, id string, model *snapshot.Snapshot, got sink.Message) {
	b := source.Batch{Messages: []source.Message{in}}
	defer b.Release()
	work, err := withOneModel(s.fleetConfig(s.pipes[0]), model, id).Do(context.Background(), b)
	if err != nil || len(work.Messages) != 1 {
		s.fault("%v@%d: %d outputs, %v", in.Partition, in.Offset, len(work.Messages), err)
		return
	}
	if !bytes.Equal(work.Messages[0].Whole(), got.Value) {
		s.fault("the output of %v@%d is not what its model gives", in.Partition, in.Offset)
	}
}

// withOneModel is a stage that whitens with one model, or with none.
func withOneModel(c transform.TransformConfig, s *snapshot.Snapshot, id string) *transform.Transform {
	c.Follow = &models.Follow{ModelID: id}
	if s != nil {
		c.Follow.Adopt(&stats.PublishedModel{Snapshot: s})
	}
	c.Alarms.ModelID, c.Alarms.Partition = id, int32(len(id)%3)
	c.Stats, c.Engines = stats.NewStats(), nil
	return &transform.Transform{TransformConfig: c}
}
