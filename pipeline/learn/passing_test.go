package learn

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
)

// Rows of a change that did not last are said once it is over, and at most once a minute.
func TestPassingChangesAreSaid(t *testing.T) {
	config := online.DefaultConfig(2)
	config.WarmupRows, config.DriftRows, config.Minibatch, config.Recent = 200, 400, 50, false
	learner, err := online.NewLearner(config)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	now := time.Unix(1e9, 0)
	l := &Learn{LearnConfig: LearnConfig{Log: fixtures.SaidLog(&out), ModelID: "m", Learner: config, Now: func() time.Time { return now }}, learner: learner}
	rows := func(minibatches int, far float64) {
		for range minibatches {
			x := mat.NewDense(50, 2, nil)
			x.Apply(func(i, j int, _ float64) float64 { return far + float64((i*7+j*31)%13) + 0.01*float64(i) }, x)
			s, err := learner.Learn(x, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			l.released += uint64(s.Released)
			l.sayPassing()
			now = now.Add(time.Second)
		}
	}
	for i, step := range []struct {
		minibatches int
		far         float64
		want        string
	}{
		{20, 0, ""},
		{3, 1e6, ""}, // it may last
		{4, 0, `msg="a change did not last: its rows were not learnt" model_id=m set_aside=150 rows=1300` + "\n"},
		{2, 1e6, ""}, {3, 0, ""}, // within a minute of that line
		{60, 0, `msg="a change did not last: its rows were not learnt" model_id=m set_aside=100 rows=4300` + "\n"},
		{100, 0, ""},
	} {
		out.Reset()
		if rows(step.minibatches, step.far); out.String() != step.want {
			t.Errorf("step %d: said %q, want %q", i, &out, step.want)
		}
	}
}

// With drift off nothing says that a change did not last while it does.
func TestLastingChangesAreNotSaidToPass(t *testing.T) {
	config := online.DefaultConfig(4)
	config.Preset, config.Drift, config.Recent = lca.PresetDensity, false, false
	learner, err := online.NewLearner(config)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	now := time.Unix(1e9, 0)
	l := &Learn{LearnConfig: LearnConfig{Log: fixtures.SaidLog(&out), ModelID: "m", Learner: config, Now: func() time.Time { return now }}, learner: learner}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		far := 0.0
		if i >= 60 {
			far = 40
		}
		x := mat.NewDense(100, 4, nil)
		x.Apply(func(int, int, float64) float64 { return far + r.NormFloat64() }, x)
		s, err := learner.Learn(x, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.released += uint64(s.Released)
		l.sayPassing()
		now = now.Add(5 * time.Second)
	}
	if l.released == 0 || out.Len() > 0 {
		t.Errorf("%d rows were given up; said %q", l.released, &out)
	}
}
