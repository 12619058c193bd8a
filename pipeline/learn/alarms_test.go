package learn

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
)

// Each event of the learner that changes its metric is one record with the version that comes with it; a comparison that
// keeps the model is none.
func TestLearnerAlarms(t *testing.T) {
	w := newWorld()
	w.alarms = transform.Alarms{Topic: "alarms", Partition: 1, ModelID: "m"}
	w.events(t, 1, 14, 30)
	loop, stage := w.learnLoop(t, 2)
	if err := loop.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := lca.Choice{Candidates: []lca.Trial{{Name: "current", Parzen: 2}, {Name: "student", Parzen: 2, Kernel: lca.KernelStudent}, {Name: "kurtosis 2", Parzen: 2}}}
	begun := lca.Choice{Candidates: []lca.Trial{{Name: lca.FirstFit, Parzen: 2}, {Name: "gaussian"}}, Taken: 1}
	taken, again := kept, kept
	taken.Taken, again.Taken = 1, 2
	for _, c := range []struct {
		step online.Step
		want string
	}{
		{online.Step{}, ""},
		{online.Step{Choice: &kept}, ""},
		{online.Step{Choice: &begun}, ""},
		{online.Step{Choice: &taken}, "model_changed: the data chose another model: student"},
		{online.Step{Choice: &again}, ""},
		{online.Step{Alarm: online.AlarmDrift}, "drift: the stream has changed: the learner restarted from the rows since"},
		{online.Step{Alarm: online.AlarmLockout}, "drift: most rows were refused: the learner restarted from those that came next"},
		{online.Step{Alarm: online.AlarmRefused, RefusedShare: 1}, "drift: 100.0 % of the last rows were refused, and not fewer before: they are outliers to the model, and are not learnt"},
		{online.Step{Alarm: online.AlarmRefused, Still: true}, "drift: no column moves any more, as where sensors are stuck: such rows are not learnt"},
		{online.Step{Alarm: online.AlarmRefused, RefusedShare: 0.0512}, "drift: 5.1 % of the last rows were refused, and not fewer before: they are outliers to the model, and are not learnt"},
		{online.Step{Alarm: online.AlarmRefused, RefusedShare: 0.51}, "drift: 51.0 % of the last rows were refused. lca.accept_after is never, so none are learnt however long this lasts: if the machine itself was changed, accept its episode, or set another snapshot.model_id"},
		{online.Step{Alarm: online.AlarmRegimeReturned}, "regime_returned: a former regime has returned, and its metric is current again"},
	} {
		stage.pending = nil
		stage.Learner.Drift = !strings.Contains(c.want, "lca.accept_after is never")
		stage.alarm(c.step)
		got := ""
		for _, m := range stage.pending {
			var a transform.Alarm
			if err := json.Unmarshal(m.Value, &a); err != nil {
				t.Fatal(err)
			}
			got += a.Type + ": " + a.Message
			if m.Topic != "alarms" || m.Partition != 1 || string(m.Key) != "m" || a.Version != 420 || a.Source != (reject.Place{Topic: "events", Offset: 13}) {
				t.Errorf("%+v: %s", m, m.Value)
			}
		}
		if got != c.want || changed(c.step) != (c.want != "" || c.step.Choice == &again) {
			t.Errorf("%+v: %q, want %q", c.step, got, c.want)
		}
	}
}
