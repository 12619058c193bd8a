package pipeline

import (
	"regexp"
	"slices"
	"testing"
)

// A simulation that finds nothing proves something only if it finds mistakes that are there, and by the
// promise that each of them breaks.
func TestSimulationFindsMistakes(t *testing.T) {
	const most = 1000
	calm := newOracle(t)
	for _, mistake := range simMistakes {
		t.Run(mistake.name, func(t *testing.T) {
			t.Parallel()
			broken := regexp.MustCompile(mistake.breaks)
			for seed := range uint64(most) {
				s := execute(t, seed+1, calm, mistake.name)
				if i := slices.IndexFunc(s.broken, broken.MatchString); i >= 0 {
					t.Logf("seed %d: %s", seed+1, s.broken[i])
					return
				}
			}
			t.Errorf("not found in %d seeds", most)
		})
	}
}

// simMistakes are made on purpose, each in one line of the simulation. breaks is what the check says of the
// promise: that something did not finish, or stopped for no reason, is not enough.
var simMistakes = []struct{ name, breaks string }{
	{"no fence", `again in|was published after`},
	{"offsets before the fence", `again in`},
	{"offsets lost", `again in`},
	{"no catching up", `: version \d+ after \d+`},
	{"learner reads before the fence", `was published after|rows were learnt`},
	{"stale offsets", `again in`},
	{"the end hides the own checkpoint", `was published after`},
	{"rejects counted again", `stopped, .*messages were rejected`},
	{"pipelines are mixed", `is published by|is of`},
	{"a loss is a first start", `again in`},
	{"latest is resolved again", `is in "", want`},
	{"gaps are passed over", `is in "", want`},
	{"truncation unnoticed", `is in "", want`},
	{"offsets of others are dropped", `rows were learnt`},
	{"a newer format is passed over", `was published after`},
}
