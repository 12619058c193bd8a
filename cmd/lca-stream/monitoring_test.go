package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// The alert rules are valid, and each fires when its moment has come.
func TestAlertRules(t *testing.T) {
	dir := t.TempDir()
	for from, to := range map[string]string{chart + "/files/alerts.yaml": "alerts.yaml", "testdata/alerts_test.yaml": "alerts_test.yaml"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	promtool := testtools.Promtool(t)
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// The thresholds of the rules are those of the values, and the chart replaces both.
func TestChartSetsThresholds(t *testing.T) {
	out, err := helm(t, render("--show-only", "templates/prometheusrule.yaml",
		"--set", "prometheusRule.enabled=true,prometheusRule.lagRecords=123456789,prometheusRule.modelAgeSeconds=77,prometheusRule.episodeMinutes=7")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "> 123456789 and") || !strings.Contains(out, "> 77 and") || !strings.Contains(out, "for: 7m\n") || strings.Contains(out, "for: 15m") || strings.Contains(out, "> 10000 ") || strings.Contains(out, "> 900 ") {
		t.Errorf("thresholds are not where they belong:\n%s", out)
	}
}

// Alerts and dashboard ask for metrics that exist. A histogram's parts count as the histogram.
func TestMonitoringAsksForWhatThereIs(t *testing.T) {
	source, err := os.ReadFile("internal/status/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	metric := regexp.MustCompile(`\blca_[a-z_]+`)
	exposed := metric.FindAllString(string(source), -1)
	if len(exposed) < 20 {
		t.Fatalf("only %d metrics found in internal/status/metrics.go", len(exposed))
	}
	alerts, err := os.ReadFile(chart + "/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range append(metric.FindAllString(string(alerts), -1), dashboardMetrics(t, metric)...) {
		if !slices.Contains(exposed, strings.TrimSuffix(strings.TrimSuffix(asked, "_bucket"), "_count")) {
			t.Errorf("%s is asked for, but not exposed", asked)
		}
	}
}

// dashboardMetrics reads the queries of the dashboard, which must also have no panel over another.
func dashboardMetrics(t *testing.T, metric *regexp.Regexp) []string {
	t.Helper()
	var asked []string
	taken := map[[2]int]string{}
	for _, p := range dashboardPanels(t) {
		for _, target := range p.Targets {
			asked = append(asked, metric.FindAllString(target.Expr, -1)...)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panel %q lies over %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	if len(asked) < 15 {
		t.Errorf("the dashboard asks for %d metrics only", len(asked))
	}
	return asked
}
