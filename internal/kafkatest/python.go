//go:build unix

package kafkatest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed requirements.txt
var requirements []byte

// Python runs a script with the libraries of requirements.txt and returns what it prints. What we
// write is read there by programs that share no code with ours; a script that finds a fault ends
// with an error, which fails the test. workdir is where it runs; "" means the test's package.
//
// The interpreter is made once for each requirements.txt, under the user's cache directory:
//
//	$XDG_CACHE_HOME/lca-stream/python/HASH/bin/python
func Python(t testing.TB, workdir, script string, args ...string) string {
	t.Helper()
	cmd := exec.Command(interpreter(t), append([]string{script}, args...)...)
	cmd.Dir = workdir
	cmd.Env = append(os.Environ(), "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("kafkatest: python %s %s: %v\n%s%s", script, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

func interpreter(t testing.TB) string {
	t.Helper()
	sum := sha256.Sum256(requirements)
	home := cacheDir(t, "python")
	defer lock(t, home)()
	dir := filepath.Join(home, hex.EncodeToString(sum[:6]))
	python := filepath.Join(dir, "bin", "python")
	// Written last: an interrupted installation must not look like a whole one.
	done := filepath.Join(dir, "requirements.txt")
	if _, err := os.Stat(done); err == nil {
		return python
	}
	system := tool(t, "python3", "to read our bytes with pyarrow and others", "apt-get install python3-venv", "brew install python")
	t.Logf("kafkatest: installing Python libraries into %s", dir)
	for _, cmd := range []*exec.Cmd{
		exec.Command(system, "-m", "venv", "--clear", dir),
		exec.Command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", writeTemp(t, requirements)),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kafkatest: %s: %v\n%s\nAre python3-venv installed and PyPI reachable? A mirror is set in pip.conf.", cmd, err, out)
		}
	}
	if err := os.WriteFile(done, requirements, 0o644); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return python
}

func writeTemp(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "requirements.txt")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return path
}
