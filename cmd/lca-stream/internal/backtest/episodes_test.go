package backtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
)

// machines backtests 12,000 rows of two machines in turn, one a second, the first 6,000 of them the normal stretch. Machine m1 is faulty from row 9001 to row 9601.
func machines(t *testing.T, set func(*config.Config, *flags)) (r Result, all []episode.Record, err error) {
	t.Helper()
	r1 := rand.New(rand.NewPCG(5, 5))
	var text strings.Builder
	text.WriteString("at,machine,a,b,faulty\n")
	for i := range 12_000 {
		far, faulty := 0., 0
		if i%2 == 1 && i > 9000 && i <= 9601 {
			far, faulty = 3, 1
		}
		fmt.Fprintf(&text, "2026-05-03T%02d:%02d:%02dZ,m%d,%v,%v,%d\n", i/3600, i/60%60, i%60, i%2, far+r1.NormFloat64(), r1.NormFloat64(), faulty)
	}
	cfg := config.Default()
	cfg.Source.Features = []string{"a", "b"}
	f := &flags{key: "machine", until: "6000", labels: "faulty", time: "at"}
	set(cfg, f)
	return told(t, cfg, f, text.String())
}

// told backtests a CSV file.
func told(t *testing.T, cfg *config.Config, f *flags, text string) (r Result, all []episode.Record, err error) {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "episodes.json")
	if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	p := &app.Program{Stdout: &said, Stderr: io.Discard, Getenv: func(string) (string, bool) { return "", false }}
	f.inputs, f.episodes, f.json, f.config, f.timeTold = []string{in}, out, true, "of the test", true
	if err := f.check(); err != nil {
		t.Fatal(err)
	}
	b := &backtest{flags: f, config: cfg, log: app.QuietLogger(p, cfg.Logger), first: -1}
	if f.key != "" && !cfg.Model.By.Keyed() {
		b.series = modelkey.By{Place: modelkey.Key}
	}
	if err := b.run(t.Context(), p); err != nil {
		return r, nil, err
	}
	if err := json.Unmarshal(said.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	text2, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text2, &all); err != nil {
		t.Fatal(err)
	}
	return r, all, nil
}

// The fault of a machine is one episode of its series, told in full; a budget in time and one in rows mean the same where a row comes each second.
func TestEpisodes(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*config.Config, *flags){
		"a day":     func(c *config.Config, _ *flags) { c.Alarms.Budget, _ = episode.ParseBudget("10/day") },
		"rows":      func(c *config.Config, _ *flags) { c.Alarms.Budget, _ = episode.ParseBudget("1/8640 rows") },
		"no time":   func(_ *config.Config, f *flags) { f.time = "" },
		"own model": func(c *config.Config, _ *flags) { c.Model.By = modelkey.By{Place: modelkey.Key} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, all, err := machines(t, set)
			if err != nil {
				t.Fatal(err)
			}
			if r.Faults == nil || *r.Faults != 1 || *r.Met != 1 || *r.FalseEpisodes > 3 || *r.Episodes != len(all) || *r.Episodes != *r.FalseEpisodes+1 || *r.DelayRows > 30 {
				t.Fatalf("%d episodes in the file; %v of %v faults met, %v false of %v, delay %v", len(all), *r.Met, *r.Faults, *r.FalseEpisodes, *r.Episodes, *r.DelayRows)
			}
			for _, e := range all {
				if e.From.Row < 9001 || e.From.Row > 9601 {
					continue
				}
				if *e.Series != "m1" || e.Type != episode.Closed || *e.Reason != episode.Usual || e.To.Row < 9590 || e.To.Row > 9700 || e.Rows < 280 || e.RowsOver > e.Rows || e.Peak.Score < e.Level || e.Seq == 0 ||
					e.ID != fmt.Sprintf("default/0/m1/%d.%d", e.From.Offset, e.From.Row) || (e.Time == nil) != (name == "no time") {
					t.Errorf("%+v", e)
				}
				if c := e.Causes[0]; len(e.Causes) != 2 || c.Feature != "a" || c.Direction != "up" || *c.Before > 1 || *c.Now < 2 || *c.Onset > 5 || *c.Onset < -40 || !strings.HasPrefix(e.Message, "m1: a went up at ") {
					t.Errorf("%+v onset %d, %v %v: %s", c, *c.Onset, *c.Before, *c.Now, e.Message)
				}
			}
		})
	}
}

