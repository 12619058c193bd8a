//go:build linux

package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The binary of the image needs nothing but itself, and lives as uid 65532 in a root that is read-only.
func TestBinaryOfTheImage(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "lca-stream")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary is not static: it has a segment %s", p.Type)
		}
	}
	out, err := exec.Command("../../deploy/image/check", binary).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ok: nothing was written") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
