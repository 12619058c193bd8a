package app

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What is no regular file is written to, and stays what it is: a pipe, a device, what a link points to.
func TestOutputIsWrittenToWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(in("target"), []byte("old"), 0o600), os.Symlink("target", in("link")), os.Symlink(os.DevNull, in("null")), os.Symlink("next", in("ahead")), os.Symlink("later", in("next")),
		syscall.Mkfifo(in("pipe"), 0o600), os.Mkdir(in("dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	p := &Program{}
	got := make(chan string)
	go func() {
		b, err := os.ReadFile(in("pipe"))
		got <- string(b) + errorText(err)
	}()
	for _, name := range []string{"pipe", "link", "null", "new", "ahead"} {
		if err := p.WriteOutput(in(name), hello); err != nil {
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
		err := p.WriteOutput(path, hello)
		if err == nil || !strings.HasPrefix(err.Error(), "write "+path+": ") || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), ".lca-stream-") {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
	failed := errors.New("no")
	if err := p.WriteOutput(in("target"), func(w io.Writer) error { _ = hello(w); return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if left, err := filepath.Glob(in(".lca-stream-*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v (%v)", left, err)
	}
}

func hello(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// Progress says of how many rows, where that is known.
func TestProgressHasATotal(t *testing.T) {
	var out strings.Builder
	for _, total := range []int64{0, 4000} {
		s := &FileScreen{out: &out, Start: time.Now()}
		s.Of(total)
		s.Rows(1000)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || strings.Contains(lines[0], `"of"`) || !strings.HasPrefix(lines[1], `{"of":4000,"rows":1000,`) {
		t.Errorf("%q", lines)
	}
}
