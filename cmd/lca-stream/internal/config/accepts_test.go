package config_test

import (
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// What people accept is followed where the learner holds rows back: with nothing to learn, an episode would close and open again at once.
func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		topic  string
		recent config.Choice
		never  bool
		want   bool
	}{
		{"alarms", config.RecentAuto, false, true},
		{"", config.RecentAuto, false, false},
		{"alarms", config.RecentOff, false, false},
		{"alarms", config.RecentAuto, true, false},
	} {
		set := config.Default()
		set.Alarms.Topic, set.Transform.Recent, set.LCA.AcceptAfter.Never = c.topic, c.recent, c.never
		if got := set.Accepts(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
