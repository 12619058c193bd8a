package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
)

var update = flag.Bool("update", false, "rewrite golden files")

// inTest is a program whose output is kept.
func inTest() (p *app.Program, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	getenv := func(string) (string, bool) { return "", false }
	return &app.Program{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Getenv: getenv}, stdout, stderr
}

// Every bad configuration of testdata/lint.txtar gets exactly one message.
func TestLint(t *testing.T) {
	const golden = "testdata/lint.txtar"
	archive, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	path, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for i := 0; i+1 < len(archive.Files); i += 2 {
		bad, want := archive.Files[i], &archive.Files[i+1]
		t.Run(strings.TrimSuffix(bad.Name, ".yaml"), func(t *testing.T) {
			got := lintOne(t, bad)
			if *update {
				want.Data = got
			}
			if diff := cmp.Diff(string(want.Data), string(got)); diff != "" {
				t.Errorf("lint %s (-want +got):\n%s", bad.Name, diff)
			}
		})
	}
	if *update {
		if err := os.WriteFile(path+"/"+golden, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// lintOne returns what lint prints in text, after checking that the JSON says the same.
func lintOne(t *testing.T, bad txtar.File) []byte {
	t.Helper()
	if err := os.WriteFile(bad.Name, bad.Data, 0o644); err != nil {
		t.Fatal(err)
	}
	p, text, stderr := inTest()
	if code := execute(t.Context(), p, []string{"lint", bad.Name}); code != app.ExitUsage || stderr.Len() > 0 {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	p, asJSON, _ := inTest()
	execute(t.Context(), p, []string{"lint", "--format", "json", bad.Name})
	var fault struct {
		File, Path, Message, Remedy string
		Line, Column                int
	}
	if err := json.Unmarshal(asJSON.Bytes(), &fault); err != nil {
		t.Fatalf("not one JSON object: %v\n%s", err, asJSON)
	}
	first, excerpt, _ := strings.Cut(text.String(), "\n")
	if !strings.HasSuffix(first, fault.Message+"; "+fault.Remedy) || fault.Remedy == "" || fault.Line == 0 {
		t.Errorf("JSON %+v does not say what the text says:\n%s", fault, first)
	}
	source, caret, _ := strings.Cut(excerpt, "\n")
	if len(source) == 0 || len([]rune(caret[:strings.IndexByte(caret, '^')])) != 7+fault.Column-1 && !strings.Contains(source, "****") { // a mask moves the caret
		t.Errorf("caret is not under column %d:\n%s", fault.Column, excerpt)
	}
	return text.Bytes()
}
