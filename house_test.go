package pawl_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// houseFloors is the drawing of the house, read from top to bottom: a folder imports only from floors below its own.
// The first row that fits counts. A folder that is not drawn here does not belong to the house. A row is never added or
// moved to make a build pass: first the drawing in docs/design.md changes, for a reason that stands there.
var houseFloors = []struct {
	folder string // "." is the root; * is one part of a path
	floor  int
	what   string
}{
	{".", 0, "the language"},
	{"store", 0, "the contract of whatever remembers"},
	{"internal/host", 0, "the seam between Do and whoever runs it"},
	{"internal/codec", 0, "values to bytes and back"},
	{"internal/schema", 0, "JSON Schemas: of types, and of what fits them"},
	{"internal/delta", 0, "bytes as a difference to other bytes"},
	{"store/internal/*", 0, "what stores written in Go share"},

	{"internal/machine", 1, "decides"},
	{"internal/draw", 1, "graphs as pictures"},
	{"internal/text", 1, "keys and words of text"},
	{"internal/album", 1, "photographs, and who is in them"},
	{"internal/parcel", 1, "runs as one file"},
	{"internal/pgclock", 1, "a process's time for a real Postgres"},
	{"internal/pgtest", 1, "a real Postgres for tests"},
	{"internal/rest", 1, "JSON over HTTP at services of others"},
	{"internal/picture", 1, "guards of pictures"},
	{"ports/*", 1, "the outside world in our words"},
	{"store/storetest", 1, "the law of stores"},
	{"store/*", 1, "one store each"},
	{"client", 1, "a pawl.Runs behind a server"},
	{"server", 1, "HTTP for anything that is a pawl.Runs"},
	{"web", 1, "the page"},

	{"workflows/*", 2, "one agent each"},
	{"engine", 2, "drives runs"},
	{"ports/*/*", 2, "one vendor each, and the law of the port"},
	{"internal/runstest", 2, "the law of runs"},

	{"telemetry", 3, "fillings of engine.Trace"},
	{"pawltest", 3, "runs a graph in virtual time"},
	{"internal/faults", 3, "breaks stores, processes, disks and clocks"},

	{"app", 4, "the command tree and the wiring"},

	{"cmd/pawl", 5, "main and the list of workflows"},
}

// houseStairs are the only imports within a floor.
var houseStairs = map[string][]string{
	".":                {"internal/host", "internal/codec", "internal/schema"},
	"internal/schema":  {"internal/codec"},
	"internal/album":   {"internal/text"},
	"ports/tools":      {"ports/llm"},
	"store/internal/*": {"store"},
}

// housePure are the folders that decide and describe but do nothing: no I/O, no clock of their own, no chance.
var housePure = []string{
	".", "store", "internal/host", "internal/codec", "internal/schema", "internal/delta", "internal/machine", "internal/draw",
	"internal/text", "internal/album", "internal/parcel", "internal/picture", "ports/*", "workflows/*",
}

var (
	houseImpure = []string{"os", "net", "net/http", "database/sql", "log", "math/rand", "math/rand/v2", "testing"}
	houseClock  = map[string][]string{
		"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
		"context": {"WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause"},
	}
)

// houseLaws are the packages that may import testing: laws that other packages' tests call.
var houseLaws = []string{"store/storetest", "internal/runstest", "internal/pgtest", "pawltest", "ports/*/*test"}

// houseBadNames say nothing to a reader.
var houseBadNames = []string{"util", "utils", "common", "type", "types", "model", "models", "core", "pkg", "helper", "helpers", "misc", "base", "shared"}

const (
	houseFileFence     = 500 // lines
	houseFunctionFence = 100
)

// housePackage is one folder of the house, with all its files whatever system they are for.
type housePackage struct {
	folder, name string
	files        []houseFile
}

type houseFile struct {
	name    string // from the root
	test    bool
	imports map[string]string // local name → path
	ast     *ast.File
}

// imports are the packages of this module, as folders, and the others that the production files import.
func (p housePackage) imports() (ours, others []string) {
	for _, f := range p.files {
		if f.test {
			continue
		}
		for _, to := range f.imports {
			if folder, ok := houseFolder(to); ok {
				ours = append(ours, folder)
			} else {
				others = append(others, to)
			}
		}
	}
	slices.Sort(ours)
	slices.Sort(others)
	return slices.Compact(ours), slices.Compact(others)
}

