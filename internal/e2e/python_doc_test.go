//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// The snippets of docs/python.md, run one after the other as they are printed, on the topics of a real
// run, give what the program itself wrote, whatever the kernels of its density.
func TestPythonPageRuns(t *testing.T) {
	t.Setenv("PYTHONPATH", installPackage(t))
	for _, kernel := range []string{"gaussian", "student"} {
		t.Run(kernel, func(t *testing.T) { runPythonPage(t, kernel) })
	}
}

func runPythonPage(t *testing.T, kernel string) {
	_, page := pythonPage(t)
	s := whitenedOnEmbedded(t, kernel)

	for _, m := range regexp.MustCompile(`(?m)^    lca-stream (snapshot export .*)$`).FindAllStringSubmatch(page, -1) {
		cmd := exec.Command(s.path(), strings.Fields(m[1])...)
		cmd.Dir = s.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", m[0], err, out)
		}
	}
	code := strings.ReplaceAll(pythonIn(page)+pythonPageChecks, "localhost:9092", s.Addrs()[0])
	path := filepath.Join(s.dir, "page.py")
	if err := os.WriteFile(path, []byte("import os\nos.chdir(os.path.dirname(__file__))\n"+code), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log(testtools.RunPython(t, path))
}

// pythonPage is docs/python.md: the section that needs a schema registry, which TestRegistry runs, and the rest.
func pythonPage(t *testing.T) (registered, rest string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/python.md")
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(page), "\n## Avro and JSON Schema\n")
	registered, after, more := strings.Cut(after, "\n## ")
	if !found || !more {
		t.Fatal("docs/python.md has no section on Avro and JSON Schema, or nothing after it")
	}
	return registered, before + "\n## " + after
}

// pythonIn is the Python of a page, as one program.
func pythonIn(page string) string {
	var program strings.Builder
	for _, m := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(page, -1) {
		program.WriteString(m[1])
	}
	return program.String()
}

// whitenedRows is how many rows whitenedOnEmbedded whitens.
const whitenedRows = 40 * 30

// whitenedOnEmbedded is a stream that has been learnt and then whitened by the newest model, in the default topics of an
// embedded broker. Some rows have no numbers.
func whitenedOnEmbedded(t *testing.T, kernel string) *stream {
	t.Helper()
	b := kafkatest.Start(t, kafkatest.Embedded)
	s := &stream{Broker: b, t: t, name: "lca-stream", dir: t.TempDir()} // the group is the default one
	s.file = filepath.Join(s.dir, "stream.yaml")
	text := fmt.Sprintf(`kafka: {brokers: [%s]}
source: {topic: %s, features: [b, a, c]}
lca: {neighbours: 400, kernel: %s}
snapshot: {every: 1s}
transform: {why: 2}
http: {listen: ""}
`, b.Addrs()[0], s.topic("in"), kernel)
	if err := os.WriteFile(s.file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b.CreateTopic(t, s.topic("in"), 1, nil)
	s.command("topics", "init")
	var values [][]byte
	for i := range 40 {
		spoiled := spoil
		if i%7 > 0 {
			spoiled = nil
		}
		values = append(values, rowsABC(t, 30, spoiled, "a", "b", "c"))
	}
	s.produce(values)
	learn := s.program("learn")
	s.await(s.name+".learn", 20, learn)
	learn.stop()
	transform := s.program("transform") // without a learner, the newest model whitens all
	s.await(s.name, int64(len(values)), transform)
	transform.stop()
	return s
}

// pythonPageChecks compares what the page computes with what is on the topics.
const pythonPageChecks = `

assert features == ["b", "a", "c"] and len(df) == 40 * 30 - 6 * 3, len(df)
then = (df["version"] == version).to_numpy()
assert then.all(), (version, df["version"].unique())
assert np.abs(offline - Y)[then].max() < 1e-5, np.abs(offline - Y)[then].max()
assert reduced.n_features_in_ == 3 and columns.shape == (40 * 30, 2) and np.nanmin(p) > 0
ours = df["lca_score"].to_numpy()
assert np.abs(score(X) - ours)[then].max() < 1e-4 * np.abs(ours).max(), np.abs(score(X) - ours)[then].max()
p = df["lca_p"].to_numpy()
# The program ranks scores before they are rounded to float32, which may carry one past a neighbour's.
near = np.stack([p_value(np.nextafter(ours, np.float32(to))) for to in (-np.inf, np.inf)] + [p_value(ours)])
assert (near.min(0) * (1 - 1e-5) < p).all() and (p < near.max(0) * (1 + 1e-5)).all(), (near, p)
assert (p < 0.5).any()
assert list(rare["lca_p"]) == [v for v in df["lca_p"] if v < 0.001], (sorted(p)[:5], len(rare))  # says which, should they differ
gains = why(X)
for row, named in zip(gains, df["lca_why"]):
    best = np.argsort(-row)[:2]
    assert np.allclose([e["nats"] for e in named], row[best], rtol=1e-3, atol=1e-3), (named, row)
assert np.mean([named[0]["feature"] == features[row.argmax()] for row, named in zip(gains, df["lca_why"])]) > 0.99
assert np.abs(from_file - offline).max() < 1e-12 and np.abs(from_onnx - offline).max() < 1e-5 * np.abs(offline).max()
assert len(unusual) == 10 and unusual["lca_score"].min() >= df["lca_score"].median()
import duckdb
import polars
assert polars.from_arrow(whitened).shape == (1200, 10)
assert len(duckdb.sql("SELECT version, avg(lca_score) FROM whitened GROUP BY 1").fetchall()) == df["version"].nunique()
print(len(df), "rows,", len(every), "models")
`
