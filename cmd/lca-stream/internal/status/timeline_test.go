package status

import (
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/stats"
)

// A process that runs for long keeps an hour, in a bounded number of moments; a young one has seconds.
func TestTimelineKeepsTheLastHour(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var past timeline
	for s := range 5 * 3600 {
		now := start.Add(time.Duration(s) * time.Second)
		past.add(moment{time: now, in: uint64(10 * s), out: uint64(5 * s)})
		if s > 2*timelineMoments && s%101 != 0 {
			continue
		}
		kept := past.since(now)
		if n := len(kept); n > timelineMoments || s < timelineMoments && n != s+1 {
			t.Fatalf("%d moments after %d s", n, s)
		}
		if covers := now.Sub(kept[0].time); covers < min(time.Duration(s)*time.Second, time.Hour-timelineCoarse) || covers > time.Hour {
			t.Fatalf("after %d s the last %v are known", s, covers)
		}
	}
	for _, p := range throughput(past.since(start.Add(5 * time.Hour))) {
		if p.In != 10 || p.Out != 5 {
			t.Fatalf("%+v, want 10 rows per second in and 5 out", p)
		}
	}
	if late := past.since(start.Add(7 * time.Hour)); late != nil {
		t.Errorf("%d moments of the last hour, after two without any", len(late))
	}
}

