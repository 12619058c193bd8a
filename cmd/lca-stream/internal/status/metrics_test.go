package status

import (
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

var update = flag.Bool("update", false, "rewrite golden files")

// A dashboard breaks when a metric changes its name, its type or its labels, so the list is kept
// with the tests: name, type, labels, help text.
func TestMetricsAreTheOnesPromised(t *testing.T) {
	got := strings.Join(shape(scrape(t, complete(t))), "\n") + "\n"
	golden := filepath.Join("testdata", "metrics.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// docs/operations.md lists every metric with what it means.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`(lca_[a-z_]+)").FindAllStringSubmatch(string(page), -1) {
		documented[m[1]] = true
	}
	for _, line := range shape(scrape(t, complete(t))) {
		name, _, _ := strings.Cut(line, " ")
		if !documented[name] {
			t.Errorf("docs/operations.md does not list %s", name)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/operations.md lists %s, which does not exist", name)
	}
}

// What promtool complains of, people's own linters complain of.
func TestPromtoolFindsNothing(t *testing.T) {
	for name, p := range map[string]*process{"before anything": newProcess(), "busy": complete(t)} {
		check := exec.Command(testtools.Promtool(t), "check", "metrics")
		check.Stdin = strings.NewReader(scrape(t, p))
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// The number of series must not grow with the data: only with partitions and reasons.
func TestSeriesAreBounded(t *testing.T) {
	p := busy(t)
	before := strings.Count(scrape(t, p), "\nlca_")
	p.learn(t, 800)
	if after := strings.Count(scrape(t, p), "\nlca_"); after != before {
		t.Errorf("%d series, and %d after more rows", before, after)
	}
}

func TestMetricsCount(t *testing.T) {
	p := complete(t)
	page := scrape(t, p)
	for _, want := range []string{
		`lca_source_records_total{partition="0",topic="events"} 4`,
		`lca_source_rows_total 900`,
		`lca_learnt_rows_total 800`,
		`lca_updates_total 40`,
		`lca_warmup_rows 120`,
		`lca_warmup_wanted_rows 600`,
		`lca_transform_rows_total 93`,
		`lca_rejected_rows_total{reason="nan"} 7`,
		`lca_rejected_rows_total{reason="inf"} 0`,
		`lca_dead_letter_records_total{reason="format_unknown"} 1`,
		`lca_dead_letter_records_total{reason="json_invalid"} 0`,
		`lca_source_lag_records{partition="3"} 42`,
		`lca_source_open_transactions 1`,
		`lca_seconds_since_commit{partition="3",stage="transform"} 0`,
		`lca_broker_up 1`,
		`lca_registry_up 1`,
		`lca_model_version 800`,
		`lca_update_duration_seconds_count 40`,
		`lca_update_duration_seconds_bucket{le="+Inf"} 40`,
		`lca_build_info{goversion="go`,
	} {
		if !strings.Contains(page, "\n"+want) {
			name, _, _ := strings.Cut(want, " ")
			t.Errorf("want %s, and the page has:\n%s", want, grep(page, name))
		}
	}
}

// busy is a process that has done some of everything.
func busy(t *testing.T) *process {
	t.Helper()
	p := newProcess()
	p.learn(t, 800)
	p.transform(t, 100, 7)
	p.stats.SetLag(map[source.Partition]int64{{Topic: "events", ID: 3}: 42}, 1)
	p.stats.SetBehind("transform", map[source.Partition]int64{{Topic: "events", ID: 3}: 0})
	p.stats.SetReady(stats.Readiness{Ready: true})
	p.stats.SetBroker(stats.Readiness{Ready: true})
	p.stats.SetRegistry(stats.Readiness{Ready: true})
	return p
}

// complete has all series there are, those of the warm-up too, which end with the first model.
func complete(t *testing.T) *process {
	t.Helper()
	p := busy(t)
	p.stats.SetWaiting(&stats.Waiting{Rows: 120, Wanted: 600})
	p.stats.ModelCounts("learn").Memory.Add(1)
	p.stats.Episodes.Own(source.Partition{Topic: "events"}, nil)
	return p
}

func scrape(t *testing.T, p *process) string {
	t.Helper()
	code, _, body := fetch(t, http.MethodGet, serve(t, p, nil)+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, body)
	}
	return body
}

// shape is a line for each of our metrics: name, type, {labels}, help.
func shape(page string) []string {
	label := regexp.MustCompile(`(\w+)="`)
	help, kind, labels := map[string]string{}, map[string]string{}, map[string][]string{}
	for line := range strings.Lines(page) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		switch {
		case len(fields) == 4 && fields[1] == "HELP":
			help[fields[2]] = fields[3]
		case len(fields) == 4 && fields[1] == "TYPE":
			kind[fields[2]] = fields[3]
		default:
			name := regexp.MustCompile(`^\w+`).FindString(line)
			for _, m := range label.FindAllStringSubmatch(line, -1) {
				if !slices.Contains(labels[name], m[1]) {
					labels[name] = append(labels[name], m[1])
				}
			}
		}
	}
	var lines []string
	for name := range kind {
		if strings.HasPrefix(name, "lca_") {
			slices.Sort(labels[name])
			lines = append(lines, name+" "+kind[name]+" {"+strings.Join(labels[name], ",")+"} "+help[name])
		}
	}
	slices.Sort(lines)
	return lines
}

func grep(page, part string) string {
	var found []string
	for line := range strings.Lines(page) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}
