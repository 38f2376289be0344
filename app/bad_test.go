package app

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestBadInput: every fault is one clear line with its exit code: no stack, no usage.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "PAWL_STORE=memory")
	write := func(name, text string) string {
		file := filepath.Join(s.dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	big := strings.Repeat("work ", 200_000)
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown command":    {[]string{"rnu"}, 2, `there is no command "rnu": did you mean "run"?`},
		"unknown subcommand": {[]string{"runs", "lss"}, 2, `"runs lss": did you mean "ls"?`},
		"unknown flag":       {[]string{"run", "nco", "--katalog", "x"}, 2, "unknown flag: --katalog"},
		"no workflow":        {[]string{"run"}, 2, "run takes WORKFLOW"},
		"unknown workflow":   {[]string{"run", "helo", "x"}, 3, `no workflow "helo": did you mean "hello"?`},
		"strange workflow":   {[]string{"run", "zzz", "x"}, 3, "there are: hello, approve"},
		"unknown version":    {[]string{"run", "hello@9", "x"}, 3, "only hello@1"},
		"unknown graph":      {[]string{"graph", "nc"}, 3, "did you mean"},
		"unknown format":     {[]string{"graph", "hello", "--format", "png"}, 2, "use mermaid, dot, svg or json"},
		"no field":           {[]string{"run", "slow", "n=1", "mss=3"}, 2, `slow has no field "mss"`},
		"no place for text":  {[]string{"run", "slow", "n=1", "ms=3", "text"}, 2, "no field for the text"},
		"takes nothing":      {[]string{"run", "approve", "text"}, 2, "no field for the text"},
		"wrong type":         {[]string{"run", "slow", "n=1.5", "ms=2"}, 2, `n: want a whole number, not "1.5"`},
		"wrong boolean":      {[]string{"run", "hello", "x", "loud=maybe"}, 2, "loud: want true or false"},
		"wrong number":       {[]string{"run", "number", "x"}, 2, "want a whole number"},
		"too many values":    {[]string{"run", "number", "1", "2"}, 2, "want a whole number"},
		"no value":           {[]string{"run", "number"}, 2, "number wants a whole number"},
		"twice":              {[]string{"run", "slow", "n=1", "n=2", "ms=0"}, 2, "n is given twice"},
		"missing":            {[]string{"run", "slow", "n=1"}, 2, "the input has no ms"},
		"missing text":       {[]string{"run", "nco"}, 2, "give it as text=… or as plain text"},
		"empty text":         {[]string{"run", "nco", ""}, 2, "text: empty"},
		"blank text":         {[]string{"run", "nco", " \t\n"}, 2, "text: empty"},
		"1 MB":               {[]string{"run", "nco", big}, 2, "the limit is 10000"},
		"NUL":                {[]string{"run", "nco", "a\x00b"}, 2, "NUL"},
		"invalid UTF-8":      {[]string{"run", "nco", "a\xffb"}, 2, "not valid UTF-8"},
		"invalid UTF-8 in =": {[]string{"run", "nco", "text=a\xffb"}, 2, "not valid UTF-8"},
		"no input file":      {[]string{"run", "nco", "--input", filepath.Join(s.dir, "none")}, 2, "--input: open"},
		"broken input":       {[]string{"run", "nco", "--input", write("broken", `{"text":`)}, 2, "the JSON ends too early"},
		"duplicate keys":     {[]string{"run", "nco", "--input", write("twice", `{"text":"a","text":"b"}`)}, 2, "text"},
		"text behind":        {[]string{"run", "nco", "--input", write("behind", `{"text":"a"} x`)}, 2, "--input: not JSON"},
		"no object":          {[]string{"run", "nco", "x", "--input", write("list", `["a"]`)}, 2, "not an object"},
		"unknown in input":   {[]string{"run", "nco", "--input", write("unknown", `{"text":"a","foo":1}`)}, 2, "foo"},
		"type in input":      {[]string{"run", "nco", "--input", write("type", `{"text":7}`)}, 2, "text"},
		"folder as input":    {[]string{"run", "nco", "--input", s.dir}, 2, "--input"},
		"budget":             {[]string{"run", "hello", "x", "--budget", "llm"}, 2, "METER=AMOUNT"},
		"budget amount":      {[]string{"run", "hello", "x", "--budget", "llm=-1"}, 2, "whole number"},
		"budget money":       {[]string{"run", "hello", "x", "--budget", "usd=NaN"}, 2, "dollars"},
		"budget twice":       {[]string{"run", "hello", "x", "--budget", "llm=1,llm=2"}, 2, "twice"},
		"label":              {[]string{"run", "hello", "x", "--label", "=v"}, 2, "KEY=VALUE"},
		"key":                {[]string{"run", "hello", "x", "--key", strings.Repeat("k", 501)}, 2, "at most 500"},
		"detach in memory":   {[]string{"run", "hello", "x", "--detach"}, 2, "ends with the command"},
		"unknown run":        {[]string{"runs", "show", "nope"}, 3, `there is no run "nope"`},
		"watch unknown":      {[]string{"runs", "watch", ""}, 3, "there is no run"},
		"answer unknown":     {[]string{"runs", "answer", "nope", "q", "x"}, 3, "there is no run"},
		"answer what":        {[]string{"runs", "answer", "nope", "q"}, 2, "QUESTION TEXT"},
		"cancel unknown":     {[]string{"runs", "cancel", "nope"}, 3, "there is no run"},
		"retry unknown":      {[]string{"runs", "retry", "nope"}, 3, "there is no run"},
		"list status":        {[]string{"runs", "ls", "--status", "sleepy"}, 2, `no status "sleepy"`},
		"list limit":         {[]string{"runs", "ls", "--limit", "0"}, 2, "at least 1"},
		"list too much":      {[]string{"runs", "ls", "--limit", "1001"}, 2, "at most 1000"},
		"no store":           {[]string{"run", "hello", "x", "--store", "redis"}, 2, `there is no store "redis"`},
		"postgres":           {[]string{"run", "hello", "x", "--store", "postgres:u:secret@h/d"}, 2, "takes an address"},
		"no postgres":        {[]string{"run", "hello", "x", "--store", "postgres://u:secret@127.0.0.1:1/d?connect_timeout=2"}, 8, "store postgres: "},
		"dry run of sqlite":  {[]string{"migrate", "--dry-run"}, 2, "--dry-run"},
		"postgres setting":   {[]string{"run", "hello", "x", "--store", "postgres://u:secret@127.0.0.1:1/d?pool_max_conns=two"}, 8, "its setting pool_max_conns cannot be read"},
		"postgres address":   {[]string{"run", "hello", "x", "--store", "postgres://u:secret@127.0.0.1:x/d"}, 8, "it cannot be read"},
		"catalog":            {[]string{"run", "nco", "x", "--catalog", filepath.Join(s.dir, "none.csv")}, 2, "nco: catalogue: open"},
		"bad catalog":        {[]string{"run", "nco", "x", "--catalog", write("bad.csv", "code,title\n99x,Y\n")}, 2, "line 2"},
		"turns":              {[]string{"run", "nco", "x", "--turns", "many"}, 2, "turns: want a number"},
		"timeout":            {[]string{"run", "nco", "x", "--timeout", "soon"}, 2, "timeout"},
		"panic at the start": {[]string{"run", "broken", "early"}, 2, "at the start"},
		"panic in a node":    {[]string{"run", "broken", "panic"}, 1, "as told"},
		"version arguments":  {[]string{"version", "x"}, 2, "takes no arguments"},
		"config":             {[]string{"runs", "ls", "--config", write("c1", `{"stoer":"x","nco":{"x":1}}`)}, 2, "unknown nco.x, stoer"},
		"config type":        {[]string{"runs", "ls", "--config", write("c2", `{"store":["x"]}`)}, 2, "store: it must be a text"},
		"config broken":      {[]string{"runs", "ls", "--config", write("c3", `{`)}, 2, "ends too early"},
		"config missing":     {[]string{"runs", "ls", "--config", filepath.Join(s.dir, "no")}, 2, "configuration: open"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shell{t: t, dir: s.dir, env: s.env, ws: s.ws}
			oneClearLine(t, s.run(c.args...), c.code, c.says)
		})
	}
}

