package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	tablesScript = "../../.ci/bench-tables"
	tableHead    = "| d | ms |\n|---|---|\n"
)

// A table that was not made, or that has no rows, is a failure, and the page stays as it was.
func TestTablesOfThePage(t *testing.T) {
	page := "<!-- table a -->\n\n" + tableHead + "| 1 | 2 |\n\n<!-- end -->\nbetween\n<!-- table b -->\n\n<!-- end -->\n"
	made := func(rows string) string { return tableHead + rows }
	for _, c := range []struct {
		name    string
		tables  map[string]string
		partial string
		says    string // of the failure; "": none
		want    string // in the page
	}{
		{"both", map[string]string{"a": made("| 3 | 4 |\n"), "b": made("| 5 | 6 |\n")}, "", "", "| 5 | 6 |"},
		{"one is missing", map[string]string{"a": made("| 3 | 4 |\n")}, "", "b.md was not made", "| 1 | 2 |"},
		{"one was chosen", map[string]string{"a": made("| 3 | 4 |\n")}, "whiten", "", "| 3 | 4 |"},
		{"a head without rows", map[string]string{"a": made("| 3 | 4 |\n"), "b": made("")}, "", "b.md has no rows", "| 1 | 2 |"},
		{"a table that the page has no place for", map[string]string{"c": made("| 3 | 4 |\n")}, "whiten", "no place", "| 1 | 2 |"},
		{"nothing", nil, "whiten", "no table", "| 1 | 2 |"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "page")
			tables := filepath.Join(dir, "tables")
			if err := os.Mkdir(tables, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range c.tables {
				if err := os.WriteFile(filepath.Join(tables, name+".md"), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(tablesScript, tables, path)
			cmd.Env = append(os.Environ(), "CELLS="+c.partial, "PARTIAL=")
			out, err := cmd.CombinedOutput()
			if (err != nil) != (c.says != "") || !strings.Contains(string(out), c.says) {
				t.Errorf("%v: %s; want %q", err, out, c.says)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), c.want) || !strings.Contains(string(text), "between") {
				t.Errorf("the page has no %q:\n%s", c.want, text)
			}
		})
	}
}

// Every table of docs/benchmarks.md has a row.
func TestNoTableIsEmpty(t *testing.T) {
	text, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "<!-- table ")[1:]
	if len(parts) < 5 {
		t.Fatalf("%d tables", len(parts))
	}
	for _, part := range parts {
		table, _, ended := strings.Cut(part, "<!-- end -->")
		name, rows, _ := strings.Cut(table, " -->")
		if n := strings.Count(rows, "\n|"); n < 3 || !ended {
			t.Errorf("table %s has %d lines, with its head", name, n)
		}
	}
}
