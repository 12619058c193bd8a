package house

import (
	"go/ast"
	"strings"
	"testing"
)

const (
	fileLines     = 800 // one type, read from top to bottom; a package of some 25 files
	functionLines = 70  // what fits a screen
	methods       = 40  // of a type of the mathematics: with more it is several
)

func TestFilesAreShort(t *testing.T) {
	for _, f := range goFiles(t) {
		if lines := strings.Count(f.text, "\n"); lines > fileLines && !f.isTest() && !f.isGenerated() {
			t.Errorf("%s has %d lines, at most %d: is it still one idea?", f.path, lines, fileLines)
		}
	}
}

func TestTypesHaveFewMethods(t *testing.T) {
	number := map[string]int{}
	for _, f := range goFiles(t) {
		if f.isTest() || f.isGenerated() || !strings.HasPrefix(f.dir(), "lca") || strings.HasSuffix(f.dir(), "_asm") {
			continue
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				receiver := fn.Recv.List[0].Type
				if pointer, ok := receiver.(*ast.StarExpr); ok {
					receiver = pointer.X
				}
				if name, ok := receiver.(*ast.Ident); ok {
					number[f.dir()+"."+name.Name]++
				}
			}
		}
	}
	for name, n := range number {
		if n > methods {
			t.Errorf("%s has %d methods, at most %d", name, n, methods)
		}
	}
	if number["lca/online.Learner"] == 0 {
		t.Error("the learner's methods are not counted")
	}
}

// A directory is a room: with more files it is two. The program itself is a list of its commands.
func TestRoomsAreNotCrowded(t *testing.T) {
	most := map[string]int{"cmd/lca-stream": 12}
	for _, name := range strings.Fields("app config demo doctor em episodes offsets picture replay run snapshots status system terminal topics") {
		most[rooms+name] = 25
	}
	for _, name := range strings.Fields("reject stats checkpoint start models encode transform learn") {
		most["pipeline/"+name] = 25
	}
	most["pipeline"] = 30
	number := map[string]int{}
	for _, f := range goFiles(t) {
		if !f.isTest() {
			number[f.dir()]++
		}
	}
	for dir, limit := range most {
		if n := number[dir]; n == 0 || n > limit {
			t.Errorf("%s has %d files, at most %d: is it still one room?", dir, n, limit)
		}
	}
}

func TestFunctionsFitAScreen(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.isTest() || f.isGenerated() {
			continue
		}
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := f.positions.Position(fn.End()).Line - f.positions.Position(fn.Pos()).Line + 1
			if lines > functionLines {
				t.Errorf("%s: %s has %d lines, at most %d", f.positions.Position(fn.Pos()), fn.Name.Name, lines, functionLines)
			}
		}
	}
}
