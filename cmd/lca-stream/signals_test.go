//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
)

// started runs this program as a process of its own. It has printed its first line, so that it takes
// signals, and then waits for standard input, which does not come.
func started(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "lca-stream") // testscript.Main runs main under this name
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("no_such_key: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "lint", bad, "-")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A command that does not stop when asked is stopped by the second signal, whichever the two are.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	for _, signals := range [][2]syscall.Signal{{syscall.SIGTERM, syscall.SIGINT}, {syscall.SIGINT, syscall.SIGTERM}} {
		cmd := started(t)
		for _, s := range signals {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != app.ExitInterrupted {
			t.Errorf("%v: %v, want exit code %d", signals, err, app.ExitInterrupted)
		}
	}
}
