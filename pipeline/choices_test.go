package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/source"
)

// A choice that has no name is refused at the first batch, and never taken for another.
func TestUnknownChoicesAreRefused(t *testing.T) {
	walkChoices(t, UntilModels(), ParseUntilModel, func(c *TransformConfig, v UntilModel) { c.UntilModel = v })
	walkChoices(t, OnInvalids(), ParseOnInvalid, func(c *TransformConfig, v OnInvalid) { c.OnInvalid = v })
	walkChoices(t, Layouts(), ParseLayout, func(c *TransformConfig, v Layout) { c.Output.Layout = v })
}

func walkChoices[E interface {
	~uint8
	fmt.Stringer
}](t *testing.T, all []E, parse func(string) (E, error), put func(*TransformConfig, E)) {
	t.Helper()
	for v := range 256 {
		e := E(v)
		known := slices.Contains(all, e)
		if got, err := parse(e.String()); known != (err == nil && got == e) {
			t.Errorf("%T(%d) is %q, which is parsed as %v, %v", e, v, e, got, err)
		}
		stage := &Transform{TransformConfig: TransformConfig{Follow: &Follow{}, Stats: NewStats()}}
		put(&stage.TransformConfig, e)
		_, err := stage.Do(t.Context(), source.Batch{Messages: make([]source.Message, 1)})
		if stop := (*Stop)(nil); known == errors.As(err, &stop) {
			t.Errorf("%T(%d): %v", e, v, err)
		}
	}
}
