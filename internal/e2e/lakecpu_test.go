//go:build linux && lake

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// seconds are the CPU seconds of a job: of all its processes, and of those among them that run our program.
type seconds struct {
	all, program float64
}

// beyond returns the mean of n equal shares of what a job used beyond another one.
func (s seconds) beyond(rest seconds, n float64) seconds {
	return seconds{(s.all - rest.all) / n, (s.program - rest.program) / n}
}

// spark is what is not the program's.
func (s seconds) spark() float64 { return s.all - s.program }

// cpu returns the CPU seconds of a command and all its descendants.
func (l *lake) cpu(command ...string) float64 {
	l.t.Helper()
	used, err := strconv.ParseFloat(strings.TrimSpace(l.script(append([]string{"cpu"}, command...)...)), 64)
	if err != nil {
		l.t.Fatal(err)
	}
	return used
}

// measured runs a command of the job on two cores. Its processes are counted from outside, and each run of the program by a shell around it, so
// that a process which the one misses shows in the other.
func (l *lake) measured(args ...string) (s seconds) {
	l.t.Helper()
	dir := l.t.TempDir()
	around := *l
	around.built = filepath.Join(dir, filepath.Base(l.built))
	around.conf = append([]string{"--conf", "spark.python.daemon.module=lakedaemon"}, l.conf...)
	script := fmt.Sprintf("#!/bin/bash\n'%s' \"$@\"\ncode=$?\ntimes > '%s'/$$.times\nexit $code\n", l.built, dir)
	if err := os.WriteFile(around.built, []byte(script), 0o755); err != nil {
		l.t.Fatal(err)
	}
	l.t.Setenv("PYTHONPATH", absolute(l.t, "testdata"))
	s.all = l.cpu(around.job("local[2]", args...).Args...)
	left, err := filepath.Glob(filepath.Join(dir, "*.times"))
	if err != nil || len(left) == 0 {
		l.t.Fatalf("no run of the program left its times: %v", err)
	}
	for _, path := range left {
		s.program += l.times(path)
	}
	return s
}

// times returns the sum of what the shell's times has written: minutes and seconds, of itself and of its children.
func (l *lake) times(path string) (sum float64) {
	l.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, field := range strings.Fields(string(text)) {
		d, err := time.ParseDuration(field)
		if err != nil {
			l.t.Fatal(err)
		}
		sum += d.Seconds()
	}
	return sum
}
