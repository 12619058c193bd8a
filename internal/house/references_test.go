package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// named finds files that a comment or a page names, such as lca/doc.go or CONTRIBUTING.md.
var named = regexp.MustCompile(`[A-Za-z0-9_./-]*[A-Za-z0-9_]\.(?:go|md|txtar|tex)\b`)

// elsewhere are mentions that are not of files of this tree.
var elsewhere = regexp.MustCompile(`(https?://\S*|(?:golang/go|[a-z0-9-]+/[a-z0-9-]+)[ @]\S*|\bsrc/\S*)$`)

// A page or comment that sends the reader to a file that is not there is worse than none.
func TestNamedFilesExist(t *testing.T) {
	tree := paths(t)
	exists := func(from, name string) bool {
		if strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
			return slices.Contains(tree, path.Join(path.Dir(from), name))
		}
		return slices.ContainsFunc(tree, func(p string) bool { return p == name || strings.HasSuffix(p, "/"+name) })
	}
	check := func(from, text string) {
		for _, at := range named.FindAllStringIndex(text, -1) {
			name, before := text[at[0]:at[1]], text[max(0, at[0]-80):at[0]]
			if strings.HasPrefix(name, "//") || strings.HasPrefix(name, "_") || elsewhere.MatchString(before) || exists(from, name) {
				continue
			}
			t.Errorf("%s names %s, which does not exist", from, name)
		}
	}
	for _, p := range tree {
		if strings.HasSuffix(p, ".md") && !strings.Contains(p, "testdata/") {
			check(p, read(t, p))
		}
	}
	for _, f := range goFiles(t) {
		for _, group := range f.syntax.Comments {
			if !strings.HasPrefix(group.Text(), "Code generated ") {
				check(f.path, group.Text())
			}
		}
	}
}

// link is a link of Markdown to something in this tree.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	tree := paths(t)
	for _, p := range tree {
		if !strings.HasSuffix(p, ".md") || strings.Contains(p, "testdata/") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(read(t, p), -1) {
			target := path.Join(path.Dir(p), m[1])
			if !slices.ContainsFunc(tree, func(q string) bool { return under(q, target) }) {
				t.Errorf("%s links to %s, which does not exist", p, m[1])
			}
		}
	}
}

// machinePath is a path that exists on one machine only.
var machinePath = regexp.MustCompile(`(^|[\s"'=(\x60:])/(home|Users|root|work|workspace|tmp)/\w`)

func TestNoPathsOfOneMachine(t *testing.T) {
	for _, p := range paths(t) {
		text := read(t, p)
		if strings.Contains(p, "testdata/") && strings.ContainsRune(text, 0) || under(p, "internal/house") {
			continue // binary
		}
		if m := machinePath.FindString(text); m != "" {
			t.Errorf("%s has the path %q: it exists on one machine only", p, strings.TrimSpace(m))
		}
	}
}
