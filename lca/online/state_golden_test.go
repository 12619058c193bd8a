package online

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

var update = flag.Bool("update", false, "write the golden state of the current layout")

// goldenLearner has seen 90 rows of 2 columns, and is in the middle of nothing.
func goldenLearner(t *testing.T, rows int) *Learner {
	t.Helper()
	c := DefaultConfig(2)
	c.Neighbours, c.Minibatch, c.WarmupRows = 40, 10, 30
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < rows; at += c.Minibatch {
		x, ids := mat.NewDense(c.Minibatch, 2, nil), make([]uint64, c.Minibatch)
		for i := range ids {
			ids[i] = uint64(at + i)
			x.SetRow(i, []float64{rng.NormFloat64(), 5 * rng.NormFloat64()})
		}
		if _, err := l.Learn(x, ids, nil); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// States of the first edition and of today are read. When this fails because the layout has changed, raise
// stateVersion, read the layouts of former releases as well, and add a file with -update.
func TestGoldenState(t *testing.T) {
	file := func(version int) string { return filepath.Join("testdata", fmt.Sprintf("state%d.bin", version)) }
	if *update {
		b, err := goldenLearner(t, 90).AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file(stateVersion), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []int{state.FirstEdition, state.SecondEdition, stateVersion} {
		b, err := os.ReadFile(file(version))
		if err != nil {
			t.Fatal(err)
		}
		l := goldenLearner(t, 0)
		if err := l.UnmarshalBinary(b); err != nil {
			t.Errorf("version %d: %v", version, err)
			continue
		}
		m, err := l.Model()
		if err != nil {
			t.Fatal(err)
		}
		if m.Info.Rows != 90 || len(m.Neighbours) != 2*40 {
			t.Errorf("version %d: %d rows and %d neighbours, want 90 and 40", version, m.Info.Rows, len(m.Neighbours)/2)
		}
	}
}
