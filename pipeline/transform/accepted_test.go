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