func oneClearLine(t *testing.T, got told, code int, says string) {
	t.Helper()
	if got.code != code || !strings.Contains(got.err, says) {
		t.Errorf("exit %d, want %d and %q:\n%s%s", got.code, code, says, got.out, got.err)
	}
	for _, noise := range []string{"goroutine ", "Usage:", "secret", "/app/"} {
		if strings.Contains(got.err, noise) {
			t.Errorf("%q is in it:\n%s", noise, got.err)
		}
	}
	n := 0
	for line := range strings.Lines(got.err) {
		if strings.HasPrefix(line, "pawl: ") {
			n++
		}
	}
	if n != 1 || len(got.err) > 2000 {
		t.Errorf("want one line that begins with pawl:\n%s", got.err)
	}
}

// TestBadStore: a store that cannot be used is unavailable, with the path and the cause.
func TestBadStore(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	path := func(name string) string { return filepath.Join(s.dir, name) }
	if err := os.WriteFile(path("junk.db"), bytes.Repeat([]byte("junk"), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(0, "run", "hello", "x", "--store", "sqlite:"+path("new.db"))
	db, err := sql.Open("sqlite", path("new.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 9999"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"junk.db": "not a SQLite database", "new.db": "use a newer program", "junk.db/x/y.db": "junk.db", ".": "not a file",
	} {
		got := s.run("run", "hello", "x", "--store", "sqlite:"+path(name))
		oneClearLine(t, got, exitUnavailable, says)
	}
	if runtime.GOOS != "windows" && os.Getuid() != 0 {
		if err := os.Mkdir(path("closed"), 0o500); err != nil {
			t.Fatal(err)
		}
		oneClearLine(t, s.run("run", "hello", "x", "--store", "sqlite:"+path("closed/x.db")), exitUnavailable, "closed")
	}
	if runtime.GOOS == "linux" {
		oneClearLine(t, s.run("run", "hello", "x", "--store", "sqlite:/proc/none/x.db"), exitUnavailable, "/proc/none")
	}
	s.env = []string{}
	oneClearLine(t, s.run("runs", "ls"), exitUsage, "--store sqlite:PATH")
}

// TestLongNaughtyStrings: whatever text comes in, the command ends in time with an answer, a question or a refusal.
func TestLongNaughtyStrings(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "shared", "data", "adversarial", "blns.json"))
	if err != nil {
		t.Skip("shared data not found: ", err)
	}
	var all []string
	if err := json.Unmarshal(raw, &all); err != nil || len(all) < 500 {
		t.Fatal(len(all), err)
	}
	all = append(all, "\x00", "\xff\xfe", strings.Repeat("x", 1<<20), strings.Repeat("\u202e", 100), "--", "-", "=", "text=", "text=x", "\x1b[2J")
	ws := []Workflow{ncoOnce(t)}
	calls := make(chan []string)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for args := range calls {
				naughty(t, ws, args)
			}
		})
	}
	for i, text := range all { // in turn as text and as a field, for people and for programs
		if i%2 == 0 {
			calls <- []string{"run", "nco", "--store", "memory", "--", text}
		} else {
			calls <- []string{"run", "nco", "--json", "--store", "memory", "text=" + text}
		}
	}
	close(calls)
	wg.Wait()
}

func naughty(t *testing.T, ws []Workflow, args []string) {
	text := args[len(args)-1]
	var out, say bytes.Buffer
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	code := Shell{Args: args, In: strings.NewReader(""), Out: &out, Err: &say}.Run(ctx, ws...)
	cancel()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("%q took %s", text, took)
	}
	if code != exitOK && code != exitUsage && code != exitWaiting {
		t.Errorf("%.80q: exit %d\n%s", text, code, say.String())
	}
	for _, b := range []*bytes.Buffer{&out, &say} {
		if bytes.ContainsAny(b.Bytes(), "\x00\x1b\x07\x08") || bytes.ContainsFunc(b.Bytes(), func(r rune) bool { return steers(r) && r != '\n' && r != '\t' }) {
			t.Errorf("%.80q: control characters reach the terminal: %q", text, b.String())
		}
	}
	if args[2] == "--json" {
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%.80q: not JSON: %s", text, line)
			}
		}
	}
}
