package transform

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// A choice that has no name is refused at the first batch, and never taken for another.
func TestUnknownChoicesAreRefused(t *testing.T) {
	walkChoices(t, UntilModels(), func(c *TransformConfig, v UntilModel) { c.UntilModel = v })
	walkChoices(t, reject.OnInvalids(), func(c *TransformConfig, v reject.OnInvalid) { c.OnInvalid = v })
	walkChoices(t, encode.Layouts(), func(c *TransformConfig, v encode.Layout) { c.Output.Layout = v })
}

func walkChoices[E interface {
	~uint8
	fmt.Stringer
}](t *testing.T, all []E, put func(*TransformConfig, E)) {
	t.Helper()
	for v := range 256 {
		e := E(v)
		known := slices.Contains(all, e)
		if named := slices.ContainsFunc(all, func(other E) bool { return other.String() == e.String() }); known != named {
			t.Errorf("%T(%d) is called %q", e, v, e)
		}
		stage := &Transform{TransformConfig: TransformConfig{Follow: &models.Follow{}, Stats: stats.NewStats()}}
		put(&stage.TransformConfig, e)
		_, err := stage.Do(t.Context(), source.Batch{Messages: make([]source.Message, 1)})
		if stop := (*reject.Stop)(nil); known == errors.As(err, &stop) {
			t.Errorf("%T(%d): %v", e, v, err)
		}
	}
}
