//go:build unix

package encode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
)

// TestPythonReadsOutput: pyarrow finds every column that it wrote, and ours, valid to its
// strictest check; also in a second message, which needs its own dictionaries. Python finds the same values in JSON.
func TestPythonReadsOutput(t *testing.T) {
	const input = "testdata/passthrough.arrows"
	data, err := os.ReadFile(input)
	if err != nil {
		t.Fatal(err)
	}
	in := fixtures.ReadStream(t, data)
	n := int(in.NumRows())
	y, score, p, invalid := make([]float32, 2*n), make([]float32, n), make([]float32, n), make([]minibatch.Reason, n)
	why := make([]lca.Gain, 2*n)
	for i := range y {
		y[i], score[i/2], p[i/2], why[i] = float32(i+1), float32(i/2), float32(i/2)/64, lca.Gain{Column: i % 2, Nats: float64(2 - i%2)}
	}
	invalid[3] = minibatch.ReasonNull
	config := OutputConfig{Score: true, P: true, Why: 2, Passthrough: true}
	w := &Whitened{K: 2, Y: y, Score: score, P: p, Why: why, Features: []string{"α", "second"}, Invalid: invalid}
	arrows, texts := NewOutput(config), NewJSONOutput(config)
	for _, c := range []struct {
		reader string
		write  func() ([]byte, error)
	}{
		{"read_json.py", func() ([]byte, error) { return texts.Convert(nil, in, w, true) }},
		{"read_output.py", func() ([]byte, error) { return arrows.Append(nil, in, w) }},
		{"read_output.py", func() ([]byte, error) { return arrows.Append(nil, in, w) }},
	} {
		out, err := c.write()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "output")
		if err := os.WriteFile(path, out, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := testtools.RunPython(t, "testdata/"+c.reader, input, path); !strings.HasPrefix(got, "42 columns") {
			t.Errorf("%s: got %q", c.reader, got)
		}
	}
}
