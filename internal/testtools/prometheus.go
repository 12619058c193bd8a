//go:build unix

package testtools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PrometheusVersion is the Prometheus that reads our metrics, and whose promtool judges them and the alert rules:
// v0.315 is 3.15.
const PrometheusVersion = "v0.315.0"

// Promtool returns Prometheus' own checker.
func Promtool(t testing.TB) string { t.Helper(); return fromPrometheus(t, "promtool") }

// Prometheus returns the server, without the pages that people look at.
func Prometheus(t testing.TB) string { t.Helper(); return fromPrometheus(t, "prometheus") }

// fromPrometheus returns one of Prometheus' programs, built from source. It is built within its module, so that every
// dependency is the one that Prometheus' go.sum names (`go install` refuses modules that replace others), and without
// service discovery, which is most of it.
func fromPrometheus(t testing.TB, name string) string {
	t.Helper()
	home := CacheDir(t, "prometheus", PrometheusVersion)
	defer Lock(t, home)()
	program := filepath.Join(home, name)
	if exists(program) {
		return program
	}
	t.Logf("building %s %s into %s: a few minutes, once", name, PrometheusVersion, home)
	download := exec.Command("go", "mod", "download", "-json", "github.com/prometheus/prometheus@"+PrometheusVersion)
	download.Dir = home // outside any module
	download.Stderr = os.Stderr
	answer, err := download.Output()
	var module struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(answer, &module); err != nil || jsonErr != nil || module.Dir == "" {
		t.Fatalf("%s: %v\n%s\nIs the Go module proxy reachable?", download, err, answer)
	}
	build := exec.Command("go", "build", "-tags", "remove_all_sd", "-o", program, "./cmd/"+name)
	build.Dir = module.Dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s\nIs the Go module proxy reachable?", build, err, out)
	}
	return program
}
