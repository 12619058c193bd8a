package house

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package's doc is how a stranger starts: what it is, how to use it, its limits.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	docs := map[string]string{}
	for _, f := range goFiles(t) {
		if f.isTest() || strings.Contains(f.path, "/_") {
			continue
		}
		if _, seen := docs[f.dir()]; !seen {
			docs[f.dir()] = ""
		}
		if f.syntax.Doc != nil {
			if docs[f.dir()] != "" {
				t.Errorf("%s: a second package comment in %s", f.path, f.dir())
			}
			docs[f.dir()] = f.syntax.Doc.Text()
		}
		if text := f.syntax.Doc.Text(); text != "" && f.syntax.Name.Name != "main" && !strings.HasPrefix(text, "Package "+f.syntax.Name.Name+" ") {
			t.Errorf("%s: the package comment must begin %q", f.path, "Package "+f.syntax.Name.Name)
		}
	}
	for dir, doc := range docs {
		if len(strings.Fields(doc)) < 15 {
			t.Errorf("%s: the package comment is missing or says little: %q", dir, doc)
		}
	}
}

// Marks of work that is not done, and of checks that do not check.
func TestNothingIsLeftUndone(t *testing.T) {
	undone := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, f := range goFiles(t) {
		for _, group := range f.syntax.Comments {
			if undone.MatchString(group.Text()) {
				t.Errorf("%s: %s: do it, or say in plain words what the limit is", f.positions.Position(group.Pos()), undone.FindString(group.Text()))
			}
		}
		if !f.isTest() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if ok && (call.Sel.Name == "Skip" || call.Sel.Name == "Skipf" || call.Sel.Name == "SkipNow") && isTesting(call.X) {
				t.Errorf("%s: a test that skips proves nothing: let it fail and say what it needs", f.positions.Position(n.Pos()))
			}
			return true
		})
	}
}

// isTesting reports whether an expression is the t, b or f of a test.
func isTesting(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && slices.Contains([]string{"t", "b", "f", "tb"}, id.Name)
}

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

// machinePath is a path that exists on somebody's machine only.
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
