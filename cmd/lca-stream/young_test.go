package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/snapshots"
)

// youngSnapshot is one that has been written once.
const youngSnapshot = "../../sink/snapshot/testdata/format3.arrows"

// Each command that reads a model says of a young one how far it is, and does what can be done with it.
func TestYoungModel(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(youngSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"m.arrows": data, "rows.csv": []byte("a,b\n1e9,-0.1\n1000000007,0.5\n,3\n"), "c.yaml": []byte("source: {brokers: [127.0.0.1:1], topic: events}\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const says = "young: 128 rows so far; the row score comes after 3000 rows"
	for _, args := range [][]string{{"snapshot", "show", "--file", "m.arrows"}, {"snapshot", "diff", "m.arrows", "m.arrows"}} {
		if said := must(t, dir, args...); !strings.Contains(string(said), says) {
			t.Errorf("%v: %s", args, said)
		}
	}
	if shown := mustRun[snapshots.Shown](t, dir, "", "snapshot", "show", "--file", "m.arrows", "--json"); shown.Metadata["lca.young"] != "true" || len(shown.Eigenvalues) != 0 {
		t.Errorf("%+v", shown)
	}
	var d struct{ Young [2]bool }
	if err := json.Unmarshal(must(t, dir, "snapshot", "diff", "m.arrows", "m.arrows", "--json"), &d); err != nil || d.Young != [2]bool{true, true} {
		t.Error(d, err)
	}
	for _, args := range [][]string{
		{"snapshot", "show", "--file", "m.arrows", "--plot", "m.svg"}, {"snapshot", "export", "--file", "m.arrows", "-o", "m.npz"}, {"snapshot", "import", "-c", "c.yaml", "--file", "m.arrows"},
		{"em", "expect", "--model", "m.arrows", "--input", "rows.csv", "-o", "m.sums"},
	} {
		if _, fault := lcaStream(t, dir, "", args...); !strings.Contains(fault, says) {
			t.Errorf("%v: %s", args, fault)
		}
	}
	must(t, dir, "snapshot", "export", "--file", "m.arrows", "-o", "again.arrows")
	if again, err := os.ReadFile(filepath.Join(dir, "again.arrows")); err != nil || !bytes.Equal(again, data) {
		t.Error("it is exported as another one:", err)
	}
	must(t, dir, "transform", "--model", "m.arrows", "--input", "rows.csv", "-o", "out.arrow")
	file, err := os.Open(filepath.Join(dir, "out.arrow"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in, err := ipc.NewFileReader(file)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := in.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	for name, nulls := range map[string]int{"lca": 3, "lca_score": 3, "lca_p": 3, "lca_recent_score": 1} {
		if col := rec.Column(rec.Schema().FieldIndices(name)[0]); col.NullN() != nulls {
			t.Errorf("%s has %d nulls: %v", name, col.NullN(), col)
		}
	}
}

// Rows of a slow valve, of which a hundred say hardly more than one, are too few for a model, and their last rows have scores all the same: from the first hundred on.
func TestYoungScoresOfASlowValve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, text, level := rand.New(rand.NewPCG(4, 4)), "a,b,c,d,e,f,g,h\n", make([]float64, 8)
	for range 1100 {
		for k := range level {
			if level[k] = 0.99*level[k] + r.NormFloat64()*math.Sqrt(1-0.99*0.99); k > 0 {
				text += ","
			}
			text += fmt.Sprint(5 + level[k])
		}
		text += "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "valve.csv"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said, rec := backtested(t, dir, "valve.csv", "--set", "lca.preset=density")
	score := rec.Column(rec.Schema().FieldIndices("lca_score")[0])
	if said.Scored != 1000 || score.NullN() != 1100 {
		t.Errorf("%d rows are scored, and %d not one by one; versions %s", said.Scored, score.NullN(), versionsOf(rec))
	}
	if first := rec.Column(rec.Schema().FieldIndices("lca_recent_p")[0]).(*array.Float32); first.IsNull(100) {
		t.Error("the first rows have no probability")
	}
}
