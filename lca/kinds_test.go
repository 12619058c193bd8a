package lca_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// walk tries every value of one byte: those of all have a name that is read back, the others are refused.
func walk[E interface {
	~uint8
	fmt.Stringer
}](t *testing.T, all []E, parse func(string) (E, error), put func(*lca.Config, E)) {
	t.Helper()
	named := map[E]bool{}
	for _, e := range all {
		named[e] = true
	}
	if len(named) < 2 || len(named) != len(all) {
		t.Fatalf("%T: values %v", all[0], all)
	}
	_, err := parse("none of them")
	for v := range 256 {
		e := E(v)
		got, unknown := parse(e.String())
		if named[e] != (unknown == nil && got == e) {
			t.Errorf("%T(%d) is %q, which is parsed as %v, %v", e, v, e, got, unknown)
		}
		if named[e] && !strings.Contains(fmt.Sprint(err), e.String()) {
			t.Errorf("%v does not name %q", err, e)
		}
		c := lca.DefaultConfig()
		c.Rank = 1
		put(&c, e)
		if plainLoops := c.Precision == 0; !plainLoops && named[e] != (c.Validate() == nil) {
			t.Errorf("a configuration with %T(%d): %v", e, v, c.Validate())
		}
	}
}

func TestEveryNameIsAValueAndNoOther(t *testing.T) {
	walk(t, lca.Kinds(), lca.ParseKind, func(c *lca.Config, e lca.Kind) { c.Kind = e })
	walk(t, lca.Metrics(), lca.ParseMetric, func(c *lca.Config, e lca.Metric) { c.Metric = e })
	walk(t, lca.Units(), lca.ParseUnit, func(c *lca.Config, e lca.Unit) { c.NuUnit = e })
	walk(t, lca.Kernels(), lca.ParseKernel, func(c *lca.Config, e lca.Kernel) { c.Kernel = e })
	walk(t, lca.Presets(), lca.ParsePreset, func(c *lca.Config, e lca.Preset) { c.Preset = e })
	walk(t, lca.Precisions(), lca.ParsePrecision, func(c *lca.Config, e lca.Precision) { c.Precision = e })
	walk(t, lca.AllCoordinates(), lca.ParseCoordinates, func(c *lca.Config, e lca.Coordinates) { c.Coordinates = e })
	walk(t, lca.AllComponents(), lca.ParseComponents, func(c *lca.Config, e lca.Components) { c.Components = e })
}

// A model is shown in no coordinates and components but those that have a name.
func TestViewRefusesWhatHasNoName(t *testing.T) {
	x := mat.NewDense(6, 2, []float64{0, 0, 1, 0, 0, 2, 3, 3, 4, 3, 3, 5})
	m, err := lca.Fit(context.Background(), x, lca.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for v := range 256 {
		coords, comps := lca.Coordinates(v), lca.Components(v)
		_, unknown := lca.ParseCoordinates(coords.String())
		if _, err := m.View(coords, lca.ComponentsAll); (err == nil) != (unknown == nil) {
			t.Errorf("%v: %v", coords, err)
		}
		_, unknown = lca.ParseComponents(comps.String())
		if _, err := m.View(lca.CoordinatesSymmetric, comps); (err == nil) != (unknown == nil) {
			t.Errorf("%v: %v", comps, err)
		}
	}
}
