//go:build unix

package kafkatest

import (
	"bytes"
	"cmp"
	"embed"
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
	ports := testtools.Ports(t, s.Nodes*(2+2*len(more)))
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

//go:embed poms/*.xml
var poms embed.FS

// copyJars is the Maven goal that fetches what a pom names and all it needs.
const copyJars = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// Jars returns a directory with the jars of a pom, which is named after what it fetches. It is made once, under the user's
// cache directory, and shared by all tests of all checkouts:
//
//	$XDG_CACHE_HOME/lca-stream/kafka/kafka-4.1.0/jars/*.jar
func Jars(t testing.TB, pomName string) string {
	t.Helper()
	home := testtools.CacheDir(t, "kafka", pomName)
	defer testtools.Lock(t, home)()
	dir := filepath.Join(home, "jars")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	mvn := testtools.Tool(t, "mvn", "to fetch Kafka and a schema registry from Maven Central, once", "apt-get install maven", "brew install maven")
	pom, err := poms.ReadFile("poms/" + pomName + ".xml")
	if err != nil {
		t.Fatalf("kafkatest: no pom for %s: %v", pomName, err)
	}
	// Made under another name: an interrupted download must not look like a whole one.
	part, err := os.MkdirTemp(home, "part-")
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	defer func() { _ = os.RemoveAll(part) }()
	pomFile := filepath.Join(part, "pom.xml")
	if err := os.WriteFile(pomFile, pom, 0o644); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	t.Logf("kafkatest: fetching the jars of %s into %s", pomName, dir)
	cmd := exec.Command(mvn, "-B", "-q", "-f", pomFile, copyJars,
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(part, "jars"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kafkatest: %s: %v\n%s\nIs Maven Central reachable? A mirror is set in ~/.m2/settings.xml.", cmd, err, out)
	}
	if err := os.Rename(filepath.Join(part, "jars"), dir); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return dir
}

// classArchive is a file with the classes of a version of Kafka as a JVM needs them (class data sharing, JEP 350). A node
// that starts with it takes half the CPU time to start. It is made once for each JVM, by a node that is stopped in order.
func classArchive(t testing.TB, k Kind) string {
	t.Helper()
	home := testtools.CacheDir(t, "kafka", string(k), "classes")
	defer testtools.Lock(t, home)()
	program, err := filepath.EvalSymlinks(java(t))
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	built, err := os.Stat(program)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	path := filepath.Join(home, fmt.Sprintf("%x.jsa", built.ModTime().UnixNano()))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	part := path + ".part"
	b := StartWith(t, k, Setup{classes: part})
	b.CreateTopic(t, "classes", 1, nil)
	b.Stop()
	if err := os.Rename(part, path); err != nil {
		t.Fatalf("kafkatest: %s made no archive of the classes of %s: %v", program, k, err)
	}
	return path
}

// connect names the pom of Kafka Connect.
const connect = "kafka-connect-4.1.0"

// ConnectJars returns the directory with the jars of Kafka Connect.
func ConnectJars(t testing.TB) string { return Jars(t, connect) }

// ConnectScript writes connect-standalone.sh, under the name that it has in Kafka's distribution, into a directory and
// returns its path. It takes the file of a worker and those of connectors.
func ConnectScript(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "connect-standalone.sh")
	text := fmt.Sprintf(`#!/bin/sh
exec '%s' -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
  -cp '%s/*' org.apache.kafka.connect.cli.ConnectStandalone "$@"
`, java(t), ConnectJars(t))
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return path
}

// serverProperties is a small KRaft node. What is not usual:
//   - log.cleaner.dedupe.buffer.size: the default of 128 MiB does not fit into a small heap;
//   - log.cleaner.backoff.ms: compaction within a test's patience;
//   - group.min.session.timeout.ms and transaction.abort…: so that tests of lost members and
//     abandoned transactions take a second, not ten;
//   - one partition for the internal topics: fewer files, and a quick start.
func serverProperties(j *javaNode, voters []string) string {
	n := len(voters)
	// No process takes over from a node by itself: Kafka's own session, so that a busy machine's pauses do
	// not fence it. A killed node registers again only when its session has ended.
	minISR, session := 1, 9000
	if n >= 3 {
		minISR, session = 2, 6000
	}
	listen := []string{"PLAINTEXT://" + local(j.port), "CONTROLLER://" + local(j.controller)}
	advertise, protocols := []string{listen[0]}, []string{"PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"}
	for _, l := range j.listeners {
		listen = append(listen, l.Name+"://"+local(l.port))
		advertise = append(advertise, l.Name+"://"+local(l.advertised()))
		protocols = append(protocols, l.Name+":"+l.Protocol)
	}
	lines := []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", j.id),
		"controller.quorum.voters=" + strings.Join(voters, ","),
		"listeners=" + strings.Join(listen, ","),
		"advertised.listeners=" + strings.Join(advertise, ","),
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=" + strings.Join(protocols, ","),
		"log.dirs=" + filepath.Join(j.dir, "data"),
		"auto.create.topics.enable=false",
		"num.partitions=1",
		fmt.Sprintf("default.replication.factor=%d", n),
		fmt.Sprintf("min.insync.replicas=%d", minISR),
		"offsets.topic.num.partitions=1",
		fmt.Sprintf("offsets.topic.replication.factor=%d", n),
		"transaction.state.log.num.partitions=1",
		fmt.Sprintf("transaction.state.log.replication.factor=%d", n),
		fmt.Sprintf("transaction.state.log.min.isr=%d", minISR),
		"transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
		"group.initial.rebalance.delay.ms=0",
		"group.min.session.timeout.ms=500",
		"log.cleaner.dedupe.buffer.size=4194304",
		"log.cleaner.io.buffer.size=65536",
		"log.cleaner.backoff.ms=500",
		"num.network.threads=2",
		"num.io.threads=4",
		"broker.heartbeat.interval.ms=500",
		fmt.Sprintf("broker.session.timeout.ms=%d", session),
		"initial.broker.registration.timeout.ms=120000",
		"controlled.shutdown.enable=true",
	}
	return strings.Join(lines, "\n") + "\n"
}

