package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func hello(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }

// What is no regular file is written to, and stays what it is: a pipe, a device, what a link points to.
func TestOutputIsWrittenToWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(in("target"), []byte("old"), 0o600), os.Symlink("target", in("link")), os.Symlink(os.DevNull, in("null")), os.Symlink("next", in("ahead")), os.Symlink("later", in("next")),
		syscall.Mkfifo(in("pipe"), 0o600), os.Mkdir(in("dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	p := &program{}
	got := make(chan string)
	go func() {
		b, err := os.ReadFile(in("pipe"))
		got <- string(b) + errorText(err)
	}()
	for _, name := range []string{"pipe", "link", "null", "new", "ahead"} {
		if err := p.writeOutput(in(name), hello); err != nil {
			t.Fatal(name, err)
		}
	}
	if b := <-got; b != "hello" {
		t.Errorf("the pipe gave %q", b)
	}
	for name, want := range map[string]os.FileMode{"pipe": os.ModeNamedPipe, "link": os.ModeSymlink, "null": os.ModeSymlink, "target": 0, "new": 0, "ahead": os.ModeSymlink, "next": os.ModeSymlink, "later": 0} {
		info, err := os.Lstat(in(name))
		if err != nil || info.Mode().Type() != want {
			t.Errorf("%s is %v, want %v (%v)", name, info.Mode(), want, err)
		}
	}
	info, err := os.Stat(in("target"))
	if b, _ := os.ReadFile(in("target")); err != nil || string(b) != "hello" || info.Mode().Perm() != 0o600 {
		t.Errorf("behind the link are %q, mode %v", b, info.Mode())
	}
	for path, says := range map[string]string{in("dir"): "it is a directory", in("none/x"): "no such file", "/dev/full": "no space left"} {
		err := p.writeOutput(path, hello)
		if err == nil || !strings.HasPrefix(err.Error(), "write "+path+": ") || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), ".lca-stream-") {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
	failed := errors.New("no")
	if err := p.writeOutput(in("target"), func(w io.Writer) error { _ = hello(w); return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if left, err := filepath.Glob(in(".lca-stream-*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v (%v)", left, err)
	}
}

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

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
