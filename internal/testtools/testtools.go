//go:build unix

// Package testtools brings what tests need besides Go: a Python with pinned packages, Helm,
// Prometheus, promtool and a browser. Each is made once, on first use, in the user's cache directory, and shared by all
// tests of all checkouts:
//
//	$XDG_CACHE_HOME/lca-stream/python/HASH/venv/bin/python
//	$XDG_CACHE_HOME/lca-stream/helm/VERSION/helm
//	$XDG_CACHE_HOME/lca-stream/prometheus/VERSION/prometheus, promtool
//
// What it cannot bring (python3 itself, Chromium) it asks for: a missing program fails the test and
// says how to install it. Nothing is skipped, since a suite that passes without its judges has proved nothing.
package testtools

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// HelmVersion is the Helm that charts are tested with.
const HelmVersion = "v3.22.0"

//go:embed requirements.txt
var requirements []byte

//go:embed requirements-bench.txt
var benchRequirements []byte

// Tool finds a program in PATH, or fails the test saying what it is for and how to get it.
func Tool(t testing.TB, name, why, debian, mac string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is needed %s, and is not in PATH.\nInstall it: %s (Debian, Ubuntu) or %s (macOS).", name, why, debian, mac)
	}
	return path
}

// CacheDir returns (and makes) a directory below the project's in the user's cache.
func CacheDir(t testing.TB, parts ...string) string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("no cache directory: %v; set XDG_CACHE_HOME", err)
	}
	dir := filepath.Join(append([]string{base, "lca-stream"}, parts...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Lock keeps other test binaries out of dir until the returned function is called; the system gives
// the lock back when a process dies.
func Lock(t testing.TB, dir string) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatalf("lock %s: %v", dir, err)
	}
	return func() { _ = f.Close() }
}

// Python returns the interpreter of a virtual environment with the packages of requirements.txt.
func Python(t testing.TB) string { t.Helper(); return environment(t, requirements) }

// BenchPython is Python with what the rivals of the benchmarks are written with; no test needs it.
func BenchPython(t testing.TB) string { t.Helper(); return environment(t, benchRequirements) }

func environment(t testing.TB, requirements []byte) string {
	t.Helper()
	sum := sha256.Sum256(requirements)
	home := CacheDir(t, "python", hex.EncodeToString(sum[:6]))
	defer Lock(t, home)()
	venv := filepath.Join(home, "venv")
	python := filepath.Join(venv, "bin", "python")
	if exists(filepath.Join(home, "complete")) {
		return python
	}
	python3 := Tool(t, "python3", "to read what we write with pyarrow and confluent-kafka", "apt-get install python3 python3-venv", "brew install python")
	wanted := filepath.Join(home, "requirements.txt")
	if err := os.WriteFile(wanted, requirements, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("making a Python environment in %s", home)
	run(t, "Is python3-venv installed (Debian: apt-get install python3-venv)?", python3, "-m", "venv", "--clear", venv)
	run(t, "Is the Python package index reachable?", python, "-m", "pip", "install", "--quiet", "--no-input", "--only-binary=:all:", "-r", wanted)
	if err := os.WriteFile(filepath.Join(home, "complete"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return python
}

// Helm returns the Helm program, built from source by Go: it needs no download but the modules.
func Helm(t testing.TB) string {
	t.Helper()
	home := CacheDir(t, "helm", HelmVersion)
	defer Lock(t, home)()
	helm := filepath.Join(home, "helm")
	if exists(helm) {
		return helm
	}
	t.Logf("building Helm %s into %s: a few minutes, once", HelmVersion, home)
	cmd := exec.Command("go", "install", "helm.sh/helm/v3/cmd/helm@"+HelmVersion)
	cmd.Env = append(os.Environ(), "GOBIN="+home, "GOFLAGS=")
	cmd.Dir = home // outside any module
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s\nIs the Go module proxy reachable?", cmd, err, out)
	}
	return helm
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func run(t testing.TB, remedy string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", cmd, err, out, remedy)
	}
}

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

// Chromium returns a browser that runs without a screen: any Chromium or Chrome in PATH.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return Tool(t, "chromium", "to test the status page as a browser shows it", "apt-get install chromium-headless-shell fonts-dejavu-core", "brew install --cask chromium")
}

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

//go:embed requirements-spark.txt
var sparkRequirements []byte

// icebergRuntime reads and writes Iceberg tables in Spark 4.1.
const icebergRuntime = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"

// SparkPython is Python with Spark, half a gigabyte. No test of `make test` needs it.
func SparkPython(t testing.TB) string {
	t.Helper()
	Tool(t, "java", "to run Spark", "apt-get install default-jre-headless", "brew install openjdk")
	return environment(t, sparkRequirements)
}

// IcebergJar returns the jar that Spark reads Iceberg tables with.
func IcebergJar(t testing.TB) string {
	t.Helper()
	home := CacheDir(t, "iceberg")
	defer Lock(t, home)()
	jars := func() []string {
		found, _ := filepath.Glob(filepath.Join(home, "iceberg-*.jar")) // the pattern is right
		return found
	}
	if len(jars()) == 0 {
		mvn := Tool(t, "mvn", "to fetch Iceberg from Maven Central, once", "apt-get install maven", "brew install maven")
		run(t, "Is Maven Central reachable? A mirror is set in ~/.m2/settings.xml.", mvn, "-B", "-q", "dependency:get", "-Dtransitive=false", "-Dartifact="+icebergRuntime)
		run(t, "It was fetched just before.", mvn, "-B", "-q", "dependency:copy", "-Dartifact="+icebergRuntime, "-DoutputDirectory="+home)
	}
	found := jars()
	if len(found) != 1 {
		t.Fatalf("%v: want one jar, %s", found, icebergRuntime)
	}
	return found[0]
}

// Spark returns the directory of Spark within SparkPython.
func Spark(t testing.TB) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(SparkPython(t)), "../lib/python3*/site-packages/pyspark")) // the pattern is right
	if len(found) != 1 {
		t.Fatalf("%v: want one directory of Spark", found)
	}
	return found[0]
}

