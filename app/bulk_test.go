package app

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// madeUpTitles is a file of n rows whose titles are put together from words: 2,200 different ones.
func madeUpTitles(n int) string {
	how := []string{"", "senior", "junior", "assistant", "trainee", "night", "mobile", "I am a", "मैं", "head"}
	what := []string{"cook", "tailor", "welder", "carpenter", "lorry driver", "primary school teacher", "nurse", "plumber", "electrician", "mason", "barber",
		"accountant", "farmer", "security guard", "weaver", "potter", "software developer", "दर्जी", "teacher", "fitter"}
	where := []string{"", "in a hotel", "at a hospital", "in the village", "for a company", "at a school", "on ships", "in a factory", "at the railway", "from home", "abroad"}
	var b strings.Builder
	b.WriteString("id,job title,note\n")
	for i := range n {
		title := strings.TrimSpace(how[i%len(how)] + " " + what[i/len(how)%len(what)] + " " + where[i/len(how)/len(what)%len(where)])
		fmt.Fprintf(&b, "E%05d,%s,\"n, %d\"\n", i, title, i)
	}
	return b.String()
}

// rowsIn reads a whole CSV file, with its header.
func rowsIn(t *testing.T, file string) [][]string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(b, []byte("\xEF\xBB\xBF")))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

var summary = regexp.MustCompile(`^rows 11  matched [3-5]  asked [1-3]  refused 5  seconds \d+\.\d  rows/s \d+\n$`)

// TestBulk: each row comes out in its place, with what it had, coded or refused for a reason.
func TestBulk(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	in, out := filepath.Join(s.dir, "my people.csv"), filepath.Join(s.dir, "out.csv")
	lines := []string{
		"id, Job Title ,note", "1,carpenter,x", "2,teacher,\"a, b\"", "3,,", "4,   ,", "5,driver\xff,", "6,cook\x00,", "7," + strings.Repeat("cook ", 2001) + ",",
		"8,दर्जी,", "9,\"primary school\nteacher\",\"\"\"\"", "10,CA,", "11,I drive a lorry between cities for a transport company,",
	}
	put(t, s.dir, "my people.csv", "\xEF\xBB\xBF"+strings.Join(lines, "\r\n")+"\r\n\r\n")
	told := s.want(0, "nco", "--in", in, "--column", "job title", "--out", out, "--workers", "3")
	if !summary.MatchString(told.out) || told.err != "" {
		t.Error(told)
	}
	rows := rowsIn(t, out)
	if want := append([]string{"id", " Job Title ", "note"}, bulkColumns...); !slices.Equal(rows[0], want) {
		t.Errorf("header %q", rows[0])
	}
	raw := got(t, s.dir, "out.csv")
	for i, line := range lines[1:] {
		if !strings.Contains(raw, "\n"+line+fmt.Sprintf(",%d,", i+1)) {
			t.Errorf("row %d is not there as it was", i+1)
		}
	}
	for n, want := range map[int][]string{ // some of our columns by number
		1: {"MATCH_FOUND", "7115", "Carpenters and joiners"}, 2: {"MORE_INFO", "", ""}, 3: {bulkRefused, "", ""}, 4: {bulkRefused}, 5: {bulkRefused}, 6: {bulkRefused},
		7: {bulkRefused}, 9: {"MATCH_FOUND", "2341"}, 11: {"MATCH_FOUND", "8332"},
	} {
		if ours := rows[n][3:]; ours[0] != fmt.Sprint(n) || !slices.Equal(ours[1:1+len(want)], want) {
			t.Errorf("row %d: %q, want %q", n, ours, want)
		}
	}
	if asked := rows[2]; asked[8] == "" || !strings.Contains(asked[9], "; ") || asked[11] == "" {
		t.Errorf("a question: %q", asked)
	}
	if assumed := rows[11]; assumed[10] == "" || assumed[7] == "" {
		t.Errorf("an assumption: %q", assumed)
	}
	for n, why := range map[int]string{3: "empty", 4: "empty", 5: "not valid UTF-8", 6: "NUL", 7: "10005 characters"} {
		if !strings.Contains(rows[n][11], why) {
			t.Errorf("row %d was refused for %q", n, rows[n][11])
		}
	}
	oneClearLine(t, s.run("nco", "--in", in, "--column", "job title", "--out", out), exitConflict, "--overwrite")
	var end bulkEnd
	again := s.want(0, "nco", "--in", in, "--column", "job title", "--out", out, "--overwrite", "--json")
	if err := json.Unmarshal([]byte(again.out), &end); err != nil || strings.Count(again.out, "\n") != 1 {
		t.Error(again, err)
	}
	if end.Rows != 11 || end.Matched+end.Asked != 6 || end.Matched < 3 || end.Asked < 1 || end.Refused != 5 || end.Before != 0 || end.Seconds <= 0 || end.RowsPerSecond <= 0 || end.Out != out {
		t.Errorf("%+v", end)
	}
	if got(t, s.dir, "out.csv") != raw {
		t.Error("made again, the output differs")
	}
}

