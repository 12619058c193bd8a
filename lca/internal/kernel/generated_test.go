package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestAssemblyIsGenerated runs the generator and compares, so that nobody edits its output. It
// needs avo, which only the generator's own module requires; without a network, and where CI is not
// set, the comparison is left out.
func TestAssemblyIsGenerated(t *testing.T) {
	fetch := exec.Command("go", "mod", "download")
	fetch.Dir = "_asm"
	if out, err := fetch.CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the generator's modules cannot be fetched: %v\n%s", err, out)
		}
		t.Skipf("the generator's modules cannot be fetched: %v\n%s", err, out)
	}
	dir := t.TempDir()
	names := []string{"kernel_amd64.s", "stubs_amd64.go"}
	run := exec.Command("go", "run", ".", "-out", filepath.Join(dir, names[0]), "-stubs", filepath.Join(dir, names[1]), "-pkg", "kernel")
	run.Dir = "_asm"
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("the generator failed: %v\n%s", err, out)
	}
	for _, name := range names {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(body(got), body(want)) {
			t.Errorf("%s is not what _asm generates: run go generate in lca/internal/kernel", name)
		}
	}
}

// body is what follows the first line, which holds the generator's arguments.
func body(file []byte) []byte {
	_, rest, _ := bytes.Cut(file, []byte("\n"))
	return rest
}
