package backtest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/lca"
)

// A backtest that writes no rows takes coordinates that cost nothing, and what it says of the scores is the same.
func TestNoRowsNoCoordinates(t *testing.T) {
	t.Parallel()
	dir, text, r := t.TempDir(), "a,b,c,bad\n", rand.New(rand.NewPCG(3, 4))
	for i := range 3000 {
		x, bad := r.NormFloat64(), 0
		if i%100 == 99 {
			bad = 1
		}
		text += fmt.Sprintf("%v,%v,%v,%d\n", x, x+r.NormFloat64()/4+0.7*float64(bad), r.ExpFloat64(), bad)
	}
	in := filepath.Join(dir, "rows.csv")
	if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(rows string) (said string, coords lca.Coordinates) {
		var out bytes.Buffer
		p := &app.Program{Stdout: &out, Stderr: io.Discard, Getenv: func(string) (string, bool) { return "", false }}
		cfg := config.Default()
		cfg.Source.Features, cfg.Transform.Recent = []string{"a", "b", "c"}, config.RecentOff
		f := &flags{inputs: []string{in}, labels: "bad", rows: rows, json: true, config: "of the test", timeTold: true}
		if err := f.check(); err != nil {
			t.Fatal(err)
		}
		b := &backtest{flags: f, config: cfg, log: app.QuietLogger(p, cfg.Logger), first: -1}
		if err := b.run(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`"seconds":[^,}]*`).ReplaceAllString(out.String(), ""), b.lanes.one.newest.Model.Coordinates
	}
	shown, aligned := run(filepath.Join(dir, "out.arrow"))
	hidden, cheap := run("")
	if shown != hidden || !regexp.MustCompile(`"ap":0\.\d`).MatchString(shown) {
		t.Errorf("with rows %s without %s", shown, hidden)
	}
	if aligned != lca.CoordinatesAligned || cheap != lca.CoordinatesComponents {
		t.Errorf("coordinates with rows %v, without %v", aligned, cheap)
	}
}
