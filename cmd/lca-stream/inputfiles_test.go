package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/em"
)

// inputsAs links the files of emFiles into directories: in rows/ next to what is no row, in mixed/ next to what might be.
func inputsAs(t *testing.T) (dir string) {
	t.Helper()
	dir = emFiles(t)
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	err := errors.Join(
		os.MkdirAll(at("rows"), 0o700), os.MkdirAll(at("mixed", "more"), 0o700), os.MkdirAll(at("none"), 0o700),
		os.Link(at("a.arrow"), at("rows", "1.arrow")), os.Link(at("b.arrows"), at("rows", "2.arrows")),
		os.WriteFile(at("rows", "_SUCCESS"), nil, 0o600), os.WriteFile(at("rows", ".2.arrows.crc"), nil, 0o600),
		os.Link(at("a.arrow"), at("mixed", "a.arrow")), os.Link(at("b.arrows"), at("[1].arrows")))
	if err != nil {
		t.Fatal(err)
	}
	mustRun[any](t, dir, "", "replay", "--algorithm", "lca-gauss", "--passes", "1", "--input", "a.arrow", "-o", "m.arrows", "--set", "source.features=[a, b]")
	return dir
}

// TestDirectoriesAndPatterns holds that a directory and a pattern give the bytes of their files, named one by one in the order of their names, in
// every command that reads rows, and that sums are found by a pattern.
func TestDirectoriesAndPatterns(t *testing.T) {
	dir := inputsAs(t)
	for _, command := range [][]string{
		{"em", "expect", "--model", "m.arrows"},
		{"transform", "--model", "m.arrows"},
		{"replay", "--algorithm", "lca-gauss", "--passes", "2", "--set", "source.features=[a, b]"},
	} {
		run := func(output string, inputs ...string) []byte {
			t.Helper()
			args := append([]string{}, command...)
			for _, input := range inputs {
				args = append(args, "--input", input)
			}
			mustRun[any](t, dir, "", append(args, "--force", "-o", output)...)
			data, err := os.ReadFile(filepath.Join(dir, output))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		want := run("want.arrows", "rows/1.arrow", "rows/2.arrows")
		for _, input := range []string{"rows", "rows/", "rows/*.arrow*", "rows/[12].*", "ro?s"} {
			if !bytes.Equal(run("got.arrows", input), want) {
				t.Errorf("%v --input %s: not the output of its files", command[:2], input)
			}
		}
		if named := run("got.arrows", "[1].arrows"); !bytes.Equal(named, run("want.arrows", "b.arrows")) && command[0] != "replay" { // whose identities hold the name
			t.Errorf("%v: a file with the name of a pattern is another", command[:2])
		}
	}
	mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--input", "a.arrow", "-o", "0.sums")
	mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--input", "b.arrows", "--part", "1", "-o", "1.sums")
	if r := mustRun[em.Maximized](t, dir, "", "em", "maximize", "--model", "m.arrows", "--input", "?.sums", "-o", "n.arrows", "--json"); r.Parts != 2 || r.Rows != 900 {
		t.Errorf("sums by a pattern: %+v", r)
	}
}

// TestCommandLinesRefused holds that what a command would read or write in another way than it says is refused, and that nothing is written.
func TestCommandLinesRefused(t *testing.T) {
	dir := inputsAs(t)
	mustRun[any](t, dir, "", "em", "expect", "--model", "m.arrows", "--input", "a.arrow", "-o", "a.sums")
	expect := []string{"em", "expect", "--model", "m.arrows", "-o", "x", "--input"}
	sumsTo := []string{"em", "expect", "--model", "m.arrows", "--input", "a.arrow", "-o"}
	modelTo := []string{"em", "maximize", "--model", "m.arrows", "--input", "a.sums", "-o"}
	replayTo := []string{"replay", "--algorithm", "lca-gauss", "--input", "a.arrow", "-o"}
	set := []string{"transform", "--model", "m.arrows", "--input", "a.arrow", "-o", "x.arrows", "--set"}
	for _, c := range []struct {
		args []string
		says string
	}{
		{append(expect, "mixed"), "exit status 2: lca-stream: --input mixed holds more, which is no file of rows: say which are, by a pattern such as 'mixed/*.parquet'"},
		{append(expect, "none"), "exit status 2: lca-stream: --input none: the directory holds no files of rows"},
		{append(expect, "*.parquet"), "exit status 2: lca-stream: --input *.parquet: no file matches this pattern"},
		{append(expect, "[z"), "exit status 1: lca-stream: --input [z: syntax error in pattern"},
		{append(expect, "rows", "--input", "a.arrow"), "exit status 1: lca-stream: --input a.arrow is named twice"},
		{append(sumsTo, "x.parquet"), "exit status 1: lca-stream: --output x.parquet would hold an Arrow stream, because this command writes nothing else: name it x.arrows"},
		{append(sumsTo, "x.json", "--force"), "name it x.arrows"},
		{append(modelTo, "x.parquet"), "name it x.arrows"},
		{append(modelTo, "x.onnx"), "name it x.arrows, and make .onnx of it with `lca-stream snapshot export --file x.arrows --format onnx -o x.onnx`"},
		{append(modelTo, "x.JSON"), "exit status 1: lca-stream: --output x.JSON would hold an Arrow stream"},
		{append(replayTo, "x.parquet"), "name it x.arrows"},
		{append(replayTo, "x.npz"), "name it x.arrows, and make .npz of it"},
		{[]string{"em", "expect", "--model", "-", "--input", "a.arrow", "-o", "x"}, "exit status 1: lca-stream: a model is not read from standard input (-), which is for rows: name its file"},
		{[]string{"em", "maximize", "--model", "-", "--input", "a.sums", "-o", "x"}, "a model is not read from standard input"},
		{[]string{"transform", "--model", "/dev/stdin", "--input", "a.arrow", "-o", "x.arrows"}, "a model is not read from standard input"},
		{append(set, "model.by=column:id"), "exit status 1: lca-stream: model.by is column:id, and m.arrows holds one model for all rows: if all are of it, say --set model.by=none"},
		{append(set, "transform.pin_version=7"), "exit status 1: lca-stream: transform.pin_version is 7, and m.arrows holds version 400: if that is what you want, say --set transform.pin_version=0"},
		{append(set, "source.features=[b, a]"), "exit status 1: lca-stream: m.arrows: version 400 "},
	} {
		_, fault := lcaStream(t, dir, "", c.args...)
		if !strings.Contains(fault, c.says) {
			t.Errorf("%v: %q, want %q", c.args, fault, c.says)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "x*")); err != nil || len(left) > 0 {
			t.Errorf("%v: %v is there (%v)", c.args, left, err)
		}
	}
	for _, fits := range []string{"model.by=none", "transform.pin_version=400", "source.features=[a, b]"} {
		mustRun[any](t, dir, "", append(set, fits, "--force")...)
	}
}

// TestExpectSaysWhatItRead holds that `em expect` says how many rows it has summed, on standard error alone.
func TestExpectSaysWhatItRead(t *testing.T) {
	dir := inputsAs(t)
	for input, want := range map[string]string{
		"rows":    "900 rows in 2 parts (2 invalid) summed under version 400 of \"default\"\n",
		"a.arrow": "400 rows in 1 part (1 invalid) summed under version 400 of \"default\"\n",
	} {
		for _, output := range []string{"a.sums", "-"} {
			cmd := exec.Command("lca-stream", "em", "expect", "--model", "m.arrows", "--input", input, "-o", output)
			cmd.Dir = dir
			var out, said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &said
			if err := cmd.Run(); err != nil || said.String() != want || (output == "-") != (out.Len() > 0) {
				t.Errorf("%s: %v, %q, %d bytes on standard output", input, err, said.String(), out.Len())
			}
		}
	}
}
