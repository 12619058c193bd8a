package pipeline

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run this seed of the simulation alone, and print what happens")
	simSeeds = flag.Int("seeds", 10_000, "how many seeds of the simulation to run")
)

const (
	simMessages, simRows = 10, 20
	simBad               = 5 // the message that cannot be decoded
	simDecisions         = 4000
)

// Learner and transforms, with zombies, crashes and lost answers at moments that a seed chooses, and
// with input that arrives bit by bit: every message comes out once and in order, under versions that
// never go back; what is learnt, published and checkpointed from one partition is what an
// undisturbed run gives, byte for byte; and everything comes to its end.
func TestSimulation(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	calm := newOracle(t)
	if *simSeed != 0 {
		s := simulate(t, *simSeed, calm)
		t.Log(strings.Join(s.trace, "\n"))
		return
	}
	workers := runtime.GOMAXPROCS(0)
	var mu sync.Mutex
	happened := map[string]int{}
	t.Run("seeds", func(t *testing.T) {
		for w := range workers {
			t.Run(strconv.Itoa(w), func(t *testing.T) {
				t.Parallel()
				for seed := w + 1; seed <= *simSeeds && !t.Failed(); seed += workers {
					s := simulate(t, uint64(seed), calm)
					mu.Lock()
					for what, n := range s.done {
						happened[what] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d seeds: %v", *simSeeds, happened)
	for _, what := range []string{"kill", "freeze", "failed", "lost answer", "fenced", "transform ended", "learn ended"} {
		if happened[what] == 0 && !t.Failed() {
			t.Errorf("%q never happened: the simulation tests less than it says", what)
		}
	}
}

// The same seed is the same execution.
func TestSimulationReplays(t *testing.T) {
	calm := newOracle(t)
	for seed := range uint64(20) {
		a, b := simulate(t, seed+1, calm), simulate(t, seed+1, calm)
		if !slices.Equal(a.trace, b.trace) {
			t.Fatalf("two executions of seed %d differ: %s", seed+1, firstDifference(a.trace, b.trace))
		}
	}
}

// firstDifference shows where two traces part, and what came just before.
func firstDifference(a, b []string) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	show := func(s []string) string { return strings.Join(s[max(0, i-5):min(len(s), i+3)], "\n") }
	return fmt.Sprintf("step %d\n%s\n— or —\n%s", i, show(a), show(b))
}

// simulate runs one seed and reports what it leaves behind.
func simulate(t *testing.T, seed uint64, calm *oracle) *sim {
	s := execute(t, seed, calm, "")
	if len(s.broken) > 0 {
		last := s.trace[max(0, len(s.trace)-60):]
		t.Errorf("seed %d: %s\nafter %d steps; again with: go test ./pipeline -run 'TestSimulation$' -seed %d\n%s",
			seed, strings.Join(s.broken, "\n"), len(s.trace), seed, strings.Join(last, "\n"))
	}
	return s
}

// execute runs one seed, perhaps of a world with a mistake in it, and checks the outcome.
func execute(t *testing.T, seed uint64, calm *oracle, mistake string) (s *sim) {
	synctest.Test(t, func(t *testing.T) {
		s = newSim(t, seed)
		s.mistake = mistake
		s.run()
		if len(s.broken) == 0 {
			s.check(t, calm)
		}
	})
	return s
}

// A simulation that finds nothing proves something only if it finds mistakes that are there.
func TestSimulationFindsMistakes(t *testing.T) {
	calm := newOracle(t)
	for _, mistake := range []string{"no fence", "offsets before the fence", "offsets lost", "no catching up", "learner reads before the fence"} {
		t.Run(mistake, func(t *testing.T) {
			for seed := range uint64(3000) {
				if s := execute(t, seed+1, calm, mistake); len(s.broken) > 0 {
					t.Logf("seed %d: %s", seed+1, s.broken[0])
					return
				}
			}
			t.Error("not found in 3000 seeds")
		})
	}
}

func newSim(t *testing.T, seed uint64) *sim {
	w := newWorld()
	s := &sim{
		world: w, seed: seed, random: rand.New(rand.NewPCG(seed, 18)), visible: map[source.Partition]int{},
		waiting: map[string]*question{}, procs: map[string]*proc{}, done: map[string]int{},
	}
	w.events(t, s.partitionsOf(), simMessages, simRows)
	s.inputs = w.partitions("events")
	log := w.topics[source.Partition{Topic: "events"}]
	log[simBad/s.partitionsOf()].Value = []byte("no Arrow")
	s.faults = s.random.IntN(12)
	return s
}

// partitionsOf is one for the seeds whose learnt bytes are compared, two for the others.
func (s *sim) partitionsOf() int { return 1 + int(s.seed%2) }

// byClock reports whether the learner publishes by time too: then versions depend on the schedule.
func (s *sim) byClock() bool { return s.seed%4 >= 2 }

// run starts the processes and decides who goes on, until all work is done.
func (s *sim) run() {
	attempts := map[string]int{}
	bodies := map[string]func(*proc) error{"learn": s.learn}
	works := []string{"learn"}
	for _, p := range s.inputs {
		name := fmt.Sprintf("transform/%d", p.ID)
		works = append(works, name)
		bodies[name] = func(me *proc) error { return s.transform(me, p) }
	}
	begin := func(work string) { attempts[work]++; s.begin(work, attempts[work], bodies[work]) }
	for _, work := range works {
		begin(work)
	}
	finished := map[string]bool{}
	for decision := 0; ; decision++ {
		synctest.Wait()
		for _, p := range s.live() {
			if !p.ended {
				continue
			}
			s.retire(p)
			s.note("%s ended: %v", p.name, p.err)
			kind := strings.SplitN(p.work, "/", 2)[0]
			switch {
			case p.killed:
				if !finished[p.work] {
					begin(p.work)
				}
			case p.err == nil:
				finished[p.work] = true
				s.done[kind+" ended"]++
			case errors.Is(p.err, sink.ErrFenced):
				s.done["fenced"]++ // somebody else has the work
			case errors.Is(p.err, errCrash):
				begin(p.work)
			default:
				s.fault("%s: %v", p.name, p.err)
			}
			// Nobody may be left with the work: the one who had fenced the others may have been killed.
			if !finished[p.work] && !s.anyFor(p.work) {
				begin(p.work)
			}
		}
		if len(s.broken) > 0 || len(finished) == len(works) {
			break
		}
		if decision > simDecisions {
			s.fault("not finished after %d decisions", decision)
			break
		}
		synctest.Wait() // for those that have just begun
		s.decide(begin)
	}
	for _, p := range s.live() {
		s.kill(p)
	}
	synctest.Wait()
}

// decide lets one process go on, produces, passes time, or lets something go wrong.
func (s *sim) decide(begin func(string)) {
	for _, p := range s.live() {
		p.frozen = max(0, p.frozen-1)
	}
	for _, p := range s.inputs {
		if s.random.IntN(4) == 0 {
			s.visible[p] = min(s.visible[p]+1+s.random.IntN(3), len(s.topics[p]))
		}
	}
	names := s.ready()
	if len(names) == 0 || s.random.IntN(8) == 0 {
		time.Sleep(time.Duration(1+s.random.IntN(40)) * time.Millisecond)
		return
	}
	name := names[s.random.IntN(len(names))]
	s.mu.Lock()
	p := s.waiting[name].p
	s.mu.Unlock()
	if s.faults == 0 || s.random.IntN(12) != 0 {
		s.answer(name, carriedOut)
		return
	}
	s.faults--
	switch s.random.IntN(4) {
	case 0:
		s.done["failed"]++
		s.answer(name, failedBefore)
	case 1:
		s.done["lost answer"]++
		s.answer(name, failedAfter)
	case 2:
		s.done["kill"]++
		s.note("%s is killed", p.name)
		s.kill(p)
	case 3: // it stands still, and somebody else takes its work over
		s.done["freeze"]++
		p.frozen = 5 + s.random.IntN(120)
		s.note("%s stands still", p.name)
		begin(p.work)
	}
}

func (s *sim) live() (procs []*proc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		procs = append(procs, p)
	}
	slices.SortFunc(procs, func(a, b *proc) int { return strings.Compare(a.name, b.name) })
	return procs
}

func (s *sim) retire(p *proc) {
	p.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.procs, p.name)
}

func (s *sim) anyFor(work string) bool {
	for _, p := range s.live() {
		if p.work == work {
			return true
		}
	}
	return false
}

// learn is what cmd's learner does: take the work over, then read the checkpoint, then go on.
func (s *sim) learn(me *proc) error {
	var k *simSink
	var err error
	late := s.mistake == "learner reads before the fence"
	if !late {
		if k, err = me.open("learn"); err != nil {
			return err
		}
	}
	c := lca.DefaultConfig(1)
	c.Neighbours, c.Minibatch, c.WarmupRows, c.Precision = 30, 10, 20, lca.Float64
	start := source.Offsets{}
	for _, p := range s.inputs {
		start[p] = 0
	}
	stage := &Learn{LearnConfig: LearnConfig{
		ModelID: "m", Topic: "snapshots", Keep: 3, SnapshotRows: 40, CheckpointRows: 30, Learner: c, Producer: "test",
		Start:       func(context.Context) (source.Offsets, error) { return start, nil },
		Checkpoints: &Checkpoints{Topic: "checkpoints", ModelID: "m", Open: me.log("", "checkpoints"), End: me.end("checkpoints")},
		Stats:       NewStats(), Log: quiet(), Now: time.Now,
	}}
	if s.byClock() {
		stage.SnapshotEvery, stage.CheckpointEvery = 60*time.Millisecond, 100*time.Millisecond
	}
	at, err := stage.Rewind(me.ctx)
	if err != nil {
		return err
	}
	if late {
		if k, err = me.open("learn"); err != nil {
			return err
		}
	}
	src := &simSource{p: me, next: at.Clone(), claim: source.Claim{Group: "g.learn", Generation: -1}}
	return (&Loop{Source: src, Stage: stage, Sink: k, Stats: stage.Stats, Log: quiet()}).Run(me.ctx)
}

// transform is what cmd's transform does with one partition: wait for a model, take the work over,
// then read the committed offsets, then catch up with the snapshots, then go on.
func (s *sim) transform(me *proc, p source.Partition) error {
	stats := NewStats()
	follow := &Follow{Open: me.log(" follow", "snapshots"), End: me.end("snapshots"), ModelID: "m", Stats: stats, Log: quiet()}
	following := make(chan struct{})
	ctx, cancel := context.WithCancel(me.ctx)
	go func() { defer close(following); _ = follow.Run(ctx) }()
	defer func() { cancel(); me.hush(" follow"); <-following }()
	if err := follow.AwaitModel(me.ctx); err != nil {
		return errDead
	}
	group := fmt.Sprintf("g-%d", p.ID)
	committed := func(context.Context) (o source.Offsets, err error) {
		o = source.Offsets{p: 0}
		err = me.ask("", "committed offsets", func() {
			if c, ok := s.committed[group]; ok {
				o = c.Clone()
			}
		})
		return o, err
	}
	var k *simSink
	var at source.Offsets
	steps := []func() error{
		func() (err error) { k, err = me.open(p.String()); return err },
		func() (err error) { at, err = committed(me.ctx); return err },
		func() error { return follow.CatchUp(me.ctx) },
	}
	switch s.mistake {
	case "offsets before the fence":
		steps[0], steps[1] = steps[1], steps[0]
	case "no catching up":
		steps = steps[:2]
	}
	for _, step := range steps {
		if err := step(); err != nil {
			if me.ctx.Err() != nil {
				return errDead
			}
			return err
		}
	}
	stage := &Transform{Committed: committed, TransformConfig: TransformConfig{
		Topic: "out", Output: OutputConfig{Column: "lca", Score: true, Passthrough: true},
		Coordinates: lca.CoordinatesAligned, Components: lca.ComponentsAll,
		DeadLetter: DeadLetter{Topic: "dead", Window: 10, MaxRejects: 5, Partitions: 1},
		Follow:     follow, Stats: stats, Log: quiet(), Now: time.Now,
	}}
	src := &simSource{p: me, next: at.Clone(), claim: source.Claim{Group: group, Generation: -1}}
	return (&Loop{Source: src, Stage: stage, Sink: k, Stats: stats, Log: quiet()}).Run(me.ctx)
}

// hush answers a thread that is no longer needed.
func (p *proc) hush(thread string) {
	p.sim.mu.Lock()
	p.dead = true
	q := p.sim.waiting[p.name+thread]
	delete(p.sim.waiting, p.name+thread)
	p.sim.mu.Unlock()
	if q != nil {
		q.answer <- neverHeard
	}
}
