package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/backtest"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// The rows of backtestFiles: those of fault are faulty, far from all others, and the last ones. The score of the last rows stays high for a while after a
// fault, and labels say nothing of that.
const (
	backtestRows = 1500
	faultFrom    = 1400
	faultTo      = 1499
)

// plainConfig is a configuration with which nothing is chosen but features, and the time where no flag tells it.
const plainConfig = "lca: {preset: metric}\n"

// backtestFiles writes rows.csv, of two machines in turn, the files of each of them, and labels by rows and by times.
func backtestFiles(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	r, at := rand.New(rand.NewPCG(2, 6)), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const head = "at,machine,a,b,c,faulty\n"
	files := map[string]string{"rows.csv": head, "m0.csv": head, "m1.csv": head, "long.csv": head, "short.csv": head}
	for i := range backtestRows {
		far, faulty := 0.0, 0
		if i >= faultFrom && i <= faultTo {
			far, faulty = 40, 1
		}
		b := fmt.Sprint(far + r.NormFloat64())
		if i%100 == 7 {
			b = ""
		}
		line := fmt.Sprintf("%s,m%d,%v,%s,%v,%d\n", at.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), i%2, 5*float64(r.IntN(2))+r.NormFloat64(), b, 100*r.NormFloat64(), faulty)
		files["rows.csv"] += line
		files[fmt.Sprintf("m%d.csv", i%2)] += line
		if i < 333 {
			files["short.csv"] += line
		} else {
			files["long.csv"] += line
		}
	}
	files["plain.yaml"] = plainConfig
	files["labels.csv"] = fmt.Sprintf("from,to\n%d,%d\n", faultFrom, faultTo)
	files["times.csv"] = fmt.Sprintf("from,to\n%s,%s\n", at.Add(faultFrom*time.Minute).Format(time.RFC3339), at.Add(faultTo*time.Minute).Format(time.RFC3339))
	span := strings.TrimPrefix(strings.TrimSpace(files["times.csv"]), "from,to\n")
	files["one.csv"] = "from,to,key\n" + span + ",m1\n" + span + ",M0\n"
	files["both.csv"] = "from,to,key\n" + span + ",m1\n" + span + ",m0\n"
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// backtested runs a backtest, and returns what it says and the rows that it writes.
func backtested(t *testing.T, dir string, args ...string) (backtest.Result, arrow.Record) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "plain.yaml"), []byte(plainConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	said := mustRun[backtest.Result](t, dir, "", append([]string{"backtest", "--rows", "out.arrow", "--force", "--json", "-c", "plain.yaml", "--time="}, args...)...)
	said.Seconds = 0
	in, err := source.OpenFiles([]string{filepath.Join(dir, "out.arrow")}, format.FileConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	var all []arrow.Record
	for {
		b, err := in.Read(t.Context())
		if errors.Is(err, source.ErrEnd) {
			break
		}
		if err != nil || b.Messages[0].Err != nil {
			t.Fatal(err, b.Messages[0].Err)
		}
		all = append(all, b.Messages[0].Record)
	}
	columns := make([]arrow.Array, all[0].NumCols())
	for k := range columns {
		var parts []arrow.Array
		for _, rec := range all {
			parts = append(parts, rec.Column(k))
		}
		if columns[k], err = array.Concatenate(parts, memory.DefaultAllocator); err != nil {
			t.Fatal(err)
		}
	}
	rec := array.NewRecord(all[0].Schema(), columns, -1)
	if rec.NumRows() != said.Rows {
		t.Errorf("%d rows, and the file has %d", said.Rows, rec.NumRows())
	}
	return said, rec
}

// versionsOf lists the versions of rows as a text: each with the row from which on it is there.
func versionsOf(rec arrow.Record) string {
	col := rec.Column(rec.Schema().FieldIndices("lca_version")[0]).(*array.Int64)
	var all []string
	last := "none"
	for i := range col.Len() {
		if now := col.ValueStr(i); now != last {
			all, last = append(all, fmt.Sprintf("%s from %d", now, i)), now
		}
	}
	return strings.Join(all, ", ")
}

func sameColumn(t *testing.T, what, name string, got, want arrow.Record) {
	t.Helper()
	a, b := got.Column(got.Schema().FieldIndices(name)[0]), want.Column(want.Schema().FieldIndices(name)[0])
	if !array.Equal(a, b) {
		t.Errorf("%s: column %s differs", what, name)
	}
}

// A backtest scores each minibatch with the newest version and then learns it; the input's format, and how rows are divided among files, change no bit.
func TestBacktest(t *testing.T) {
	t.Parallel()
	dir := backtestFiles(t)
	said, want := backtested(t, dir, "rows.csv", "--features", "a,b,c", "--labels", "faulty")
	if got := versionsOf(want); got != "(null) from 0, 100 from 101, 200 from 202, 400 from 404, 800 from 809, 1000 from 1011, 1300 from 1314" { // the first is young; one row of a hundred is null, and not learnt; after 1200 that were not held the data choose again
		t.Errorf("versions %s", got)
	}
	if said.Rows != backtestRows || said.Scored != backtestRows-101-14 || *said.Faults != 1 || *said.AP < 0.98 || *said.AUC < 0.999 {
		t.Errorf("%+v, AP %v, AUC %v", said, said.AP, said.AUC)
	}
	if lca := want.Schema().Field(want.Schema().FieldIndices("lca")[0]).Type.(*arrow.FixedSizeListType); lca.Len() != 3 {
		t.Errorf("%d features", lca.Len())
	}
	for _, name := range []string{"rows.arrow", "rows.arrows", "rows.parquet"} {
		mustRun[any](t, dir, "", "backtest", "rows.csv", "-c", "plain.yaml", "--time=", "--features", "a,b,c", "--rows", name, "--set", "transform.column=w")
		again, got := backtested(t, dir, name, "--features", "a,b,c", "--labels", "faulty")
		if diff := cmp.Diff(said, again); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		sameColumn(t, name, "lca_score", got, want)
		sameColumn(t, name, "lca", got, want)
		sameColumn(t, name, "at", got, want)
		sameColumn(t, name, "lca_episode", got, want)
	}
	if episodes := want.Column(want.Schema().FieldIndices("lca_episode")[0]); episodes.NullN() == 0 || episodes.NullN() == episodes.Len() {
		t.Errorf("%d rows of %d are in no episode", episodes.NullN(), episodes.Len())
	}
	_, got := backtested(t, dir, "short.csv", "long.csv", "--features", "a,b,c")
	sameColumn(t, "two files", "lca_score", got, want)
	_, got = backtested(t, dir, "rows.csv", "--labels", "faulty", "--time", "at", "--key", "machine") // features are chosen
	sameColumn(t, "chosen features", "lca_score", got, want)
}

// What the normal stretch has is learnt, however little, before a row is scored.
func TestBacktestUntil(t *testing.T) {
	t.Parallel()
	dir := backtestFiles(t)
	_, byRows := backtested(t, dir, "rows.csv", "--features", "a,b,c", "--until", "1005")
	if got := versionsOf(byRows); got != "(null) from 0, 995 from 1005, 1095 from 1106" { // ten rows are null; 1000 rows are passed by the next minibatch
		t.Errorf("versions %s", got)
	}
	_, byTime := backtested(t, dir, "rows.csv", "--features", "a,b,c", "--until", "2026-01-01T16:45:00Z", "--time", "at")
	sameColumn(t, "by time", "lca_score", byTime, byRows)
	_, few := backtested(t, dir, "rows.csv", "--features", "a,b,c", "--until", "30")
	if got := versionsOf(few); !strings.HasPrefix(got, "(null) from 0, 29 from 30, ") || !strings.Contains(got, "1029 from") {
		t.Errorf("versions %s", got)
	}
}

// Features are chosen by the normal stretch alone: here one column does not move in it.
func TestBacktestChoosesByTheNormalStretch(t *testing.T) {
	t.Parallel()
	dir, text, r := t.TempDir(), "a,b,late\n", rand.New(rand.NewPCG(3, 6))
	for i := range 700 {
		late := 0.0
		if i >= 300 {
			late = r.NormFloat64()
		}
		text += fmt.Sprintf("%v,%v,%v\n", r.NormFloat64(), r.NormFloat64(), late)
	}
	if err := os.WriteFile(filepath.Join(dir, "late.csv"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for features, args := range map[int32][]string{2: {"--until", "300"}, 3: {"--until", "300", "--features", "a,b,late"}} {
		_, rec := backtested(t, dir, append(args, "late.csv")...)
		if got := rec.Schema().Field(rec.Schema().FieldIndices("lca")[0]).Type.(*arrow.FixedSizeListType).Len(); got != features {
			t.Errorf("%v: %d features, want %d", args, got, features)
		}
	}
}

// Labels judge alike, whichever way they are said.
func TestBacktestLabels(t *testing.T) {
	t.Parallel()
	dir := backtestFiles(t)
	want, _ := backtested(t, dir, "rows.csv", "--features", "a,b,c", "--until", "1000", "--labels", "faulty", "--time", "at")
	for _, labels := range []string{"labels.csv", "times.csv"} {
		got, _ := backtested(t, dir, "rows.csv", "--features", "a,b,c", "--until", "1000", "--labels", labels, "--time", "at")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", labels, diff)
		}
	}
	for labels, faults := range map[string]int{"faulty": 2, "times.csv": 2, "both.csv": 2, "one.csv": 1} {
		if got, _ := backtested(t, dir, "rows.csv", "--features", "a,b,c", "--until", "1000", "--labels", labels, "--key", "machine", "--time", "at"); *got.Faults != faults {
			t.Errorf("%s: %d faults of two machines, want %d", labels, *got.Faults, faults)
		}
	}
	if said := string(must(t, dir, "backtest", "rows.csv", "-c", "plain.yaml", "--time=", "--features", "a,b,c", "--json", "--episodes", "episodes.json")); !strings.HasPrefix(said, `{"rows":1500,"scored":1385,"episodes":2,"false_episodes":null,"faults":null,"met":null,"delay_rows":null,"ap":null,"auc":null,"seconds":`) {
		t.Error(said)
	}
	var episodes []episode.Record
	if text, err := os.ReadFile(filepath.Join(dir, "episodes.json")); err != nil || json.Unmarshal(text, &episodes) != nil {
		t.Fatalf("%q, %v", text, err)
	}
	last := episodes[len(episodes)-1] // the fault, to the end of the rows; the level of a model of 1000 rows lets a false one pass before
	if len(episodes) != 2 || last.From.Row != 1400 || last.To.Row != 1499 || last.Type != episode.Updated || !episodes[0].Young {
		t.Errorf("%+v", episodes)
	}
	if said := string(must(t, dir, "backtest", "rows.csv", "-c", "plain.yaml", "--time=", "--features", "a,b,c", "--labels", "faulty")); !strings.Contains(said, " late at the median\nA Mahalanobis distance of the same rows, ") || !strings.HasSuffix(said, "\n1 fault in the labels: AP 1, AUC 1 of lca_recent_score\nthe page: rows.html\n") {
		t.Error(said)
	}
}

// Of an episode that is open behind the last row, the causes are those of the last rows, and not of the last record: here that is seven rows old.
func TestBacktestCausesBehindTheLastRow(t *testing.T) {
	t.Parallel()
	dir, text, r := t.TempDir(), "a,b,c\n", rand.New(rand.NewPCG(5, 45))
	for i := range 1238 {
		row := []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		switch {
		case i >= 1233:
			row[2] -= 40
		case i >= 1200:
			row[0] += 20
		}
		text += fmt.Sprintf("%v,%v,%v\n", row[0], row[1], row[2])
	}
	if err := os.WriteFile(filepath.Join(dir, "two.csv"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "backtest", "two.csv", "--time=", "--until", "1000", "--json", "--episodes", "episodes.json")
	var all []episode.Record
	if text, err := os.ReadFile(filepath.Join(dir, "episodes.json")); err != nil || json.Unmarshal(text, &all) != nil || len(all) == 0 {
		t.Fatalf("%q, %v", text, err)
	}
	last := all[len(all)-1]
	if last.Type != episode.Updated || last.From.Row != 1200 || last.Seq != 2 || len(last.Causes) == 0 || last.Causes[0].Feature != "c" || last.Causes[0].Direction != "down" || !strings.Contains(last.Message, "c went down") {
		t.Errorf("%+v", last)
	}
}

func must(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	out, fault := lcaStream(t, dir, "", args...)
	if fault != "" {
		t.Fatal(args, fault)
	}
	return out
}

// With model.by the rows of a value have the scores of a file that has no others, also where one has a model before the next has any.
func TestBacktestByKey(t *testing.T) {
	t.Parallel()
	dir := backtestFiles(t)
	const until = "--until=2026-01-01T05:00:00Z"
	for _, by := range [][]string{{until, "--key", "machine", "--set", "model.by=key"}, {until, "--set", "model.by=column:machine"}, {"--set", "model.by=column:machine"}} {
		args := append([]string{"--features", "a,b,c", "--time", "at"}, by...)
		_, all := backtested(t, dir, append(args, "rows.csv")...)
		for m, name := range []string{"m0", "m1"} {
			_, one := backtested(t, dir, append(args, name+".csv")...)
			for i := range int(one.NumRows()) {
				for _, column := range []string{"lca", "lca_score", "lca_recent_score", "lca_version", "lca_model"} {
					a, b := all.Column(all.Schema().FieldIndices(column)[0]), one.Column(one.Schema().FieldIndices(column)[0])
					if k := int64(2*i + m); !array.SliceEqual(a, k, k+1, b, int64(i), int64(i+1)) {
						t.Fatalf("%v: row %d of %s: %s is %s, and %s in a file of its own", by, i, name, column, a.ValueStr(int(k)), b.ValueStr(i))
					}
				}
			}
		}
	}
}

// With transform.series the rows of a value are a series: their key's, or their column's.
func TestBacktestSeries(t *testing.T) {
	t.Parallel()
	dir := backtestFiles(t)
	args := []string{"rows.csv", "--features", "a,b,c", "--until", "1000", "--key", "machine"}
	_, none := backtested(t, dir, args...)
	_, byKey := backtested(t, dir, append(args, "--set", "transform.series=key")...)
	_, byColumn := backtested(t, dir, append(args, "--set", "transform.series=column:machine")...)
	sameColumn(t, "by column", "lca_recent_score", byColumn, byKey)
	sameColumn(t, "by key", "lca_score", byKey, none)
	if at := none.Schema().FieldIndices("lca_recent_score")[0]; array.Equal(none.Column(at), byKey.Column(at)) {
		t.Error("series by key have the scores of one series")
	}
}

// Where no value has rows enough for a model of its own, it is said what was chosen and what to do, also where some values have none.
func TestBacktestOfShortFleets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, rng := []byte("a,b,machine\n"), rand.New(rand.NewPCG(5, 5))
	row := func(machine int) {
		level := float64(machine*machine%17) * 10
		text = fmt.Appendf(text, "%.4f,%.4f,m%02d\n", level+rng.NormFloat64(), -level+rng.NormFloat64(), machine)
	}
	for range 60 {
		for machine := range 30 {
			row(machine)
		}
	}
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("short.csv")
	for range 300 {
		row(7)
	}
	write("one.csv")
	const few = "no value of machine has rows enough for a model of its own (30 values, 60 of 100 rows at most)"
	for _, c := range []struct{ args, want string }{
		{"short.csv", few + ". They explain 99 % of the variance of a, 99 % of b, so each has one; --set transform.series=column:machine makes one for all"},
		{"short.csv --set model.by=column:machine", few + "; without model.by there is one for all"},
		{"short.csv --json", `"no_scores":"` + few},
		{"short.csv --set transform.series=column:machine", "1700 scored, from row 100 on"},
		{"one.csv", " of 1 model (29 values of machine have too few rows for one)"},
	} {
		said, fault := lcaStream(t, dir, "", append([]string{"backtest", "--key", "machine"}, strings.Fields(c.args)...)...)
		if !strings.Contains(string(said), c.want) {
			t.Errorf("%s: %s%s, want %q", c.args, said, fault, c.want)
		}
	}
	said, _ := lcaStream(t, dir, "", "backtest", "short.csv", "--key", "machine", "-o", "-")
	if !strings.Contains(string(said), "No row was scored: "+few) {
		t.Errorf("the page does not say why no row was scored: %.300s", said)
	}
}

// Where each row is a series of its own, rows have a score by the row alone, and it is said why there are no episodes.
func TestBacktestSeriesOfOneRow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, rng := []byte("a,b,order\n"), rand.New(rand.NewPCG(5, 5))
	for i := range 600 {
		text = fmt.Appendf(text, "%.4f,%.4f,o%d\n", rng.NormFloat64(), rng.NormFloat64(), i)
	}
	if err := os.WriteFile(filepath.Join(dir, "orders.csv"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	said, fault := lcaStream(t, dir, "", "backtest", "orders.csv", "--key", "order")
	const none = "no episodes are told: no series has more than 50 rows behind the first version, and the first 50 of each are scored one by one (--key= makes all rows one series)"
	if !strings.Contains(string(said), "500 scored, from row 100 on") || !strings.Contains(string(said), none) {
		t.Errorf("%s%s", said, fault)
	}
}

func TestBacktestRefuses(t *testing.T) {
	t.Parallel()
	dir := backtestFiles(t)
	if err := os.WriteFile(filepath.Join(dir, "other.csv"), []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{
		"needs FILE...":                                {},
		"no.csv: no such file":                         {"no.csv"},
		"is named twice":                               {"rows.csv", "rows.csv"},
		"--until 1500 is not before the end":           {"rows.csv", "--until", "1500"},
		"--until x: want a number of rows":             {"rows.csv", "--until", "x"},
		"2026-01-01 is a time: say with --time":        {"rows.csv", "--until", "2026-01-01"},
		"times.csv has times: say with --time":         {"rows.csv", "--labels", "times.csv"},
		"one.csv has keys: say with --key":             {"rows.csv", "--labels", "one.csv", "--time", "at"},
		"--labels: there are 0 columns \"no\"":         {"rows.csv", "--labels", "no"},
		`column "a" has`:                               {"rows.csv", "--labels", "a"},
		`column "machine" is utf8; want numbers`:       {"rows.csv", "--labels", "machine"},
		`column "machine" has "m0", which is no time`:  {"rows.csv", "--time", "machine"},
		"say with --key which column":                  {"rows.csv", "--key=", "--set", "model.by=key"},
		"model.by is header:x, and rows of files":      {"rows.csv", "--set", "model.by=header:x"},
		"transform.series is key, and rows of files":   {"rows.csv", "--key=", "--set", "transform.series=key"},
		"transform.series: there are 0 columns \"no\"": {"rows.csv", "--set", "transform.series=column:no"},
		"all inputs need the columns of the first":     {"rows.csv", "other.csv"},
		"--rows rows.csv: extension":                   {"m0.csv", "--rows", "rows.csv", "--force"},
		"--rows rows.csv is rows.csv, which is read":   {"rows.csv", "--rows", "rows.csv", "--force"},
		"transform.pin_version is 7":                   {"rows.csv", "--set", "transform.pin_version=7"},
		"labels.csv exists already":                    {"rows.csv", "--episodes", "labels.csv"},
		"no/o.html: no such file or directory":         {"rows.csv", "-o", "no/o.html"}, // before any row is read: that may take hours
		"is named twice, for two outputs":              {"rows.csv", "-o", "o.arrow", "--rows", "./o.arrow"},
		"--json and --rows - would both":               {"rows.csv", "--json", "--rows", "-"},
		"makes no model: 3 rows are too few":           {"rows.csv", "--features", "a,b,c", "--until", "3"},
	} {
		if _, fault := lcaStream(t, dir, "", append([]string{"backtest", "-c", "plain.yaml", "--time="}, args...)...); !strings.Contains(fault, says) {
			t.Errorf("%v: %q does not say %q", args, fault, says)
		}
	}
}
