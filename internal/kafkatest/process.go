//go:build unix

package kafkatest

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// process is a child in a process group of its own, with a watchdog that kills the group and
// removes its directory when this test binary ends without having done so: a panic, a timeout or
// a kill -9 leaves no broker behind.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended
	dog  *exec.Cmd
	tell io.WriteCloser
}

// watchdog waits for a word on stdin. Its end without a word means that the test binary is gone.
const watchdog = `read word || { kill -9 -"$1"; rm -rf "$2"; } 2>/dev/null`

func startProcess(t testing.TB, cmd *exec.Cmd, dir string) *process {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("kafkatest: start %s: %v", cmd.Path, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
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
		p.kill()
		t.Fatalf("kafkatest: start the watchdog: %v", err)
	}
	p.tell = tell
	return p
}

// kill ends the whole group with SIGKILL and waits for the child.
func (p *process) kill() {
	select {
	case <-p.done: // it is gone, and its number may be somebody else's by now
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
