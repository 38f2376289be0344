package album

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// TestLoad: both forms, and the spellings that files have, say the same.
func TestLoad(t *testing.T) {
	t.Parallel()
	want := []Photo{
		{
			ID: "a-1", Title: `Tea, "late"`, Year: 1950, Place: "Rome", People: []string{"Ann Lee", "Zoë Ünal"}, Collection: "Attic",
			Link: "https://a.example/?q=1&r=2", Outcome: WebP, Faces: []Face{{"Ann Lee", 99.5}, {"Ann Lee", 0}}, Unknown: 2,
		},
		{ID: "b_2", People: []string{"Bob"}, Outcome: OK},
	}
	csvText := "photo_id,title,year,place,true_people,film_id,link,fetch_outcome,recognised_people,recognition_confidence,unrecognised_faces\n" +
		`a-1,"Tea, ""late""",1950,Rome,Ann Lee| Zoë Ünal,Attic,https://a.example/?q=1&r=2,webp,Ann Lee|Ann Lee,99.5|0,2` + "\n" +
		`b_2,,,,Bob,,,,,,` + "\n"
	jsonText := `{"id":"a-1","title":"Tea, \"late\"","year":1950,"place":"Rome","people":["Ann Lee","Zo\u00eb Ünal"],"collection":"Attic",` +
		`"link":"https://a.example/?q=1&r=2","fetch_outcome":"webp","recognized_people":["Ann Lee","Ann Lee"],"recognition_confidence":[99.5,0],"unrecognized_faces":2}` +
		"\n\n" + `{"id":"b_2","people":"Bob","recognized_people":[]}`
	for name, text := range map[string]string{
		"CSV": csvText, "CSV with CRLF and BOM": "\ufeff" + strings.ReplaceAll(csvText, "\n", "\r\n"), "CSV without last line end": strings.TrimSpace(csvText),
		"JSON lines": jsonText, "JSON lines with CRLF and BOM": "\ufeff" + strings.ReplaceAll(jsonText, "\n", "\r\n"),
		"CSV with names in capitals": strings.ToUpper(csvText[:60]) + csvText[60:],
	} {
		a, err := Load("mine", strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(a.Photos(), want) {
			t.Errorf("%s: %+v", name, a.Photos())
		}
		if p, ok := a.At("album:b_2"); !ok || p.ID != "b_2" || a.Name() != "mine" {
			t.Errorf("%s: at album:b_2 %+v", name, p)
		}
		for _, url := range []string{"b_2", "album:B_2", "album:", "", "https://a.example/b_2"} {
			if p, ok := a.At(url); ok {
				t.Errorf("%s: at %q %+v", name, url, p)
			}
		}
	}
}

// TestDocumented: where no recognizer has looked, the people are who is in it, for certain.
func TestDocumented(t *testing.T) {
	t.Parallel()
	a, err := Load("mine", strings.NewReader("id,people\n1,Ann|Bob\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p := a.Photos()[0]; !p.Documented || !slices.Equal(p.Faces, []Face{{"Ann", Certain}, {"Bob", Certain}}) || p.Caption() != "Ann, Bob" {
		t.Errorf("%+v", p)
	}
}

// TestFaults: each with its line and column, and what is wrong in plain words.
func TestFaults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 600)
	for _, c := range []struct{ text, want string }{
		{"", "empty file"},
		{" \n\t\n", "empty file"},
		{"\ufeff", "empty file"},
		{"\xff\xfei\x00d\x00", "UTF-16"},
		{`[{"id":"1"}]`, "one object a line"},
		{"id,people\n", "no photographs"},
		{"\xff\xfb\x90\x00", "line 1, column 1: "},
		{"id;people\n1;Ann\n", `line 1, column 1: "id;people" is no field; the fields are id, title`},
		{"id,people,notes\n1,Ann,x\n", `line 1, column 11: "notes" is no field`},
		{"id,people,true_people\n1,Ann,Bob\n", `line 1, column 11: "true_people": the field people stands twice`},
		{"id,title\n1,Tea\n", "line 1, column 1: no column people"},
		{"people\nAnn\n", "line 1, column 1: no column id"},
		{"id,people\n1,Ann,Bob\n", "line 2, column 1: 3 fields, the header has 2"},
		{"id,people\n1,Ann\n\n1,Bob\n", "line 4, column 1: id: 1: already on line 2"},
		{"id,people\n,Ann\n", "line 2, column 1: id: it is empty"},
		{"id,people\na b,Ann\n", "line 2, column 1: id: \"a b\": want letters"},
		{"id,people\n../é,Ann\n", "line 2, column 1: id: "},
		{"id,people\n" + long + ",Ann\n", "line 2, column 1: id: longer than 100 characters"},
		{"id,people\n1,\n", "line 2, column 3: people: nobody is in it"},
		{"id,people\n1,Ann||Bob\n", "line 2, column 3: people: number 2 is empty"},
		{"id,people\n1,Ann|\n", "line 2, column 3: people: number 2 is empty"},
		{"id,people\n1,Ann|\u200b\n", "line 2, column 3: people: number 2 is empty"},
		{"id,people\n1,Ann Lee|ANN  LEE\n", "line 2, column 3: people: ANN  LEE stands twice"},
		{"id,people\n1," + long + "\n", "line 2, column 3: people: number 1 is longer than 90 characters"},
		{"id,people\n1,a" + strings.Repeat("|b", 300) + "\n", "line 2, column 3: people: 301 of them"},
		{"id,people\n1,A\xffn\n", "line 2, column 3: people: not UTF-8"},
		{"id,people\n1,A\ufffdn\n", "line 2, column 3: people: a control character or a lost one"},
		{"id,people\n1,A\x00n\n", "line 2, column 3: people: a control character"},
		{"id,people\n1,\"A\nn\"\n", "line 2, column 3: people: a control character"},
		{"id,people\r1,Ann\r", "line 1, column "},
		{"id,people\n1,\"Ann\n2,Bob\n", "line 2, column "},
		{"id,people\n1,A\"n\n", "line 2, column 4: bare"},
		{"id,people,year\n1,Ann,1825\n", `line 2, column 7: year: "1825" is no number from 1826 to 2100`},
		{"id,people,year\n1,Ann,about 1930\n", `year: "about 1930" is no number`},
		{"id,people,title\n1,Ann," + long + "\n", "title: longer than 500 characters"},
		{"id,people,link\n1,Ann,javascript:alert(1)\n", "line 2, column 7: link: want an address"},
		{"id,people,link\n1,Ann,https://\n", "link: want"},
		{"id,people,link\n1,Ann,https://me:secret@a.example/\n", "link: want"},
		{"id,people,fetch_outcome\n1,Ann,gone\n", `line 2, column 7: fetch_outcome: "gone" is none of ok, webp, http_404`},
		{"id,people,recognized_people\n1,Ann,Ann\n", "recognition_confidence: 0 for 1 recognized people"},
		{"id,people,recognition_confidence\n1,Ann,99\n", "recognition_confidence: 1 for 0 recognized people"},
		{"id,people,recognized_people,recognition_confidence\n1,Ann,Ann,NaN\n", `line 2, column 11: recognition_confidence: "NaN" is no number from 0 to 100`},
		{"id,people,recognized_people,recognition_confidence\n1,Ann,Ann,100.1\n", `"100.1" is no number`},
		{"id,people,recognized_people,recognition_confidence\n1,Ann,Ann,-1\n", `"-1" is no number`},
		{"id,people,unrecognized_faces\n1,Ann,-1\n", `unrecognized_faces: "-1" is no number`},
		{`{"id":"1","people":["Ann"]}` + "\n" + `{"id":"1","people":["Bob"]}`, "line 2, column 2: id: 1: already on line 1"},
		{`{"id":"1","people":["Ann"],"people":["Bob"]}`, `line 1, column 28: "people": the field people stands twice`},
		{`{"id":"1","people":["Ann"],"note":1}`, `line 1, column 28: "note" is no field`},
		{`{"id":"1","people":["Ann"]} {}`, "line 1, column 29: text behind the object"},
		{`{"id":"1","people":["Ann"]`, "line 1, column 27: the JSON ends too early"},
		{`{"id":"1" "people":["Ann"]}`, "line 1, column 11: "},
		{`{"id":"1","people":["Ann",null]}`, "people: want text, a number or a list of them"},
		{`{"id":"1","people":[["Ann"]]}`, "people: want text"},
		{`{"id":"1","people":` + strings.Repeat("[", 100_000), "people: want text"},
		{`{"id":{"a":1},"people":["Ann"]}`, "id: want text"},
		{`{"id":["1"],"people":["Ann"]}`, "line 1, column 2: id: want one value, not a list"},
		{`{"id":"1","people":["A` + "\xff" + `n"]}`, "line 1, column 23: not UTF-8"},
		{`{"id":"1","people":["A\ud800n"]}`, "line 1, column 11: people: a control character or a lost one"},
		{`{"id":"1","people":["Ann"]}` + "\nid,people\n", "line 2, column 1: no JSON object"},
		{`{"id":"1"}`, "line 1, column 1: people: nobody is in it"},
	} {
		a, err := Load("mine", strings.NewReader(c.text))
		if a != nil || err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "album mine") {
			t.Errorf("%.60q: %v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestAllFaults: all are counted, the first are listed, and good rows do not hide them.
func TestAllFaults(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("id,people\n")
	for i := range 100 {
		fmt.Fprintf(&b, "%d,Ann\nbad %d,Ann\n", i, i)
	}
	_, err := Load("mine", strings.NewReader(b.String()))
	bad, ok := errors.AsType[*LoadError](err)
	if !ok || bad.Total != 100 || len(bad.Faults) != maxFaults || bad.Faults[1].Line != 5 || !strings.HasSuffix(err.Error(), "\n  and 80 more") {
		t.Errorf("%v", err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	endless := io.MultiReader(strings.NewReader("id,people\n"), endlessReader{})
	if _, err := Load("mine", endless); err == nil || !strings.Contains(err.Error(), "limit of 64 MB") {
		t.Errorf("an endless file: %v", err)
	}
	if _, err := Load("mine", iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	many := "id,people\n" + strings.Repeat("1,A\n", maxLines)
	if _, err := Load("mine", strings.NewReader(many)); err == nil || !strings.Contains(err.Error(), "500001 lines") {
		t.Errorf("too many: %v", err)
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestWorld: the simulated world loads as it is, and nothing of it is lost.
func TestWorld(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	file, err := os.Open(filepath.Join(dir, "people", "photos_world.csv"))
	if err != nil {
		t.Skipf("no shared test data (set PAWL_TESTDATA): %v", err)
	}
	defer file.Close()
	a, err := Load("world", file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Photos()) != len(rows)-1 {
		t.Fatalf("%d photographs of %d rows", len(a.Photos()), len(rows)-1)
	}
	for i, row := range rows[1:] {
		p, ok := a.At("album:" + row[0])
		var names, confidences []string
		for _, f := range p.Faces {
			names = append(names, f.Name)
			confidences = append(confidences, strconv.FormatFloat(f.Confidence, 'f', 1, 64))
		}
		again := []string{
			p.ID, p.Collection, string(p.Outcome), strings.Join(p.People, "|"), strings.Join(names, "|"), strings.Join(confidences, "|"), strconv.Itoa(p.Unknown),
		}
		if !ok || p.Documented || !slices.Equal(again, row) {
			t.Errorf("row %d: %q is %q", i+2, row, again)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("id,people\n1,Ann|Bob\n")
	f.Add("\ufeffphoto_id,true_people,recognised_people,recognition_confidence\r\n1,Ann,Ann,99.5\r\n")
	f.Add(`{"id":"1","people":["Ann","Bob"],"year":1950}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Load("mine", strings.NewReader(text))
		if err != nil {
			return
		}
		for _, p := range a.Photos() {
			if at, ok := a.At(p.URL()); !ok || !reflect.DeepEqual(at, p) || len(p.People) == 0 || p.Caption() == "" {
				t.Errorf("%q: %+v", text, p)
			}
			for _, face := range p.Faces {
				if !(face.Confidence >= 0 && face.Confidence <= Certain) {
					t.Errorf("%q: %+v", text, face)
				}
			}
		}
	})
}
