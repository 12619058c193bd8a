//go:build linux && lake

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// The tests behind the tag lake are `make lake`: the job of deploy/spark on Spark, with executors in processes of their own. What it does
// with the program is tested by TestSparkJob of cmd/lca-stream in `make test`.

// lake is a directory with files and models, and what runs jobs there.
type lake struct {
	t                        *testing.T
	dir, python, home, built string
	conf                     []string
}

func newLake(t *testing.T) *lake {
	t.Helper()
	built, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return &lake{t: t, dir: t.TempDir(), python: testtools.SparkPython(t), home: sparkHome(t), built: built}
}

// sparkHome is a view of Spark's own directory, in which executors leave their files.
func sparkHome(t *testing.T) string {
	t.Helper()
	home, spark := t.TempDir(), testtools.Spark(t)
	entries, err := os.ReadDir(spark)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(spark, e.Name()), filepath.Join(home, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// script runs a function of testdata/lake.py and returns what it prints.
func (l *lake) script(args ...string) string {
	l.t.Helper()
	return l.output(exec.Command(l.python, append([]string{absolute(l.t, "testdata/lake.py")}, args...)...))
}

// tool runs the program.
func (l *lake) tool(args ...string) string {
	l.t.Helper()
	return l.output(exec.Command(l.built, args...))
}

func (l *lake) output(cmd *exec.Cmd) string {
	l.t.Helper()
	cmd.Dir, cmd.Env = l.dir, l.environment()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		l.t.Fatalf("%v: %v\n%s", cmd, err, said.String())
	}
	return string(out)
}

func (l *lake) environment() []string {
	return append(os.Environ(), "PYSPARK_PYTHON="+l.python, "PYSPARK_DRIVER_PYTHON="+l.python, "SPARK_LOCAL_IP=127.0.0.1", "SPARK_HOME="+l.home,
		"SPARK_LOCAL_DIRS="+l.dir, "PYTHONDONTWRITEBYTECODE=1", "GOMAXPROCS=1")
}

// job is a command of the job on a cluster; without further arguments it is a Python script.
func (l *lake) job(master string, args ...string) *exec.Cmd {
	l.t.Helper()
	args = append([]string{"--master", master, "--conf", "spark.ui.enabled=false", "--files", l.built}, append(l.conf, args...)...)
	cmd := exec.Command(filepath.Join(l.home, "bin", "spark-submit"), args...)
	cmd.Dir, cmd.Env = l.dir, l.environment()
	return cmd
}

// refit is what a refit prints.
type refit struct {
	NLL         float64 `json:"nll"`
	Rows        int     `json:"rows"`
	Invalid     int     `json:"invalid_rows"`
	Parts       int     `json:"parts"`
	Fingerprint string  `json:"fingerprint"`
}

func (l *lake) refit(master, model, input string, steps int) refit {
	l.t.Helper()
	r, said, err := l.ended(l.job(master, l.refitOf(model, input, steps)...), nothing)
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", master, err, said)
	}
	return r
}

func (l *lake) refitOf(model, input string, steps int) []string {
	return []string{absolute(l.t, sparkJob), "refit", "--model", model, "--input", input, "--output", "next.arrows", "--iterations", strconv.Itoa(steps), "--json"}
}

const sparkJob = "../../deploy/spark/lca_spark.py"

// ended runs a refit to its end, and next to it what is to happen meanwhile, with the job's process id.
func (l *lake) ended(cmd *exec.Cmd, meanwhile func(context.Context, int) error) (r refit, said string, err error) {
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Start(); err != nil {
		return r, "", err
	}
	ctx, end := context.WithCancel(l.t.Context())
	happened := make(chan error)
	go func() { happened <- meanwhile(ctx, cmd.Process.Pid) }()
	err = cmd.Wait()
	end()
	if err = errors.Join(err, <-happened); err == nil {
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		err = json.Unmarshal([]byte(lines[len(lines)-1]), &r)
	}
	return r, words.String(), err
}

func nothing(context.Context, int) error { return nil }

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// first writes the model that a refit begins with, of one file.
func (l *lake) first(name string, features, neighbours int, file string) {
	l.t.Helper()
	names := make([]string, features)
	for i := range names {
		names[i] = fmt.Sprintf("f%d", i)
	}
	l.tool("replay", "--algorithm", "lca-gauss", "--passes", "1", "--sample", strconv.Itoa(neighbours), "--input", file, "-o", name,
		"--set", "source.features=["+strings.Join(names, ", ")+"]")
}

// TestLakeIsReplay holds that a refit on Spark is `replay --algorithm lca-gauss`: to 1e-6 nats, because neighbours are float32, where all rows are neighbours.
func TestLakeIsReplay(t *testing.T) {
	l := newLake(t)
	l.script("files", "few", "3", "700", "6")
	inputs := []string{"--input", "few/0.parquet", "--input", "few/1.parquet", "--input", "few/2.parquet"}
	replay := func(steps, output string) (r refit) {
		t.Helper()
		args := append([]string{"replay", "--algorithm", "lca-gauss", "--passes", steps, "-o", output, "--json", "--set", "source.features=[f0, f1, f2, f3, f4, f5]"}, inputs...)
		if err := json.Unmarshal([]byte(l.tool(args...)), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := replay("5", "whole.arrows")
	replay("1", "first.arrows")
	got := l.refit("local-cluster[2,1,1024]", "first.arrows", "few", 5)
	if !(math.Abs(got.NLL-want.NLL) < 1e-6) || got.Rows != 2100-got.Invalid || got.Invalid == 0 || got.Parts != 3 {
		t.Errorf("%+v; replay has the NLL %v", got, want.NLL)
	}
}

// TestLakeSameModelOnAnyCluster holds that neither the number of executors nor the loss of one, killed while it sums a part, changes a bit of the model.
func TestLakeSameModelOnAnyCluster(t *testing.T) {
	l := newLake(t)
	l.script("files", "events", "12", "60000", "16")
	l.first("first.arrows", 16, 3000, "events/0.parquet")
	out := newTable(t, "clusters", "executors", "seconds", "rows", "parts", "fingerprint of the model after 3 steps")
	var want refit
	for i, c := range []struct {
		name, master string
		meanwhile    func(context.Context, int) error
	}{
		{"1", "local-cluster[1,1,1024]", nothing}, {"2", "local-cluster[2,1,1024]", nothing}, {"4", "local-cluster[4,1,1024]", nothing},
		{"2, of which one is killed", "local-cluster[2,1,1024]", killSumming},
	} {
		began := time.Now()
		cmd := l.job(c.master, append([]string{"--conf", "spark.speculation=true"}, l.refitOf("first.arrows", "events", 3)...)...)
		got, said, err := l.ended(cmd, c.meanwhile)
		if err != nil {
			t.Fatalf("%s executors: %v\n%s", c.name, err, said)
		}
		if lost := strings.Contains(said, "Lost executor"); lost != strings.Contains(c.name, "killed") {
			t.Errorf("%s executors: lost one: %t\n%s", c.name, lost, said)
		}
		if i == 0 {
			want = got
		}
		if got != want || got.Parts != 12 || got.Rows+got.Invalid != 720_000 {
			t.Errorf("%s executors: %+v, one has %+v", c.name, got, want)
		}
		out.row(c.name, fmt.Sprintf("%.0f", time.Since(began).Seconds()), strconv.Itoa(got.Rows), strconv.Itoa(got.Parts), "`"+got.Fingerprint[:12]+"`")
	}
	out.write()
}
