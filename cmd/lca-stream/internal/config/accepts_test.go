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
		want   bool
	}{
		{"alarms", config.RecentAuto, true},
		{"", config.RecentAuto, false},
		{"alarms", config.RecentOff, false},
	} {
		set := config.Default()
		set.Alarms.Topic, set.Transform.Recent = c.topic, c.recent
		if got := set.Accepts(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
