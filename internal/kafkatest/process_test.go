//go:build unix

package kafkatest_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// A test binary that is killed leaves no process and no directory behind. The binary that is killed
// here is a second copy of this one, in the part of the victim.
func TestNothingOutlivesTheTests(t *testing.T) {
	const victim = "LCA_STREAM_TEST_VICTIM"
	if dir := os.Getenv(victim); dir != "" {
		cmd := exec.Command("sleep", "600")
		kafkatest.StartProcess(t, cmd, dir)
		if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "pid"), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
	}
	base := t.TempDir()
	dir := filepath.Join(base, "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestNothingOutlivesTheTests$")
	cmd.Env = append(os.Environ(), victim+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	within(t, "the victim starts its process", func() bool {
		f, err := os.Open(filepath.Join(base, "pid"))
		if err != nil {
			return false
		}
		defer func() { _ = f.Close() }()
		line, err := bufio.NewReader(f).ReadString('\n')
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(line))
		return err == nil
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	within(t, "its process ends", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) })
	within(t, "its directory goes", func() bool { _, err := os.Stat(dir); return errors.Is(err, os.ErrNotExist) })
}

// zombie reports whether a process has ended and only waits for its parent, here init, to notice.
func zombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(text), ") Z ")
}

func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
