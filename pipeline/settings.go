package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// setting is a field of online.Config, and the key of the configuration that sets it.
type setting struct {
	field, key string
	shapes     bool // a state of another value is another model, from which learning cannot go on
}

var settings = []setting{
	{"Kind", "lca.model", true}, {"Metric", "lca.metric", true}, {"Rank", "lca.rank", true}, {"Kernel", "lca.kernel", true},
	{"Neighbours", "lca.neighbours", true}, {"Pool", "lca.pool", true},
	{"Preset", "lca.preset", false}, {"Nu", "lca.nu", false}, {"NuGaussian", "lca.nu_gaussian", false}, {"NuUnit", "lca.nu_unit", false},
	{"Gamma", "lca.gamma", false}, {"PassRows", "lca.pass_rows", false}, {"HalfLifeRows", "lca.half_life_rows", false},
	{"Minibatch", "minibatch.rows", false}, {"TargetRows", "lca.target_rows", false},
	{"WarmupRows", "lca.warmup_rows", false}, {"InnerSteps", "lca.inner_steps", false}, {"OutlierGate", "lca.outlier_gate", false},
	{"TimeGap", "lca.time_gap", false}, {"NearCopies", "lca.near_copies", false}, {"Drift", "lca.drift", false}, {"DriftRows", "lca.drift", false},
	{"Precision", "lca.precision", false}, {"Seed", "lca.seed", false},
	{"Coordinates", "transform.coordinates", false}, {"Components", "transform.components", false},
}

// auto is a value that follows from others, or from the data.
const auto = "auto"

// changedSettings compares two digests. refused are the changes to another model, and changed the others, in words. A
// field that one of them lacks was not there when it was written. kernel returns the kernel that the state of the former
// configuration has, which the data may have chosen: that one may be named afterwards, and any may be left to the data.
func changedSettings(was, is string, kernel func() string) (refused, changed []string) {
	before, now := digestFields(was), digestFields(is)
	for _, s := range settings {
		a, known := before[s.field]
		b, still := now[s.field]
		if !known || !still || a == b {
			continue
		}
		differs := s.shapes
		switch {
		case s.field == "Kind" && a == auto:
			differs, a = !isAutoKind(b), auto+" ("+lca.KindAuto.Resolve().String()+")"
		case s.field == "Kind" && b == auto:
			differs, b = !isAutoKind(a), auto+" ("+lca.KindAuto.Resolve().String()+")"
		case s.field == "Kernel" && a == auto:
			k := kernel()
			differs, a = b != k, auto+" ("+k+")"
		case s.field == "Kernel" && b == auto:
			differs = false
		case s.field == "Pool" && (a == auto || b == auto):
			differs = biased(a) != biased(b)
		}
		text := fmt.Sprintf("%s was %s and is now %s", s.key, a, b)
		if differs {
			refused = append(refused, text)
		} else {
			changed = append(changed, text)
		}
	}
	return refused, changed
}

// biased reports whether a pool is the one that auto stands for.
func biased(pool string) bool { return pool == auto || pool == online.PoolAuto.Resolve().String() }

// isAutoKind reports whether a model is the one that auto stands for, with or without the search that auto brings.
func isAutoKind(kind string) bool {
	return kind == lca.KindAuto.Resolve().String() || kind == lca.KindLCAGaussRed.String()
}

// kernelOf returns the kernel of a checkpoint's state.
func (l *Learn) kernelOf(c *Checkpoint) string {
	free := *l
	free.Learner.Kernel, free.Learner.DOF = lca.KernelAuto, 0
	learner, _, err := free.newLearner(len(c.Features))
	if err != nil {
		return auto // restore says why, by the same error
	}
	defer learner.Close()
	if err := learner.UnmarshalBinary(c.Learner); err != nil {
		return auto
	}
	return learner.Kernel().String()
}

// digestFields returns the values of a digest by the names of their fields.
func digestFields(digest string) map[string]string {
	values := map[string]string{}
	for _, field := range strings.Fields(strings.Trim(digest, "{}")) {
		name, value, _ := strings.Cut(field, ":")
		if value == "-1" { // lca.Auto
			value = auto
		}
		values[name] = value
	}
	return values
}

// sameModel refuses to go on from the state of another model, metric or kernel than is configured.
func (l *Learn) sameModel(c *Checkpoint) error {
	refused, _ := l.changed(c)
	if len(refused) == 0 {
		return nil
	}
	err := fmt.Errorf("the checkpoint of model %q is of another configuration: %s", l.ModelID, strings.Join(refused, "; "))
	if slices.ContainsFunc(refused, func(text string) bool { return !ofPool(text) }) {
		return otherModel(err)
	}
	return l.otherPool(err)
}

// ofPool reports whether the text of a change is of the pool, which an exported model can take with it.
func ofPool(text string) bool {
	return strings.HasPrefix(text, "lca.neighbours ") || strings.HasPrefix(text, "lca.pool ")
}

// changed compares the configuration with that of a checkpoint.
func (l *Learn) changed(c *Checkpoint) (refused, changed []string) {
	return changedSettings(c.Digest, l.digest(), func() string { return l.kernelOf(c) })
}

// sameMetric does so for a snapshot, which knows less of the configuration.
func (l *Learn) sameMetric(s *snapshot.Snapshot) error {
	c := l.Learner
	switch {
	case s.Model.Metric != c.Metric:
		return otherModel(fmt.Errorf("version %d of model %q has the metric %s, and lca.metric is now %s", s.Version, s.ModelID, s.Model.Metric, c.Metric))
	case c.Kernel.String() != auto && s.Model.Kernel != c.Kernel:
		return otherModel(fmt.Errorf("version %d of model %q has the kernel %s, and lca.kernel is now %s", s.Version, s.ModelID, s.Model.Kernel, c.Kernel))
	}
	return nil
}

func otherModel(err error) error {
	return &Stop{Err: err, Remedy: "set it back to go on, or set another snapshot.model_id to learn a new model"}
}

func (l *Learn) otherPool(err error) error {
	if l.oneOfMany {
		return &Stop{Err: err, Remedy: "set it back to go on; or `lca-stream replay --to TIME` learns all models again with it, from what source.topic has, and `lca-stream offsets reset --stage learn --to TIME` goes on after that; or set another snapshot.model_id to begin new ones"}
	}
	return &Stop{
		Err: err,
		Remedy: "set it back to go on, or set another snapshot.model_id, under which learning starts over; to go on there from this model, first " +
			"`lca-stream snapshot export -o FILE` with the former configuration and `lca-stream snapshot import --file FILE` with the new one",
	}
}

// OtherFeatures says which features a model was learnt from, and which are asked for instead.
func OtherFeatures(learnt []string, asks string, now []string) string {
	gone := slices.DeleteFunc(slices.Clone(learnt), func(f string) bool { return slices.Contains(now, f) })
	come := slices.DeleteFunc(slices.Clone(now), func(f string) bool { return slices.Contains(learnt, f) })
	var differ []string
	if len(gone) > 0 {
		differ = append(differ, "no longer: "+shortList(gone))
	}
	if len(come) > 0 {
		differ = append(differ, "new: "+shortList(come))
	}
	if len(differ) == 0 {
		differ = append(differ, "the same in another order")
	}
	return fmt.Sprintf("was learnt from features [%s], and %s [%s] (%s)", shortList(learnt), asks, shortList(now), strings.Join(differ, "; "))
}

// shortList joins names, at most shownNames of them.
func shortList(names []string) string {
	const shownNames = 40
	if more := len(names) - shownNames; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:shownNames], ", "), more)
	}
	return strings.Join(names, ", ")
}
