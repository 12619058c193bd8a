package main

import (
	"bytes"
	"compress/gzip"
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
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/backtest"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// nasty is a name, and a value, that would be a tag and a script if a page took it for one.
const nasty = `</script><img src=x onerror="document.title='run'">{{.}}`

// pageRows is a CSV file of two machines in turn, one of which has a fault: a column with a nasty name goes up.
func pageRows(rows int) string {
	r, at := rand.New(rand.NewPCG(4, 7)), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	var text strings.Builder
	fmt.Fprintf(&text, "at,machine,a,b,%q,still,faulty\n", strings.ReplaceAll(nasty, `"`, "'"))
	for i := range rows {
		far, faulty := 0.0, 0
		if i%2 == 1 && i >= rows*3/4 && i < rows*3/4+200 {
			far, faulty = 6, 1
		}
		machine := []string{"m0", strings.ReplaceAll(nasty, `"`, "'")}[i%2]
		fmt.Fprintf(&text, "%s,%q,%.4f,%.4f,%.4f,7,%d\n", at.Add(time.Duration(i)*20*time.Second).Format(time.RFC3339), machine, r.NormFloat64(), r.NormFloat64(), far+r.NormFloat64(), faulty)
	}
	return text.String()
}

// backtestPage is the page of a file of these rows.
func backtestPage(t *testing.T, rows string, args ...string) (file, page string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rows.csv"), []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	said := string(must(t, dir, append([]string{"backtest", "rows.csv"}, args...)...))
	file = filepath.Join(dir, "rows.html")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(said, "the page: rows.html") {
		t.Fatal(err, said)
	}
	if len(text) > 500_000 {
		t.Errorf("the page has %d bytes", len(text))
	}
	for _, outside := range []string{"http://", "<link rel=\"stylesheet", "src=\"", "@import"} {
		if strings.Contains(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", ""), outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	return file, string(text)
}

// A machine that starts and stops has an episode at each start: the page says how the column with its state helps, and no more once it does.
func TestBacktestNamesStates(t *testing.T) {
	t.Parallel()
	r, at := rand.New(rand.NewPCG(5, 7)), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	var rows strings.Builder
	rows.WriteString("at;n;a;b;state\n")
	for i := range 9000 {
		state, load := "rests", 0.0
		if i%1500 > 1200 || i > 8000 {
			state, load = "runs", 50
		}
		fmt.Fprintf(&rows, "%s;%d;%.4f;%.4f;%s\n", at.Add(time.Duration(i)*time.Minute).Format("02.01.2006 15:04:05"), i, load+r.NormFloat64(), load/2+r.NormFloat64(), state)
	}
	const told, hint = "episodes in 6 days", "gives each state a model of its own"
	_, page := backtestPage(t, rows.String(), "--set", "alarms.budget=10/day", "--key=")
	if !strings.Contains(page, told) || !strings.Contains(page, "If state says how the machine runs") || !strings.Contains(page, "--set model.by=column:state "+hint) {
		t.Error("the page does not say what to do with the state")
	}
	_, page = backtestPage(t, rows.String(), "--set", "alarms.budget=10/day", "--key=", "--set", "model.by=column:state")
	if strings.Contains(page, hint) || !strings.Contains(page, "model:\n  by: column:state\n") {
		t.Error("the page advises what was done, or its configuration does not say so")
	}
}

// TestBacktestPageInABrowser looks at the page of a backtest as a person does: what was chosen, what it says, and that no name of the file runs.
func TestBacktestPageInABrowser(t *testing.T) {
	t.Parallel()
	file, page := backtestPage(t, pageRows(12_000), "--until", "4000", "--labels", "faulty")
	b := startBrowser(t)
	b.do(t, chromedp.Navigate("file://"+file))
	b.wait(t, `document.querySelectorAll('#timeline path.one').length === 1`)
	type look struct {
		Verdict, Columns, How, YAML, First, Title string
		Cards, Drawn, Budgets, Lanes, Images      int
		Facts                                     struct {
			Timed, Labelled bool
			Bins            []struct{ P float64 }
			Drawn           []struct {
				Row, Low []any
				From, To int
			}
			Budgets []struct{ Episodes, Met, False int }
		}
	}
	seen := eval[look](t, b, `(() => {
		const text = s => [...document.querySelectorAll(s)].map(e => e.textContent).join(' | '), count = s => document.querySelectorAll(s).length;
		return { Verdict: text('.verdict'), Columns: text('#card-columns dl:last-of-type'), How: text('#card-columns dl:first-of-type'), YAML: text('#yaml'), First: text('#episode-0 figcaption'), Title: document.title,
			Cards: count('.episode'), Drawn: count('.episode path.one'), Budgets: count('#budgets path.one') + count('#card-budgets tbody tr'), Lanes: facts.Lanes.length, Images: count('img'), Facts: facts }
	})()`)
	for what, pair := range map[string][2]string{
		"verdict": {seen.Verdict, "at a budget of 1/day."}, "labels": {seen.Verdict, "With your labels: 1 of 1 fault met"}, "rival": {seen.Verdict, "A Mahalanobis distance of the same rows, its threshold chosen afterwards for at most as many false ones: "}, "time": {seen.Columns, "atit says when a row was"},
		"key": {seen.Columns, "machineit says whose row it is"}, "constant": {seen.Columns, "stilla constant: 7"}, "series": {seen.How, "the rows of each value of machine"},
		"features": {seen.YAML, `features: [a, b, "</script>`}, "live": {seen.YAML, "series: column:machine"}, "cause": {seen.First, "</script><img"},
	} {
		if !strings.Contains(pair[0], pair[1]) {
			t.Errorf("%s: %q does not say %q", what, pair[0], pair[1])
		}
	}
	if seen.Title != "rows.csv" || seen.Images > 0 || strings.Contains(page, "<img") {
		t.Errorf("a name of the file is part of the page: title %q, %d images", seen.Title, seen.Images)
	}
	f := seen.Facts
	if seen.Cards == 0 || seen.Drawn < seen.Cards || seen.Cards != len(f.Drawn) || seen.Budgets != 1+len(f.Budgets) || seen.Lanes == 0 || !f.Timed || !f.Labelled || len(f.Bins) < 300 {
		t.Errorf("%d cards, %d columns drawn, %d of budgets, %d lanes, %+v", seen.Cards, seen.Drawn, seen.Budgets, seen.Lanes, f.Budgets)
	}
	if d := f.Drawn[0]; d.To < d.From || len(d.Row)-(d.To-d.From+1) < 40 {
		t.Errorf("%d stretches, %d to %d in the episode", len(d.Row), d.From, d.To)
	}
	for i := 1; i < len(f.Budgets); i++ {
		if f.Budgets[i].Episodes < f.Budgets[i-1].Episodes {
			t.Errorf("a larger budget has fewer episodes: %+v", f.Budgets)
		}
	}
	if _, err := config.Load(config.Input{File: "-", Stdin: strings.NewReader(seen.YAML), Getenv: os.LookupEnv}); err != nil {
		t.Error(err)
	}
	b.byKeys(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{400, 1280} {
			b.look(t, scheme, width)
			legible(t, b, scheme, width)
			b.screenshot(t, fmt.Sprintf("build/screenshots/backtest-%s-%d.png", scheme, width), chromedp.FullScreenshot(100))
		}
	}
	b.printed(t)
	if faults := b.faults(); len(faults) > 0 {
		t.Errorf("the console says:\n%s", strings.Join(faults, "\n"))
	}
}

// byKeys goes through the page of a backtest with the keyboard: a mark of the timeline leads to its episode, and the configuration is copied.
func (b *browser) byKeys(t *testing.T) {
	t.Helper()
	to := func(what, there string) {
		t.Helper()
		for range 200 {
			b.do(t, chromedp.KeyEvent(kb.Tab))
			if eval[bool](t, b, there) {
				if !eval[bool](t, b, `(e => [e, ...e.children].some(x => getComputedStyle(x).outlineStyle !== 'none'))(document.activeElement)`) {
					t.Errorf("the focus on %s is not seen", what)
				}
				return
			}
		}
		t.Fatalf("the key Tab does not lead to %s", what)
	}
	to("an episode of the timeline", `document.activeElement.closest('#timeline a') !== null`)
	b.do(t, chromedp.KeyEvent(kb.Enter))
	b.wait(t, `/^#episode-\d+$/.test(location.hash)`)
	to("the button that copies", `document.activeElement.id === 'copy'`)
	b.do(t, chromedp.KeyEvent(kb.Enter))
	b.wait(t, `document.getElementById('copy').textContent === 'copied'`)
	to("the configuration", `document.activeElement.id === 'yaml'`)
}

// printed looks at the page as a printer does: dark on white whatever the scheme is, as wide as the paper, without buttons.
func (b *browser) printed(t *testing.T) {
	t.Helper()
	b.do(t,
		protocol(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}),
		protocol(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 718, Height: 1000, DeviceScaleFactor: 1})) // A4 within usual margins
	seen := eval[struct {
		Paper, Ink   string
		Wide, Across int
		Buttons      int
	}](t, b, `(() => {
		dispatchEvent(new Event('beforeprint'));
		const of = getComputedStyle(document.querySelector('.verdict'));
		return { Paper: getComputedStyle(document.body).backgroundColor, Ink: of.color, Wide: document.documentElement.scrollWidth, Across: +document.getElementById('timeline').getAttribute('viewBox').split(' ')[2],
			Buttons: [...document.querySelectorAll('button')].filter(e => getComputedStyle(e).display !== 'none').length }
	})()`)
	if seen.Paper != "rgb(255, 255, 255)" || seen.Ink != "rgb(0, 0, 0)" || seen.Wide > 718 || seen.Across > 718 || seen.Buttons > 0 {
		t.Errorf("on paper it is %+v", seen)
	}
}

// A page is made of whatever rows there are: few, none that are unusual, without times, of two columns and of many.
func TestBacktestPageOfAnyRows(t *testing.T) {
	t.Parallel()
	plain := func(rows, columns int) string {
		r := rand.New(rand.NewPCG(5, uint64(columns)))
		names := make([]string, columns)
		for k := range names {
			names[k] = fmt.Sprintf("a_column_with_quite_a_long_name_%d", k)
		}
		text := strings.Join(names, ",") + "\n"
		for range rows {
			for k := range names {
				names[k] = fmt.Sprintf("%.3f", r.NormFloat64())
			}
			text += strings.Join(names, ",") + "\n"
		}
		return text
	}
	timed := func(write func(time.Time) string) string {
		r, at := rand.New(rand.NewPCG(7, 7)), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		text := "day;hour;a;b\n"
		for i := range 1500 {
			text += fmt.Sprintf("%s;%.3f;%.3f\n", write(at.Add(time.Duration(i)*time.Minute)), r.NormFloat64(), r.NormFloat64())
		}
		return text
	}
	for name, c := range map[string]struct{ rows, says string }{
		"two columns":  {plain(1500, 2), "in 1500 rows, at a budget of 1/2000 rows."},
		"many columns": {plain(700, 500), "a_column_with_quite_a_long_name_499"},
		"wide rows":    {plain(800, 193), "100 rows of 800 rows were scored. No episodes are told: the last rows are scored with up to 192 columns"},
		"few rows":     {plain(20, 3), "No row was scored: 20 rows of 3 columns make no model yet."},
		"no times":     {plain(300, 3), "no column says when a row was"},
		"dates, hours": {timed(func(at time.Time) string { return at.Format("02.01.2006;15:04:05") }), "in 25 hours (1500 rows), at a budget of 1/day."},
		"dates alone":  {timed(func(at time.Time) string { return at.Format("02.01.2006;") }), "day has the dates of days with many rows"},
		"in bursts":    {timed(func(at time.Time) string { return at.Truncate(12 * time.Hour).Format("02.01.2006 15:04:05;") }), "by --time the rows came in bursts: of 24 hours they are"},
		"one row":      {plain(1, 2), "1 row of 2 columns"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, page := backtestPage(t, c.rows); !strings.Contains(page, c.says) {
				t.Errorf("it does not say %q", c.says)
			}
		})
	}
}

