package replay

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/stats"
)

// TestReplayScreenShowsSteps holds that a batch fit is watched on a terminal too: once the rows are read the bar
// counts steps, of as many as were asked for, and says what the model is like.
func TestReplayScreenShowsSteps(t *testing.T) {
	for _, c := range []struct {
		name   string
		passes int
		want   []string
	}{
		{"as many as asked for", 40, []string{"NLL 7.5000, 3 Parzen + 2 Gaussian", "(1/40", "run 2: NLL 7.2500, 2 Parzen + 3 Gaussian"}},
		{"to convergence", 0, []string{"NLL 7.5000, 3 Parzen + 2 Gaussian", "(1/-", "run 2: NLL 7.2500, 2 Parzen + 3 Gaussian"}},
		{"the default", -1, []string{"(1/-"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var shown bytes.Buffer
			r := &replay{flags: replayFlags{passes: c.passes}, stats: stats.NewStats()}
			s := &replayScreen{out: &shown, replay: r, bar: app.NewBar(&shown, 100)}
			s.iteration(lca.Iteration{NLL: 8, Gaussian: 0, Parzen: 5})
			s.iteration(lca.Iteration{Iter: 1, NLL: 7.5, Gaussian: 2, Parzen: 3})
			s.iteration(lca.Iteration{Run: 1, Iter: 1, NLL: 7.25, Gaussian: 3, Parzen: 2})
			s.end()
			for _, want := range c.want {
				if !strings.Contains(shown.String(), want) {
					t.Errorf("%q is not in %q", want, shown.String())
				}
			}
		})
	}
}