// The episode of a machine that has no rows for a day is over by then, as it is live, also where it has a model of its own: what comes later is another one.
func TestSilentMachine(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*config.Config){
		"series":    func(*config.Config) {},
		"own model": func(c *config.Config) { c.Model.By = modelkey.By{Place: modelkey.Key} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(6, 6))
			var text strings.Builder
			text.WriteString("at,machine,a,b\n")
			begin := time.Date(2026, 5, 3, 0, 0, 0, 0, time.UTC)
			for i := range 18_000 {
				far := 0.
				if i%2 == 1 && i > 3100 {
					if far = 8; i > 3300 && i < 17_000 {
						continue
					}
				}
				fmt.Fprintf(&text, "%s,m%d,%v,%v\n", begin.Add(time.Duration(i)*10*time.Second).Format(time.RFC3339), i%2, far+r.NormFloat64(), r.NormFloat64())
			}
			cfg := config.Default()
			cfg.Source.Features = []string{"a", "b"}
			set(cfg)
			_, all, err := told(t, cfg, &flags{key: "machine", until: "2500", time: "at"}, text.String())
			if err != nil {
				t.Fatal(err)
			}
			var of []string
			for _, e := range all {
				if *e.Series != "m1" || e.From.Row < 3100 {
					continue
				}
				reason := "open"
				if e.Reason != nil {
					reason = *e.Reason
				}
				if of = append(of, reason); reason == episode.Silent && (e.To.Row < 3290 || e.To.Row > 3300) {
					t.Errorf("it ended at row %d", e.To.Row)
				}
			}
			if diff := cmp.Diff([]string{episode.Silent, "open"}, of); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A sensor that stays at its last value is met within 200 rows, and named first.
func TestFrozenSensor(t *testing.T) {
	t.Parallel()
	const usual, frozen = 6000, 300
	names, seeds := []string{"a", "b", "c", "d", "e", "f", "g", "h"}, uint64(40)
	if testing.Short() {
		seeds = 8
	}
	met, named := 0, 0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 10))
		var own, stays, row, last [8]float64
		for k := range stays {
			stays[k] = 0.5 + 0.48*rng.Float64()
		}
		guilty, load, text := int(seed%8), 0., strings.Builder{}
		text.WriteString(strings.Join(names, ",") + "\n")
		for i := range usual + frozen {
			load = 0.97*load + 0.24*float64(seed%2)*rng.NormFloat64() // every other plant has one
			for k := range own {
				own[k] = stays[k]*own[k] + math.Sqrt(1-stays[k]*stays[k])*rng.NormFloat64()
				row[k] = float64(10*k) + own[k] + load + 0.3*rng.NormFloat64()
			}
			if i >= usual {
				row[guilty] = last[guilty]
			}
			last = row
			text.WriteString(strings.Trim(strings.Join(strings.Fields(fmt.Sprint(row)), ","), "[]") + "\n")
		}
		cfg := config.Default()
		cfg.Source.Features = names
		_, all, err := told(t, cfg, &flags{}, text.String())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if e.From.Row >= usual && e.From.Row < usual+200 {
				met++
				if e.Causes[0].Feature == names[guilty] {
					named++
				}
				break
			}
		}
	}
	if float64(met) < 0.95*float64(seeds) || float64(named) < 0.9*float64(met) {
		t.Errorf("%d of %d met, %d of them named first", met, seeds, named)
	}
}

