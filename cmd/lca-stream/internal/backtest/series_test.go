package backtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// recentScores backtests 1,060 rows of two machines in turn, the first 1,000 of them the normal stretch, and returns the scores of the others.
// From row first to row last, machine m1 is far from where it was.
func recentScores(t *testing.T, by modelkey.By, first, last int) []float32 {
	t.Helper()
	dir, text, r := t.TempDir(), "machine,a,b\n", rand.New(rand.NewPCG(5, 5))
	for i := range 1060 {
		far := 0.
		if i%2 == 1 && i >= first && i <= last {
			far = 6
		}
		text += fmt.Sprintf("m%d,%v,%v\n", i%2, far+r.NormFloat64(), r.NormFloat64())
	}
	in, out := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "out.arrow")
	if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &app.Program{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) (string, bool) { return "", false }}
	cfg := config.Default()
	cfg.Source.Features = []string{"a", "b"}
	f := &flags{inputs: []string{in}, key: "machine", until: "1000", rows: out, config: "of the test", timeTold: true}
	if err := f.check(); err != nil {
		t.Fatal(err)
	}
	b := &backtest{flags: f, config: cfg, log: app.QuietLogger(p, cfg.Logger), first: -1, series: by}
	if err := b.run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	files, err := source.OpenFiles([]string{out}, format.FileConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()
	var scores []float32
	for len(scores) < 1060 {
		read, err := files.Read(t.Context())
		if err != nil || read.Messages[0].Err != nil {
			t.Fatal(err, read.Messages[0].Err)
		}
		rec := read.Messages[0].Record
		scores = append(scores, rec.Column(rec.Schema().FieldIndices("lca_recent_score")[0]).(*array.Float32).Float32Values()...)
	}
	return scores[1000:]
}

// With series of values, what one machine does is not in the scores of another; and what comes just before --until is in the first scores behind it.
func TestSeries(t *testing.T) {
	t.Parallel()
	of := func(scores []float32, machine int) (own []float32) {
		for i := machine; i < len(scores); i += 2 {
			own = append(own, scores[i])
		}
		return own
	}
	byKey, byColumn := modelkey.By{Place: modelkey.Key}, modelkey.By{Place: modelkey.Column, Name: "machine"}
	calm, far := recentScores(t, byKey, 0, -1), recentScores(t, byKey, 1000, 1059)
	if !slices.Equal(far, recentScores(t, byColumn, 1000, 1059)) {
		t.Error("the values of the key are not those of its column")
	}
	if !slices.Equal(of(calm, 0), of(far, 0)) || slices.Max(of(far, 1)) < slices.Max(calm)+1 {
		t.Errorf("m1 is far, and m0 has scores\n%v, m1\n%v; without that\n%v", of(far, 0), of(far, 1), of(calm, 0))
	}
	if slices.Equal(of(recentScores(t, modelkey.By{}, 0, -1), 0), of(recentScores(t, modelkey.By{}, 1000, 1059), 0)) {
		t.Error("where a partition is a series, m1 is not in the scores of m0")
	}
	if before := recentScores(t, byKey, 980, 999); before[1] < slices.Max(calm) || before[0] > slices.Max(calm) {
		t.Errorf("m1 was far just before: the first scores are %v, else at most %v", before[:2], slices.Max(calm))
	}
}
