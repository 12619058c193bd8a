//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// packageReads runs what docs/python.md says of rows that name their schema, and compares with what the package computes.
func (s *stream) packageReads(r *kafkatest.Registry, rows, known int) {
	s.t.Helper()
	section, _ := pythonPage(s.t)
	code := strings.NewReplacer("http://localhost:8081", r.URL, "localhost:9092", s.Addrs()[0], `"whitened"`, strconv.Quote(s.topic("out")),
		`"lca-snapshots"`, strconv.Quote(s.topic("snap"))).Replace(pythonIn(section) + registeredChecks)
	code = fmt.Sprintf("import sys\nsys.path.insert(0, %q)\n", filepath.Join(packageSource, "src")) + code
	path := filepath.Join(s.dir, "registered.py")
	if err := os.WriteFile(path, []byte(code), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if got, want := strings.TrimSpace(testtools.RunPython(s.t, path)), fmt.Sprint(rows, known); got != want {
		s.t.Errorf("the Python package found %s rows, and rows with lca; want %s", got, want)
	}
}

// registeredChecks compares each row with what its model makes of it.
const registeredChecks = `
import numpy as np

known, names = 0, ["lca_version", "lca", "lca_score", "lca_p", "lca_why"]
every = pa.concat_tables([t.select(names) for t in tables], promote_options="permissive")
matrices = [model.matrix(t) for t in tables]
for version in set(every["lca_version"].to_pylist()):
    model = lca_stream.read_models("lca-snapshots", "localhost:9092", version=version)["default"]
    assert model.version == version
    which = every["lca_version"].to_numpy() == version
    X, own = np.concatenate(matrices)[which], every.filter(pa.array(which))
    finite = np.isfinite(X).all(1)
    assert (finite == own["lca"].is_valid().to_numpy()).all()
    if not finite.any():
        continue
    X, own = X[finite], own.filter(pa.array(finite))
    Y, score, p = model.whiten(X), own["lca_score"].to_numpy(), own["lca_p"].to_numpy()
    assert [own.schema.field(n).type for n in ("lca_score", "lca_p")] == [pa.float32()] * 2
    assert own.schema.field("lca").type == pa.list_(pa.field("item", pa.float32(), nullable=False), Y.shape[1]), own.schema
    assert np.abs(Y - np.stack(own["lca"].to_numpy())).max() < 1e-6 * np.abs(Y).max()
    assert np.allclose(model.score(X), score, rtol=1e-5)
    # A score is ranked before it is rounded, so it may be on the other side of one of the neighbours'.
    assert np.allclose(model.p_value(X), p, rtol=1e-4, atol=2 / len(model.scores)), (model.p_value(X), p)
    columns, nats = model.why(X, most=2)
    for named, of, gains in zip(own["lca_why"].to_pylist(), columns, nats):
        assert np.allclose([w["nats"] for w in named], gains, rtol=1e-4, atol=1e-6), (named, gains)
        assert named[0]["feature"] == model.features[of[0]] or gains[0] < 1.01 * gains[1]
    known += len(X)
print(len(every), known)
`