// The last record of a glitch says what its rows were like, and not those behind it in which the means of the last rows forget it.
func TestGlitch(t *testing.T) {
	t.Parallel()
	const at, glitches = 4000, 8
	met := 0
	for seed := range uint64(glitches) {
		rng := rand.New(rand.NewPCG(seed, 12))
		text := strings.Builder{}
		text.WriteString("a,b,c\n")
		for i := range at + 300 {
			b := rng.NormFloat64()
			if i >= at && i < at+1+int(seed%5) {
				b = -12
			}
			fmt.Fprintf(&text, "%v,%v,%v\n", rng.NormFloat64(), b, rng.NormFloat64())
		}
		cfg := config.Default()
		cfg.Source.Features = []string{"a", "b", "c"}
		_, all, err := told(t, cfg, &flags{}, text.String())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(r episode.Record) bool { return r.From.Row >= at && r.From.Row < at+5 })
		if i < 0 { // by chance one is open already
			continue
		}
		met++
		if c := all[i].Causes[0]; all[i].Type != episode.Closed || c.Feature != "b" || c.Direction != "down" || *c.Now > -10 {
			t.Errorf("glitch %d: %s", seed, all[i].Message)
		}
		for _, c := range all[i].Causes {
			if int64(*c.Onset) >= all[i].Rows {
				t.Errorf("glitch %d of %d rows: %s since row %d", seed, all[i].Rows, c.Feature, *c.Onset)
			}
		}
	}
	if met < glitches-1 {
		t.Errorf("%d of %d glitches are met", met, glitches)
	}
}

// A budget in time needs times, unless it is the default, in whose place one in rows is taken.
func TestBudgetWithoutTimes(t *testing.T) {
	t.Parallel()
	if _, _, err := machines(t, func(c *config.Config, f *flags) {
		f.time = ""
		c.Alarms.Budget, _ = episode.ParseBudget("2/day")
	}); err == nil || !strings.Contains(err.Error(), "--time") {
		t.Errorf("error %v", err)
	}
}

// An episode is judged by the rows of faults that are in it, in its own series, and by no others.
func TestMet(t *testing.T) {
	one := func(series string, from, to int64) *episode.Record {
		r := &episode.Record{From: episode.Place{Offset: from}, To: episode.Place{Offset: to}}
		if series != "" {
			r.Series = &series
		}
		return r
	}
	faults := []fault{{"m1", []int64{10, 12, 14, 16}}, {"m2", []int64{11, 13}}, {"m1", []int64{50}}}
	for name, c := range map[string]struct {
		all        []*episode.Record
		wrong, met int
		delay      float64
	}{
		"none":                  {nil, 0, 0, -1},
		"late by two rows":      {[]*episode.Record{one("m1", 13, 40)}, 0, 1, 2},
		"of another series":     {[]*episode.Record{one("m3", 10, 60)}, 1, 0, -1},
		"of all series":         {[]*episode.Record{one("", 0, 60)}, 0, 3, 0},
		"before, and behind":    {[]*episode.Record{one("m1", 0, 9), one("m1", 17, 49)}, 2, 0, -1},
		"between rows of it":    {[]*episode.Record{one("m1", 11, 11)}, 1, 0, -1},
		"two of one fault":      {[]*episode.Record{one("m1", 16, 20), one("m1", 12, 13)}, 0, 1, 1},
		"one of two, one false": {[]*episode.Record{one("m2", 13, 13), one("m2", 20, 30), one("m1", 50, 51)}, 1, 2, 0.5},
	} {
		m := (&judge{faults: faults}).met(c.all)
		got := -1.
		if m.delay != nil {
			got = *m.delay
		}
		if diff := cmp.Diff([]float64{float64(c.wrong), float64(c.met), c.delay}, []float64{float64(m.wrong), float64(m.met), got}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Where rows are not in the order of their times, or have one, hardly any episode opens: it is said why.
func TestTimesThatDoNotGoOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, budget, want string
		micros             func(i int) int64
	}{
		{"in order", "1/day", "", func(i int) int64 { return int64(i) * 1e6 }},
		{"backwards", "1/day", "9999 of 10000 rows have times before", func(i int) int64 { return 1e12 - int64(i)*1e6 }},
		{"shuffled", "1/day", "of 10000 rows have times before", func(i int) int64 { return int64(i*7919%10_000) * 1e6 }},
		{"one", "1/day", "no time passes", func(int) int64 { return 1e12 }},
		{"backwards, and rows count", "1/2000 rows", "", func(i int) int64 { return 1e12 - int64(i)*1e6 }},
	} {
		budget, err := episode.ParseBudget(c.budget)
		if err != nil {
			t.Fatal(err)
		}
		var told episodes
		if err := told.begin(budget, true); err != nil {
			t.Fatal(err)
		}
		rows := &cells{times: make([]moment, 10_000)}
		for i := range rows.times {
			rows.times[i] = moment{micros: c.micros(i), known: true}
		}
		told.clock(rows, len(rows.times))
		if got := told.fault(10_000); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
