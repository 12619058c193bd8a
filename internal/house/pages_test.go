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
