package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testName is a test that a page names. A name that ends in … stands for all that begin so.
var testName = regexp.MustCompile(`\b((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]*)(…?)`)

// A promise is worth what stands behind it: a page that names a test which was renamed, or went away in a
// merge, promises more than is tested. Subtests are cut off; files with build tags count.
func TestNamedTestsExist(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)[A-Z]\w*)\(`)
	var all []string
	for _, f := range goFiles(t) {
		if f.isTest() {
			for _, m := range declared.FindAllStringSubmatch(f.text, -1) {
				all = append(all, m[1])
			}
		}
	}
	seen := 0
	for _, p := range paths(t) {
		if !strings.HasSuffix(p, ".md") || strings.Contains(p, "testdata/") {
			continue
		}
		for _, m := range testName.FindAllStringSubmatch(read(t, p), -1) {
			seen++
			if !slices.ContainsFunc(all, func(name string) bool { return name == m[1] || m[2] != "" && strings.HasPrefix(name, m[1]) }) {
				t.Errorf("%s names %s, which does not exist", p, m[0])
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d names of tests in all pages: is the pattern still theirs?", seen)
	}
}

// heading is a heading of Markdown; anchor is what a link to a part of a page names.
var (
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	anchor  = regexp.MustCompile(`\]\(([^)#:\s]*)#([^)\s]+)\)`)
)

// A link to a part of a page leads to a heading of that page.
func TestAnchorsLeadSomewhere(t *testing.T) {
	anchors := func(p string) (all []string) {
		for _, m := range heading.FindAllStringSubmatch(read(t, p), -1) {
			kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
			all = append(all, strings.ReplaceAll(kept, " ", "-"))
		}
		return all
	}
	for _, p := range paths(t) {
		if !strings.HasSuffix(p, ".md") || strings.Contains(p, "testdata/") {
			continue
		}
		for _, m := range anchor.FindAllStringSubmatch(read(t, p), -1) {
			target := p
			if m[1] != "" {
				target = path.Join(path.Dir(p), m[1])
			}
			if !strings.HasSuffix(target, ".md") || !slices.Contains(anchors(target), m[2]) {
				t.Errorf("%s links to %s#%s, which does not exist", p, m[1], m[2])
			}
		}
	}
}

// A page that the index does not name is not found.
func TestEveryPageIsInTheIndex(t *testing.T) {
	const index = "docs/README.md"
	var linked []string
	for _, m := range link.FindAllStringSubmatch(read(t, index), -1) {
		linked = append(linked, path.Join(path.Dir(index), m[1]))
	}
	seen := 0
	for _, p := range paths(t) {
		if path.Dir(p) != "docs" || !strings.HasSuffix(p, ".md") || p == index {
			continue
		}
		if seen++; !slices.Contains(linked, p) {
			t.Errorf("%s has no link to %s", index, p)
		}
	}
	if seen < 10 {
		t.Errorf("only %d pages in docs: is that still where they are?", seen)
	}
}

// A long page begins with what it says, and where.
func TestLongPagesHaveContents(t *testing.T) {
	const long = 150
	section := regexp.MustCompile(`(?m)^## `)
	for _, p := range paths(t) {
		text := read(t, p)
		if path.Dir(p) != "docs" || !strings.HasSuffix(p, ".md") || strings.Count(text, "\n") <= long {
			continue
		}
		parts := section.Split(text, 4) // before the first section, which may be a summary, and the second, which may be the contents
		if links := anchor.FindAllString(strings.Join(parts[:min(3, len(parts))], ""), -1); len(links) < len(section.FindAllString(text, -1))/2 {
			t.Errorf("%s has %d lines and no table of contents at its top", p, strings.Count(text, "\n"))
		}
	}
}

// A table of a page has rows: one that was never measured is removed, or measured.
func TestTablesHaveRows(t *testing.T) {
	empty := regexp.MustCompile(`(?m)^\|(?: *:?-+:? *\|)+ *\n(?:[^|]|\z)|<!-- table \w+ -->\s*<!-- end -->`)
	for _, p := range paths(t) {
		if strings.HasSuffix(p, ".md") && !strings.Contains(p, "testdata/") {
			if at := empty.FindStringIndex(read(t, p)); at != nil {
				t.Errorf("%s has an empty table at line %d", p, 1+strings.Count(read(t, p)[:at[0]], "\n"))
			}
		}
	}
}