// A page with many episodes stays small: its pictures are of the 20 clearest, with numbers of four digits, and rows are told once for all columns.
func TestBacktestPageOfManyEpisodes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 7))
	rows := strings.Builder{}
	rows.WriteString("temperature_of_the_bearing,pressure_of_the_hydraulic_unit,speed_of_the_spindle,current_of_the_motor\n")
	for i := range 24_000 {
		fault := 0.
		if i > 3000 && i%250 < 40 {
			fault = 9e-3
		}
		for k := range 4 {
			fmt.Fprintf(&rows, "%s%.9e", strings.Repeat(",", min(k, 1)), -1.2345e-7*(1+1e-3*r.NormFloat64()+fault))
		}
		rows.WriteByte('\n')
	}
	_, page := backtestPage(t, rows.String(), "--set", "alarms.budget=1/20 rows")
	if len(page) > 300_000 { // with all that it may name, 500,000
		t.Errorf("the page has %d bytes", len(page))
	}
	if !strings.Contains(page, `id="episode-19"`) || strings.Contains(page, `id="episode-20"`) || strings.Count(page, ", rows ") < 80 {
		t.Errorf("%d episodes are named: the test is of many", strings.Count(page, ", rows "))
	}
}

// A page draws what an episode names of a column of lists, whose names of features are no columns.
func TestBacktestPageOfLists(t *testing.T) {
	t.Parallel()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float64)}}, nil))
	defer b.Release()
	list := b.Field(0).(*array.FixedSizeListBuilder)
	r := rand.New(rand.NewPCG(9, 7))
	for i := range 1500 {
		list.Append(true)
		for k := range 3 {
			v := r.NormFloat64()
			if k == 1 && i >= 1200 && i < 1300 {
				v += 9
			}
			list.ValueBuilder().(*array.Float64Builder).Append(v)
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "rows.arrows"))
	if err != nil {
		t.Fatal(err)
	}
	w := ipc.NewWriter(f, ipc.WithSchema(rec.Schema()))
	if err := errors.Join(w.Write(rec), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "backtest", "rows.arrows")
	if page, err := os.ReadFile(filepath.Join(dir, "rows.html")); err != nil || !strings.Contains(string(page), "<figcaption>v[1]") {
		t.Errorf("%v: it does not draw v[1]", err)
	}
}

