package learn

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
)

// TestChangedModelIsRefused holds what a learner with a checkpoint does when the configuration has changed: another model,
// metric or kernel ends it before it takes the work from another learner; what is learnt with may change, and is said in words.
func TestChangedModelIsRefused(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 14, 30)
	before := func(l *Learn) { l.Learner.Kind, l.Learner.Kernel = lca.KindLCAGauss, lca.KernelGaussian }
	loop, _ := w.learnLoop(t, 2, before)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		change  func(*online.Config)
		refused string
		said    string
	}{
		{"nothing", func(*online.Config) {}, "", ""},
		{"the model", func(c *online.Config) { c.Kind = lca.KindLCA }, "lca.model was lca_gauss and is now lca", ""},
		{"the metric", func(c *online.Config) { c.Metric = lca.MetricDiagonal }, "lca.metric was full and is now diagonal", ""},
		{"metric and rank", func(c *online.Config) { c.Metric, c.Rank = lca.MetricLowRank, 2 }, "lca.metric was full and is now low_rank; the rank of lca.metric was 0 and is now 2", ""},
		{"the kernel", func(c *online.Config) { c.Kernel = lca.KernelStudent }, "lca.kernel was gaussian and is now student", ""},
		{"the neighbours", func(c *online.Config) { c.Neighbours = 50 }, "lca.neighbours was 60 and is now 50", ""},
		{"the kernel is left to the data", func(c *online.Config) { c.Kernel = lca.KernelAuto }, "", "lca.kernel was gaussian and is now auto"},
		{"ν and γ", func(c *online.Config) { c.Nu, c.Gamma = 0.3, 0.5 }, "", "lca.nu was auto and is now 0.3; lca.gamma was 0.6 and is now 0.5"},
		{"the model is left to the data, which is the same", func(c *online.Config) { c.Kind = lca.KindAuto }, "", "lca.model was lca_gauss and is now auto (lca_gauss)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			changed := func(l *Learn) {
				before(l)
				c.change(&l.Learner)
				l.Log = slog.New(slog.NewTextHandler(&log, nil))
			}
			stage := w.learnStage(changed)
			err := stage.Check(context.Background())
			if c.refused != "" {
				fixtures.WantStop(t, err, c.refused, "set another snapshot.model_id")
				_, err = stage.Rewind(context.Background())
				fixtures.WantStop(t, err, c.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stage.Rewind(context.Background()); err != nil {
				t.Fatal(err)
			}
			if said := strings.Contains(log.String(), "has changed since the checkpoint"); said != (c.said != "") || !strings.Contains(log.String(), c.said) {
				t.Errorf("it says\n%s, want %q", &log, c.said)
			}
		})
	}
}

// TestSnapshotOfAnotherMetric refuses to go on from a version whose metric the configuration no longer has.
func TestSnapshotOfAnotherMetric(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 14, 30)
	loop, _ := w.learnLoop(t, 2)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	delete(w.topics, checkpointLog)
	for metric, refused := range map[lca.Metric]bool{lca.MetricFull: false, lca.MetricDiagonal: true} {
		stage := w.learnStage(func(l *Learn) { l.Learner.Metric, l.Published = metric, w.published })
		err := stage.Check(context.Background())
		if refused {
			fixtures.WantStop(t, err, "has the metric full, and lca.metric is now diagonal")
		} else if err != nil {
			t.Errorf("%s: %v", metric, err)
		}
	}
}

// TestAutoAgainstNames holds what is another model where one side leaves it to the data: what auto chose may be named, and
// any kernel may be left to the data; another value ends the learner, and so does a model that auto does not stand for.
func TestAutoAgainstNames(t *testing.T) {
	for _, c := range []struct{ was, is, chose, refused, changed string }{
		{"Kernel:auto", "Kernel:student", "student", "", "lca.kernel was auto (student) and is now student"},
		{"Kernel:auto", "Kernel:gaussian", "student", "lca.kernel was auto (student) and is now gaussian", ""},
		{"Kernel:student", "Kernel:auto", "", "", "lca.kernel was student and is now auto"},
		{"Kind:auto", "Kind:lca_gauss_red", "", "", "lca.model was auto (lca_gauss) and is now lca_gauss_red"},
		{"Kind:auto", "Kind:lca", "", "lca.model was auto (lca_gauss) and is now lca", ""},
		{"Kind:lca", "Kind:auto", "", "lca.model was lca and is now auto (lca_gauss)", ""},
		{"Kind:auto Kernel:auto", "Kind:auto Kernel:auto", "", "", ""},
	} {
		refused, changed := changedSettings("{"+c.was+"}", "{"+c.is+"}", func() string { return c.chose })
		if strings.Join(refused, "; ") != c.refused || strings.Join(changed, "; ") != c.changed {
			t.Errorf("%s, now %s: refused %q, changed %q", c.was, c.is, refused, changed)
		}
	}
	w := newWorld()
	w.events(t, 1, 14, 30)
	loop, _ := w.learnLoop(t, 2, func(l *Learn) { l.Learner.Kernel = lca.KernelAuto })
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for kernel, refused := range map[lca.Kernel]bool{lca.KernelAuto: false, lca.KernelGaussian: false, lca.KernelStudent: true} {
		stage := w.learnStage(func(l *Learn) { l.Learner.Kernel = kernel })
		if err := stage.Check(context.Background()); refused {
			fixtures.WantStop(t, err, "lca.kernel was auto (gaussian) and is now student", "set another snapshot.model_id")
		} else if err != nil {
			t.Errorf("%v: %v", kernel, err)
		}
	}
}

// TestDigestsOfOthers holds that settings which only one of two releases knows are no change.
func TestDigestsOfOthers(t *testing.T) {
	refused, changed := changedSettings("{Dim:0 Kind:lca_gauss Nu:-1 Gone:3}", "{Dim:0 Kind:lca_gauss Metric:full Kernel:student Nu:-1}", nil)
	if len(refused)+len(changed) > 0 {
		t.Errorf("%v, %v", refused, changed)
	}
}

// TestOtherFeaturesInWords holds how two lists of features are compared.
func TestOtherFeaturesInWords(t *testing.T) {
	for _, c := range []struct{ learnt, now, want string }{
		{"a b c", "a c", "was learnt from features [a, b, c], and it says [a, c] (no longer: b)"},
		{"a b", "a b c", "was learnt from features [a, b], and it says [a, b, c] (new: c)"},
		{"a b", "a c", "was learnt from features [a, b], and it says [a, c] (no longer: b; new: c)"},
		{"a b", "b a", "was learnt from features [a, b], and it says [b, a] (the same in another order)"},
	} {
		if got := checkpoint.OtherFeatures(strings.Fields(c.learnt), "it says", strings.Fields(c.now)); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	many := strings.Fields(strings.Repeat("a ", 50))
	if got := checkpoint.ShortList(many); !strings.HasSuffix(got, ", and 10 more") {
		t.Errorf("a long list is %s", got)
	}
}
