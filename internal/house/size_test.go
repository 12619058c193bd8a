package house

import (
	"go/ast"
	"strings"
	"testing"
)

const (
	fileLines     = 800 // one type, read from top to bottom; a package of some 25 files
	functionLines = 70  // what fits a screen
)

func TestFilesAreShort(t *testing.T) {
	for _, f := range goFiles(t) {
		if lines := strings.Count(f.text, "\n"); lines > fileLines && !f.isTest() && !f.isGenerated() {
			t.Errorf("%s has %d lines, at most %d: is it still one idea?", f.path, lines, fileLines)
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
