//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// The package of python/, built as a wheel and installed from it, computes what a real run wrote; LCATransformer keeps
// scikit-learn's conventions, by its own checks. The tests are those of python/tests.
func TestPythonPackage(t *testing.T) {
	t.Parallel()
	installed := installPackage(t)
	s := whitenedOnEmbedded(t, "student")
	cmd := exec.Command(testtools.Python(t), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error::RuntimeWarning", filepath.Join(packageSource, "tests"))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "SCIPY_ARRAY_API=1", "PYTHONPATH="+installed, "LCA_STREAM="+s.path(),
		"LCA_BROKERS="+s.Addrs()[0], "LCA_OUTPUT=whitened", "LCA_SNAPSHOTS=lca-snapshots", fmt.Sprintf("LCA_ROWS=%d", whitenedRows))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	s.whitensFiles(t)
}

const packageSource = "../../python"

// installPackage builds the wheel of python/ and returns a directory with what it installs.
func installPackage(t *testing.T) string {
	t.Helper()
	dir, python := t.TempDir(), testtools.Python(t)
	pip := func(args ...string) {
		t.Helper()
		args = append([]string{"-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"}, args...)
		if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
			t.Fatalf("pip %v: %v\n%s", args, err, out)
		}
	}
	pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dir, packageSource)
	wheels, err := filepath.Glob(filepath.Join(dir, "lca_stream-*-py3-none-any.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("one pure wheel is wanted, not %v (%v)", wheels, err)
	}
	installed := filepath.Join(dir, "site")
	pip("install", "--no-deps", "--target", installed, wheels[0])
	return installed
}
