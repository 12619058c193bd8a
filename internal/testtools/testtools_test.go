//go:build unix

package testtools

import (
	"os/exec"
	"strings"
	"testing"
)

func TestPythonHasItsPackages(t *testing.T) {
	python := Python(t)
	out, err := exec.Command(python, "-c", "import pyarrow, numpy, confluent_kafka, polars, duckdb, qdrant_client, chdb; print(pyarrow.__version__)").CombinedOutput()
	if err != nil || !strings.Contains(string(requirements), "pyarrow=="+strings.TrimSpace(string(out))) {
		t.Errorf("%s: %v", out, err)
	}
	if again := Python(t); again != python {
		t.Errorf("a second call made %s next to %s", again, python)
	}
}

func TestHelmIsTheOneThatIsPinned(t *testing.T) {
	out, err := exec.Command(Helm(t), "version", "--short").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "v3.") {
		t.Errorf("%s: %v", out, err)
	}
}

func TestPrometheusIsTheOneThatIsPinned(t *testing.T) {
	out, err := exec.Command(Promtool(t), "check", "metrics", "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "check metrics") {
		t.Errorf("%s: %v", out, err)
	}
	out, err = exec.Command(Prometheus(t), "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--storage.tsdb.path") {
		t.Errorf("%s: %v", out, err)
	}
}
