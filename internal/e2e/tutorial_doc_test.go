//go:build unix

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// docBlock is a fenced block of a page, and the name of a file if the line before it gives one.
var docBlock = regexp.MustCompile("(?ms)^(?:`([a-z.]+)`:\n\n)?```(python|yaml|properties|sql|sh|text)\n(.*?)^```$")

// walk is a reader who follows a page: saves its files, types its commands, and compares what it shows.
type walk struct {
	*stream
	env     []string
	said    string     // what the last commands have printed
	heard   string     // what all of them have
	running []*program // what runs on in other terminals
}

// The tutorial, followed to the letter in a fresh directory, and then the how-to pages that go on from it.
func TestTutorialRuns(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	dir := t.TempDir()
	w := &walk{stream: &stream{Broker: b, t: t, name: "pump", dir: dir, file: filepath.Join(dir, "pump.yaml")}}
	programs := []string{filepath.Dir(testtools.Python(t)), filepath.Dir(w.path()), filepath.Dir(kafkatest.ConnectScript(t, t.TempDir())), os.Getenv("PATH")}
	t.Setenv("KAFKA_BROKERS", b.Addrs()[0]) // instead of the page's localhost:9092
	w.env = append(os.Environ(), "PATH="+strings.Join(programs, ":"), "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1")

	w.page("tutorial.md")
	score := regexp.MustCompile(`with a score above [\d.]+: (\d+) of 200`).FindStringSubmatch(w.heard)
	if n := share(score); n < 180 {
		t.Errorf("the page says that nearly all worn readings have high scores:\n%s", w.heard)
	}
	if !strings.Contains(w.heard, "normal range: 0 of 200") {
		t.Errorf("the page says that no sensor leaves its normal range:\n%s", w.heard)
	}
	for _, page := range []string{"threshold.md", "bridges.md", "choose-model.md", "vector-stores.md"} {
		w.page(page)
	}
	for _, collection := range []string{"pump-20200", "pump-42400"} {
		if n := share(regexp.MustCompile(collection + `: (\d+) of 100 neighbours`).FindStringSubmatch(w.heard)); n < 80 {
			t.Errorf("in %s %d of 100 neighbours of worn readings are worn ones", collection, n)
		}
	}
}

// page follows a page from its first block to the last.
func (w *walk) page(name string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", name))
	if err != nil {
		w.t.Fatal(err)
	}
	blocks := docBlock.FindAllStringSubmatch(string(text), -1)
	if fences := strings.Count("\n"+string(text), "\n```"); fences != 2*len(blocks) || len(blocks) == 0 {
		w.t.Fatalf("%s has %d lines that open or close a block, and %d blocks are understood", name, fences, len(blocks))
	}
	for _, m := range blocks {
		file, kind, body := m[1], m[2], m[3]
		switch {
		case kind == "text":
			w.printed(name, body)
		case kind == "sh":
			w.commands(name, body)
		case file == "":
			w.t.Fatalf("%s: a block of %s has no file name before it:\n%s", name, kind, body)
		default:
			body = strings.ReplaceAll(body, "localhost:9092", w.Addrs()[0])
			if err := os.WriteFile(filepath.Join(w.dir, file), []byte(body), 0o644); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// runsOn matches a line that does not come to an end by itself; shown and ends those that a reader types until all is there.
var (
	runsOn   = regexp.MustCompile(`lca-stream (run|transform) |^connect-standalone.sh `)
	shown    = regexp.MustCompile(`^(?:VERSION=(\d+) )?lca-stream offsets show `)
	ends     = regexp.MustCompile(`^tail -n 1 (\S+)$`)
	proposes = regexp.MustCompile(`^lca-stream init (\S+) .*-o (\S+)$`)
)

// commands types the lines of a block, except that what runs on is started and left.
func (w *walk) commands(name, block string) {
	w.t.Helper()
	var said strings.Builder
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		if line == "export KAFKA_BROKERS=localhost:9092" { // this test's own is in the environment
			continue
		}
		if runsOn.MatchString(line) {
			if strings.HasPrefix(line, "lca-stream run") {
				line += " --set http.listen=" // the page's port may be in use on this machine
			}
			w.running = append(w.running, w.terminal(line, w.env))
			continue
		}
		if m := shown.FindStringSubmatch(line); m != nil {
			w.awaitAll(m[1])
		}
		if m := ends.FindStringSubmatch(line); m != nil {
			w.awaitLines(filepath.Join(w.dir, m[1]), w.end("readings"), w.running...)
		}
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = w.dir, w.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			w.t.Fatalf("%s: %s: %v\n%s", name, line, err, out)
		}
		said.Write(out)
		if m := proposes.FindStringSubmatch(line); m != nil {
			w.runs(m[1], m[2])
		}
	}
	w.said = said.String()
	w.heard += w.said
}

// runs does what init says when it has written a configuration. What comes after in the page works all the same.
func (w *walk) runs(topic, file string) {
	w.t.Helper()
	p := w.terminal("lca-stream run -c "+file+" --set http.listen=", w.env)
	w.await(topic+"-lca", w.end(topic), p)
	p.Terminate()
	p.ended()
}

// awaitAll waits until all of the topic has been whitened by the group of a version, or by that of the tutorial.
func (w *walk) awaitAll(version string) {
	w.t.Helper()
	group := w.name
	if version != "" {
		group = "vectors-" + version
	}
	w.await(group, w.end("readings"), w.running...)
}

// printed compares what a page shows with what the commands before it have printed, number for any number.
func (w *walk) printed(name, block string) {
	w.t.Helper()
	digits := regexp.MustCompile(`\d+(\.\d+)?`)
	said := digits.ReplaceAllString(w.said, "#")
	for line := range strings.Lines(block) {
		if line = strings.TrimSpace(line); line != "…" && !strings.Contains(said, digits.ReplaceAllString(line, "#")) {
			w.t.Errorf("%s shows %q, which was not printed:\n%s", name, line, w.said)
		}
	}
}

// end is the end of the only partition of a topic.
func (w *walk) end(topic string) int64 { return w.ListOffsets(w.t, topic, -1, 0)[0] }

// share is the number that a page's sentence has, or -1 without the sentence.
func share(found []string) int {
	if found == nil {
		return -1
	}
	n, _ := strconv.Atoi(found[1])
	return n
}