// TestBulkShapes: files of one column, without rows, without an end of the last line.
func TestBulkShapes(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	ours := strings.Join(bulkColumns, ",")
	for name, c := range map[string]struct{ text, want string }{
		"one column": {"job\ncook\n\nbaker", "job," + ours + "\ncook,1,MATCH_FOUND,5120,Cooks,"},
		"no rows":    {"id,job\n", "id,job," + ours + "\n"},
		"no names":   {"job,,\ncook,,\n", "job,,," + ours + "\ncook,,,1,MATCH_FOUND,"},
	} {
		put(t, s.dir, "in.csv", c.text)
		s.want(0, "nco", "--in", filepath.Join(s.dir, "in.csv"), "--column", "job", "--out", filepath.Join(s.dir, "out.csv"), "--overwrite")
		if got := got(t, s.dir, "out.csv"); !strings.HasPrefix(got, c.want) || name == "one column" && !strings.Contains(got, "\n,2,REFUSED,") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestBulkRefuses: what cannot be a file of descriptions is refused before anything is done, with what is wrong and where.
func TestBulkRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	wide := []byte{0xFF, 0xFE}
	for _, u := range utf16.Encode([]rune("id,job\n1,cook\n")) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	many := "id,job\n" + strings.Repeat("1,a,b\n", 30)
	ids := "emp,phone,name,job title,joined\nE010,98765 43210,Asha,दर्जी,2020-01-02\nE011,98765 43211,Ravi,cook,2020-01-03\nE012,98765 43212,Mina,,2020-01-04\n"
	for name, c := range map[string]struct {
		text   string
		column string
		says   []string
	}{
		"UTF-16":             {string(wide), "job", []string{"UTF-16", "UTF-8"}},
		"UTF-16, no BOM":     {string(wide[2:]), "job", []string{"NUL", "UTF-16"}},
		"empty":              {"", "job", []string{"empty file"}},
		"only a BOM":         {"\xEF\xBB\xBF\n", "job", []string{"empty file"}},
		"Latin-1 header":     {"id,m\xe9tier\n1,cook\n", "job", []string{"column 2", "UTF-8"}},
		"old line ends":      {"id,job\r1,cook\r", "job", []string{"CR alone"}},
		"ragged":             {"id,job\n1,cook\n2\n3,a,b\n", "job", []string{"2 bad rows", "line 3: 1 fields, the header has 2", "line 4: 3 fields"}},
		"bare quote":         {"id,job\n1,co\"ok\n2,x\n", "job", []string{"1 bad row", "line 2: a quote"}},
		"many":               {many, "job", []string{"30 bad rows", "line 2:", "line 21:", "and 10 more"}},
		"open quote":         {"id,job\n1,\"cook\n2,x\n", "job", []string{"line 2", "does not end"}},
		"bad header":         {"id,\"job\n", "job", []string{"header", "line 1"}},
		"two the same":       {"id,Job,job\n1,a,b\n", "job", []string{`two columns are named "job"`}},
		"ours":               {"id,job,NCO_Status\n1,cook,x\n", "job", []string{`"NCO_Status"`}},
		"no such column":     {ids, "title", []string{`"title"`, `"emp", "phone", "name", "job title", "joined"`}},
		"no column":          {ids, "", []string{"--column is missing", `"job title"`}},
		"semicolons":         {"id;job\n1;cook\n", "job", []string{"comma"}},
		"ids":                {ids, "emp", []string{`"emp"`, "3 of its 3 cells", "100 %", `"E010", "E011", "E012"`, `they may be in: "job title"`}},
		"phone numbers":      {ids, "phone", []string{`"phone"`, "98765 43210", `"job title"`}},
		"dates":              {ids, "joined", []string{`"joined"`, "2020-01-02"}},
		"mostly ids":         {"a,b\ncook,1\nE1,2\nE2,3\n", "a", []string{"2 of its 3 cells", "66 %", "no other column"}},
		"no name says so":    {"a,b\nE1,cook\n", "a", []string{`they may be in: "b"`}},
		"mostly, not quite":  {"a,b\ncook,1\nE2,3\n,4\n-,5\n", "b", []string{`"b"`}},
		"a row without end":  {"job\n\"" + strings.Repeat("x", maxBulkRow) + "\n", "job", []string{"more than 4 MB"}},
		"a header of quotes": {"\"a\"b\n", "job", []string{"header", "closing quote"}},
	} {
		put(t, s.dir, "in.csv", c.text)
		got := s.run("nco", "--in", filepath.Join(s.dir, "in.csv"), "--column", c.column, "--out", filepath.Join(s.dir, "out.csv"))
		if got.code != exitUsage || got.out != "" || !strings.HasPrefix(got.err, "pawl: ") {
			t.Errorf("%s: %+v", name, got)
		}
		for _, says := range c.says {
			if !strings.Contains(got.err, says) {
				t.Errorf("%s: %q is not in: %s", name, says, got.err)
			}
		}
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "out*"))
	if err != nil || len(left) > 0 {
		t.Error("left behind: ", left, err)
	}
	put(t, s.dir, "in.csv", "a,b\ncook,1\nE2,3\n,4\n-,5\nHR,6\ndriver,7\n")
	s.want(0, "nco", "--in", filepath.Join(s.dir, "in.csv"), "--column", "a", "--out", filepath.Join(s.dir, "out.csv"))
	put(t, s.dir, "in.csv", "who,a\n1,HR\n2,IT\n3,cook\n")
	args := []string{"nco", "--in", filepath.Join(s.dir, "in.csv"), "--column", "a", "--out", filepath.Join(s.dir, "any.csv")}
	if got := s.want(exitUsage, args...); !strings.Contains(got.err, "--any-column") {
		t.Error(got.err)
	}
	if got := s.want(0, append(args, "--any-column")...); !strings.Contains(got.out, "rows 3") {
		t.Error(got.out)
	}
}

