package learn

import (
	"regexp"
	"slices"
	"testing"
)

// A simulation that finds nothing proves something only if it finds mistakes that are there, and by the
// promise that each of them breaks. The search begins at the first seed that found the mistake when the worlds were drawn
// as they are now. It goes on from there where they are drawn otherwise.
func TestSimulationFindsMistakes(t *testing.T) {
	const most = 5000
	undisturbed := newOracles(t)
	for _, mistake := range simMistakes {
		t.Run(mistake.name, func(t *testing.T) {
			t.Parallel()
			broken := regexp.MustCompile(mistake.breaks)
			for seed := mistake.first; seed < mistake.first+most; seed++ {
				s := execute(t, seed, undisturbed, mistake.name)
				if i := slices.IndexFunc(s.broken, broken.MatchString); i >= 0 {
					t.Logf("seed %d: %s", seed, s.broken[i])
					return
				}
			}
			t.Errorf("not found in %d seeds", most)
		})
	}
}

// simMistakes are made on purpose, each in one line of the simulation. breaks is what the check says of the
// promise: that something did not finish, or stopped for no reason, is not enough.
var simMistakes = []struct {
	name, breaks string
	first        uint64 // seed; those before it do not find it, and looking at hundreds of them takes most of the time of this test
}{
	{"no fence", `again in|was published after`, 14},
	{"offsets before the fence", `again in`, 167},
	{"offsets lost", `again in`, 11},
	{"no catching up", `: version \d+ after \d+`, 9489},
	{"learner reads before the fence", `was published after|rows were learnt`, 8},
	{"no look at the outputs", `again in`, 983},
	{"stale offsets", `again in`, 452},
	{"aborted offsets are believed", `is in "", want`, 128},
	{"the end hides the own checkpoint", `was published after`, 1340},
	{"rejects counted again", `stopped, .*messages were rejected`, 1652},
	{"pipelines are mixed", `is published by|is of`, 3},
	{"a loss is a first start", `again in`, 73},
	{"latest is resolved again", `is in "", want`, 1846},
	{"gaps are passed over", `is in "", want`, 534},
	{"truncation unnoticed", `is in "", want`, 192},
	{"offsets of others are dropped", `rows were learnt`, 1467},
	{"a newer format is passed over", `was published after`, 39},
	{"learn: alarms outside of the transaction", `is not in the transaction of its version`, 1},
	{"learn: alarms again after a restart", `is told again`, 7},
	{"learn: alarms lost at an abort", `were told, the learner has seen`, 107},
	{"transform: alarms outside of the transaction", `is not in the transaction of its row`, 1},
	{"transform: alarms again after a restart", `or is there again`, 311},
	{"transform: alarms lost at an abort", `records of rows are missing`, 717},
	{statesOfAll, `is not what version`, 46},
	{noStates, `is not what version`, 29},
	{lateStates, `is not what version`, 46},
	{statesApart, `is not what version`, 71},
	{noClock, `is not what version|records of rows are missing`, 1170},
	{"states: kept over an abort", `is not what version`, 29},
	{factsApart, `is not in the transaction of a checkpoint that has it`, 1},
	{commandsAgain, `was followed again`, 1},
	{commandsAhead, `was lost`, 1},
	{noPositions, `is not in the transaction of a checkpoint that has it`, 1},
}
