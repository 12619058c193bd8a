//go:build unix

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// pageFile is a block of a page that has the name of a file.
func pageFile(t *testing.T, page, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range docBlock.FindAllStringSubmatch(string(text), -1) {
		if m[1] == name {
			return m[3]
		}
	}
	t.Fatalf("%s has no block %s", page, name)
	return ""
}

// terminal starts a line of shell, in the directory of the stream, which runs until the test ends.
func (s *stream) terminal(line string, env []string) *program {
	s.t.Helper()
	log, err := os.CreateTemp(s.dir, "terminal-*.log")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("sh", "-c", "exec env "+line)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, env, log, log
	p := &program{Process: kafkatest.StartProcess(s.t, cmd, ""), s: s, args: []string{line}, log: log.Name()}
	s.t.Cleanup(func() {
		p.Kill()
		if s.t.Failed() {
			s.t.Logf("%s ended its log with:\n%s", line, lastLines(p.log, 40))
		}
	})
	return p
}

// awaitLines waits until a file has so many lines, while programs live, and returns them.
func (s *stream) awaitLines(path string, lines int64, programs ...*program) []string {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text, _ := os.ReadFile(path) // it may not be there yet
		found := strings.SplitAfter(string(text), "\n")
		if found = found[:len(found)-1]; int64(len(found)) >= lines { // without what is not a whole line yet
			return found
		}
		for _, p := range programs {
			p.alive()
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s has %d of %d lines after 2 minutes", path, len(found), lines)
		}
	}
}

// sinkReads runs a sink of Kafka Connect on the output, as docs/bridges.md has it for Avro, and returns its lines.
func (s *stream) sinkReads(r *kafkatest.Registry, lines int) []string {
	s.t.Helper()
	var worker strings.Builder
	for line := range strings.Lines(pageFile(s.t, "bridges.md", "connect.properties")) {
		if !strings.HasPrefix(line, "value.converter") {
			worker.WriteString(line)
		}
	}
	worker.WriteString(pageFile(s.t, "bridges.md", "avro.properties"))
	ours := strings.NewReplacer("localhost:9092", s.Addrs()[0], "http://localhost:8080/apis/registry/v2", strings.Replace(r.URL, "ccompat/v7", "registry/v2", 1),
		"pump-json", s.topic("out"))
	for name, text := range map[string]string{"worker.properties": worker.String(), "sink.properties": pageFile(s.t, "bridges.md", "sink.properties")} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(ours.Replace(text)), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	p := s.terminal(kafkatest.ConnectScript(s.t, s.dir)+" worker.properties sink.properties", os.Environ())
	return s.awaitLines(filepath.Join(s.dir, "whitened.txt"), int64(lines), p)
}
