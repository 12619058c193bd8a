//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

const (
	plantMachines = 20
	plantFaulty   = 7 // its bearing wears
	plantRead     = 10 * time.Second
)

// plant has machines of unlike levels, which share a load that moves slowly.
type plant struct {
	random  *rand.Rand
	machine []plantMachine
	load    float64
	rows    int64 // of each machine
	from    time.Time
}

type plantMachine struct{ gain, level [8]float64 }

var plantSensors = [8]string{"flow", "inlet", "outlet", "speed", "current", "motor", "vibration", "ambient"}

func newPlant() *plant {
	p := &plant{random: rand.New(rand.NewPCG(45, 1)), from: time.Now().Add(-24 * time.Hour).Truncate(time.Second)}
	for range plantMachines {
		var m plantMachine
		for k := range m.gain {
			m.gain[k], m.level[k] = math.Exp(0.4*p.random.NormFloat64()), 3*p.random.NormFloat64()
		}
		p.machine = append(p.machine, m)
	}
	return p
}

// next are the next messages, a row of each machine. A worn bearing takes more current, warms the motor and shakes, at a load at which each of these would
// be usual at another.
func (p *plant) next(worn bool) (all []*kgo.Record) {
	r := p.random
	p.load = 0.98*p.load + math.Sqrt(1-0.98*0.98)*r.NormFloat64()
	at := p.from.Add(time.Duration(p.rows) * plantRead)
	p.rows++
	for i, m := range p.machine {
		load, wear := 0.6+0.2*math.Tanh(p.load/1.5)+0.02*r.NormFloat64(), 0.
		if worn && i == plantFaulty {
			wear = 1
		}
		ambient := 18 + 2*r.NormFloat64()
		row := map[string]float64{}
		for k, v := range [8]float64{
			120*load + 1.5*r.NormFloat64(), 2 - 0.5*load*load + 0.15*r.NormFloat64(), 2 + 6*load*load + 0.1*r.NormFloat64(), 900 + 2000*load + 15*r.NormFloat64(),
			4 + 14*load + 1.5*wear + 0.3*r.NormFloat64(), ambient + 30*load + 4*wear + r.NormFloat64(), 0.8 + 2*load + 0.3*wear + 0.1*r.NormFloat64(), ambient,
		} {
			row[plantSensors[k]] = m.level[k] + m.gain[k]*v
		}
		value, _ := json.Marshal(row)
		all = append(all, &kgo.Record{Key: fmt.Appendf(nil, "M%02d", i), Value: value, Timestamp: at})
	}
	return all
}

