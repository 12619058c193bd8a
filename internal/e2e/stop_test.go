//go:build unix

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A learner whose step takes longer than a stop may ends all the same, and the next one learns what it has not. Without vector instructions a first
// fit takes minutes.
func TestStopInALongStep(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Embedded)
	s := newStream(t, b, "longstep", settings{partitions: 1, features: "[x]"})
	random := rand.New(rand.NewPCG(5, 6))
	var values [][]byte
	for range 100 {
		var lines strings.Builder
		for range 50 {
			x := make([]string, 96)
			for k := range x {
				x[k] = fmt.Sprintf("%.3f", random.NormFloat64())
			}
			fmt.Fprintf(&lines, `{"x":[%s]}`+"\n", strings.Join(x, ","))
		}
		values = append(values, []byte(lines.String()))
	}
	s.produce(values)
	s.env = "GODEBUG=cpu.avx512f=off,cpu.avx2=off"
	learn := s.program("learn", "--from-history", "--set", "lca.neighbours=5000")
	learn.says(`"msg":"learning"`)
	learn.stop()
	if n := s.committed(s.name + ".learn"); n >= int64(len(values)) {
		t.Fatalf("it has learnt all %d messages before it was stopped: this tests nothing", n)
	}
	s.env = ""
	learn.start()
	s.await(s.name+".learn", int64(len(values)), learn)
	learn.stop()
}