func (p housePackage) is(patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { ok, _ := path.Match(pattern, p.folder); return ok })
}

func houseFolder(importPath string) (string, bool) {
	module, _ := houseModule()
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

var houseFset = token.NewFileSet()

// houseModule is the module's path and the packages that go list sees, also those that do not compile.
func houseModule() (string, []housePackage) {
	h := houseRead()
	return h.module, h.packages
}

type house struct {
	module   string
	packages []housePackage
	faults   []string
}

var houseRead = sync.OnceValue(func() *house {
	h := &house{}
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Name,Module", "./...")
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		h.faults = append(h.faults, "go list: "+err.Error()+" "+says.String())
	}
	root, _ := os.Getwd()
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct {
			ImportPath, Dir, Name string
			Module                struct{ Path string }
		}
		if err := d.Decode(&p); err != nil {
			if err != io.EOF {
				h.faults = append(h.faults, "go list: "+err.Error())
			}
			return h
		}
		if h.module == "" {
			h.module = p.Module.Path
		}
		folder, _ := filepath.Rel(root, p.Dir)
		h.packages = append(h.packages, h.parse(filepath.ToSlash(folder), p.Name))
	}
})

func (h *house) parse(folder, name string) housePackage {
	p := housePackage{folder: folder, name: name}
	files, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, file := range files {
		tree, err := parser.ParseFile(houseFset, file, nil, parser.ParseComments)
		if err != nil {
			h.faults = append(h.faults, err.Error())
		}
		if tree == nil {
			continue
		}
		f := houseFile{name: file, test: strings.HasSuffix(file, "_test.go") || houseDeveloper(tree), ast: tree, imports: map[string]string{}}
		for _, spec := range tree.Imports {
			to, _ := strconv.Unquote(spec.Path.Value)
			local := path.Base(to)
			if spec.Name != nil {
				local = spec.Name.Name
			} else if up := path.Base(path.Dir(to)); len(local) > 1 && local[0] == 'v' && strings.Trim(local[1:], "0123456789") == "" {
				local = up
			}
			if local == "_" || local == "." {
				local += to // keeps several of them apart
			}
			f.imports[local] = to
		}
		p.files = append(p.files, f)
	}
	return p
}

// houseDeveloper tells a file that only a developer's build has: what stands in it is as little released as a test.
func houseDeveloper(f *ast.File) bool {
	return slices.ContainsFunc(f.Comments, func(c *ast.CommentGroup) bool { return c.List[0].Text == "//go:build torture" })
}

// TestHouse holds the house to its drawing; the rules about what stands in a file are in house_code_test.go.
func TestHouse(t *testing.T) {
	h := houseRead()
	for _, fault := range h.faults {
		t.Error(fault)
	}
	if len(h.packages) == 0 {
		t.Fatal("no packages found")
	}
	for _, rule := range []struct {
		name  string
		check func(*testing.T, housePackage)
	}{
		{"imports go down", houseImportsDown},
		{"pure packages", housePureOnly},
		{"testing stays in laws", houseTestingInLaws},
		{"names", houseNames},
		{"door signs", houseDoorSign},
		{"no init and no mutable globals", houseGlobals},
	} {
		t.Run(rule.name, func(t *testing.T) {
			for _, p := range h.packages {
				rule.check(t, p)
			}
		})
	}
	t.Run("fences", houseFences)
	t.Run("wiring lines", houseWiring)
	t.Run("binary without testing", houseBinary)
}

// houseFloor is where a folder stands, -1 if it is not drawn.
func houseFloor(folder string) int {
	for _, row := range houseFloors {
		if ok, _ := path.Match(row.folder, folder); ok {
			return row.floor
		}
	}
	return -1
}

