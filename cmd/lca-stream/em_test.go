package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/em"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/replay"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/snapshots"
)

// emFiles writes 900 rows of two clusters as a file and a stream, with one row that cannot be used in each.
func emFiles(t *testing.T) (dir string) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.BinaryTypes.String}, {Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "b", Type: arrow.PrimitiveTypes.Float32}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	r := rand.New(rand.NewPCG(1, 3))
	for i := range 902 {
		b.Field(0).(*array.StringBuilder).Append("x")
		side := float64(r.IntN(2))
		if i%500 == 77 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.Float64Builder).Append(50 + 9*side + r.NormFloat64())
		}
		b.Field(2).(*array.Float32Builder).Append(float32(3*side + r.NormFloat64()))
	}
	rec := b.NewRecord()
	dir = t.TempDir()
	for name, c := range map[string]struct {
		from, to int64
		write    func(*os.File) error
	}{
		"a.arrow": {0, 401, func(f *os.File) error {
			return cut(ipc.NewFileWriter(f, ipc.WithSchema(schema)))(rec.NewSlice(0, 401), 100)
		}},
		"b.arrows": {401, 902, func(f *os.File) error {
			return cut(ipc.NewWriter(f, ipc.WithSchema(schema)), nil)(rec.NewSlice(401, 902), 77)
		}},
	} {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = errors.Join(c.write(f), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lcaStream runs the program in a directory, with a file as its standard input if one is named.
func lcaStream(t *testing.T, dir, stdin string, args ...string) (stdout []byte, fault string) {
	t.Helper()
	cmd := exec.Command("lca-stream", args...)
	cmd.Dir = dir
	if stdin != "" {
		data, err := os.ReadFile(filepath.Join(dir, stdin))
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = bytes.NewReader(data)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return out, err.Error() + ": " + said.String()
	}
	return out, ""
}

func mustRun[T any](t *testing.T, dir, stdin string, args ...string) (result T) {
	t.Helper()
	out, fault := lcaStream(t, dir, stdin, args...)
	if fault != "" {
		t.Fatal(args, fault)
	}
	if len(out) > 0 && out[0] == '{' {
		if err := json.Unmarshal(out, &result); err != nil {
			t.Fatal(args, err)
		}
	}
	return result
}

// TestEM holds that EM in pieces is replay's: each step has the NLL of the replay that makes as many, and the order and the grouping of the parts
// change no bit.
func TestEM(t *testing.T) {
	dir := emFiles(t)
	features := []string{"--set", "source.features=[a, b]", "--set", "lca.nu_unit=covariance"}
	replayed := func(steps, output string) replay.Result {
		args := []string{"replay", "--algorithm", "lca-gauss", "--passes", steps, "--input", "a.arrow", "--input", "b.arrows", "-o", output, "--json"}
		return mustRun[replay.Result](t, dir, "", append(args, features...)...)
	}
	replayed("1", "m.arrows")
	var last em.Maximized
	for _, steps := range []string{"1", "2", "3", "4"} {
		want := replayed(steps, "whole.arrows")
		mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--input", "a.arrow", "--input", "b.arrows", "-o", "both.sums")
		mustRun[any](t, dir, "b.arrows", "em", "expect", "--model", "m.arrows", "--part", "1", "--input", "-", "-o", "b.sums")
		mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--input", "a.arrow", "-o", "a.sums")
		maximize := []string{"em", "maximize", "--model", "m.arrows", "--json"}
		if steps == "1" {
			maximize = append(maximize, "--metadata", "rows=[a=1, b]") // stays in the models of the later steps
		}
		together := mustRun[em.Maximized](t, dir, "", append(slices.Clone(maximize), "--input", "both.sums", "-o", "together.arrows")...)
		last = mustRun[em.Maximized](t, dir, "", append(slices.Clone(maximize), "--input", "b.sums", "--input", "a.sums", "-o", "m.arrows")...)
		if last != together {
			t.Errorf("step %s: %+v in pieces, %+v together", steps, last, together)
		}
		if !(math.Abs(last.NLL-*want.NLL) < 1e-6) || last.Rows != 900 || last.Invalid != 2 || last.Parts != 2 || last.Neighbours != 900 {
			t.Errorf("step %s: %+v; replay has the NLL %v", steps, last, *want.NLL)
		}
	}
	if noted := mustRun[snapshots.Shown](t, dir, "", "snapshot", "show", "--file", "m.arrows", "--json").Metadata["rows"]; noted != "[a=1, b]" {
		t.Errorf("the metadata say %q", noted)
	}
	sampled := mustRun[em.Maximized](t, dir, "", "em", "expect", "--model", "m.arrows", "--precision", "float32", "--input", "a.arrow", "-o", "-")
	if sampled.Rows != 0 {
		t.Error("sums on standard output are not JSON")
	}
}

// TestEMRefuses holds that what would give a wrong model gives none, with a reason and the exit code 2, or 1 for the command line.
func TestEMRefuses(t *testing.T) {
	dir := emFiles(t)
	for output, steps := range map[string]string{"m.arrows": "1", "other.arrows": "2"} {
		mustRun[any](t, dir, "", "replay", "--algorithm", "lca-gauss", "--passes", steps, "--input", "a.arrow", "-o", output, "--set", "source.features=[a, b]")
	}
	mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--input", "a.arrow", "-o", "a.sums")
	mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--input", "a.arrow", "-o", "sums.arrows")
	for name, part := range map[string]int{"cut.arrows": 5000, "unclosed.arrows": 8, "cut.sums": 700} {
		source := map[string]string{"cut.arrows": "b.arrows", "unclosed.arrows": "b.arrows", "cut.sums": "a.sums"}[name]
		data, err := os.ReadFile(filepath.Join(dir, source))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data[:len(data)-part], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stream, err := os.ReadFile(filepath.Join(dir, "b.arrows"))
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "two.arrows"), bytes.Repeat(stream, 2), 0o600), os.WriteFile(filepath.Join(dir, "empty.arrows"), nil, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	expect := []string{"em", "expect", "--model", "m.arrows", "-o", "x.sums", "--input"}
	maximize := []string{"em", "maximize", "-o", "x.arrows", "--model"}
	for name, c := range map[string]struct {
		stdin string
		args  []string
		says  string
	}{
		"another model's sums": {"", append(maximize, "other.arrows", "--input", "a.sums"), "exit status 2: lca-stream: a.sums: these are statistics under the model with the fingerprint"},
		"a part twice":         {"", append(maximize, "m.arrows", "--input", "a.sums", "--input", "a.sums"), "part 0 comes twice"},
		"sums that break off":  {"", append(maximize, "m.arrows", "--input", "cut.sums"), "exit status 2"},
		"rows, not sums":       {"", append(maximize, "m.arrows", "--input", "b.arrows"), "b.arrows: it holds no sums of em expect: "},
		"a model, not sums":    {"", append(maximize, "m.arrows", "--input", "other.arrows"), "other.arrows: it holds a model, and no sums of em expect"},
		"sums, not a model":    {"", append(maximize, "a.sums", "--input", "a.sums"), "a.sums: it holds the sums of em expect, and no model"},
		"an empty file":        {"", append(maximize, "m.arrows", "--input", "empty.arrows"), "empty.arrows: the file is empty"},
		"no rows":              {"", append(expect, "empty.arrows"), "empty.arrows: the file is empty"},
		"rows twice":           {"", append(expect, "a.arrow", "--input", "./a.arrow"), "exit status 1: lca-stream: --input ./a.arrow is named twice"},
		"standard input twice": {"b.arrows", append(expect, "-", "--input", "/dev/stdin"), "exit status 1: lca-stream: --input /dev/stdin is named twice"},
		"over its rows":        {"", []string{"em", "expect", "--model", "m.arrows", "--force", "--input", "b.arrows", "-o", "b.arrows"}, "exit status 1: lca-stream: --output b.arrows is b.arrows, which is read"},
		"two streams":          {"", append(expect, "two.arrows"), "two.arrows: arrow_invalid: there is more after the end of the stream"},
		"two streams, piped":   {"two.arrows", append(expect, "-"), "there is more after the end of the stream"},
		"files after a flag":   {"", append(expect, "a.arrow", "b.arrows"), `does not take "b.arrows": each file has its own --input`},
		"a cut file":           {"", append(expect, "cut.arrows"), "exit status 2"},
		"a cut between rows":   {"", append(expect, "unclosed.arrows"), "without its mark of the end"},
		"a cut stream":         {"cut.arrows", append(expect, "-"), "without its mark of the end"},
		"a file as a stream":   {"a.arrow", append(expect, "-"), "this is an Arrow file"},
		"no such feature":      {"", append(expect, "sums.arrows"), "is not in the record"},
		"no such file":         {"", append(expect, "none.parquet"), "none.parquet: no such file"},
		"a negative part":      {"", append(expect, "a.arrow", "--part", "-1"), "exit status 1"},
		"a misspelt precision": {"", append(expect, "a.arrow", "--precision", "float16"), "exit status 1"},
		"no input":             {"", maximize[:4], "exit status 1"},
		"a key of the format":  {"", append(maximize, "m.arrows", "--input", "a.sums", "--metadata", "lca.rows_seen=1"), "exit status 1"},
		"metadata, no value":   {"", append(maximize, "m.arrows", "--input", "a.sums", "--metadata", "table"), "exit status 1"},
	} {
		_, fault := lcaStream(t, dir, c.stdin, c.args...)
		if !strings.Contains(fault, c.says) {
			t.Errorf("%s: %q, want %q", name, fault, c.says)
		}
		for _, left := range []string{"x.sums", "x.arrows"} {
			if _, err := os.Stat(filepath.Join(dir, left)); err == nil {
				t.Errorf("%s: %s is there", name, left)
			}
		}
	}
}

// TestPipesWithNames holds that rows from a pipe in the file system, and from /dev/stdin, give the sums of the file.
func TestPipesWithNames(t *testing.T) {
	dir := emFiles(t)
	mustRun[any](t, dir, "", "replay", "--algorithm", "lca-gauss", "--passes", "1", "--input", "a.arrow", "-o", "m.arrows", "--set", "source.features=[a, b]")
	mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--input", "b.arrows", "-o", "b.sums")
	want, err := os.ReadFile(filepath.Join(dir, "b.sums"))
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "rows.pipe")
	stream, err := os.ReadFile(filepath.Join(dir, "b.arrows"))
	if err == nil {
		err = syscall.Mkfifo(pipe, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, stdin := range map[string]string{"rows.pipe": "", "/dev/stdin": "b.arrows"} {
		if stdin == "" {
			go func() { _ = os.WriteFile(pipe, stream, 0o600) }() // ends when all is read
		}
		mustRun[any](t, dir, stdin, "em", "expect", "--model", "m.arrows", "--input", path, "-o", "got.sums")
		if got, err := os.ReadFile(filepath.Join(dir, "got.sums")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: other sums (%v)", path, err)
		}
	}
}