const log4j2XML = `<?xml version="1.0" encoding="UTF-8"?>
<Configuration>
  <Appenders>
    <Console name="stdout"><PatternLayout pattern="%d %p %m (%c{1})%n"/></Console>
  </Appenders>
  <Loggers>
    <Root level="info"><AppenderRef ref="stdout"/></Root>
  </Loggers>
</Configuration>
`

const log4j1Properties = `log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d %p %m (%c{1})%n
`

// LoseLogs deletes what nodes (by index; none means all) that are down have on disk of a topic: a disk
// that was lost and replaced, while the cluster still believes that they have it.
func (b *Broker) LoseLogs(t testing.TB, topic string, nodes ...int) {
	t.Helper()
	lost := 0
	for _, n := range b.pick(nodes) {
		j, ok := n.(*javaNode)
		if !ok || j.proc != nil {
			t.Fatal("kafkatest: only a node of Apache Kafka that is down can lose its logs")
		}
		dirs, err := filepath.Glob(filepath.Join(j.dir, "data", topic+"-[0-9]*"))
		for _, dir := range dirs {
			if err == nil {
				err = os.RemoveAll(dir)
			}
			lost++
		}
		if err != nil {
			t.Fatalf("kafkatest: lose %s: %v", topic, err)
		}
	}
	if lost == 0 {
		t.Fatalf("kafkatest: nothing of %s is there to be lost", topic)
	}
}

// LogBytes returns how many bytes the records of a topic take on the disks of all nodes of Apache Kafka.
func (b *Broker) LogBytes(t testing.TB, topic string) (size int64) {
	t.Helper()
	for _, n := range b.nodes {
		logs, err := filepath.Glob(filepath.Join(n.(*javaNode).dir, "data", topic+"-[0-9]*", "*.log"))
		for _, path := range logs {
			info, statErr := os.Stat(path)
			if statErr != nil {
				t.Fatalf("kafkatest: the size of %s: %v", topic, statErr)
			}
			size += info.Size()
		}
		if err != nil || len(logs) == 0 {
			t.Fatalf("kafkatest: nothing of %s is on disk: %v", topic, err)
		}
	}
	return size
}