func houseImportsDown(t *testing.T, p housePackage) {
	from := houseFloor(p.folder)
	if from < 0 {
		t.Errorf("%s: this folder is not in the drawing of the house (houseFloors)", p.folder)
		return
	}
	var stairs []string
	for folder, to := range houseStairs {
		if p.is(folder) {
			stairs = append(stairs, to...)
		}
	}
	ours, _ := p.imports()
	for _, to := range ours {
		switch floor := houseFloor(to); {
		case floor < 0:
			t.Errorf("%s imports %s, which is not in the drawing of the house", p.folder, to)
		case floor >= from && !slices.Contains(stairs, to):
			t.Errorf("%s (floor %d) imports %s (floor %d): imports go only downward", p.folder, from, to, floor)
		}
	}
}

func housePureOnly(t *testing.T, p housePackage) {
	if !p.is(housePure...) {
		return
	}
	_, others := p.imports()
	for _, to := range others {
		if slices.Contains(houseImpure, to) {
			t.Errorf("%s imports %q: it is pure, hand in what it needs", p.folder, to)
		}
	}
	for _, f := range p.files {
		if f.test {
			continue
		}
		for local, to := range f.imports {
			if strings.HasPrefix(local, ".") {
				t.Errorf("%s: dot import of %q", f.name, to)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains(houseClock[f.imports[x.Name]], s.Sel.Name) {
				t.Errorf("%s: %s.%s: a pure package has no clock", houseFset.Position(s.Pos()), x.Name, s.Sel.Name)
			}
			return true
		})
	}
}

func houseTestingInLaws(t *testing.T, p housePackage) {
	if p.is(houseLaws...) {
		return
	}
	ours, others := p.imports()
	for _, to := range others {
		if to == "testing" || strings.HasPrefix(to, "testing/") && to != "testing/fstest" {
			t.Errorf("%s imports %q in production code", p.folder, to)
		}
	}
	for _, to := range ours {
		if (housePackage{folder: to}).is(houseLaws...) {
			t.Errorf("%s imports the law %s in production code", p.folder, to)
		}
	}
}

func houseNames(t *testing.T, p housePackage) {
	for _, name := range []string{p.name, path.Base(p.folder)} {
		if slices.Contains(houseBadNames, strings.ToLower(name)) {
			t.Errorf("%s: a package named %q says nothing about what it is", p.folder, name)
		}
	}
	if p.name != "main" && p.folder != "." && p.name != path.Base(p.folder) {
		t.Errorf("%s: the package is named %q", p.folder, p.name)
	}
}

// houseWiring: what is plugged in has its line. A workflow has a wiring file in app; a store and a vendor stand in
// app's tables; a store's tests call the law of stores, a vendor's the law of its port.
func houseWiring(t *testing.T) {
	_, packages := houseModule()
	var wired []string
	app := false
	for _, p := range packages {
		if p.is("app", "cmd/pawl") {
			app = app || p.folder == "app"
			ours, _ := p.imports()
			wired = append(wired, ours...)
		}
	}
	for _, p := range packages {
		law := ""
		switch {
		case p.is(houseLaws...):
			continue
		case p.is("workflows/*"):
			if _, err := os.Stat(filepath.Join("app", path.Base(p.folder)+".go")); app && err != nil {
				t.Errorf("%s has no wiring file app/%s.go", p.folder, path.Base(p.folder))
			}
		case p.is("store/*"):
			law = "store/storetest"
		case p.is("ports/*/*"):
			port := path.Dir(p.folder)
			law = path.Join(port, path.Base(port)+"test")
		default:
			continue
		}
		if app && !slices.Contains(wired, p.folder) {
			t.Errorf("%s has no wiring line in app", p.folder)
		}
		if law != "" && !houseCalls(p, law) {
			t.Errorf("%s: its tests do not call the law %s", p.folder, law)
		}
	}
}

// houseCalls reports whether the tests of a package import a law.
func houseCalls(p housePackage, law string) bool {
	return slices.ContainsFunc(p.files, func(f houseFile) bool {
		for _, to := range f.imports {
			if folder, ok := houseFolder(to); ok && f.test && folder == law {
				return true
			}
		}
		return false
	})
}

// houseBinary: what is released links no test code, also not by way of others.
func houseBinary(t *testing.T) {
	if _, err := os.Stat("cmd/pawl"); err != nil {
		return // nothing is released yet
	}
	out, err := exec.Command("go", "list", "-e", "-deps", "./cmd/pawl").Output()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(out)), "testing") {
		t.Error("cmd/pawl links the package testing")
	}
}
