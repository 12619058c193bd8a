//go:build unix

package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// programs is the directory of the builds of the program: binary, once for all tests of the package, and marked, with the places where it may be
// told to end.
var (
	programs string
	binary   = sync.OnceValues(func() (string, error) { return build("lca-stream", "") })
	marked   = sync.OnceValues(func() (string, error) {
		return build("lca-stream-failpoints", "-X github.com/lca-stream/lca-stream/internal/failpoint.armed=yes")
	})
)

func build(name, link string) (string, error) {
	path := filepath.Join(programs, name)
	if out, err := exec.Command("go", "build", "-ldflags=-w "+link, "-o", path, "../../cmd/lca-stream").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

func TestMain(m *testing.M) {
	_ = os.Unsetenv("GOGC") // make test sets it, for the tests and not for the program
	dir, err := os.MkdirTemp("", "lca-stream-e2e-")
	if err != nil {
		log.Fatal(err)
	}
	programs = dir
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue { // one a core, and these wait more than they compute
		_ = flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0))))
	}
	code := kafkatest.Tests{M: m}.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// withPlaces is the program that ends at a marked place, which LCA_STREAM_FAILPOINT names.
func withPlaces(t *testing.T) string {
	t.Helper()
	path, err := marked()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// stream is one test's topics on a broker, and the configuration that names them.
type stream struct {
	*kafkatest.Broker
	t    *testing.T
	name string
	file string // configuration
	dir  string // logs
	bin  string // the program, if not the usual build
	env  string // one more variable of the programs started from now on

	former    bool   // the first edition has written some of the output
	why       int    // transform.why
	budget    string // alarms.budget
	byKey     bool   // model.by: key
	series    string // transform.series, if not the default
	onInvalid string // source.on_invalid, if not the default
	registry  string // URL of the schemas that messages name
}

// settings are what a test changes in the configuration; the rest makes many versions in little time.
type settings struct {
	partitions int
	static     bool     // source.partitions: all of them in each process, instead of by group
	features   string   // YAML list
	why        int      // transform.why
	series     string   // transform.series, if not the default
	imputes    bool     // source.on_invalid: impute
	budget     string   // alarms.budget; "": there is no topic of alarms
	kafka      string   // further YAML of kafka, after a comma
	brokers    []string // other addresses than the broker's plain ones
	byKey      bool     // model.by: key, with little memory
	learner    string   // further YAML of lca, after a comma
	more       string   // further YAML
	rate       int      // rows per second, of tests that load steadily
	format     string   // of what tests load steadily; the default is arrow
	registry   *kafkatest.Registry
}

func newStream(t *testing.T, b *kafkatest.Broker, name string, s settings) *stream {
	t.Helper()
	st := &stream{Broker: b, t: t, name: name, dir: t.TempDir(), why: s.why, budget: s.budget, byKey: s.byKey, series: s.series}
	st.file = filepath.Join(st.dir, "stream.yaml")
	more := ""
	if s.static {
		more = fmt.Sprintf(`, partitions: ["0-%d"]`, s.partitions-1)
	}
	if s.imputes {
		st.onInvalid = "impute"
		more += ", on_invalid: impute"
	}
	if s.registry != nil {
		st.registry = s.registry.URL
		more += ", registry: {url: " + st.registry + "}"
	}
	brokers := b.Addrs()
	if s.brokers != nil {
		brokers = s.brokers
	}
	why := "" // not said where it is the default: the first edition does not know the key
	if s.why > 0 {
		why = fmt.Sprintf(", why: %d", s.why)
	}
	if s.series != "" {
		why += ", series: " + s.series
	}
	text := fmt.Sprintf(`kafka: {brokers: [%[1]s]%[6]s}
source: {topic: %[2]s-in, group: %[2]s, features: %[4]s%[3]s}
lca: {neighbours: 500, skip_when_behind: false%[8]s}
snapshot: {topic: %[2]s-snap, every_rows: 500, every: 1s}
checkpoint: {topic: %[2]s-check}
transform: {topic: %[2]s-out%[7]s}
dead_letter: {topic: %[2]s-dead, max_rejects: 1000}
http: {listen: ""}
logger: {level: debug}
%[5]s`, strings.Join(brokers, ", "), name, more, s.features, s.more, s.kafka, why, s.learner)
	if s.byKey {
		text += "model: {by: key, memory: 2MiB}\n"
	}
	if s.budget != "" {
		text += fmt.Sprintf("alarms: {topic: %s-alarms, budget: %s}\n", name, s.budget)
	}
	if err := os.WriteFile(st.file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b.CreateTopic(t, name+"-in", s.partitions, nil)
	st.command("topics", "init")
	return st
}

func (s *stream) topic(suffix string) string { return s.name + "-" + suffix }

// command runs a command to its end, which must be success.
func (s *stream) command(args ...string) string {
	s.t.Helper()
	return s.tool(append(args, "-c", s.file)...)
}

// tool runs the program with arguments that name no configuration, or name it themselves.
func (s *stream) tool(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.path(), args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out)
}

func (s *stream) path() string {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

// program is a running command, restarted as often as the test likes. Its log is one file.
type program struct {
	*kafkatest.Process
	s    *stream
	args []string
	log  string
}

func (s *stream) program(args ...string) *program {
	s.t.Helper()
	p := &program{s: s, args: args, log: filepath.Join(s.dir, args[0]+".log")}
	s.t.Cleanup(func() {
		p.Kill()
		if s.t.Failed() {
			s.t.Logf("%s ended its log with:\n%s", args[0], lastLines(p.log, 40))
		}
	})
	p.start()
	return p
}

func (p *program) start() {
	p.s.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.s.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(cmp.Or(p.s.bin, p.s.path()), append(p.args, "-c", p.s.file)...)
	if p.s.env != "" {
		cmd.Env = append(os.Environ(), p.s.env)
	}
	cmd.Stdout, cmd.Stderr = log, log
	p.Process = kafkatest.StartProcess(p.s.t, cmd, "")
}

// alive fails the test when the program has ended by itself.
func (p *program) alive() {
	p.s.t.Helper()
	select {
	case <-p.Done():
		p.s.t.Fatalf("%s ended by itself with exit code %d", p.args[0], p.ExitCode())
	default:
	}
}

// stop ends the program as a supervisor would; it must end in order.
func (p *program) stop() {
	p.s.t.Helper()
	p.alive()
	p.Terminate()
	p.ended()
}

// ended waits for the end that was asked for.
func (p *program) ended() {
	p.s.t.Helper()
	select {
	case <-p.Done():
	case <-time.After(2 * time.Minute): // it stops within 30 s, and the machine may be busy
		p.s.t.Fatalf("%s did not end within 2 minutes of SIGTERM", p.args[0])
	}
	if code := p.ExitCode(); code != 0 {
		p.s.t.Errorf("%s ended with exit code %d after SIGTERM", p.args[0], code)
	}
}

// committed is the sum of a group's next offsets over all partitions of the source topic.
func (s *stream) committed(group string) (sum int64) {
	s.t.Helper()
	for _, next := range s.GroupOffsets(s.t, group) {
		sum += next
	}
	return sum
}

// await waits until a group's committed offsets have passed a sum, while the programs live. Open transactions are waited for only then: with many
// partitions there is always one.
func (s *stream) await(group string, sum int64, programs ...*program) {
	s.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); s.committedSoFar(group) < sum || s.committed(group) < sum; {
		for _, p := range programs {
			p.alive()
		}
		if time.Now().After(deadline) {
			for _, p := range programs {
				p.explain()
			}
			s.t.Fatalf("group %s has committed %d of %d messages after 4 minutes", group, s.committedSoFar(group), sum)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// perMessage is the number of rows in each message of a load. What these tests prove is about rows, kills and transactions that are open; each message more is
// a transaction more of a broker.
const perMessage = 40

// awaitVersions waits until the learner has published n times, and the transform has worked after each:
// without it a transform that is faster than the learner whitens a whole test with few versions.
func (s *stream) awaitVersions(n int, programs ...*program) {
	s.t.Helper()
	for range n {
		s.await(s.name+".learn", s.committedSoFar(s.name+".learn")+600/perMessage, programs...) // a version has 500
		s.await(s.name, s.committedSoFar(s.name)+400/perMessage, programs...)
	}
}

// pauseInside stops the program (SIGSTOP) while a transaction of its own in one of the topics is open.
// A transaction is open for milliseconds only, so the program is stopped at random moments until one is.
func (p *program) pauseInside(topics ...string) {
	p.s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		p.alive()
		p.Pause()
		time.Sleep(20 * time.Millisecond) // what it has sent reaches the broker
		for _, topic := range topics {
			if p.s.hangs(topic) {
				return
			}
		}
		p.Resume()
		if time.Now().After(deadline) {
			p.explain()
			p.s.t.Fatalf("%s was in no transaction at any of the moments it was stopped at", p.args[0])
		}
		time.Sleep(time.Duration(1+time.Now().UnixNano()%97) * time.Millisecond)
	}
}

// explain says where a program that does not go on stands, and ends it.
func (p *program) explain() {
	s := p.s
	s.t.Helper()
	s.t.Logf("the input ends at %v; group %s is at %v, group %s.learn at %v", s.ListOffsets(s.t, s.topic("in"), -1, 0),
		s.name, s.LastCommitted(s.t, s.name), s.name, s.LastCommitted(s.t, s.name+".learn"))
	p.Quit()
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
	}
	s.t.Logf("%s stands at:\n%s", p.args[0], lastLines(p.log, 2000))
}

// killInside kills the program while a transaction of its own in topic is open.
func (p *program) killInside(topics ...string) {
	p.s.t.Helper()
	p.pauseInside(topics...)
	p.Kill()
}

// hangs reports whether a transaction in topic does not move: others, of programs that live, do.
func (s *stream) hangs(topic string) bool {
	s.t.Helper()
	if !s.OpenTransaction(s.t, topic) {
		return false
	}
	before := s.ListOffsets(s.t, topic, -1, 1)
	time.Sleep(150 * time.Millisecond)
	after, end := s.ListOffsets(s.t, topic, -1, 1), s.ListOffsets(s.t, topic, -1, 0)
	for p := range end {
		if before[p] == after[p] && after[p] < end[p] {
			return true
		}
	}
	return false
}

// check judges the topics of a finished run.
func (s *stream) check(rows, versions int) kafkatest.Verdict {
	s.t.Helper()
	c := kafkatest.Check{
		Input: s.topic("in"), Output: s.topic("out"), Snapshots: s.topic("snap"), DeadLetters: s.topic("dead"),
		MinRows: rows, MinVersions: versions, Why: s.why, Former: s.former, OnInvalid: s.onInvalid, Registry: s.registry,
		ByKey: s.byKey, WithoutModel: s.byKey, Series: s.series,
	}
	if s.budget != "" {
		c.Alarms, c.Budget = s.topic("alarms"), s.budget
	}
	v := s.Check(s.t, c)
	if v.RecentRows == 0 && !s.former && !s.byKey {
		s.t.Errorf("%s: no row has a score of the last rows", s.name)
	}
	s.t.Logf("%s: %d rows in %d messages verified under %d versions; %d null rows, %d dead letters, %d records aborted; %d scores of the last rows; worst relative error of a value %.2g, of a score %.2g, of a probability %.2g, of a gain %.2g; alarms: %v; %d rows of episodes",
		s.name, v.Rows, v.Messages, v.Versions, v.NullRows, v.DeadLetters, v.Aborted, v.RecentRows, v.WorstValue, v.WorstScore, v.WorstP, v.WorstWhy, v.Alarms, v.EpisodeRows)
	return v
}

// toldEpisodes fails the test where too few episodes were told to show anything.
func (s *stream) toldEpisodes(v kafkatest.Verdict) {
	s.t.Helper()
	moved := s.movedCauses()
	if v.Alarms["episode_opened"] < 10 || v.Alarms["episode_updated"] == 0 || v.Alarms["episode_closed"] < 5 || v.EpisodeRows < 200 || moved == 0 {
		s.t.Errorf("too few episodes: %v, %d rows, %d updates with another first cause", v.Alarms, v.EpisodeRows, moved)
	}
}

// movedCauses returns how many updates name another column first than the record before.
func (s *stream) movedCauses() (moved int) {
	s.t.Helper()
	first := map[string]string{}
	for _, r := range s.ReadCommitted(s.t, s.topic("alarms")) {
		var e struct {
			Type, ID string
			Causes   []struct{ Feature string }
		}
		if err := json.Unmarshal(r.Value, &e); err != nil {
			s.t.Fatalf("%v: %s", err, r.Value)
		}
		if len(e.Causes) == 0 {
			continue
		}
		if was, told := first[e.ID]; e.Type == "episode_updated" && told && was != e.Causes[0].Feature {
			moved++
		}
		first[e.ID] = e.Causes[0].Feature
	}
	return moved
}

// awaitMovedCauses waits for what toldEpisodes wants last: a fast machine has gone through the rest of a test before a fault has lasted for that.
func (s *stream) awaitMovedCauses(programs ...*program) {
	s.t.Helper()
	grown := s.growth("alarms")
	for deadline := time.Now().Add(2 * time.Minute); !grown() || s.movedCauses() == 0; time.Sleep(200 * time.Millisecond) {
		for _, p := range programs {
			p.alive()
		}
		if time.Now().After(deadline) {
			s.t.Fatal("no update names another first cause after 2 minutes")
		}
	}
}

// openEpisodes returns the number of episodes that are open by their records, and how many of these have been updated.
func (s *stream) openEpisodes() (all, long int) {
	s.t.Helper()
	open := map[string]bool{}
	for _, r := range s.ReadCommitted(s.t, s.topic("alarms")) {
		var e struct{ Type, ID string }
		if err := json.Unmarshal(r.Value, &e); err != nil {
			s.t.Fatalf("%v: %s", err, r.Value)
		}
		switch e.Type {
		case "episode_opened", "episode_updated":
			open[e.ID] = e.Type == "episode_updated"
		case "episode_closed":
			delete(open, e.ID)
		}
	}
	for _, updated := range open {
		if all++; updated {
			long++
		}
	}
	return all, long
}

func lastLines(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
