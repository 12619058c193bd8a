//go:build unix

package kafkatest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// javaNode is one Apache Kafka process in KRaft mode, broker and controller in one.
type javaNode struct {
	kind       Kind
	id         int
	dir        string // server.properties, log4j, data/, server.log
	port       int
	controller int
	listeners  []javaListener
	heap       int    // MiB
	classes    string // JVM option about the archive of classes
	proc       *Process
}

// javaListener is a Listener with its port, and the one that it sends clients to if that is another.
type javaListener struct {
	Listener
	port, proxy int
}

func (l javaListener) advertised() int {
	if l.proxy != 0 {
		return l.proxy
	}
	return l.port
}

// proxied is the name of the listener behind the proxies.
const proxied = "PROXIED"

// clusterID is any 22 characters of base64; all test clusters share it, so that a formatted data
// directory can be copied instead of made by another JVM.
const clusterID = "bGNhLXN0cmVhbS10ZXN0cw"

func newJavaCluster(t testing.TB, k Kind, s Setup) []*javaNode {
	t.Helper()
	more := s.Listeners
	if s.Proxied {
		more = append([]Listener{{Name: proxied, Protocol: "PLAINTEXT"}}, more...)
	}
	ports := freePorts(t, s.Nodes*(2+2*len(more)))
	port := func() int { p := ports[0]; ports = ports[1:]; return p }
	var nodes []*javaNode
	var voters []string
	classes := "-XX:ArchiveClassesAtExit=" + s.classes
	if s.classes == "" {
		classes = "-XX:SharedArchiveFile=" + classArchive(t, k)
	}
	for i := range s.Nodes {
		j := &javaNode{kind: k, id: i + 1, port: port(), controller: port(), dir: keptOnFailure(t), heap: cmp.Or(s.HeapMiB, 160), classes: classes}
		for _, l := range more {
			way := javaListener{Listener: l, port: port()}
			if l.Name == proxied {
				way.proxy = port()
			}
			j.listeners = append(j.listeners, way)
		}
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", j.id, j.controller))
		nodes = append(nodes, j)
	}
	for _, j := range nodes {
		j.write(t, "server.properties", serverProperties(j, voters)+strings.Join(append(s.Properties, ""), "\n"))
		j.write(t, "log4j2.xml", log4j2XML)
		j.write(t, "log4j.properties", log4j1Properties)
		j.format(t)
	}
	return nodes
}

// keptOnFailure is a temporary directory that stays when the test fails, so that the broker's log
// can be read.
func keptOnFailure(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lca-stream-kafka-")
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
			return
		}
		_ = os.RemoveAll(filepath.Join(dir, "data"))
		t.Logf("kafkatest: the broker's log is kept in %s; its last warnings:\n%s", dir, warnings(filepath.Join(dir, "server.log"), 10))
	})
	return dir
}

func (j *javaNode) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o644); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
}

// format puts a formatted data directory in place. Kafka's own tool makes it (a hand-written one
// would leave the cluster at transaction.version 0), once for each version and node id; then the
// result is copied, which saves a JVM start each time.
func (j *javaNode) format(t testing.TB) {
	t.Helper()
	classpath := Jars(t, string(j.kind))
	home := testtools.CacheDir(t, "kafka", string(j.kind))
	defer testtools.Lock(t, home)()
	made := filepath.Join(home, fmt.Sprintf("formatted-%d", j.id))
	if _, err := os.Stat(made); err != nil {
		cmd := exec.Command(java(t), "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", classpath+"/*:"+j.dir,
			"kafka.tools.StorageTool", "format", "-t", clusterID, "-c", filepath.Join(j.dir, "server.properties"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kafkatest: %s: %v\n%s", cmd, err, out)
		}
		if err := os.CopyFS(made+".part", os.DirFS(filepath.Join(j.dir, "data"))); err != nil {
			t.Fatalf("kafkatest: %v", err)
		}
		if err := os.Rename(made+".part", made); err != nil {
			t.Fatalf("kafkatest: %v", err)
		}
		return
	}
	if err := os.CopyFS(filepath.Join(j.dir, "data"), os.DirFS(made)); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
}

func java(t testing.TB) string {
	t.Helper()
	return testtools.Tool(t, "java", "to run a real Kafka broker", "apt-get install default-jre-headless", "brew install openjdk")
}

func (j *javaNode) start(t testing.TB) {
	t.Helper()
	if j.proc != nil {
		return
	}
	log, err := os.OpenFile(filepath.Join(j.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(java(t), "-Xms32m", fmt.Sprintf("-Xmx%dm", j.heap), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", j.classes,
		"-Dlog4j.configuration=file:"+filepath.Join(j.dir, "log4j.properties"),
		"-Dlog4j2.configurationFile="+filepath.Join(j.dir, "log4j2.xml"),
		"-cp", Jars(t, string(j.kind))+"/*", "kafka.Kafka", filepath.Join(j.dir, "server.properties"))
	cmd.Stdout, cmd.Stderr = log, log
	j.proc = StartProcess(t, cmd, j.dir)
	// A node that dies at once (a port taken meanwhile, a bad setting) should not be waited for.
	select {
	case <-j.proc.done:
		t.Fatalf("kafkatest: %s ended at once:\n%s", j.kind, tail(filepath.Join(j.dir, "server.log"), 20))
	case <-time.After(500 * time.Millisecond):
	}
}

func (j *javaNode) kill(testing.TB) {
	if j.proc != nil {
		j.proc.Kill()
		j.proc = nil
	}
}

func (j *javaNode) stop(t testing.TB) {
	t.Helper()
	if j.proc == nil {
		return
	}
	j.proc.Terminate()
	select {
	case <-j.proc.done:
	case <-time.After(60 * time.Second):
		t.Errorf("kafkatest: %s did not end within 60 s of SIGTERM", j.kind)
	}
	j.kill(t)
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > 64<<10 {
		_, _ = f.Seek(-64<<10, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	all := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// warnings returns the last lines of a log that are more than information.
func warnings(path string, lines int) string {
	var found []string
	for line := range strings.Lines(tail(path, 1000)) {
		if strings.Contains(line, " WARN ") || strings.Contains(line, " ERROR ") || strings.Contains(line, " FATAL ") || strings.Contains(line, "Exception") {
			found = append(found, line)
		}
	}
	return strings.Join(found[max(0, len(found)-lines):], "")
}
