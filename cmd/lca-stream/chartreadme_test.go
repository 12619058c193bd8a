package main

import (
	"os"
	"strings"
	"testing"
)

// described is a value of the chart with its comment.
type described struct {
	path, value, why string
	indent           int
}

// chartValues reads values.yaml: keys, and the comments above them. Keys below one without a comment of their own
// are shown with the nearest one that has it.
func chartValues(t *testing.T) []described {
	t.Helper()
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all, above []described
	var comment []string
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "":
			comment = nil
		case strings.HasPrefix(trimmed, "#"):
			comment = append(comment, strings.TrimSpace(trimmed[1:]))
		default:
			name, value, _ := strings.Cut(trimmed, ":")
			d := described{path: name, value: strings.TrimSpace(value), why: strings.Join(comment, " "), indent: len(line) - len(strings.TrimLeft(line, " "))}
			for len(above) > 0 && above[len(above)-1].indent >= d.indent {
				above = above[:len(above)-1]
			}
			if len(above) > 0 {
				d.path = above[len(above)-1].path + "." + name
			}
			above, all, comment = append(above, d), append(all, d), nil
		}
	}
	return all
}

// The chart's page has every value with what it says in values.yaml, and each section is explained there.
func TestChartReadmeHasTheValues(t *testing.T) {
	const begin, end = "<!-- values, by `go test ./cmd/lca-stream -run TestChart -update` -->\n", "<!-- end of values -->\n"
	var table strings.Builder
	table.WriteString(begin + "\n| value | default | |\n|---|---|---|\n")
	explained := map[string]bool{}
	for _, d := range chartValues(t) {
		section, _, below := strings.Cut(d.path, ".")
		explained[section] = explained[section] || d.why != ""
		value := d.value
		if value != "" {
			value = "`" + value + "`"
		}
		if value != "" || d.why != "" || !below {
			table.WriteString("| `" + d.path + "` | " + value + " | " + strings.ReplaceAll(d.why, "|", `\|`) + " |\n")
		}
		if !below && d.why == "" {
			t.Errorf("value %s has no comment in values.yaml", d.path)
		}
	}
	table.WriteString("\n" + end)
	const page = chart + "/README.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the values between %q and %q", page, begin, end)
	}
	compareGolden(t, page, before+table.String()+after)
}