// TestBulkFlags: wrong usage in one line.
func TestBulkFlags(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	path := func(name string) string { return filepath.Join(s.dir, name) }
	put(t, s.dir, "in.csv", "job\ncook\n")
	put(t, s.dir, "x.csv.part", "job\ncook\n")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing":         {nil, exitUsage, "--in FILE.csv --column NAME --out FILE.csv"},
		"no out":          {[]string{"--in", path("in.csv"), "--column", "job"}, exitUsage, "--out"},
		"a text":          {[]string{"a cook"}, exitUsage, "pawl run nco 'a cook'"},
		"no such file":    {[]string{"--in", path("none.csv"), "--column", "job", "--out", path("o")}, exitUsage, "none.csv"},
		"a folder":        {[]string{"--in", s.dir, "--column", "job", "--out", path("o")}, exitUsage, "not a file"},
		"over the input":  {[]string{"--in", path("in.csv"), "--column", "job", "--out", path("in.csv"), "--overwrite"}, exitUsage, "over the input"},
		"part of it":      {[]string{"--in", path("x.csv.part"), "--column", "job", "--out", path("x.csv"), "--overwrite"}, exitUsage, "over the input"},
		"out is a folder": {[]string{"--in", path("in.csv"), "--column", "job", "--out", s.dir, "--overwrite"}, exitUsage, "not a file"},
		"no folder":       {[]string{"--in", path("in.csv"), "--column", "job", "--out", path("none/o.csv")}, exitUnavailable, "none"},
		"workers":         {[]string{"--in", path("in.csv"), "--column", "job", "--out", path("o"), "--workers", "-1"}, exitUsage, "--workers"},
		"no catalogue":    {[]string{"--in", path("in.csv"), "--column", "job", "--out", path("o"), "--catalog", path("none.csv")}, exitUsage, "catalogue"},
	} {
		t.Run(name, func(t *testing.T) { oneClearLine(t, s.run(append([]string{"nco"}, c.args...)...), c.code, c.says) })
	}
	if got := s.want(0, "nco", "--help"); !strings.Contains(got.out, "--catalog FILE") || strings.Contains(got.out, "--turns") {
		t.Error(got.out)
	}
	for _, args := range [][]string{{"nco", "--in", ""}, {"nco", "--catalog", ""}, {"eval", "nco", "--queries", ""}} {
		if got := s.want(0, append([]string{"__complete"}, args...)...); !strings.Contains(got.out, "csv\n:8") { // only files of that kind
			t.Errorf("%q completes to %q", args, got.out)
		}
	}
	s.ws = []Workflow{Graph(hello())}
	if got := s.want(0, "--help"); strings.Contains(got.out, "nco") || strings.Contains(got.out, "eval") {
		t.Error("a program without the workflow has its commands: ", got.out)
	}
}

