package transform

import (
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// TestAcceptedOfAnotherEpisode holds that a model that has accepted a series closes the episode that was meant, and not one that has begun since, under an older model.
func TestAcceptedOfAnotherEpisode(t *testing.T) {
	at := func(ms int64) *time.Time { then := time.UnixMilli(ms); return &then }
	for _, c := range []struct {
		name  string
		from  *time.Time
		until int64
		turn  uint64 // of the model that it opened under
		want  string // the reason of the record
	}{
		{"what was meant", at(1000), 5000, 0, recent.Accepted},
		{"its last row alone is meant", at(5000), 5000, 0, recent.Accepted},
		{"it began later", at(5001), 5000, 0, ""},
		{"rows without times", nil, 5000, 0, recent.Accepted},
		{"the learner knew no time", at(5001), 0, 0, recent.Accepted},
		{"the model of its first row knew", at(1000), 5000, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &recent.Evaluator{Turn: 1, Accepted: []recent.Acceptance{{Series: 7, Turn: 1, Until: c.until, Reason: recent.Accepted}}}
			tr := &Transform{engine: &engine{model: &stats.PublishedModel{Snapshot: &snapshot.Snapshot{ModelID: "m", Model: &lca.Model{Recent: e}}}}}
			one := &heldSeries{name: "a", identity: 7, model: "m", turn: c.turn}
			one.episode = episode.Open{Watch: recent.Watch{Open: true}, From: episode.Place{Time: c.from}}
			got := ""
			if tr.accepted(one); len(tr.series.said) > 0 {
				got = tr.series.said[0].reason
			}
			if got != c.want || one.episode.Watch.Open != (c.want == "") {
				t.Errorf("closed as %q, want %q", got, c.want)
			}
		})
	}
}

// A run of rows that are not usual is in the state of its series, and ends where scores are those of another model, or of one that has accepted something.
func TestRunOfASeriesIsKept(t *testing.T) {
	run := recent.Watch{Level: 0.7, Quiet: 29}
	one := &heldSeries{model: "m", turn: 1, episode: episode.Open{Watch: run}}
	state := one.appendOpen(nil)
	var read heldSeries
	if err := read.readOpen(state); err != nil || read.episode.Watch != run || read.model != "m" || read.turn != 1 {
		t.Errorf("%s is read as %+v, %v", state, read, err)
	}
	for _, damaged := range []string{"x", "r", "r{}", `r{"level":1,"quiet":30}`, `r{"level":1,"quiet":-1}`, `r{"level":1e999}`} {
		if err := new(heldSeries).readOpen([]byte(damaged)); err == nil {
			t.Errorf("%q is read", damaged)
		}
	}
	for _, c := range []struct {
		model string
		turn  uint64
		want  recent.Watch
	}{{"m", 1, run}, {"m", 2, recent.Watch{}}, {"another", 1, recent.Watch{}}} {
		tr := &Transform{engine: &engine{model: &stats.PublishedModel{Snapshot: &snapshot.Snapshot{ModelID: c.model, Model: &lca.Model{Recent: &recent.Evaluator{Turn: c.turn}}}}}}
		one := &heldSeries{model: "m", turn: 1, episode: episode.Open{Watch: run}}
		if tr.accepted(one); one.episode.Watch != c.want || len(tr.series.said) > 0 {
			t.Errorf("model %s, turn %d: %+v, %d records", c.model, c.turn, one.episode.Watch, len(tr.series.said))
		}
	}
}
