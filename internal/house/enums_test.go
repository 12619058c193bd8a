package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// choices finds the constants of each type that is chosen by name: its package has a function Parse for it, or a table
// enum.Names of it. A key is a constant as other packages write it, such as lca.MetricFull; its value is all constants of that type.
func choices(files []file) map[string][]string {
	all, parsed := map[string][]string{}, map[string]bool{}
	for _, f := range files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if table, ok := n.(*ast.IndexExpr); ok && constantName(table.X, "") == "enum.Names" {
				parsed[constantName(table.Index, path.Base(f.dir()))] = true
			}
			return true
		})
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Parse") {
				parsed[path.Base(f.dir())+"."+strings.TrimPrefix(fn.Name.Name, "Parse")] = true
			}
		}
	}
	for _, f := range files {
		if f.isTest() {
			continue
		}
		for _, d := range f.syntax.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				continue
			}
			for of, names := range typedConstants(decl) {
				for i := range names {
					if !parsed[path.Base(f.dir())+"."+of] {
						continue
					}
					names[i] = path.Base(f.dir()) + "." + names[i]
					all[names[i]] = names
				}
			}
		}
	}
	return all
}

// typedConstants are the constants of a declaration, by the type that they have.
func typedConstants(decl *ast.GenDecl) map[string][]string {
	byType, of := map[string][]string{}, ""
	for _, s := range decl.Specs {
		spec := s.(*ast.ValueSpec)
		switch typ := spec.Type.(type) {
		case *ast.Ident:
			of = typ.Name
		default:
			if typ != nil || len(spec.Values) > 0 {
				of = "" // another type, or none; a line without a value repeats the one above
			}
		}
		for _, name := range spec.Names {
			if of != "" && name.Name != "_" {
				byType[of] = append(byType[of], name.Name)
			}
		}
	}
	return byType
}

// silent lists the switches that name some values of a choice, and say nothing of a value that is added later.
func silent(f file, all map[string][]string) (found []string) {
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.SwitchStmt)
		if !ok {
			return true
		}
		named, byDefault := []string{}, false
		for _, c := range s.Body.List {
			clause := c.(*ast.CaseClause)
			byDefault = byDefault || clause.List == nil
			for _, e := range clause.List {
				if name := constantName(e, path.Base(f.dir())); len(all[name]) > 0 {
					named = append(named, name)
				}
			}
		}
		if len(named) == 0 || byDefault {
			return true
		}
		for _, name := range all[named[0]] {
			if !slices.Contains(named, name) {
				found = append(found, f.positions.Position(s.Pos()).String()+": no case "+name+", and no default")
			}
		}
		return true
	})
	return found
}

// constantName is a constant as other packages write it; of a name of this package, here.
func constantName(e ast.Expr, here string) string {
	switch e := e.(type) {
	case *ast.Ident:
		return here + "." + e.Name
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok {
			return of.Name + "." + e.Sel.Name
		}
	}
	return ""
}

// A value that is added to a choice must not fall through a switch that was written before it.
func TestSwitchesNameEveryValueOrHaveADefault(t *testing.T) {
	files := goFiles(t)
	all := choices(files)
	for _, name := range []string{"lca.MetricLowRank", "reject.RejectRow", "encode.FormatJSON"} {
		if len(all[name]) < 3 {
			t.Errorf("%s is not found among the constants: %v", name, all[name])
		}
	}
	for _, f := range files {
		if f.isTest() || strings.Contains(f.path, "/_") {
			continue
		}
		for _, fault := range silent(f, all) {
			t.Error(fault)
		}
	}
}

// A test that cannot fail is worth nothing: a switch that leaves one value out must be found, and no other.
func TestSilentSwitchesAreFound(t *testing.T) {
	const text = `package fruit
type kind uint8
const (apple kind = iota; pear; plum)
func a(k kind) { switch k { case apple, pear: } }
func b(k kind) { switch k { case apple: default: } }
func c(k kind) { switch k { case apple, pear: case plum: } }
func d(k int) { switch k { case 1: } }
func Parsekind(string) kind { return apple }
`
	f := file{path: "fruit/fruit.go", text: text, positions: token.NewFileSet()}
	syntax, err := parser.ParseFile(f.positions, f.path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.syntax = syntax
	if got := silent(f, choices([]file{f})); len(got) != 1 || !strings.Contains(got[0], "no case fruit.plum") {
		t.Errorf("found %q", got)
	}
}
