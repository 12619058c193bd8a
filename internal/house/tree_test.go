package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository, seen from this package.
const root = "../.."

// file is one Go file of ours.
type file struct {
	path      string // from the root, with slashes
	text      string
	syntax    *ast.File
	positions *token.FileSet
}

func (f file) dir() string { return filepath.ToSlash(filepath.Dir(f.path)) }

func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f file) isGenerated() bool { return ast.IsGenerated(f.syntax) }

// paths lists the files of the tree, from the root, with slashes. What is built or fetched is left out.
func paths(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			hidden := strings.HasPrefix(name, ".") && path != root && name != ".ci" && name != ".github"
			if hidden || slices.Contains([]string{"bin", "build", "dist", "__pycache__"}, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasPrefix(name, ".git") && filepath.Dir(path) == filepath.Clean(root) {
			return nil // git's own: in a worktree .git is a file
		}
		rel, err := filepath.Rel(root, path)
		all = append(all, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d files under %s: is this the repository?", len(all), root)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// goFiles parses every Go file of the tree; testdata is not ours to judge.
func goFiles(t *testing.T) []file {
	t.Helper()
	var all []file
	for _, path := range paths(t) {
		if !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata/") {
			continue
		}
		f := file{path: path, text: read(t, path), positions: token.NewFileSet()}
		syntax, err := parser.ParseFile(f.positions, path, f.text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		f.syntax = syntax
		all = append(all, f)
	}
	return all
}

// What is built does not belong to the tree: a program is larger than all that does.
func TestFilesAreSmall(t *testing.T) {
	const most = 1 << 20
	for _, path := range paths(t) {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Size() > most {
			t.Errorf("%s is larger than %d bytes: %v", path, most, err)
		}
	}
}

// Everything at the top is there on purpose.
func TestTopLevel(t *testing.T) {
	allowed := strings.Fields(`source minibatch lca sink pipeline cmd configs deploy internal docs python .ci .github
		LICENSE README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md Makefile go.mod go.sum go.tools.mod go.tools.sum .golangci.yml .gitignore .gitattributes
		Containerfile .goreleaser.yaml .dockerignore`)
	ignored := strings.Fields(".git bin build dist .venv .idea .vscode go.work go.work.sum")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(allowed, e.Name()) && !slices.Contains(ignored, e.Name()) {
			t.Errorf("%s at the top of the tree: move it, or add it to this list and say why", e.Name())
		}
	}
	for _, name := range strings.Fields("source minibatch lca sink pipeline cmd configs deploy LICENSE README.md Makefile") {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("%s is missing", name)
		}
	}
}
