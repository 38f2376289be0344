package pawl_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// licenseSystems are the systems that the program is built for; each links modules of its own.
var licenseSystems = []string{"linux", "darwin", "windows"}

// licenseNotices are further notices in the modules that the program links, read by a person: none of them asks for more
// than the licenses that testdata/licenses holds.
var licenseNotices = map[string]string{
	"modernc.org/libc LICENSE-3RD-PARTY.md":   "Go: BSD-3-Clause; musl, go-netdb, nixpkgs: MIT",
	"modernc.org/memory LICENSE-GO":           "Go: BSD-3-Clause",
	"modernc.org/memory LICENSE-LOGO":         "the address of a picture that is not linked",
	"modernc.org/memory LICENSE-MMAP-GO":      "mmap-go: BSD-3-Clause",
	"modernc.org/sqlite LICENSE-3RD-PARTY.md": "a list; what is linked is MIT, BSD-3-Clause or public domain",
	"modernc.org/sqlite LICENSE-SQLITE":       "SQLite: public domain",
	"modernc.org/sqlite LICENSE-SQLITE_VEC":   "sqlite-vec: MIT",
}

// licenseMixed are the modules whose one file holds several licenses, read by a person: what stands around them says which part of
// the module is under which, and asks for nothing more. What is under another one is documentation, and not linked.
var licenseMixed = map[string][]string{
	"github.com/modelcontextprotocol/go-sdk": {"Apache-2.0", "MIT"},
}

// TestLicenses: every module that the program links stands under a license that we know word for word. What only tests
// use is not handed on and not looked at.
func TestLicenses(t *testing.T) {
	known := licenseTexts(t)
	dirs := licenseModules(t)
	for _, module := range slices.Sorted(maps.Keys(dirs)) {
		files, err := os.ReadDir(dirs[module])
		if err != nil {
			t.Errorf("%s: %v", module, err)
			continue
		}
		var found []string
		for _, f := range files {
			name := strings.ToUpper(f.Name())
			main := slices.Contains([]string{"LICENSE", "LICENCE", "COPYING", "UNLICENSE"}, strings.TrimSuffix(strings.TrimSuffix(name, ".TXT"), ".MD"))
			if f.IsDir() || !main && !strings.Contains(name, "LICENSE") && !strings.Contains(name, "LICENCE") && !strings.Contains(name, "COPYING") {
				continue
			}
			if !main {
				if licenseNotices[module+" "+f.Name()] == "" {
					t.Errorf("%s: read the notice %s and enter it in licenseNotices", module, filepath.Join(dirs[module], f.Name()))
				}
				continue
			}
			text, err := os.ReadFile(filepath.Join(dirs[module], f.Name()))
			if err != nil {
				t.Error(err)
				continue
			}
			name = licenseOf(string(text), known)
			if mixed := licenseMixed[module]; name == "" && licenseHolds(string(text), mixed, known) {
				name = strings.Join(mixed, ", ")
			}
			if name == "" {
				t.Errorf("%s: %s is not, word for word, one of the licenses in testdata/licenses", module, f.Name())
				name = "unknown"
			}
			found = append(found, name)
		}
		if len(found) == 0 {
			t.Errorf("%s has no license file", module)
		}
		t.Logf("%-45s %s", module, strings.Join(found, ", "))
	}
}

// licenseModules are the modules that the program links on any system, with their folders.
func licenseModules(t *testing.T) map[string]string {
	what := "./cmd/pawl"
	if _, err := os.Stat(what); err != nil {
		what = "./..." // there is no program yet: whatever is not a test
	}
	dirs := map[string]string{}
	for _, system := range licenseSystems {
		cmd := exec.Command("go", "list", "-e", "-deps", "-json=Module", what)
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", system, err)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
			var p struct {
				Module *struct {
					Path, Dir string
					Main      bool
					Replace   *struct{ Dir string }
				}
			}
			if err := d.Decode(&p); err != nil {
				t.Fatal(err)
			}
			if p.Module == nil || p.Module.Main {
				continue
			}
			dirs[p.Module.Path] = p.Module.Dir
			if p.Module.Replace != nil {
				dirs[p.Module.Path] = p.Module.Replace.Dir
			}
		}
	}
	if _, ok := dirs[""]; ok || len(dirs) == 0 {
		t.Fatalf("go list names no modules: %v", dirs)
	}
	return dirs
}

