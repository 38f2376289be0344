package pawl_test

import (
	"bytes"
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

// houseFences: every Go file of the checkout, tests and other modules in it too.
func houseFences(t *testing.T) {
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".go" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if n := bytes.Count(text, []byte("\n")); n > houseFileFence {
			t.Errorf("%s has %d lines, the fence is %d", file, n, houseFileFence)
		}
		tree, err := parser.ParseFile(houseFset, file, text, parser.SkipObjectResolution)
		if tree == nil {
			return err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			name := "a function"
			switch f := n.(type) {
			case *ast.FuncDecl:
				name = f.Name.Name
			case *ast.FuncLit:
			default:
				return true
			}
			first, last := houseFset.Position(n.Pos()), houseFset.Position(n.End())
			if lines := last.Line - first.Line + 1; lines > houseFunctionFence {
				t.Errorf("%s: %s has %d lines, the fence is %d", first, name, lines, houseFunctionFence)
				return false
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// houseDoorSign: one comment a package, which says what it is, what may never be in it and where to start reading.
func houseDoorSign(t *testing.T, p housePackage) {
	var signs []string
	in := ""
	production := false
	for _, f := range p.files {
		if f.test {
			continue
		}
		production = true
		if f.ast.Doc != nil {
			signs = append(signs, f.ast.Doc.Text())
			in = f.name
		}
	}
	switch {
	case !production:
		return
	case len(signs) != 1:
		t.Errorf("%s has %d package comments, want one", p.folder, len(signs))
		return
	}
	var parts []string
	for part := range strings.SplitSeq(signs[0], "\n\n") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, strings.ToLower(part))
		}
	}
	if len(parts) < 3 {
		t.Errorf("%s: the package comment has %d paragraphs, want three: what it is, what may never be in it, where to start reading", in, len(parts))
	}
	for _, word := range []string{"never", "start reading"} {
		if !slices.ContainsFunc(parts, func(s string) bool { return strings.Contains(strings.ReplaceAll(s, "\n", " "), word) }) {
			t.Errorf("%s: no paragraph of the package comment says %q", in, word)
		}
	}
}

// houseValues make values that nobody can change afterwards.
var houseValues = []string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer", "reflect.TypeFor", "reflect.TypeOf"}

// houseGlobals: no init, and a package-level variable is an error, an embedded file, an assertion, a value that cannot
// change, or a table that nobody writes to.
func houseGlobals(t *testing.T, p housePackage) {
	vars := map[string]bool{}
	for _, f := range p.files {
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: func init: nothing happens before main", houseFset.Position(d.Pos()))
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR {
					houseVars(t, d, vars)
				}
			}
		}
	}
	for _, f := range p.files {
		if !f.test || f.ast.Name.Name == p.name {
			houseWrites(t, f, vars)
		}
	}
}

// houseVars checks one declaration and collects the names.
func houseVars(t *testing.T, d *ast.GenDecl, vars map[string]bool) {
	for _, spec := range d.Specs {
		s := spec.(*ast.ValueSpec)
		embedded := houseEmbedded(s.Doc) || houseEmbedded(d.Doc)
		for i, name := range s.Names {
			vars[name.Name] = true
			switch {
			case name.Name == "_" || embedded:
			case len(s.Values) == len(s.Names) && houseConstant(s.Values[i], strings.HasPrefix(strings.ToLower(name.Name), "err")):
			default:
				t.Errorf("%s: %s: a package-level variable is an error, an embedded file, a value that cannot change or a table (houseGlobals)",
					houseFset.Position(name.Pos()), name.Name)
			}
		}
	}
	delete(vars, "_")
}

func houseEmbedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// houseConstant reports whether an expression is a table, a call that makes a value nobody can change, or the pointer of
// an error sentinel.
func houseConstant(e ast.Expr, sentinel bool) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.UnaryExpr:
		_, ok := e.X.(*ast.CompositeLit)
		return sentinel && ok && e.Op == token.AND
	case *ast.CallExpr:
		fun := e.Fun
		if x, ok := fun.(*ast.IndexExpr); ok {
			fun = x.X
		}
		if s, ok := fun.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				return slices.Contains(houseValues, x.Name+"."+s.Sel.Name)
			}
		}
	}
	return false
}

// houseWrites finds assignments to package-level variables, of this package or another of the house, and addresses
// taken of this package's.
func houseWrites(t *testing.T, f houseFile, vars map[string]bool) {
	for _, d := range f.ast.Decls {
		fun, ok := d.(*ast.FuncDecl)
		if !ok || fun.Body == nil {
			continue
		}
		local := houseLocals(fun)
		target := func(e ast.Expr, verb string) {
			for {
				switch x := e.(type) {
				case *ast.IndexExpr:
					e = x.X
					continue
				case *ast.ParenExpr:
					e = x.X
					continue
				case *ast.StarExpr:
					e = x.X
					continue
				case *ast.SelectorExpr:
					if id, ok := x.X.(*ast.Ident); ok && !local[id.Name] {
						if folder, ours := houseFolder(f.imports[id.Name]); ours && verb != "takes the address of" {
							t.Errorf("%s: %s the variable %s of %s", houseFset.Position(e.Pos()), verb, x.Sel.Name, folder)
							return
						}
					}
					e = x.X
					continue
				case *ast.Ident:
					if vars[x.Name] && !local[x.Name] {
						t.Errorf("%s: %s the package-level variable %s", houseFset.Position(e.Pos()), verb, x.Name)
					}
				}
				return
			}
		}
		ast.Inspect(fun.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					if n.Tok != token.DEFINE {
						target(e, "writes to")
					}
				}
			case *ast.RangeStmt:
				for _, e := range []ast.Expr{n.Key, n.Value} {
					if e != nil && n.Tok == token.ASSIGN {
						target(e, "writes to")
					}
				}
			case *ast.IncDecStmt:
				target(n.X, "writes to")
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					target(n.X, "takes the address of")
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(n.Args) > 0 {
					target(n.Args[0], "writes to")
				}
			}
			return true
		})
	}
}

// houseLocals are all names that a function declares: its parameters, results and variables.
func houseLocals(fun *ast.FuncDecl) map[string]bool {
	local := map[string]bool{}
	ast.Inspect(fun, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					local[id.Name] = true
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					local[id.Name] = true
				}
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		}
		return true
	})
	return local
}
