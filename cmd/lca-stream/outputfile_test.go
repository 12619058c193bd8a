package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Who may read a new file is what the umask says, as with any program, and a file that is replaced keeps its mode. A umask is that of a
// process, so each command is one.
func TestOutputFollowsTheUmask(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := filepath.Join(dir, "model.arrows")
	rows := filepath.Join(dir, "rows.arrows")
	var some strings.Builder
	for i := range 600 {
		fmt.Fprintf(&some, "{\"x\":%d,\"y\":%d}\n", i*7%13, i*5%11)
	}
	if err := errors.Join(os.WriteFile(rows, []byte(arrowStream(t, some.String())), 0o600), os.WriteFile(model, nil, 0o600), os.Chmod(model, 0o640)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		umask string
		mode  os.FileMode // of files
	}{{"022", 0o644}, {"077", 0o600}, {"007", 0o660}, {"000", 0o666}} {
		out := filepath.Join(dir, c.umask)
		script := strings.NewReplacer("ROWS", rows, "MODEL", model, "OUT", out).Replace(`umask ` + c.umask + ` && mkdir OUT &&
			lca-stream replay --set lca.neighbours=100 --input ROWS --output MODEL --force &&
			lca-stream replay --set lca.neighbours=100 --input ROWS --output OUT/new.arrows &&
			lca-stream snapshot show --file MODEL --plot OUT/plot.svg &&
			lca-stream snapshot export --file MODEL --output OUT/model.json &&
			lca-stream transform --input ROWS --model MODEL --output OUT/whitened.parquet &&
			lca-stream replay --set lca.neighbours=100 --set model.by=column:x --set minibatch.rows=10 --set lca.warmup_rows=10 --input ROWS --output OUT/each &&
			lca-stream man OUT/man`)
		if said, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		files := 0
		err := filepath.WalkDir(out, func(path string, _ fs.DirEntry, err error) error {
			info, statErr := os.Stat(path)
			if err = errors.Join(err, statErr); err != nil {
				return err
			}
			want := c.mode
			if info.IsDir() {
				want |= want >> 2 & 0o111 // who may read it may enter it
			}
			if info.Mode().Perm() != want {
				t.Errorf("umask %s: %s has mode %o, want %o", c.umask, path, info.Mode().Perm(), want)
			}
			files++
			return nil
		})
		if info, statErr := os.Stat(model); err != nil || statErr != nil || info.Mode().Perm() != 0o640 || files < 8 {
			t.Errorf("umask %s: %d files, %v; the model has %v", c.umask, files, err, info.Mode())
		}
	}
}
