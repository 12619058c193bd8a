//go:build unix

package testtools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PromtoolVersion is the Prometheus whose promtool judges metrics and alert rules: v0.315 is 3.15.
const PromtoolVersion = "v0.315.0"

// Promtool returns Prometheus' own checker, built from source. It is built within its module, so
// that every dependency is the one that Prometheus' go.sum names (`go install` refuses modules
// that replace others), and without service discovery, which is most of it.
func Promtool(t testing.TB) string {
	t.Helper()
	home := CacheDir(t, "promtool", PromtoolVersion)
	defer Lock(t, home)()
	promtool := filepath.Join(home, "promtool")
	if exists(promtool) {
		return promtool
	}
	t.Logf("building promtool %s into %s: a few minutes, once", PromtoolVersion, home)
	download := exec.Command("go", "mod", "download", "-json", "github.com/prometheus/prometheus@"+PromtoolVersion)
	download.Dir = home // outside any module
	download.Stderr = os.Stderr
	answer, err := download.Output()
	var module struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(answer, &module); err != nil || jsonErr != nil || module.Dir == "" {
		t.Fatalf("%s: %v\n%s\nIs the Go module proxy reachable?", download, err, answer)
	}
	build := exec.Command("go", "build", "-tags", "remove_all_sd", "-o", promtool, "./cmd/promtool")
	build.Dir = module.Dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s\nIs the Go module proxy reachable?", build, err, out)
	}
	return promtool
}
