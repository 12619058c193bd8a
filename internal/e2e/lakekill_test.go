//go:build linux && lake

package e2e_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killSumming kills an executor of a job, a descendant of a process, while lca-stream sums a part for it.
func killSumming(ctx context.Context, job int) error {
	for ctx.Err() == nil {
		processes, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		for _, p := range processes {
			if executor := executorOf(p, job); executor > 0 && strings.Contains(commandOf(p), "\x00expect\x00") {
				return syscall.Kill(executor, syscall.SIGKILL)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("no executor was seen summing")
}

// executorOf returns the executor of a job that a process descends from, 0 if there is none.
func executorOf(process string, job int) (executor int) {
	for ; process != ""; process = parentOf(process) {
		pid, err := strconv.Atoi(filepath.Base(process))
		switch {
		case err != nil:
			return 0
		case pid == job:
			return executor
		case strings.Contains(commandOf(process), "CoarseGrainedExecutorBackend"):
			executor = pid
		}
	}
	return 0
}

func commandOf(process string) string {
	command, _ := os.ReadFile(process + "/cmdline") // it may have ended
	return string(command)
}

func parentOf(process string) string {
	status, _ := os.ReadFile(process + "/status") // it may have ended
	_, after, found := strings.Cut(string(status), "\nPPid:\t")
	parent, _, _ := strings.Cut(after, "\n")
	if !found || parent == "0" {
		return ""
	}
	return "/proc/" + parent
}
