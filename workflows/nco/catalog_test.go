package nco

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shared opens a file of the shared test data, or skips the test.
func shared(t testing.TB, path ...string) *os.File {
	t.Helper()
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(append([]string{dir}, path...)...))
	if err != nil {
		t.Skipf("no shared test data (set PAWL_TESTDATA): %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func load(t testing.TB, csv string) *Catalog {
	t.Helper()
	c, err := Load("test.csv", strings.NewReader(csv))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEmbedded(t *testing.T) {
	c := Embedded()
	if r := c.Report(); r.Entries < 370 || r.Padded != 0 {
		t.Errorf("report %+v", r)
	}
	for e := range c.All() {
		if len(e.Code) != 4 || e.Description == "" || c.Heading(Division(e.Code)) == "" {
			t.Errorf("%+v: want four digits, a description and a division", e)
		}
	}
	if _, title := c.Family("8332"); title != "Heavy truck and lorry drivers" {
		t.Errorf("8332 is %q", title)
	}
	if c.Hash() != Embedded().Hash() || len(c.Hash()) != 64 {
		t.Errorf("hash %q", c.Hash())
	}
}

func TestRealCatalogs(t *testing.T) {
	for _, c := range []struct {
		dir, file                 string
		rows, entries, padded     int
		code, title, familyTitles string
	}{
		{"nco", "nco2015_occupations.csv", 3435, 3435, 0, "8332.0100", "Driver Truck", "Heavy truck and lorry drivers"},
		{"isco", "isco08_groups_en.csv", 619, 436, 0, "8332", "Heavy truck and lorry drivers", "Heavy truck and lorry drivers"},
	} {
		t.Run(c.file, func(t *testing.T) {
			got, err := Load(c.file, shared(t, c.dir, c.file))
			if err != nil {
				t.Fatal(err)
			}
			if r := got.Report(); r.Rows != c.rows || r.Entries != c.entries || r.Padded != c.padded {
				t.Errorf("report %+v", r)
			}
			if e, ok := got.Entry(c.code); !ok || e.Title != c.title {
				t.Errorf("%s is %+v", c.code, e)
			}
			if _, title := got.Family(c.code); title != c.familyTitles {
				t.Errorf("family of %s is %q", c.code, title)
			}
		})
	}
}

func TestCodesSurvive(t *testing.T) {
	c := load(t, "\xEF\xBB\xBF Code ,TITLE,extra\n0110.0100,Officer,x\n7318.4000,Weaver,\n2512.01,Developer,\n2512.1,Tester,\n")
	for code, title := range map[string]string{"0110.0100": "Officer", "7318.4000": "Weaver", "2512.0100": "Developer", "2512.1000": "Tester"} {
		if e, ok := c.Entry(code); !ok || e.Title != title {
			t.Errorf("%s: %+v, %v", code, e, ok)
		}
	}
	if c.Report().Padded != 2 {
		t.Errorf("padded %d", c.Report().Padded)
	}
}

func TestTitleColumns(t *testing.T) {
	c := load(t, "nco_code,label,title,title_repaired\n1111.0100,c,b,a\n1111.0200,c,b,\n1111.0300,c,,\u200b\n")
	for code, want := range map[string]string{"1111.0100": "a", "1111.0200": "b", "1111.0300": "c"} {
		if e, _ := c.Entry(code); e.Title != want {
			t.Errorf("%s: %q, want %q", code, e.Title, want)
		}
	}
}

// A family is a heading as soon as an occupation stands under it, and an entry otherwise.
func TestFamiliesAndHeadings(t *testing.T) {
	c := load(t, "code,title\n8,Operators of mine\n8332,Truckers of mine\n8332.0100,Driver\n8322,Car drivers of mine\n")
	if _, ok := c.Entry("8332"); ok {
		t.Error("8332 has an occupation under it and is an entry")
	}
	if _, ok := c.Entry("8322"); !ok {
		t.Error("8322 is the most exact there is and no entry")
	}
	if family, title := c.Family("8332.0100"); family != "8332" || title != "Truckers of mine" {
		t.Errorf("family %s %q", family, title)
	}
	if c.Heading("8") != "Operators of mine" || c.Heading("833") == "" {
		t.Errorf("headings %q, %q", c.Heading("8"), c.Heading("833"))
	}
	if Division("8332.0100") != "8" {
		t.Error("division")
	}
}

func TestHashIsOfTheContent(t *testing.T) {
	a := load(t, "code,title,junk\n1111.01,Minister,x\n")
	b := load(t, "title,code\r\nMinister,1111.0100\r\n")
	other := load(t, "code,title\n1111.0100,Ministers\n")
	if a.Hash() != b.Hash() || a.Hash() == other.Hash() {
		t.Errorf("hashes %.8s %.8s %.8s", a.Hash(), b.Hash(), other.Hash())
	}
}

func TestCatalogFaults(t *testing.T) {
	for _, c := range []struct{ name, csv, want string }{
		{"nothing", "", "empty file"},
		{"no entries", "code,title\n", "no entry"},
		{"headings only", "code,title\n83,Drivers\n", "no entry"},
		{"no code column", "id,title\n1111,x\n", "no column code or nco_code (the header has: id, title)"},
		{"no title column", "code,name\n1111,x\n", "no column title_repaired, title or label"},
		{"two code columns", "code,code,title\n1111,1111,x\n", "two columns code"},
		{"UTF-16", "\xFF\xFEc\x00", "UTF-16"},
		{"code is a word", "code,title\nE010,Clerk\n", `line 2: code "E010"`},
		{"five digits", "code,title\n11111,Clerk\n", `line 2: code "11111"`},
		{"five places", "code,title\n1111.00001,Clerk\n", `line 2: code "1111.00001"`},
		{"dot and nothing", "code,title\n1111.,Clerk\n", `line 2: code "1111."`},
		{"heading with places", "code,title\n111.1,Clerk\n", `line 2: code "111.1"`},
		{"empty code", "code,title\n,Clerk\n", `line 2: code ""`},
		{"empty title", "code,title\n1111,\n", "line 2: code 1111: the title is empty"},
		{"invisible title", "code,title\n1111,\u200b\n", "line 2: code 1111: the title is empty"},
		{"duplicate", "code,title\n1111,a\n1111,b\n", "line 3: code 1111: already on line 2"},
		{"duplicate after padding", "code,title\n1111.01,a\n1111.0100,b\n", "line 3: code 1111.0100: already on line 2"},
		{"ragged", "code,title\n1111,a,b\n", "line 2: 3 fields, the header has 2"},
		{"short", "code,title,description\n1111,a\n", "line 2: 2 fields, the header has 3"},
		{"invalid UTF-8", "code,title\n1111,caf\xe9\n", "line 2: field 2 is not valid UTF-8"},
		{"NUL", "code,title\n1111,a\x00b\n", "line 2: field 2 holds a NUL"},
		{"bare quote", "code,title\n1111,a \"b\" c\n", "line 2:"},
		{"open quote", "code,title\n1111,\"a\n1112,b\n", "line 2:"},
		{"lines after a quoted break", "code,title\n1111,\"a\nb\"\nx,c\n", `line 4: code "x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Load("bad.csv", strings.NewReader(c.csv))
			if err == nil || got != nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "bad.csv") {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Every bad row is counted, the first are listed, and nothing of the file is used.
func TestEveryBadRowIsReported(t *testing.T) {
	var b strings.Builder
	b.WriteString("code,title\n1111,good\n")
	for i := range 500 {
		fmt.Fprintf(&b, "bad%d,x\n", i)
	}
	_, err := Load("bad.csv", strings.NewReader(b.String()))
	bad, ok := errors.AsType[*LoadError](err)
	if !ok || bad.Total != 500 || len(bad.Faults) != maxFaults || bad.Faults[0].Line != 3 {
		t.Fatalf("error %v", err)
	}
	if !strings.Contains(err.Error(), "500 bad rows") || !strings.Contains(err.Error(), "and 480 more") {
		t.Error(err)
	}
}

func TestResidual(t *testing.T) {
	for title, want := range map[string]bool{
		"Legislators, Other": true, "Hotel Managers, Others": true, "Other Sales Supervisor": true, "Clerks not elsewhere classified": true,
		"Drivers, n.e.c.": true, "Well Driller, Machine (Other than Petroleum and Gas)": false, "Physiotherapist": false, "Mother": false,
	} {
		if got := (Entry{Code: "1111.0100", Title: title}).Residual(); got != want {
			t.Errorf("%q: %v", title, got)
		}
	}
	if !(Entry{Code: "8332.9900", Title: "Heavy Truck and Lorry Drivers,"}).Residual() {
		t.Error("NNNN.9900 is what is left over, also where its title was cut")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("code,title\n1111.01,a\n")
	f.Add("\xEF\xBB\xBFnco_code,label,description\n\"1111\",\"a\nb\",x\n8,y,\n")
	f.Add("code,title\n1111,\"\n")
	f.Fuzz(func(t *testing.T, csv string) {
		c, err := Load("fuzz.csv", strings.NewReader(csv))
		if (c == nil) == (err == nil) {
			t.Fatalf("catalogue %v, error %v", c, err)
		}
		if err != nil {
			return
		}
		for e := range c.All() {
			if e.Title == "" || (len(e.Code) != 4 && len(e.Code) != 9) {
				t.Fatalf("entry %+v", e)
			}
		}
	})
}
