package house

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Another module cannot name a type of an internal package. So no exported declaration of a package that it may
// import mentions one, unless a public package has an exported alias of it.
func TestPublicPackagesShowNoInternalTypes(t *testing.T) {
	packages := exported(t, "./...")
	for _, must := range []string{"source", "source/kafkaconn", "source/format", "sink", "sink/snapshot", "minibatch", "pipeline", "lca", "lca/online"} {
		if packages[module+must] == nil {
			t.Errorf("%s is not among the packages that were looked at", must)
		}
	}
	s := &surface{aliased: map[*types.TypeName]bool{}}
	for _, p := range packages {
		s.findAliases(p)
	}
	for path, p := range packages {
		for _, fault := range s.of(p) {
			t.Errorf("%s: %s", path, fault)
		}
	}
}

// exported returns the public packages of this module that match a pattern, by import path, from the compiler's export data.
func exported(t *testing.T, pattern string) map[string]*types.Package {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Name}}", pattern)
	list.Dir = "../.."
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	var public []string
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		files[f[0]] = f[1]
		if strings.HasPrefix(f[0], module) && !isInternal(f[0]) && f[2] != "main" {
			public = append(public, f[0])
		}
	}
	load := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	all := map[string]*types.Package{}
	for _, path := range public {
		if all[path], err = load.Import(path); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func isInternal(path string) bool { return slices.Contains(strings.Split(path, "/"), "internal") }

// surface walks all that the exported declarations of a package show.
type surface struct {
	aliased map[*types.TypeName]bool // types that an exported alias names
	seen    map[types.Type]bool
	where   string
	faults  []string
}

func (s *surface) findAliases(p *types.Package) {
	for _, name := range p.Scope().Names() {
		if o, ok := p.Scope().Lookup(name).(*types.TypeName); ok && o.Exported() && o.IsAlias() {
			if n, ok := types.Unalias(o.Type()).(*types.Named); ok {
				s.aliased[n.Obj()] = true
			}
		}
	}
}

// of returns a line for each internal type that p shows and that cannot be named.
func (s *surface) of(p *types.Package) []string {
	s.faults = nil
	for _, name := range p.Scope().Names() {
		if o := p.Scope().Lookup(name); o.Exported() {
			s.seen, s.where = map[types.Type]bool{}, name
			if declared, ok := o.(*types.TypeName); ok {
				s.declared(declared.Type())
			} else {
				s.shows(o.Type())
			}
		}
	}
	return s.faults
}

// declared walks what the declaration of a type shows: its fields and methods.
func (s *surface) declared(t types.Type) {
	t = types.Unalias(t)
	if n, ok := t.(*types.Named); ok {
		for m := range n.Methods() {
			if m.Exported() {
				s.shows(m.Type())
			}
		}
	}
	s.shows(t.Underlying())
}

// shows walks a type that is mentioned.
func (s *surface) shows(t types.Type) {
	if t == nil || s.seen[t] {
		return
	}
	s.seen[t] = true
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		s.named(t)
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				s.shows(f.Type())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			s.shows(m.Type())
		}
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range tuple.Variables() {
				s.shows(v.Type())
			}
		}
		for p := range t.TypeParams().TypeParams() {
			s.shows(p.Constraint())
		}
	case *types.Map:
		s.shows(t.Key())
		s.shows(t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		s.shows(t.Elem())
	}
}

// named is shows for a named type: what a public one shows, its own declaration does, unless it is not exported.
func (s *surface) named(t *types.Named) {
	for a := range t.TypeArgs().Types() {
		s.shows(a)
	}
	o := t.Obj()
	switch {
	case o.Pkg() == nil || !strings.HasPrefix(o.Pkg().Path(), module):
	case s.aliased[o]: // it is looked at where the alias is declared
	case isInternal(o.Pkg().Path()):
		s.faults = append(s.faults, fmt.Sprintf("%s shows %s, which other modules cannot name", s.where, o.Pkg().Path()+"."+o.Name()))
	case !o.Exported():
		s.declared(t)
	}
}

// The rule is tried on declarations that it must find, and on those that it must not.
func TestSurfaceFindsInternalTypes(t *testing.T) {
	const hidden = module + "a/internal/b"
	files, packages := token.NewFileSet(), map[string]*types.Package{}
	check := func(path, text string) *types.Package {
		t.Helper()
		f, err := parser.ParseFile(files, path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := (&types.Config{Importer: importing(packages)}).Check(path, files, []*ast.File{f}, nil)
		if err != nil {
			t.Fatal(err)
		}
		packages[path] = p
		return p
	}
	check(hidden, "package b; type T struct{}; type Named struct{ Inner T }; type Fine struct{}")
	p := check(module+"a", `package a
		import "`+hidden+`"
		type (
			Fine     = b.Fine
			Shows    = b.Named
			Field    struct{ F []b.T }
			Method   struct{}
			Embeds   struct{ embedded }
			embedded struct{ b.T }
			Func     interface{ F(map[string]*b.T) <-chan int }
			Private  struct{ f b.T }
			Named    struct{ F Fine; G b.Fine; H *Private }
		)
		func (Method) M() b.T { return b.T{} }
		func (Method) m() b.T { return b.T{} }
		func Returns() func(...b.T) { return nil }
		var Value b.T
		func private(b.T) {}`)
	s := &surface{aliased: map[*types.TypeName]bool{}}
	s.findAliases(p)
	var found []string
	for _, fault := range s.of(p) {
		found = append(found, strings.Fields(fault)[0])
	}
	if want := []string{"Embeds", "Field", "Func", "Method", "Returns", "Shows", "Value"}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
}

// importing finds packages that were checked before.
type importing map[string]*types.Package

func (i importing) Import(path string) (*types.Package, error) {
	if p := i[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}