func TestSummary(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ready := stats.Readiness{Ready: true}
	found := &Model{Dim: 12, Parzen: 3, Gaussian: 9, NLL: 30, GaussianNLL: 31.5}
	day := Number(86400)
	quiet := []moment{{in: 1}, {in: 2}}
	for name, c := range map[string]struct {
		status Status
		past   []moment
		want   string
	}{
		"all is well":                 {Status{Ready: ready, Model: found, UptimeSeconds: day}, quiet, "3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; nothing unusual in the last hour."},
		"a young process":             {Status{Ready: ready, Model: found, UptimeSeconds: 60}, quiet, "3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; nothing unusual since this process began."},
		"without a broker":            {Status{Ready: stats.Readiness{Reason: "no broker has answered for 12s"}, Model: found}, quiet, "Not working: no broker has answered for 12s."},
		"held until there is a model": {Status{Ready: stats.Readiness{Reason: "no model yet: 3 of 500 rows collected", Waiting: true}}, quiet, "No model yet: 3 of 500 rows collected."},
		"warming up":                  {Status{Ready: stats.Readiness{Ready: true, Reason: "no model yet: 3 of 500 rows collected"}, UptimeSeconds: day}, quiet, "No model yet: 3 of 500 rows collected; nothing unusual in the last hour."},
		"one direction":               {Status{Ready: ready, Model: &Model{Dim: 4, Parzen: 1, NLL: 3, GaussianNLL: 3.01}, UptimeSeconds: day}, quiet, "1 of 4 directions carries structure; no better than a Gaussian; nothing unusual in the last hour."},
		"no structure":                {Status{Ready: ready, Model: &Model{Dim: 4, NLL: 3.25, GaussianNLL: 3}, UptimeSeconds: day}, quiet, "None of 4 directions carries structure; 0.25 nats per row worse than a Gaussian; nothing unusual in the last hour."},
		"none that shows, one kept": {Status{Ready: ready, Model: &Model{Dim: 2, Parzen: 1, NLL: 3, GaussianNLL: 3, Eigenvalues: []Number{1.1, 1.4}}, UptimeSeconds: day}, quiet,
			"None of 2 directions carries structure; no better than a Gaussian; nothing unusual in the last hour."},
		"all of them, not yet chosen": {Status{Ready: ready, Model: &Model{Dim: 4, Parzen: 4, NLL: 3, GaussianNLL: 15.4}, UptimeSeconds: day}, quiet,
			"All 4 directions count as structure; 12 nats per row better than a Gaussian; nothing unusual in the last hour."},
		"all of them, only begun": {Status{Ready: ready, Model: &Model{Dim: 4, Parzen: 4, NLL: 3, GaussianNLL: 15.4, Choice: &Choice{Beginning: true}}, UptimeSeconds: day}, quiet,
			"All 4 directions count as structure; 12 nats per row better than a Gaussian; nothing unusual in the last hour."},
		"all of them": {Status{Ready: ready, Model: &Model{Dim: 4, Parzen: 4, NLL: 3, GaussianNLL: 15.4, Choice: &Choice{}}, UptimeSeconds: day}, quiet,
			"All 4 directions carry structure; 12 nats per row better than a Gaussian; nothing unusual in the last hour."},
		"the learner knows the fit better": {Status{Ready: ready, Model: found, Learner: &Learner{NLL: 30, Gaussian: 30.7}, UptimeSeconds: day}, quiet,
			"3 of 12 directions carry structure; 0.70 nats per row better than a Gaussian; nothing unusual in the last hour, but rows are not scored here."},
		"trouble": {Status{Ready: ready, Model: found, UptimeSeconds: day, LastError: &logs.Trouble{Time: now.Add(-time.Minute), Text: "retrying"}},
			[]moment{{}, {learns: true, alarms: 5, dead: 2}, {learns: true, alarms: 6, dead: 4, rejected: 1, aborted: 1}},
			"3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; 1 change of the data, 4 messages set aside, 1 row without a usable value, 1 transaction repeated, errors in the log in the last hour."},
		"a producer has renamed a key": {Status{Ready: ready, Model: found, UptimeSeconds: day}, []moment{{}, {out: 90000}, {out: 90020, rejected: 980}, {out: 90020, rejected: 1980}},
			"100 % of the last 1000 rows have no usable value: see the log; 3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; 1980 rows without a usable value in the last hour."},
		"a few nulls": {Status{Ready: ready, Model: found, UptimeSeconds: day}, []moment{{}, {out: 9000, rejected: 99}, {out: 9000, rejected: 100}},
			"3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; 100 rows without a usable value in the last hour."},
		"strange rows": {Status{Ready: ready, Model: found, UptimeSeconds: day}, []moment{{scored: 10000, rare: 100}, {scored: 30000, rare: 140}},
			"3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; 40 rows that the model expects once in 10,000 (2 expected) in the last hour."},
		"as many strange rows as there should be": {Status{Ready: ready, Model: found, UptimeSeconds: day}, []moment{{}, {scored: 400000, rare: 45}},
			"3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; 45 rows that the model expects once in 10,000, no more than chance gives (40 expected) in the last hour."},
		"a strange row among few": {Status{Ready: ready, Model: found, UptimeSeconds: 60}, []moment{{}, {scored: 2000, rare: 1}},
			"3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; 1 row that the model expects once in 10,000 (0.2 expected) since this process began."},
		"episodes": {Status{Ready: ready, Model: found, UptimeSeconds: day}, []moment{{episodes: 3}, {scored: 2000, episodes: 10}},
			"3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; 7 episodes opened in the last hour."},
		"an open episode": {Status{Ready: ready, Model: found, UptimeSeconds: day, Episodes: &Episodes{Count: 1, Open: []episode.Record{{Message: "press 7: vib_x went up at 10:14; 840 rows so far"}}}}, quiet,
			"An episode is open: press 7: vib_x went up at 10:14; 840 rows so far; 3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; nothing else is unusual in the last hour."},
		"open episodes": {Status{Ready: ready, Model: found, UptimeSeconds: day, Episodes: &Episodes{Count: 3}}, []moment{{episodes: 3}, {episodes: 5}},
			"3 episodes are open; 3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; 2 episodes opened in the last hour."},
		"old trouble": {Status{Ready: ready, Model: found, UptimeSeconds: day, LastError: &logs.Trouble{Time: now.Add(-2 * time.Hour)}}, quiet,
			"3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; nothing unusual in the last hour."},
		"behind": {Status{Ready: ready, Model: found, UptimeSeconds: day, Rows: Rows{Learnt: 100, Skipped: 900}}, quiet,
			"3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; 90 % of the rows were skipped by the learner, to keep up; nothing unusual in the last hour."},
		"hardly behind": {Status{Ready: ready, Model: found, UptimeSeconds: day, Rows: Rows{Learnt: 99990, Skipped: 10}}, quiet,
			"3 of 12 directions carry structure; 1.5 nats per row better than a Gaussian; less than 1 % of the rows were skipped by the learner, to keep up; nothing unusual in the last hour."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := summary(&c.status, c.past, now); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
