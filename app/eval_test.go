package app

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pawl/workflows/nco"
)

const evalQueries = `query,language,category,accept_codes,accept_family4,needs_clarification
tailor,English,basic,7531.0100,7531,no
cook,English,typo,5120.0100,5120,no
butcher,Hindi,basic,2341.0100,2341,yes
`

// TestEval: a table for people, one object for programs, and the misses where they are wanted.
func TestEval(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	put(t, s.dir, "codes.csv", "code,title\n5120.0100,Cook\n7531.0100,Tailor\n7511.0100,Butcher\n")
	put(t, s.dir, "q.csv", evalQueries)
	put(t, s.dir, "titles.csv", "job_title,isco08_gold,more\ncook,5120,x\ntailor,7531,y\n")
	args := func(queries string, more ...string) []string {
		return append([]string{"eval", "nco", "--catalog", filepath.Join(s.dir, "codes.csv"), "--queries", filepath.Join(s.dir, queries)}, more...)
	}
	table := s.want(0, args("q.csv")...)
	golden(t, "eval.txt", table.out)
	if table.err != "" {
		t.Error(table.err)
	}
	missed := s.want(0, args("q.csv", "--misses")...)
	if !strings.HasPrefix(missed.out, table.out) || missed.err != "" {
		t.Error(missed)
	}
	misses := strings.TrimPrefix(missed.out, table.out)
	for _, says := range []string{
		"\nline 4  butcher\n  no right code among the five; no right family among the five; not asked although it is unclear\n",
		"\n  wanted  2341.0100 2341 needs a question: yes\n  1       7511.0100  Butcher\n", "\n  status  MATCH_FOUND",
	} {
		if !strings.Contains(misses, says) {
			t.Errorf("%q is not in %q", says, misses)
		}
	}
	if strings.Count(misses, "line") != 1 {
		t.Error(misses)
	}
	program := s.want(0, args("q.csv", "--json", "--misses")...)
	var raw struct {
		All        map[string]any            `json:"all"`
		ByLanguage map[string]map[string]any `json:"byLanguage"`
		ByCategory map[string]map[string]any `json:"byCategory"`
	}
	d := json.NewDecoder(strings.NewReader(program.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&raw); err != nil {
		t.Fatal(program, err)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Error("there is more than one object")
	}
	if program.err != misses {
		t.Errorf("%q", program.err)
	}
	keys := []string{"asked_when_clear", "asked_when_unclear", "n", "top1_4", "top1_8", "top5_4", "top5_8"}
	for _, score := range []map[string]any{raw.All, raw.ByLanguage["English"], raw.ByLanguage["Hindi"], raw.ByCategory["basic"], raw.ByCategory["typo"]} {
		var have []string
		for k := range score {
			have = append(have, k)
		}
		if slices.Sort(have); !slices.Equal(have, keys) {
			t.Errorf("%q", have)
		}
	}
	if raw.All["n"] != 3.0 || raw.All["top1_8"] != 2./3 || raw.ByLanguage["English"]["asked_when_unclear"] != nil {
		t.Errorf("%+v", raw)
	}
	titles := s.want(0, args("titles.csv", "--json")...)
	var flat bytes.Buffer
	want := `{"all":{"n":2,"top1_8":null,"top5_8":null,"top1_4":1,"top5_4":1,"asked_when_unclear":null,"asked_when_clear":null},"byLanguage":{},"byCategory":{}}`
	if err := json.Compact(&flat, []byte(titles.out)); err != nil || flat.String() != want {
		t.Error(titles.out, err)
	}
}

func TestEvalRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	put(t, s.dir, "bad.csv", evalQueries+"x,y,z,8332,,no\n")
	put(t, s.dir, "other.csv", "a,b\n1,2\n")
	path := func(name string) string { return filepath.Join(s.dir, name) }
	oneClearLine(t, s.run("eval", "nco"), exitUsage, "--queries FILE")
	oneClearLine(t, s.run("eval", "nco", "--queries", path("none.csv")), exitUsage, "none.csv")
	oneClearLine(t, s.run("eval", "nco", "--queries", path("other.csv")), exitUsage, "the header has: a, b")
	if got := s.want(exitUsage, "eval", "nco", "--queries", path("bad.csv")); !strings.Contains(got.err, `line 5: code "8332"`) || got.out != "" {
		t.Error(got)
	}
	oneClearLine(t, s.run("eval", "nco", "x"), exitUsage, "no arguments")
	if got := s.want(0, "eval"); !strings.Contains(got.out, "nco") {
		t.Error(got)
	}
	put(t, s.dir, "q.csv", evalQueries)
	interrupted := make(chan struct{}, 1)
	interrupted <- struct{}{}
	var out, say bytes.Buffer
	code := Shell{Args: []string{"eval", "nco", "--queries", path("q.csv")}, Out: &out, Err: &say, Env: s.env, Interrupts: interrupted}.Run(t.Context(), s.ws...)
	if code != exitInterrupted && code != exitOK || code == exitInterrupted && out.Len() > 0 {
		t.Error(code, out.String(), say.String())
	}
}

