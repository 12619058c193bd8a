//go:build unix

package e2e_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// wrongBrokers are the ways in which an address is wrong: nothing listens, the name does not exist, and something
// listens that never answers, as behind a firewall.
func wrongBrokers(t *testing.T) map[string]string {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	return map[string]string{"nothing listens": testtools.Address(t), "no such name": "nowhere.invalid:9092", "no answer": silent.Addr().String()}
}

// Every command says within 5 seconds that no broker answers, and that it tries again. Those that only look then end.
func TestWrongBrokerIsSaid(t *testing.T) {
	t.Parallel()
	const stays = "run learn transform"
	commands := []string{"run", "learn", "transform", "replay", "init events", "inspect events", "doctor", "topics init", "topics check", "offsets show",
		"offsets reset --to earliest", "snapshot list", "snapshot show", "snapshot diff 1 2", "snapshot export -o model.json", "episodes list --set alarms.topic=alarms"}
	var asked []*question
	for fault, address := range wrongBrokers(t) {
		if fault != "nothing listens" { // all go the same way: one of each kind
			commands = []string{"run", "snapshot list", "topics init", "doctor"}
		}
		file := filepath.Join(t.TempDir(), "stream.yaml")
		text := "kafka: {brokers: [" + address + "]}\nsource: {topic: events, features: [a, b]}\nhttp: {listen: \"\"}\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, command := range commands {
			asked = append(asked, ask(t, command, file, fault, address))
		}
	}
	for _, q := range asked {
		t.Run(q.name, func(t *testing.T) {
			<-q.heard
			if !strings.Contains(q.String(), q.address) {
				t.Fatalf("nothing about %s after %v:\n%s", q.address, saidWithin, q)
			}
			command, _, _ := strings.Cut(q.name, ",")
			if command != "doctor" && !strings.Contains(q.String(), `"gives_up_after":`) {
				t.Errorf("it does not say how long it tries again:\n%s", q)
			}
			if strings.Contains(stays, command) {
				_ = q.cmd.Process.Kill()
				if code := exitCode(<-q.ended); code != -1 { // of what is killed
					t.Errorf("it ended by itself with exit code %d\n%s", code, q)
				}
			} else if code := exitCode(<-q.ended); code != 2 {
				t.Errorf("exit code %d, want 2\n%s", code, q)
			}
			plain(t, q.String())
		})
	}
}

// plain fails if an operator would read names of packages.
func plain(t *testing.T, text string) {
	t.Helper()
	for _, of := range []string{"source: ", "kafkaconn: ", "pipeline: ", "topics: ", "sink: ", "kafka.("} {
		if strings.Contains(text, of) {
			t.Errorf("it says %q:\n%s", of, text)
		}
	}
}

// saidWithin is how long a command may be silent: 5 seconds, and as many more as twenty that start at once may need.
const saidWithin = 8 * time.Second

// question is a command that runs, and what it has said.
type question struct {
	name, address string
	cmd           *exec.Cmd
	heard         <-chan time.Time
	ended         chan error

	mu   sync.Mutex
	text bytes.Buffer
}

func ask(t *testing.T, command, file, fault, address string) *question {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	q := &question{name: command + ", " + fault, address: address, ended: make(chan error, 1)}
	q.cmd = exec.Command(bin, append(strings.Fields(command), "-c", file)...)
	q.cmd.Dir, q.cmd.Stdout, q.cmd.Stderr = t.TempDir(), q, q
	if err := q.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	q.heard = time.After(saidWithin)
	go func() { q.ended <- q.cmd.Wait() }()
	return q
}

// Write is called with the output of the command.
func (q *question) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.text.Write(p)
}

func (q *question) String() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.text.String()
}
