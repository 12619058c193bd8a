//go:build unix

package testtools

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// RunPython runs a script in the interpreter of Python and returns what it prints. Such scripts read
// what we write with programs that share no code with ours; one that finds a fault ends with an
// error, which fails the test.
func RunPython(t testing.TB, script string, args ...string) string {
	t.Helper()
	cmd := exec.Command(Python(t), append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("python %s %s: %v\n%s%s", script, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}
