//go:build unix

package e2e_test

import (
	wire "encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// rowsOfA are two schemas of each type, the later one of another number, and how a body of them is written.
var rowsOfA = []struct {
	kind         string
	first, later string
	body         func(a float32) (first, later []byte)
}{
	{"AVRO", `{"type":"record","name":"Row","fields":[{"name":"a","type":"double"}]}`, `{"type":"record","name":"Row","fields":[{"name":"a","type":"float"}]}`, func(a float32) ([]byte, []byte) {
		return doubleAndFloat(a)
	}},
	{"PROTOBUF", `syntax = "proto3"; message Row { double a = 1; }`, `syntax = "proto3"; message Row { float a = 1; }`, func(a float32) ([]byte, []byte) {
		double, float := doubleAndFloat(a)
		return append([]byte{0, 1<<3 | 1}, double...), append([]byte{0, 1<<3 | 5}, float...) // the message's index, and the field's number and width
	}},
	{"JSON", `{"type":"object","properties":{"a":{"type":"number"}}}`, `{"type":"object","properties":{"a":{"type":"string","format":"decimal"}}}`, func(a float32) ([]byte, []byte) {
		return fmt.Appendf(nil, `{"a":%v}`, a), fmt.Appendf(nil, `{"a":"%v"}`, a)
	}},
}

func doubleAndFloat(a float32) (double, float []byte) {
	return wire.LittleEndian.AppendUint64(nil, math.Float64bits(float64(a))), wire.LittleEndian.AppendUint32(nil, math.Float32bits(a))
}

// While the registry is away rows whose schema is known go on, and others wait, whatever their format: none is a dead
// letter.
func testRegistryAway(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	s := newStream(t, b, "away", settings{partitions: 1, features: "[a]"})
	var known, later [][]byte
	for _, f := range rowsOfA {
		first, second := r.Register("away-first-"+f.kind, f.kind, f.first), r.Register("away-later-"+f.kind, f.kind, f.later)
		rng := rand.New(rand.NewPCG(uint64(first), 2))
		for i := range 200 {
			of, ofLater := f.body(rng.Float32())
			known = append(known, prefixed(first, of...))
			if i%4 == 0 {
				later = append(later, prefixed(second, ofLater...))
			}
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	s.write(known[:300]...)
	run := s.program(registered(r, "run", "--set", "http.listen=127.0.0.1:0", "--set", "transform.format=arrow")...)
	s.await(s.name, 300, run)
	r.Kill()
	s.write(known[300:]...)
	s.await(s.name, 600, run)
	s.write(later...)
	run.says("the schema registry does not answer")
	if code, said := run.ready(); code != http.StatusServiceUnavailable || !strings.Contains(said, "schema registry") {
		t.Errorf("/ready: %d %s", code, said)
	}
	r.Start()
	s.await(s.name, 750, run)
	run.stop()
	run.says("the schema registry answers again")
	if dead, out := s.deadCodes(), len(s.ReadCommitted(t, s.topic("out"))); len(dead) > 0 || out != 750 {
		t.Errorf("dead letters %v, %d outputs of 750", dead, out)
	}
}

// A registry that is not at its address ends the process with the key to correct.
func (s *stream) refusesAnotherServer(r *kafkatest.Registry) {
	s.t.Helper()
	run := s.program("run", "--set", "source.registry.url="+r.URL+"/elsewhere")
	<-run.Done()
	if code := run.ExitCode(); code != 2 {
		s.t.Errorf("exit code %d", code)
	}
	run.says("check source.registry.url")
}