// TestBulkCatalog: the catalogue is used, and is part of the job.
func TestBulkCatalog(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	path := func(name string) string { return filepath.Join(s.dir, name) }
	put(t, s.dir, "in.csv", "job\ncook\n")
	put(t, s.dir, "codes.csv", "code,title\n5120.0100,Cook\n7531.0100,Tailor\n")
	put(t, s.dir, "more.csv", "code,title\n5120.0100,Cook\n7531.0100,Tailor\n7511.0100,Butcher\n")
	args := []string{"nco", "--in", path("in.csv"), "--column", "job", "--out", path("out.csv"), "--catalog"}
	s.want(0, append(args, path("codes.csv"))...)
	if rows := rowsIn(t, path("out.csv")); rows[1][3] != "5120.0100" || rows[1][4] != "Cook" {
		t.Errorf("%q", rows[1])
	}
	if err := os.Rename(path("out.csv"), path("out.csv.part")); err != nil {
		t.Fatal(err)
	}
	side, err := json.Marshal(bulkJob{Input: "other"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s.dir, "out.csv.part.json", string(side))
	got := s.want(exitConflict, append(args, path("more.csv"))...)
	for _, says := range []string{"out.csv.part is of another job", "the input", "the catalogue", "the workflow", "the program", "--overwrite"} {
		if !strings.Contains(got.err, says) {
			t.Errorf("%q is not in %s", says, got.err)
		}
	}
	s.want(0, append(args, path("more.csv"), "--overwrite")...)
}

// TestBulkInterrupted: Ctrl-C keeps what is done, and the command that it prints goes on.
func TestBulkInterrupted(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	in, out := filepath.Join(s.dir, "in.csv"), filepath.Join(s.dir, "it's out.csv")
	put(t, s.dir, "in.csv", madeUpTitles(150))
	interrupts := make(chan struct{}, 2)
	go func() {
		for t.Context().Err() == nil {
			if info, err := os.Stat(out + ".part"); err == nil && info.Size() > 1000 {
				interrupts <- struct{}{}
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var std, say bytes.Buffer
	args := []string{"nco", "--in", in, "--column", "job title", "--out", out, "--json"}
	code := Shell{Args: args, In: strings.NewReader(""), Out: &std, Err: &say, Env: s.env, Interrupts: interrupts}.Run(t.Context(), s.ws...)
	r := told{code, std.String(), say.String()}.last(t)
	quoted := strings.ReplaceAll(out, "'", `'\''`)
	next := "pawl nco --in " + in + " --column 'job title' --out '" + quoted + "'"
	if code != exitInterrupted || r.Exit != exitInterrupted || r.Command != next || !strings.Contains(say.String(), "of 150 rows are in "+out+".part; go on with: "+next) {
		t.Fatal(code, r, say.String())
	}
	if _, err := os.Stat(out); err == nil {
		t.Fatal("there is an output already")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // not long enough to do all
	defer cancel()
	if code := (Shell{Args: args, In: strings.NewReader(""), Out: &std, Err: &say, Env: s.env}.Run(ctx, s.ws...)); code != exitTimeout {
		t.Error(code, say.String())
	}
	got := s.want(0, args...)
	var end bulkEnd
	if err := json.Unmarshal([]byte(got.out), &end); err != nil || end.Rows != 150 || end.Before == 0 || end.Before == 150 || !strings.Contains(got.err, "going on") {
		t.Fatal(got, err)
	}
	for i, row := range rowsIn(t, out)[1:] {
		if row[0] != fmt.Sprintf("E%05d", i) || row[3] != fmt.Sprint(i+1) {
			t.Fatalf("row %d is %q", i+1, row)
		}
	}
}

// TestBulkProgress: on a terminal one line, drawn anew and gone at the end; elsewhere none before two seconds are over.
func TestBulkProgress(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "TERM=xterm")
	put(t, s.dir, "in.csv", madeUpTitles(40))
	y := newTTY(60)
	told := ended(t, s.onTTY(y, y, nil, "nco", "--in", filepath.Join(s.dir, "in.csv"), "--column", "job title", "--out", filepath.Join(s.dir, "out.csv")))
	if told.code != 0 || !strings.Contains(told.err, "of 40") || !strings.Contains(told.err, "rows/s  asked ") || !strings.HasSuffix(told.err, "\r\x1b[K") {
		t.Errorf("%q", told.err)
	}
	for _, drawn := range strings.Split(escapes.ReplaceAllString(told.err, ""), "\r") {
		if cellsOf(drawn) > 59 {
			t.Errorf("a status of %d columns on 60: %q", cellsOf(drawn), drawn)
		}
	}
	var say bytes.Buffer
	shown := bulkShown{say: newVoice(&say, func(string) string { return "" }), total: 100, before: 10, began: time.Now().Add(-10 * time.Second), said: time.Now()}
	shown.tick(bulkTally{Rows: 30, Asked: 4})
	if say.Len() > 0 {
		t.Error("too early: ", say.String())
	}
	shown.said = shown.said.Add(-bulkSays)
	shown.tick(bulkTally{Rows: 30, Asked: 4})
	shown.tick(bulkTally{Rows: 31, Asked: 4})
	if say.String() != "rows 30 of 100  2 rows/s  asked 4  35s left\n" {
		t.Errorf("%q", say.String())
	}
}
