package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// The code of docs/lakes.md runs as it stands, with real DuckDB and polars, and both give what whitening the file gives. Rows that break off
// give no sums.
func TestLakesPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/lakes.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	python := func(code string) {
		t.Helper()
		cmd := exec.Command(testtools.Python(t), "-c", code)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	python(lakesRows)
	mustRun[any](t, dir, "", "replay", "--algorithm", "lca-gauss", "--passes", "1", "--input", "events/0.parquet", "-o", "model.arrows", "--set", "source.features=[temp, flow]")
	mustRun[any](t, dir, "", "transform", "--model", "model.arrows", "--input", "events/0.parquet", "--input", "events/1.parquet", "-o", "whole.parquet")
	blocks := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of Python", len(blocks))
	}
	python(blocks[0][1] + lakesChecks)

	pipes := regexp.MustCompile("(?s)    (python3 -c '.*? -o sums.arrows)\n").FindStringSubmatch(string(page))
	if pipes == nil {
		t.Fatal("no pipe to em expect")
	}
	pipe := strings.Replace(strings.ReplaceAll(pipes[1], "\n    ", "\n"), "python3", testtools.Python(t), 1)
	for _, damaged := range []bool{false, true} {
		sums := !damaged
		if damaged {
			python("d = open('events/1.parquet', 'rb').read(); open('events/1.parquet', 'wb').write(d[:100] + bytes(2000) + d[2100:])")
		}
		cmd := exec.Command("sh", "-c", pipe)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if (err == nil) != sums {
			t.Errorf("damaged: %t: %v\n%s", damaged, err, out)
		}
		if err := os.Remove(filepath.Join(dir, "sums.arrows")); (err == nil) != sums {
			t.Errorf("damaged: %t: sums are there: %v", damaged, err == nil)
		}
	}
}

const lakesRows = `
import os
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
r = np.random.default_rng(1)
os.mkdir("events")
for i in range(2):
    temp, flow = r.normal(size=(2, 3000)) + 4 * r.integers(2, size=3000)
    pq.write_table(pa.table({"id": np.arange(3000) + 3000 * i, "temp": temp, "flow": flow, "name": ["x"] * 3000}), f"events/{i}.parquet", row_group_size=1000)
`

const lakesChecks = `
import pyarrow.parquet as pq
whole = pq.read_table("whole.parquet")
want = whole.filter(pa.compute.greater(whole["flow"], 0)).sort_by("id")
assert 1000 < len(want) < len(whole) == 6000
assert scored["id"].to_list() == want["id"].to_pylist() and scored["name"].to_list() == want["name"].to_pylist()
assert scored["lca_score"].to_list() == want["lca_score"].to_pylist()
# what polars writes is read, compressed with LZ4 too
frame.write_ipc("polars.arrow")
frame.write_parquet("polars.parquet", compression="lz4")
for file in ("polars.arrow", "polars.parquet"):
    subprocess.run(["lca-stream", "transform", "--model", "model.arrows", "--input", file, "--output", "again.arrows", "--force"], check=True)
    assert pa.ipc.open_stream("again.arrows").read_all()["lca_score"].to_pylist() == scored["lca_score"].to_list(), file
assert [id for id, _ in strangest] == want.sort_by([("lca_score", "descending")])["id"].to_pylist()[:3], strangest
`
