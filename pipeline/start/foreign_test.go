package start

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/source"
)

// Offsets that another application has committed to the group are named, once; the first release leaves the same,
// so both explanations are given, and the transform goes on.
func TestForeignOffsetsAreSaid(t *testing.T) {
	both := []source.Partition{fixtures.Part(0), fixtures.Part(1)}
	for _, c := range []struct {
		name, text string
		begun      bool
		says       []string
	}{
		{"before the first start", "", false, []string{"partition=events/0 offset=6", "partition=events/1 offset=7", "of the first release, or another application"}},
		{"after a start", "", true, []string{"partition=events/0 offset=6", "partition=events/1 offset=7", "this release has begun here before"}},
		{"with a text of another kind", `{"host": "a"}`, true, []string{"partition=events/0 offset=6", "this release has begun here before"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			town := newTown()
			if c.begun {
				town.open(t, source.Earliest, both...)
			}
			for i, p := range both {
				town.committed[p] = source.Position{Next: int64(6 + i), Epoch: -1, Metadata: c.text}
			}
			open := func() {
				positions := town.positions(source.Earliest, "")
				positions.Log = fixtures.SaidLog(&out)
				next, err := positions.Open(t.Context(), town, source.Claim{Group: "g", Generation: -1}, both)
				if err != nil || next[fixtures.Part(0)] != 6 || next[fixtures.Part(1)] != 7 {
					t.Fatalf("goes on at %v: %v", next, err)
				}
			}
			open()
			for _, want := range c.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not said:\n%s", want, &out)
				}
			}
			out.Reset()
			if open(); strings.Contains(out.String(), "has not committed") {
				t.Errorf("said again:\n%s", &out)
			}
		})
	}
}

// Our own offsets are not named, nor are those for which a learner's checkpoint says where to read on.
func TestOurOffsetsAreNotForeign(t *testing.T) {
	var out bytes.Buffer
	town := newTown()
	town.open(t, source.Earliest, fixtures.Part(0))
	positions := town.positions(source.Earliest, "")
	positions.Log = fixtures.SaidLog(&out)
	if _, err := positions.Open(t.Context(), town, source.Claim{Group: "g"}, []source.Partition{fixtures.Part(0), fixtures.Part(1)}); err != nil {
		t.Fatal(err)
	}
	town.committed[fixtures.Part(0)] = source.Position{Next: 5, Epoch: -1}
	learner := town.positions(source.Earliest, "m")
	learner.Log = fixtures.SaidLog(&out)
	if _, err := learner.Resume(t.Context(), town, source.Claim{Group: "g"}, []source.Partition{fixtures.Part(0)}, source.Offsets{fixtures.Part(0): 5}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "has not committed") {
		t.Errorf("said:\n%s", &out)
	}
}
