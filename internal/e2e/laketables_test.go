//go:build linux && lake

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// table is a table of docs/lakes.md. It is left in the directory that TABLES names, if any, for .ci/bench-tables.
type table struct {
	t          *testing.T
	name, text string
}

func newTable(t *testing.T, name string, heads ...string) *table {
	r := &table{t: t, name: name}
	r.row(heads...)
	r.text += strings.Repeat("|---", len(heads)) + "|\n"
	return r
}

func (r *table) row(cells ...string) { r.text += "| " + strings.Join(cells, " | ") + " |\n" }

func (r *table) write() {
	r.t.Helper()
	r.t.Log("\n" + r.text)
	if dir := os.Getenv("TABLES"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, r.name+".md"), []byte(r.text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestLakeCost measures what Spark takes next to the program: CPU time of the job, and of the program on the files themselves, which takes the very same steps. What
// the job takes to start is in both runs of a difference, and so is its first step.
func TestLakeCost(t *testing.T) {
	l := newLake(t)
	const files = 4
	l.script("files", "events", strconv.Itoa(files), "250000", "64")
	var inputs []string
	for i := range files {
		inputs = append(inputs, "--input", fmt.Sprintf("events/%d.parquet", i))
	}
	out := newTable(t, "cost", "", "without Spark", "on Spark", "of which the program", "of which Spark's own")
	row := func(name string, alone float64, job seconds) {
		out.row(name, fmt.Sprintf("%.1f", alone), fmt.Sprintf("%.1f", job.all), fmt.Sprintf("%.1f", job.program), fmt.Sprintf("%.1f (%.0f %%)", job.spark(), 100*job.spark()/job.all))
		if r := job.program / alone; !(r > .6 && r < 1.4) {
			t.Errorf("%s: the program takes %.2f s without Spark and %.2f s on it: this was other work, or not all of it was seen", name, alone, job.program)
		}
	}
	var own []float64
	for _, neighbours := range []int{256, 3000} {
		l.first("first.arrows", 64, neighbours, "events/0.parquet")
		const steps = 9 // the start of Spark, which differs from job to job, counts a ninth
		job := l.measured(l.refitOf("first.arrows", "events", 1)...)
		job = l.measured(l.refitOf("first.arrows", "events", 1+steps)...).beyond(job, steps)
		spark := l.described("next.arrows")
		alone := -l.steps(inputs, 1, spark)
		alone += l.steps(inputs, 1+steps, spark)
		if same := l.described("same.arrows"); same.Fingerprint != spark.Fingerprint {
			t.Errorf("%d neighbours: the model is %s without Spark, %s on it: these were other steps", neighbours, same.Fingerprint, spark.Fingerprint)
		}
		row(fmt.Sprintf("a step of `refit`, %d neighbours", neighbours), alone/steps, job)
		own = append(own, job.spark())
	}
	// Spark hands over the same rows whatever the model is. So processes that are not seen show here: the program's time with 3000 neighbours is five times that with 256.
	if r := own[1] / own[0]; !(r > .6 && r < 1.4) {
		t.Errorf("Spark's own time of a step is %.2f s with 256 neighbours and %.2f s with 3000", own[0], own[1])
	}
	score := func(input, output string) seconds {
		return l.measured(absolute(t, sparkJob), "score", "--model", "first.arrows", "--input", input, "--output", output)
	}
	alone := l.cpu(append([]string{l.built, "transform", "--model", "first.arrows", "-o", "scored.arrows"}, inputs...)...)
	one := score("events/0.parquet", "one")
	row("`score`, 3000 neighbours", alone, score("events", "all").beyond(one, (files-1.)/files))
	out.write()
}

// steps takes EM steps from first.arrows to same.arrows without Spark, and returns their CPU seconds. The models get the notes of another, which count
// in the fingerprint.
func (l *lake) steps(inputs []string, n int, noted described) (seconds float64) {
	l.t.Helper()
	var notes []string
	for key, value := range noted.Metadata {
		if strings.HasPrefix(key, "lake.") {
			notes = append(notes, "--metadata", key+"="+value)
		}
	}
	model := "first.arrows"
	for range n {
		seconds += l.cpu(append([]string{l.built, "em", "expect", "--model", model, "-o", "sums.arrows"}, inputs...)...)
		seconds += l.cpu(append([]string{l.built, "em", "maximize", "--model", model, "--input", "sums.arrows", "-o", "same.arrows"}, notes...)...)
		model = "same.arrows"
	}
	return seconds
}

// described is what `snapshot show --json` prints.
type described struct {
	Fingerprint string            `json:"fingerprint"`
	Metadata    map[string]string `json:"metadata"`
}

func (l *lake) described(model string) (s described) {
	l.t.Helper()
	if err := json.Unmarshal([]byte(l.tool("snapshot", "show", "--file", model, "--json")), &s); err != nil || s.Fingerprint == "" {
		l.t.Fatalf("%s: %v, fingerprint %q", model, err, s.Fingerprint)
	}
	return s
}

// TestLakeScore holds that score writes each row once, with the values of `transform --input`, bit for bit.
func TestLakeScore(t *testing.T) {
	l := newLake(t)
	l.script("files", "events", "3", "20000", "8")
	l.first("first.arrows", 8, 500, "events/0.parquet")
	l.output(l.job("local-cluster[2,1,1024]", absolute(t, sparkJob), "score", "--model", "first.arrows", "--input", "events", "--output", "scored"))
	l.tool("transform", "--model", "first.arrows", "--input", "events/0.parquet", "--input", "events/1.parquet", "--input", "events/2.parquet", "-o", "want.arrow")
	if got := strings.TrimSpace(l.script("same", "scored", "want.arrow")); got != "60000 rows: id name f0 f1 f2 f3 f4 f5 f6 f7 lca lca_score lca_p" {
		t.Error(got)
	}
}

// TestLakeIceberg holds that a refit reads one snapshot of an Iceberg table, names it in the model, and gives the same model when more has been written.
func TestLakeIceberg(t *testing.T) {
	l := newLake(t)
	l.script("files", "january", "3", "40000", "8")
	l.script("files", "february", "2", "30000", "8")
	l.first("first.arrows", 8, 500, "january/0.parquet")
	l.conf = []string{"--jars", testtools.IcebergJar(t), "--conf", "spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog",
		"--conf", "spark.sql.catalog.lake.type=hadoop", "--conf", "spark.sql.catalog.lake.warehouse=" + filepath.Join(l.dir, "warehouse")}
	script := absolute(t, "testdata/lake.py")
	january := strings.TrimSpace(l.output(l.job("local[2]", script, "iceberg", "january")))
	before := l.refit("local-cluster[2,1,1024]", "first.arrows", "lake.db.events", 2)
	if before.Rows+before.Invalid != 120_000 || before.Parts < 6 {
		t.Errorf("%+v", before)
	}
	if shown := l.tool("snapshot", "show", "--file", "next.arrows", "--json"); !strings.Contains(shown, `"lake.snapshot_id":"`+january+`"`) || !strings.Contains(shown, `"lake.table":"lake.db.events"`) {
		t.Errorf("the model does not name the snapshot %s: %s", january, shown)
	}
	l.output(l.job("local[2]", script, "iceberg", "february"))
	if after := l.refit("local[2]", "first.arrows", "lake.db.events.snapshot_id_"+january, 2); after != before {
		t.Errorf("the snapshot %s gives %+v now, and gave %+v", january, after, before)
	}
	if newest := l.refit("local[2]", "first.arrows", "lake.db.events", 1); newest.Rows+newest.Invalid != 180_000 {
		t.Errorf("the newest snapshot has other rows: %+v", newest)
	}
}
