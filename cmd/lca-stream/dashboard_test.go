package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// Each query of the dashboard shows something in a real Prometheus that has scraped real processes: one that does
// everything, and a learner with two transforms. Stages that run apart do not count rows twice.
func TestDashboardShowsData(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "plant", 2, nil)
	p := startPrometheus(t, map[string][]string{
		"together": {process(t, b, "together", "run")},
		"apart":    {process(t, b, "apart", "learn"), process(t, b, "apart", "transform"), process(t, b, "apart", "transform")},
	})
	wait, stop := b.Load(t, kafkatest.Load{Topic: "plant", Data: "sensors", Rows: 1 << 30, PerMessage: 20, Rate: 600, Bad: 0.02})
	for _, job := range []string{"together", "apart"} {
		for _, panel := range dashboardPanels(t) {
			for _, target := range panel.Targets {
				query := strings.NewReplacer("$job", job, "$instance", ".*", "$__rate_interval", "5s").Replace(target.Expr)
				p.until(t, panel.Title+": "+query, query, func(values []float64) bool { return len(values) > 0 && !math.IsNaN(values[0]) })
			}
		}
	}
	if models := p.labels(t, "model_id", "lca_model_info"); strings.Join(models, " ") != "apart together" {
		t.Errorf("models to choose from: %q", models)
	}
	stop()
	rows := float64(wait().Rows)
	for _, job := range []string{"together", "apart"} {
		whitened := fmt.Sprintf("sum(lca_transform_rows_total{job=%q})", job)
		p.until(t, fmt.Sprintf("%s, which should be %v", whitened, rows), whitened, func(values []float64) bool { return len(values) == 1 && values[0] == rows })
	}
}

// Every metric of the dashboard is one of the program's, also those that only a model for each key has.
func TestDashboardNamesMetrics(t *testing.T) {
	known, err := os.ReadFile("internal/status/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboardPanels(t) {
		for _, target := range panel.Targets {
			for _, name := range regexp.MustCompile(`lca_[a-z_]+`).FindAllString(target.Expr, -1) {
				plain := strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
				if !strings.Contains(string(known), `"`+plain+`"`) {
					t.Errorf("%s: no metric has the name %s", panel.Title, name)
				}
			}
		}
	}
}

// dashboardPanel is what is read of a panel.
type dashboardPanel struct {
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr string }
}

func dashboardPanels(t *testing.T) []dashboardPanel {
	t.Helper()
	text, err := os.ReadFile(chart + "/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []dashboardPanel }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

// process starts a command of a pipeline on topic plant, and returns the address of its metrics.
func process(t *testing.T, b *kafkatest.Broker, pipeline, command string) string {
	t.Helper()
	address := testtools.Address(t)
	file := filepath.Join(t.TempDir(), "stream.yaml")
	text := fmt.Sprintf(`kafka: {brokers: [%[1]s]}
source: {topic: plant, group: %[2]s, features: [temperature, pressure, flow, current, voltage, vibration, speed, humidity]}
lca: {neighbours: 500, skip_when_behind: false}
snapshot: {topic: %[2]s-models, model_id: %[2]s, every_rows: 500, every: 1s}
checkpoint: {topic: %[2]s-checkpoints}
transform: {topic: %[2]s-whitened}
dead_letter: {topic: %[2]s-rejected, max_rejects: 1000}
http: {listen: "%[3]s"}
`, strings.Join(b.Addrs(), ", "), pipeline, address)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("lca-stream", "topics", "init", "-c", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start(t, exec.Command("lca-stream", command, "-c", file))
	return address
}

// start starts a program that ends with the test, and whose output is shown if that fails.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	p := kafkatest.StartProcess(t, cmd, t.TempDir())
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", cmd, &out)
		}
	})
}

// prometheus is a server that scrapes once a second.
type prometheus struct{ url string }

func startPrometheus(t *testing.T, jobs map[string][]string) prometheus {
	t.Helper()
	dir := t.TempDir()
	address := testtools.Address(t)
	config := "global: {scrape_interval: 1s}\nscrape_configs:\n"
	for job, targets := range jobs {
		config += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: [%s]}]}\n", job, `"`+strings.Join(targets, `", "`)+`"`)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, exec.Command(testtools.Prometheus(t), "--config.file="+file, "--storage.tsdb.path="+dir, "--web.listen-address="+address, "--log.level=warn"))
	return prometheus{"http://" + address + "/api/v1/"}
}

// get asks the API. A server that does not answer yet has no answer.
func (p prometheus) get(t *testing.T, path string, query url.Values, answer any) (ok bool) {
	t.Helper()
	response, err := http.Get(p.url + path + "?" + query.Encode())
	if err != nil || response.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	var whole struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&whole); err != nil {
		t.Fatal(err)
	}
	if whole.Status != "success" {
		t.Fatalf("%s: %s", query, whole.Error)
	}
	if err := json.Unmarshal(whole.Data, answer); err != nil {
		t.Fatal(err)
	}
	return true
}

// until waits for the values of a query to be as they should.
func (p prometheus) until(t *testing.T, what, query string, ok func(values []float64) bool) {
	t.Helper()
	var values []float64
	for deadline := time.Now().Add(2 * time.Minute); !ok(values); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, values)
		}
		var answer struct {
			Result []struct{ Value []any }
		}
		values = nil
		p.get(t, "query", url.Values{"query": {query}}, &answer)
		for _, r := range answer.Result {
			v, err := strconv.ParseFloat(r.Value[1].(string), 64)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
	}
}

// labels returns the values of a label, as Grafana offers them.
func (p prometheus) labels(t *testing.T, label, series string) (values []string) {
	t.Helper()
	p.get(t, "label/"+label+"/values", url.Values{"match[]": {series}}, &values)
	return values
}
