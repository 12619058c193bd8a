package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// result is what a contestant did.
type result struct {
	Messages int
	CPU      float64 // seconds, of all its threads
	Wall     float64 // seconds
	RSS      float64 // MiB at its height
}

// process is lca-stream under measurement.
type process struct {
	cmd     *exec.Cmd
	url     string
	startup float64 // seconds of processor time until it served HTTP
}

func start(b *testing.B, binary string, args []string) *process {
	b.Helper()
	cmd := exec.Command(binary, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+threads())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	found, url := make(chan string, 1), regexp.MustCompile(`"url":"([^"]+)"`)
	go func() {
		var log strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			if m := url.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				_, _ = io.Copy(io.Discard, stderr)
				return
			}
		}
		found <- "process ended: " + log.String()
	}()
	p := &process{cmd: cmd, url: <-found}
	if !strings.HasPrefix(p.url, "http") {
		b.Fatal(p.url)
	}
	p.startup = cpuOf(b, cmd.Process.Pid)
	return p
}

// cpuOf is the processor time that a running process has taken, in seconds.
func cpuOf(b *testing.B, pid int) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')'):])) // the name before may hold anything
	user, err1 := strconv.ParseFloat(fields[12], 64)
	system, err2 := strconv.ParseFloat(fields[13], 64)
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	return (user + system) / 100 // Linux counts in hundredths, whatever its clock
}

// threads is GOMAXPROCS of what is measured: THREADS, or 2.
func threads() string {
	if t := os.Getenv("THREADS"); t != "" {
		return t
	}
	return "2"
}

// await polls the metrics until one line matches.
func (p *process) await(b *testing.B, pattern string) {
	b.Helper()
	want := regexp.MustCompile("(?m)" + pattern)
	var body []byte
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		resp, err := http.Get(p.url + "metrics")
		if err != nil {
			b.Fatal(err)
		}
		body, _ = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want.Match(body) {
			return
		}
	}
	b.Fatalf("%s never came:\n%s", pattern, body)
}

// awaitCount polls a metric until it is at least so large.
func (p *process) awaitCount(b *testing.B, metric string, least int) {
	b.Helper()
	last := 0.0
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if last = p.value(b, metric); int(last) >= least {
			return
		}
	}
	b.Fatalf("%s is %v, want %d", metric, last, least)
}

// value is a metric as it is now, 0 where there is none yet.
func (p *process) value(b *testing.B, metric string) float64 {
	b.Helper()
	resp, err := plain().Get(p.url + "metrics")
	if err != nil {
		b.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	m := regexp.MustCompile(`(?m)^` + metric + ` (\S+)$`).FindSubmatch(body)
	if m == nil {
		return 0
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// plain asks for nothing compressed: what is measured should not spend its time on that.
func plain() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
}

// kill ends the process where it stands.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// profile writes the process's CPU profile of some seconds.
func (p *process) profile(b *testing.B, path string) { p.save(b, "profile?seconds=3", path) }

// save writes what the process answers at one of its debug endpoints.
func (p *process) save(b *testing.B, what, path string) {
	resp, err := http.Get(p.url + "debug/pprof/" + what)
	if err != nil {
		b.Log(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	f, err := os.Create(path)
	if err == nil {
		_, err = io.Copy(f, resp.Body)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		b.Log(err)
	}
}

// stop ends the process in order and returns what it took.
func (p *process) stop(b *testing.B) result {
	b.Helper()
	peak := testtools.PeakMiB(b, p.cmd.Process.Pid)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return result{CPU: spent(p.cmd) - p.startup, RSS: float64(peak)} // without the start, as the rival's imports do not count
}

// spent is the processor time of a process that has ended, in seconds.
func spent(cmd *exec.Cmd) float64 {
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// rival runs testdata/rival.py to its end; it measures itself, so that its imports do not count.
func rival(b *testing.B, what string, config map[string]any) result {
	b.Helper()
	line, err := json.Marshal(config)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(testtools.BenchPython(b), "testdata/rival.py", what, string(line))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	return lastLine(b, cmd)
}

// lastLine runs a command whose last line is its result.
func lastLine(b *testing.B, cmd *exec.Cmd) result {
	b.Helper()
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var r result
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return r
}