// Nothing is written where there is nothing to say, and a page takes the place of no other file.
func TestBacktestPageIsWholeOrNotThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"none.csv": "a,b\n", "broken.csv": "a,b\n1,\"2\n3,4\n", "rows.csv": pageRows(400), "other.html": "mine", "rows.html": "mine"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for says, args := range map[string][]string{
		"the files have no rows":           {"none.csv"},
		"broken.csv: ":                     {"broken.csv"},
		"rows.html exists already":         {"rows.csv"},
		"other.html exists already":        {"rows.csv", "-o", "other.html"},
		"--output - and --json would both": {"rows.csv", "-o", "-", "--json"},
	} {
		if _, fault := lcaStream(t, dir, "", append([]string{"backtest"}, args...)...); !strings.Contains(fault, says) {
			t.Errorf("%v: %q does not say %q", args, fault, says)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 5 {
		t.Errorf("%v, %v", files, err)
	}
	for range 2 { // a page takes the place of a page
		must(t, dir, "backtest", "rows.csv", "-o", "page.html")
	}
	said := must(t, dir, "backtest", "rows.csv", "--json", "-o", "page.html")
	var r backtest.Result
	if err := json.Unmarshal(said, &r); err != nil || r.Rows != 400 {
		t.Errorf("%s: %v", said, err)
	}
}

// Files as other programs write them: semicolons and decimal commas, no names, compressed, whole numbers in one file and decimals in the next, lines that are
// no rows. Each makes the page of the same rows.
func TestBacktestOfCSVFilesOfAnyKind(t *testing.T) {
	t.Parallel()
	r, rows := rand.New(rand.NewPCG(6, 7)), make([][3]string, 1200)
	for i := range rows {
		for k := range rows[i] {
			rows[i][k] = fmt.Sprintf("%.3f", 20+r.NormFloat64())
			if k == 2 && i < 600 {
				rows[i][k] = fmt.Sprint(20 + r.IntN(20))
			}
		}
	}
	text := func(from, to int, names, separator, point string) string {
		all := strings.ReplaceAll(names, ",", separator)
		for _, row := range rows[from:to] {
			all += strings.ReplaceAll(strings.Join(row[:], ",")+"\n", ",", separator)
		}
		if point == "." {
			return all
		}
		return strings.ReplaceAll(all, ".", point)
	}
	const names = "a,b,c\n"
	dir := t.TempDir()
	files := map[string]string{
		"plain.csv": text(0, 1200, names, ",", "."), "german.csv": text(0, 1200, names, ";", ","), "bare.tsv": text(0, 1200, "", "\t", "."),
		"first.csv": text(0, 600, names, "|", "."), "second.csv": text(600, 1200, names, ",", "."),
		"bad.csv": text(0, 700, names, ",", ".") + "1,2\nx\n" + text(700, 1200, "", ",", "."),
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(files["plain.csv"]))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	files["packed.csv.gz"] = packed.String()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var want backtest.Result
	for i, inputs := range [][]string{{"plain.csv"}, {"german.csv"}, {"bare.tsv"}, {"packed.csv.gz"}, {"first.csv", "second.csv"}, {"bad.csv"}} {
		got := mustRun[backtest.Result](t, dir, "", append([]string{"backtest", "--json", "-o", "page.html", "--episodes", "episodes.json", "--force"}, inputs...)...)
		got.Seconds = 0
		if i == 0 {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" || got.Rows != 1200 || got.Scored < 1000 {
			t.Errorf("%v: %s", inputs, diff)
		}
		page, err := os.ReadFile(filepath.Join(dir, "page.html"))
		if says := "2 lines without a row: bad.csv:702 (wrong number of fields), bad.csv:703 (wrong number of fields)"; err != nil || strings.Contains(string(page), says) != (inputs[0] == "bad.csv") {
			t.Errorf("%v: what is said of bad lines, %v", inputs, err)
		}
	}
}

// A fleet in one file, one machine after the other or in turn: whose rows they are is found, and that each machine needs a model of its own where the machines
// differ; a column of states is none. The configuration that the page shows says the same.
func TestBacktestFindsWhoseRowsTheyAre(t *testing.T) {
	t.Parallel()
	fleetOf := func(machines int, key string, stacked bool, apart float64) string {
		r, at := rand.New(rand.NewPCG(8, 7)), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		lines := []string{}
		for i := range 3000 {
			machine, turn := i%machines, i/machines
			seconds := machine
			if stacked {
				machine, turn, seconds = i/1000, i%1000, 0
			}
			lines = append(lines, fmt.Sprintf("%s,m%d,%.4f,%.4f,%s,%d\n", at.Add(time.Duration(60*turn+seconds)*time.Second).Format(time.RFC3339),
				machine, apart*float64(machine)+r.NormFloat64(), -apart*float64(machine)+r.NormFloat64(), []string{"idle", "busy"}[i/50%2], i))
		}
		return "at," + key + ",a,b,state,seq\n" + strings.Join(lines, "")
	}
	fleet := func(key string, stacked bool, apart float64) string { return fleetOf(3, key, stacked, apart) }
	for name, c := range map[string]struct{ rows, says string }{
		"by its name":           {fleet("machine", false, 0), "series: column:machine"},
		"by the times":          {fleet("wer", true, 0), "series: column:wer"},
		"machines that differ":  {fleet("machine", false, 9), "by: column:machine"},
		"stacked, that differ":  {fleet("wer", true, 9), "by: column:wer"},
		"in turn, without name": {fleet("wer", false, 0), "topic: rows-whitened\n\nalarms:"},
		"nine of them":          {fleetOf(9, "wer", false, 0), "series: column:wer"},
		"nine that differ":      {fleetOf(9, "wer", false, 9), "by: column:wer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, page := backtestPage(t, c.rows); !strings.Contains(page, c.says) {
				_, page, _ = strings.Cut(page, `id="card-columns"`)
				t.Errorf("it does not say %q: %s", c.says, page[:3000])
			}
		})
	}
}