func (p *plant) produce(t *testing.T, s *stream, rows int, worn bool) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DefaultProduceTopic(s.topic("in")))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var all []*kgo.Record
	for range rows {
		all = append(all, p.next(worn)...)
	}
	if err := cl.ProduceSync(context.Background(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// By the commands of the README alone, init, run and episodes list, a model for each machine is proposed, and a bearing that wears is an episode of its
// machine, soon, with its cause.
func TestFirstWalk(t *testing.T) {
	t.Parallel()
	const history, usual, worn = 1100, 150, 150
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s, p := newStream(t, b, "walk", settings{partitions: 1, features: "[]"}), newPlant()
	p.produce(t, s, history, false)
	file := filepath.Join(s.dir, "first.yaml")
	out := s.command("init", s.topic("in"), "-o", file)
	if !strings.Contains(out, "each has a model of its own") {
		t.Errorf("init proposes no model.by:\n%s", out)
	}
	s.file = file
	s.tool("lint", file)
	run := s.program("run", "--set", anyPort) // it creates the topics
	group := s.topic("in") + "-lca"
	s.await(group+".learn", plantMachines*history, run)
	s.await(group, plantMachines*history, run)
	p.produce(t, s, usual, false)
	s.await(group, plantMachines*(history+usual), run)
	p.produce(t, s, worn, true)
	s.await(group, plantMachines*(history+usual+worn), run)
	run.stop()
	oneEpisode(t, s, history+usual, 60)
}

// A fault of what is there before the first start is an episode, too: rows are not scored by a model of far fewer.
func TestFirstWalkOverABacklog(t *testing.T) {
	t.Parallel()
	const usual, worn = 1900, 300
	programs := []bool{true, false} // two, or one: run
	if testing.Short() {
		programs = programs[:1]
	}
	for _, apart := range programs {
		t.Run(fmt.Sprintf("apart=%v", apart), func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Shared(t, kafkatest.Kafka41)
			s, p := newStream(t, b, fmt.Sprintf("backlog-%v", apart), settings{partitions: 1, features: "[]"}), newPlant()
			p.produce(t, s, usual, false)
			p.produce(t, s, worn, true)
			s.file = filepath.Join(s.dir, "first.yaml")
			s.tool("init", s.topic("in"), "--brokers", s.Addrs()[0], "-o", s.file)
			group, all := s.topic("in")+"-lca", int64(plantMachines*(usual+worn))
			if !apart {
				run := s.program("run", "--set", anyPort)
				s.await(group, all, run)
				run.stop()
			} else {
				s.command("topics", "init")
				transform := s.program("transform", "--set", anyPort, "--set", "snapshot.every=5s")
				learn := s.program("learn", "--set", anyPort, "--set", "snapshot.every=5s")
				s.await(group, all, transform)
				transform.stop()
				learn.stop()
			}
			oneEpisode(t, s, usual, worn/2) // it depends on how rows lie in batches which version has scored them
		})
	}
}

// oneEpisode expects an episode of the machine whose bearing wears from a row on, within a number of its rows, and at most one other.
func oneEpisode(t *testing.T, s *stream, from, within int64) {
	t.Helper()
	if out := s.command("episodes", "list"); !strings.Contains(out, fmt.Sprintf("M%02d", plantFaulty)) {
		t.Errorf("no episode of the machine is listed:\n%s", out)
	}
	met, others := false, 0
	for _, m := range s.ReadCommitted(t, s.topic("in")+"-alarms") {
		var r struct {
			Type, Message string
			Series        *string
			From          struct{ Offset int64 }
			Causes        []struct{ Feature string }
		}
		if err := json.Unmarshal(m.Value, &r); err != nil {
			t.Fatal(err)
		}
		if r.Type != "episode_opened" {
			continue
		}
		row := r.From.Offset/plantMachines - from
		if r.Series == nil || *r.Series != fmt.Sprintf("M%02d", plantFaulty) || row < 0 {
			others++
			continue
		}
		t.Logf("row %d of the fault: %s", row, r.Message)
		if met = true; row >= within {
			t.Errorf("it opens with row %d of the fault", row)
		}
		if len(r.Causes) == 0 || !slices.Contains([]string{"current", "motor", "vibration"}, r.Causes[0].Feature) {
			t.Errorf("its causes are %+v", r.Causes)
		}
	}
	if !met || others > 1 {
		t.Errorf("met: %v; %d other episodes", met, others)
	}
}

// A configuration of brokers, a source and a topic for alarms is enough: the topics are created, and the columns chosen.
func TestThreeLines(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s, p := newStream(t, b, "three", settings{partitions: 1, features: "[]"}), newPlant()
	text := fmt.Sprintf("kafka: {brokers: [%s]}\nsource: {topic: %s}\nalarms: {topic: three-told}\n", strings.Join(b.Addrs(), ", "), s.topic("in"))
	s.file = filepath.Join(s.dir, "three.yaml")
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.produce(t, s, 60, false)
	run := s.program("run", "--set", anyPort)
	s.await("lca-stream", plantMachines*60, run)
	run.says("topics are created, as this is the first start")
	run.stop()
	s.command("episodes", "list")
	if said := s.command("doctor", "--set", anyPort); strings.Contains(said, "FAULT") {
		t.Error(said)
	}
}
