package house

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/lca-stream/lca-stream/"

// layer says what the packages at and below a directory may import. Tests may in addition import what
// testsMay allows.
type layer struct {
	dir       string
	ours      string // directories of ours, space-separated; each allows what is below it
	forbidden string // import paths of others that it must not know, space-separated; each covers what is below it
	except    string // directories of ours that it must not know although they are below one of those
}

// kafkaClients are the clients that only tests and the embedded broker use; of their module, messages of the protocol may be used.
const kafkaClients = "github.com/twmb/franz-go/pkg/kgo github.com/twmb/franz-go/pkg/kadm github.com/twmb/franz-go/pkg/kfake"

// rooms is where the program's packages are: what a command needs, and the commands themselves, which know each other only
// where this table says so.
const rooms = "cmd/lca-stream/internal/"

// in names rooms.
func in(names string) string {
	return rooms + strings.Join(strings.Fields(names), " "+rooms)
}

// layers is the picture `source | minibatch | lca | sink | pipeline | cmd`, left to right: imports point
// left. The longest matching dir counts.
var layers = []layer{
	{"lca", "lca/internal lca/recent", "github.com/segmentio github.com/twmb github.com/apache github.com/goccy os net log time encoding/json", ""},
	{"lca/recent", "lca/internal", "github.com/segmentio github.com/twmb github.com/apache github.com/goccy os net log time encoding/json", ""},
	{"lca/online", "lca internal/enum", "github.com/segmentio github.com/twmb github.com/apache github.com/goccy os net log time encoding/json", ""},
	{"lca/online/internal", "lca/internal lca/online/internal internal/enum", "github.com/segmentio github.com/twmb github.com/apache github.com/goccy os net log time encoding/json", ""},
	{"lca/internal", "lca/internal", "github.com/segmentio github.com/twmb github.com/apache github.com/goccy os net log time encoding/json", ""},
	{"minibatch", "internal/flatipc internal/nested internal/plural internal/rowrecord internal/typo", "github.com/segmentio github.com/twmb os net log time", ""},
	{"source", "source internal/plural internal/recordbatch", "gonum.org github.com/goccy github.com/spf13 github.com/twmb/franz-go/pkg/kgo github.com/twmb/franz-go/pkg/kadm github.com/twmb/franz-go/pkg/kfake net/http", ""},
	{"source/format", "source/format internal/flatipc internal/nested internal/rowrecord", "github.com/segmentio github.com/twmb/franz-go gonum.org github.com/goccy github.com/spf13 net log", ""},
	{"source/format/ipcguard", "source/format/ipcguard", "github.com/segmentio github.com/twmb gonum.org net os log", ""},
	{"source/registry", "source/format source/kafkaconn internal/credentials", "github.com/segmentio github.com/apache gonum.org github.com/goccy github.com/spf13", ""},
	{"sink", "source internal/enum internal/recordbatch internal/failpoint", "github.com/apache gonum.org github.com/goccy github.com/spf13 github.com/twmb/franz-go/pkg/kgo github.com/twmb/franz-go/pkg/kadm github.com/twmb/franz-go/pkg/kfake net/http", ""},
	{"sink/snapshot", "source sink lca", "github.com/segmentio github.com/twmb github.com/goccy net", ""},
	{"sink/rowfile", "", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 gonum.org net os log time", ""},
	{"pipeline", "source sink pipeline/stats pipeline/start pipeline/checkpoint pipeline/reject pipeline/internal internal/failpoint", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 github.com/apache net/http flag", "source/kafkaconn source/registry"},
	{"pipeline/modelkey", "source minibatch internal/enum internal/nested", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 net/http flag", "source/kafkaconn source/registry"},
	{"pipeline/episode", "lca/recent", "github.com gonum.org net os log", ""},
	{"pipeline/reject", "source sink minibatch pipeline/modelkey internal/enum internal/logs", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 net/http flag", "source/kafkaconn source/registry"},
	{"pipeline/stats", "source sink/snapshot pipeline/modelkey pipeline/reject pipeline/episode", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 github.com/apache net/http flag", "source/kafkaconn source/registry"},
	{"pipeline/internal/retry", "sink pipeline/reject", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 github.com/apache net/http flag", "source/kafkaconn source/registry"},
	{"pipeline/internal/fixtures", "source sink lca pipeline/reject", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 net/http flag", "source/kafkaconn source/registry"},
	{"pipeline/checkpoint", "source sink lca/online lca/recent pipeline/modelkey pipeline/reject pipeline/internal", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 github.com/apache net/http flag", "source/kafkaconn source/registry"},
	{"pipeline/start", "source sink pipeline/checkpoint pipeline/stats pipeline/reject pipeline/internal internal/logs", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 github.com/apache net/http flag", "source/kafkaconn source/registry"},
	{"pipeline/models", "source sink minibatch lca pipeline/checkpoint pipeline/stats pipeline/reject pipeline/modelkey pipeline/internal", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 net/http flag", "source/kafkaconn source/registry"},
	{"pipeline/encode", "source minibatch lca pipeline/modelkey pipeline/reject internal/enum internal/flatipc internal/nested internal/arrowavro internal/arrowjson internal/jsontext internal/plural", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 net/http flag", "source/kafkaconn source/registry"},
	{"pipeline/transform", "source sink minibatch lca pipeline internal/enum internal/arrowjson internal/jsontext internal/failpoint internal/plural", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 net/http flag", "source/kafkaconn source/registry pipeline/learn pipeline/start"},
	{"pipeline/learn", "source sink minibatch lca pipeline internal/failpoint internal/logs internal/plural", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13 net/http flag", "source/kafkaconn source/registry pipeline/start"},
	{"cmd", "source minibatch lca sink pipeline internal cmd configs", "", ""},
	{rooms + "terminal", "", "github.com gonum.org net os log", ""},
	{"internal/plural", "", "github.com gonum.org net os log time", ""},
	{rooms + "picture", "", "github.com gonum.org net os log time", ""},
	{rooms + "config", "lca minibatch pipeline sink source internal/typo", "github.com/twmb github.com/spf13", ""},
	{rooms + "topics", "pipeline source " + in("config terminal") + " internal/plural internal/typo", "github.com/twmb github.com/spf13", ""},
	{rooms + "explain", "minibatch pipeline/modelkey source " + in("terminal"), kafkaClients, ""},
	{rooms + "status", "pipeline sink/snapshot internal/logs", "github.com/segmentio github.com/twmb github.com/apache github.com/goccy github.com/spf13", ""},
	{rooms + "app", "source sink " + in("config terminal") + " internal/logs internal/typo", "github.com/segmentio github.com/twmb", "source/kafkaconn source/registry"},
	{rooms + "system", "minibatch pipeline sink source " + in("app config status topics") + " internal/logs internal/tracing", "github.com/twmb", ""},
	{rooms + "run", "minibatch pipeline sink source " + in("app config system") + " internal/plural internal/failpoint", "github.com/twmb", ""},
	{rooms + "snapshots", "lca sink/snapshot " + in("app config picture system terminal") + " internal/plural", "github.com/segmentio github.com/twmb", ""},
	{rooms + "episodes", "pipeline/episode source " + in("app config system terminal") + " internal/plural", "github.com/segmentio github.com/twmb", ""},
	{rooms + "offsets", "pipeline sink source " + in("app system terminal") + " internal/plural", kafkaClients, ""},
	{rooms + "doctor", "lca/recent minibatch pipeline sink/snapshot source " + in("app config explain offsets system terminal topics") + " internal/nested internal/plural internal/logs internal/typo", kafkaClients, ""},
	{rooms + "replay", "lca minibatch pipeline sink source " + in("app config system terminal") + " internal/plural", "github.com/segmentio github.com/twmb", ""},
	{rooms + "backtest", "lca lca/online lca/recent minibatch pipeline sink source " + in("app config explain status system terminal") + " internal/plural internal/rowrecord", "github.com/segmentio github.com/twmb", ""},
	{rooms + "em", "lca pipeline sink/snapshot source " + in("app config") + " internal/plural", "github.com/segmentio github.com/twmb", ""},
	{rooms + "demo", "sink source " + in("app config demo run system terminal") + " internal/clustering internal/embedded", "github.com/twmb", ""},
	{rooms + "demo/toy", "lca internal/clustering", "github.com/segmentio github.com/twmb github.com/goccy github.com/spf13", ""},
	{"configs", "", "github.com gonum.org os net log time", ""},
	{"source/kafkaconn", "internal/credentials", "github.com/twmb/franz-go/pkg/kgo github.com/twmb/franz-go/pkg/kadm github.com/twmb/franz-go/pkg/kfake github.com/apache gonum.org", ""},
	{"internal/credentials", "", "github.com gonum.org net log time", ""},
	{"internal/enum", "", "github.com gonum.org os net log time", ""},
	{"internal/flatipc", "", "github.com/segmentio github.com/twmb gonum.org github.com/goccy github.com/spf13 net os log time", ""},
	{"internal/rowrecord", "", "github.com/segmentio github.com/twmb gonum.org github.com/goccy github.com/spf13 net os log time", ""},
	{"internal/jsontext", "", "github.com gonum.org net os log time", ""},
	{"internal/arrowjson", "internal/jsontext internal/rowrecord", "github.com/segmentio github.com/twmb gonum.org github.com/goccy github.com/spf13 net os log", ""},
	{"internal/arrowavro", "internal/jsontext", "github.com/segmentio github.com/twmb gonum.org github.com/goccy github.com/spf13 net os log", ""},
	{"internal/nested", "", "github.com/segmentio github.com/twmb gonum.org github.com/goccy github.com/spf13 net os log time", ""},
	{"internal/logs", "", "github.com gonum.org net os", ""},
	{"internal/typo", "", "github.com gonum.org net os log time", ""},
	{"internal/failpoint", "", "github.com gonum.org net", ""},
	{"internal/recordbatch", "", "github.com/segmentio github.com/twmb github.com/apache gonum.org net os", ""},
	{"internal/embedded", "", "github.com/segmentio gonum.org", ""},
	{"internal/kafkatest", "internal/embedded internal/testtools", "gonum.org", ""},
	{"internal/tracing", "source", "github.com/segmentio github.com/twmb github.com/apache github.com/goccy github.com/spf13", ""},
	{"internal/testtools", "", "github.com gonum.org", ""},
	{"internal/clustering", "", "github.com net os log time", ""},
	{"internal/bench", "source minibatch lca sink pipeline internal", "", ""},
	{"internal/streams", "lca internal/clustering", "github.com/segmentio github.com/twmb github.com/apache github.com/goccy github.com/spf13 net log time", ""},
	{"internal/e2e", "", "github.com gonum.org", ""},
	{"internal/house", "", "github.com gonum.org", ""},
}

// testsMay is what any test may import of ours: fakes of the protocol, and the packages next to it.
const testsMay = "internal/kafkatest internal/embedded internal/testtools"

// may reports whether the layer may import a directory of ours.
func (l layer) may(dir string) bool { return anyUnder(dir, l.ours) && !anyUnder(dir, l.except) }

func layerOf(dir string) (found layer, ok bool) {
	for _, l := range layers {
		if under(dir, l.dir) && len(l.dir) >= len(found.dir) {
			found, ok = l, true
		}
	}
	return found, ok
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func anyUnder(path, dirs string) bool {
	for dir := range strings.FieldsSeq(dirs) {
		if under(path, dir) {
			return true
		}
	}
	return false
}

func TestImportsPointLeft(t *testing.T) {
	for _, f := range goFiles(t) {
		if strings.Contains(f.path, "/_") || strings.HasPrefix(f.path, ".ci/") {
			continue // tools with a go.mod of their own
		}
		l, ok := layerOf(f.dir())
		if !ok {
			t.Errorf("%s belongs to no layer: add its directory to the table in this file", f.path)
			continue
		}
		for _, spec := range f.syntax.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			ours, isOurs := strings.CutPrefix(path, module)
			switch {
			case isOurs && f.isTest() && (anyUnder(ours, testsMay) || anyUnder(ours, "source minibatch lca sink internal/recordbatch")):
			case isOurs && f.isTest() && under(f.dir(), "pipeline") && anyUnder(ours, "pipeline internal/flatipc"): // Go refuses circles
			case isOurs && !l.may(ours) && ours != f.dir():
				t.Errorf("%s imports %s; %s may import of ours only: %q", f.path, ours, l.dir, l.ours)
			case !isOurs && !f.isTest() && anyUnder(path, l.forbidden):
				t.Errorf("%s imports %s, which %s must not know", f.path, path, l.dir)
			}
			if !f.isTest() && isOurs && anyUnder(ours, "internal/kafkatest internal/testtools") && !under(f.dir(), "internal/kafkatest") {
				t.Errorf("%s imports %s, which is for tests", f.path, ours)
			}
		}
	}
}

// Package lca is the paper, and lca/online the learner of a stream: lca imports nothing of lca/online. Not even its
// tests do, so that the paper can be read and checked without the stream.
func TestThePaperKnowsNothingOfTheStream(t *testing.T) {
	seen := 0
	for _, f := range goFiles(t) {
		if f.dir() != "lca" && !under(f.dir(), "lca/internal") {
			continue
		}
		seen++
		for _, spec := range f.syntax.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err != nil || under(path, module+"lca/online") {
				t.Errorf("%s imports %s: %v", f.path, path, err)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d files of lca and lca/internal: where are the others?", seen)
	}
}

// What finds methods by their names makes the linker keep the methods of all types, 7 MB of them.
func TestTheLinkerLeavesMethodsOut(t *testing.T) {
	seen := 0
	for _, f := range goFiles(t) {
		if f.isTest() || !under(f.dir(), "cmd/lca-stream") {
			continue
		}
		seen++
		for _, spec := range f.syntax.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err != nil || anyUnder(path, "text/template html/template") {
				t.Errorf("%s imports %s: %v", f.path, path, err)
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is && slices.Contains([]string{"MethodByName", "SetVersionTemplate", "SetUsageTemplate", "SetHelpTemplate"}, s.Sel.Name) {
				t.Errorf("%s calls %s", f.path, s.Sel.Name)
			}
			return true
		})
	}
	if seen < 50 {
		t.Errorf("only %d files of the program: where are the others?", seen)
	}
}

// A test that cannot fail is worth nothing, so the rule itself is tried on imports that must be refused.
func TestImportRuleRefuses(t *testing.T) {
	for _, c := range []struct{ dir, ours string }{
		{"lca", "source"}, {"lca", "lca/online"}, {"lca/internal/prop1", "lca"}, {"lca/online", "source"}, {"lca/internal/kernel", "minibatch"}, {"source", "sink"}, {"source", "lca"}, {"minibatch", "lca"}, {"sink", "pipeline"},
		{"pipeline", "cmd"}, {"pipeline", "pipeline/transform"}, {"pipeline/reject", "pipeline/stats"}, {"pipeline/encode", "pipeline"}, {"pipeline/transform", "pipeline/learn"}, {"pipeline/start", "pipeline/models"}, {"pipeline", "source/kafkaconn"}, {"pipeline", "source/registry"}, {"source/format", "source/registry"}, {"source/kafkaconn", "source"}, {rooms + "status", "lca"}, {rooms + "app", "pipeline"}, {rooms + "app", rooms + "system"}, {rooms + "system", rooms + "run"}, {rooms + "run", rooms + "replay"}, {rooms + "offsets", rooms + "doctor"}, {"source/format/ipcguard", "internal/recordbatch"}, {"source/format/ipcguard", "source/format"}, {"source/format", "source"}, {"source/format", "source/kafkaconn"},
	} {
		l, ok := layerOf(c.dir)
		if !ok || l.may(c.ours) {
			t.Errorf("%s may import %s", c.dir, c.ours)
		}
	}
}
