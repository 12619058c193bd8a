package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

// TestAssemblyIsGenerated runs the generator and compares its output with the files here, so that they are not edited
// by hand. The generator is a module of its own; go downloads avo for it like every other dependency.
func TestAssemblyIsGenerated(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "amd64"), 0o755); err != nil {
		t.Fatal(err)
	}
	names := []string{"amd64/kernel_amd64.s", "amd64/stubs_amd64.go", "wrappers_amd64.go"}
	run := exec.Command("go", "run", ".", "-out", filepath.Join(dir, names[0]), "-stubs", filepath.Join(dir, names[1]), "-wrappers", filepath.Join(dir, names[2]), "-pkg", "amd64")
	run.Dir = "_asm"
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("the generator failed (it needs avo: go mod download in lca/internal/kernel/_asm): %v\n%s", err, out)
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

// body returns what follows the first line, which contains the generator's arguments.
func body(file []byte) []byte {
	_, rest, _ := bytes.Cut(file, []byte("\n"))
	return rest
}

// TestImplementationsAreComplete checks that the table of each instruction set names a function for every operation.
func TestImplementationsAreComplete(t *testing.T) {
	for _, i := range available {
		for _, table := range []reflect.Value{reflect.ValueOf(*i), reflect.ValueOf(i.f32), reflect.ValueOf(i.f64)} {
			for k := range table.NumField() {
				if f := table.Field(k); f.Kind() == reflect.Func && f.IsNil() {
					t.Errorf("%s has no %s", i.name, table.Type().Field(k).Name)
				}
			}
		}
	}
}