// TestLongEvalRealFiles: the command on the shared files; shape and size only.
func TestLongEvalRealFiles(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("PAWL_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	s := newShell(t)
	for queries, c := range map[string]struct {
		catalog string
		n       int
	}{
		filepath.Join("nco", "nco_gold_queries_reviewed.csv"): {filepath.Join("nco", "nco2015_occupations.csv"), 54},
		filepath.Join("isco", "isco08_title_eval_1000.csv"):   {filepath.Join("isco", "isco08_groups_en.csv"), 490},
	} {
		if _, err := os.Stat(filepath.Join(dir, queries)); err != nil {
			t.Skip("shared data not found: ", err)
		}
		got := s.want(0, "eval", "nco", "--json", "--catalog", filepath.Join(dir, c.catalog), "--queries", filepath.Join(dir, queries))
		var v nco.Evaluation
		if err := json.Unmarshal([]byte(got.out), &v); err != nil || v.All.N != c.n || v.All.Top5Family == nil {
			t.Errorf("%s: %+v %v", queries, v, err)
		}
	}
}

// TestEvalVisualDegrees: a table for people, one object with fixed names for programs, and what it does not take.
func TestEvalVisualDegrees(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	put(t, s.dir, "album.csv", "id,people,recognized_people,recognition_confidence\n1,A|X,A|X,90|90\n2,X|B,X|B,90|90\n3,C|D,C|D,90|70\n")
	put(t, s.dir, "pairs.csv", "source,target\nA,B\nC,D\nA,C\n")
	args := func(more ...string) []string {
		return append([]string{"eval", "visualdegrees", "--album", filepath.Join(s.dir, "album.csv"), "--pairs", filepath.Join(s.dir, "pairs.csv")}, more...)
	}
	if got := s.want(0, args()...); !strings.Contains(got.out, "pawl   3      1          1      1.000") || strings.Count(got.out, "\n") != 4 {
		t.Errorf("%s", got.out)
	}
	var all map[string]map[string]any
	if err := json.Unmarshal([]byte(s.want(0, args("--json", "--budget", "search=2,recognition=9,llm=1", "--hops", "2")...).out), &all); err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"pawl", "bfs", "plain"} {
		for _, key := range []string{
			"pairs", "reachable", "found", "found_share", "false_edges", "mislabelled_edges", "invalid_paths", "mean_search", "mean_recognition", "mean_llm", "by_reason",
		} {
			if _, ok := all[way][key]; !ok || len(all[way]) != 11 || len(all) != 3 {
				t.Errorf("%s has no %s: %v", way, key, all)
			}
		}
	}
	if all["pawl"]["mean_search"].(float64) > 2 {
		t.Errorf("%v", all["pawl"])
	}
	for says, wrong := range map[string][]string{
		`there is no meter "serch"`: {"--budget", "serch=1"}, "a run can have 500 at most": {"--budget", "search=501"},
		"hops: want 1 to 12, not 0": {"--hops", "0"}, "no such file": {"--pairs", "none.csv"}, "photographs": {"--album", filepath.Join(s.dir, "pairs.csv")},
	} {
		if got := s.want(exitUsage, args(wrong...)...); says != "photographs" && !strings.Contains(got.err, says) {
			t.Errorf("%v: %q", wrong, got.err)
		}
	}
	s.want(exitUsage, "eval", "visualdegrees")
}