// licenseTexts are the licenses that we accept. Apache-2.0 is our own.
func licenseTexts(t *testing.T) map[string]*regexp.Regexp {
	known := map[string]*regexp.Regexp{}
	files, err := filepath.Glob("testdata/licenses/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no licenses in testdata/licenses", err)
	}
	for _, file := range append(files, "LICENSE") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if name == "LICENSE" {
			name = "Apache-2.0"
			text, _, _ = bytes.Cut(text, []byte("END OF TERMS AND CONDITIONS"))
		}
		words := licenseWords(strings.ReplaceAll(string(text), "{holder}", "whoever"))
		known[name] = regexp.MustCompile(strings.ReplaceAll(words, "whoever ", `(?:[^ ]+ ){0,12}?`))
	}
	return known
}

var (
	licenseSigns  = regexp.MustCompile(`[^a-z0-9]+`)
	licenseHolder = regexp.MustCompile(`^(copyright\b|all rights reserved\.?$)`)
	licenseClause = regexp.MustCompile(`^copyright (notice|owner|holder|license|interest|law)`) // a clause broken before this word
)

// licenseWords is a text as its words, one blank after each: without signs, bullets, numbers of clauses and lines that
// only name the holder of the copyright.
func licenseWords(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		line = strings.ToLower(strings.TrimSpace(line))
		if licenseHolder.MatchString(line) && !licenseClause.MatchString(line) {
			continue
		}
		for _, w := range strings.Fields(licenseSigns.ReplaceAllString(line, " ")) {
			if len(w) > 1 || w == "a" {
				words = append(words, w)
			}
		}
	}
	return strings.Join(words, " ") + " "
}

// licenseOf names the license that a text is: it has every word of it, and beside it no more than a title, or, after
// the Apache license, how to apply it.
func licenseOf(text string, known map[string]*regexp.Regexp) string {
	words := licenseWords(text)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		at := known[name].FindStringIndex(words)
		if at == nil {
			continue
		}
		rest := words[:at[0]] + words[at[1]:]
		if name == "Apache-2.0" {
			rest, _, _ = strings.Cut(rest, "end of terms and conditions ")
		}
		if len(strings.Fields(rest)) <= 12 {
			return name
		}
	}
	return ""
}

// licenseHolds says whether a text has every word of several licenses.
func licenseHolds(text string, names []string, known map[string]*regexp.Regexp) bool {
	words := licenseWords(text)
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !known[name].MatchString(words) })
}

// TestLicenseOf: a license with a clause more or less is not that license.
func TestLicenseOf(t *testing.T) {
	known := licenseTexts(t)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", "licenses", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		return "The License of X\n\nCopyright (c) 2026 the Authors of X\n\n" + strings.ReplaceAll(string(text), "{holder}", "the authors")
	}
	own, err := os.ReadFile("LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	mit := read("MIT")
	extra := "Without limiting other conditions in the License, the grant of rights under the License will not include the right to Sell the Software."
	tests := map[string]struct{ text, want string }{
		"our own":              {string(own), "Apache-2.0"},
		"MIT":                  {mit, "MIT"},
		"MIT in long lines":    {strings.ReplaceAll(mit, "\n", " \n"), "MIT"},
		"MIT and a clause":     {mit + extra, ""},
		"a clause and MIT":     {extra + mit, ""},
		"MIT cut off":          {mit[:len(mit)-60], ""},
		"MIT with other words": {strings.Replace(mit, "free of charge", "for a fee", 1), ""},
		"nothing":              {"", ""},
		"only a name":          {"MIT License", ""},
	}
	for _, name := range []string{"MIT-0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "0BSD", "Unlicense"} {
		tests[name] = struct{ text, want string }{read(name), name}
	}
	for name, test := range tests {
		if got := licenseOf(test.text, known); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