// ProcessorTime is the processor time that this process has had, the garbage collector's included: wall time says little on a machine that others use.
func ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// PeakMiB is the largest resident size that a running process has had, on Linux. The Maxrss of a process that has ended is no
// measure of it: it counts the program that started it, too, because the kernel keeps that maximum across exec.
func PeakMiB(t testing.TB, pid int) int {
	t.Helper()
	mebibytes, err := peak(pid)
	if err != nil {
		t.Fatal(err)
	}
	return mebibytes
}

// WatchPeak looks at a process until it ends, and returns a function that waits for that and says what PeakMiB was.
func WatchPeak(pid int) (mebibytes func() int) {
	result := make(chan int)
	go func() {
		most := 0
		for {
			now, err := peak(pid)
			if err != nil {
				result <- most
				return
			}
			most = max(most, now)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() int { return <-result }
}

var resident = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

func peak(pid int) (mebibytes int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	m := resident.FindSubmatch(status)
	if m == nil { // it has ended
		return 0, fmt.Errorf("no VmHWM in %s", status)
	}
	kib, err := strconv.Atoi(string(m[1]))
	return kib >> 10, err
}

// Ports returns n TCP ports of 127.0.0.1 for programs that listen later, or again after a restart. They are the test's until it ends: the holder of a number's
// UDP port may take its TCP port, and no two programs can hold one, so that tests of any checkout that are at work at the same time have different ports. They are
// below the range from which systems take the ports of outgoing connections (32768 and up).
func Ports(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for try := 0; len(ports) < n && try < 1000; try++ {
		if port := 12000 + rand.IntN(20000); hold(t, port) {
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		t.Fatalf("no %d free ports in 12000–32000", n)
	}
	return ports
}

// hold takes a port for the test, unless it is another's.
func hold(t testing.TB, port int) bool {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	held, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", address)
	if err != nil { // a program that knows nothing of this
		_ = held.Close()
		return false
	}
	_ = l.Close()
	t.Cleanup(func() { _ = held.Close() })
	return true
}

// Address is 127.0.0.1 with one of Ports.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Ports(t, 1)[0])
}
