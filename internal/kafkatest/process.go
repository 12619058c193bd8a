//go:build unix

package kafkatest

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// Process is a child in a process group of its own, with a watchdog that kills the group and
// removes its directory when this test binary ends without having done so: a panic, a timeout or
// a kill -9 leaves no broker behind.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended
	dog  *exec.Cmd
	tell io.WriteCloser
}

// watchdog waits for a word on stdin. Its end without a word means that the test binary is gone.
const watchdog = `read word || { kill -9 -"$1"; rm -rf "$2"; } 2>/dev/null`

// StartProcess starts cmd so that it cannot outlive the test binary; dir, if there is one, goes with
// it. The test calls Kill in the end.
func StartProcess(t testing.TB, cmd *exec.Cmd, dir string) *Process {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("kafkatest: start %s: %v", cmd.Path, err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait()
	}()
	p.dog = exec.Command("sh", "-c", watchdog, "watchdog", strconv.Itoa(cmd.Process.Pid), dir)
	p.dog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tell, err := p.dog.StdinPipe()
	if err == nil {
		err = p.dog.Start()
	}
	if err != nil {
		p.Kill()
		t.Fatalf("kafkatest: start the watchdog: %v", err)
	}
	p.tell = tell
	return p
}

// Kill ends the whole group with SIGKILL and waits for the child.
func (p *Process) Kill() {
	select {
	case <-p.done: // it is gone, and its number may be another process's by now
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
	if p.tell != nil {
		_, _ = io.WriteString(p.tell, "done\n")
		_ = p.tell.Close()
		_ = p.dog.Wait()
		p.tell = nil
	}
}

// Terminate asks the child to end, with SIGTERM.
func (p *Process) Terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// Quit ends the child, which is a Go program, and makes it print where its goroutines stand (SIGQUIT).
func (p *Process) Quit() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) }

// Pause makes the child stand still (SIGSTOP), as a machine that is out of memory or suspended does.
func (p *Process) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets it go on (SIGCONT).
func (p *Process) Resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Pid is its process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the child's, once it is done; −1 when a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }
