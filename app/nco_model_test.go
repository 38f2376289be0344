package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pawl/workflows/nco"
)

// chat is a service on this machine that speaks chat completions: https://platform.openai.com/docs/api-reference/chat.
type chat struct {
	url string

	mu    sync.Mutex
	asked []string // what each request says, after its instructions
}

// newChat answers a reading, or a verdict that may choose codes, with a text, or with a status and perhaps a Retry-After.
func newChat(t *testing.T, say func(n int, reading bool, codes []string) (text string, status int, after string)) *chat {
	c := &chat{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Messages []struct{ Content string }
			Format   struct {
				Schema struct {
					Name   string
					Schema struct {
						Properties struct {
							Codes struct {
								Items struct{ Enum []string }
							} `json:"selected_codes"`
						}
					}
				} `json:"json_schema"`
			} `json:"response_format"`
		}
		err := json.NewDecoder(r.Body).Decode(&q)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET): // whoever asked was killed meanwhile
			return
		case err != nil || r.URL.Path != "/v1/chat/completions" || len(q.Messages) < 2:
			t.Errorf("%s %v %d messages", r.URL, err, len(q.Messages))
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		n := len(c.asked)
		c.asked = append(c.asked, q.Messages[1].Content)
		c.mu.Unlock()
		text, status, after := say(n, q.Format.Schema.Name == "Expansion", q.Format.Schema.Schema.Properties.Codes.Items.Enum)
		w.Header().Set("Content-Type", "application/json")
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		if status != 0 {
			w.WriteHeader(status)
			return
		}
		quoted, _ := json.Marshal(text)
		fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"small","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":100,"total_tokens":1000}}`, quoted)
	}))
	c.url = s.URL
	t.Cleanup(s.Close)
	return c
}

func (c *chat) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

// shell is one with the models fast, dear and keyless.
func (c *chat) shell(t *testing.T) *shell {
	s := newShell(t)
	s.env = append(s.env, "PAWL_PROVIDERS_MINE_URL="+c.url+"/v1", "PAWL_MODELS_FAST=mine/small", "PAWL_MODELS_DEAR=mine/big", "PAWL_MODELS_KEYLESS=openai/gpt",
		`PAWL_PRICES={"mine/*":{"input":1,"output":10}}`)
	return s
}

// sensible reads everything as truck driving and takes the first candidate.
func sensible(_ int, reading bool, codes []string) (string, int, string) {
	var v any = nco.Expansion{Generated: true, Query: "Title: truck driver lorry"}
	if !reading {
		v = nco.Verdict{Status: nco.MatchFound, Codes: codes[:1], Confidence: 9, Message: "found", Why: []string{"truck is lorry"}}
	}
	raw, _ := json.Marshal(v)
	return string(raw), 0, ""
}

// TestNCOModel: a run says which model it was begun with, is answered by it from anywhere, and is replayed without it.
func TestNCOModel(t *testing.T) {
	t.Parallel()
	m := newChat(t, sensible)
	s := m.shell(t)
	r := s.want(0, "run", "nco", "--model", "fast", "I drive a lorry", "--json").last(t)
	if m.count() != 2 || r.Run.Labels[labelModel] != "fast" || !nco.Modeled(r.Run.Version) {
		t.Errorf("asked %d times, %+v", m.count(), r.Run)
	}
	show := s.want(0, "runs", "show", r.Run.ID).out
	for _, want := range []string{"because", "The model: truck is lorry", "expand/1", "analyze/1", "llm 2/24", "8332"} {
		if !strings.Contains(show, want) {
			t.Errorf("%q is not in\n%s", want, show)
		}
	}
	s.want(0, "runs", "replay", r.Run.ID)
	if m.count() != 2 {
		t.Error("a replay asked")
	}
	asked := s.want(exitWaiting, "run", "nco", "--model", "fast", "driver", "--json").last(t)
	answer := func(code int, id string, more ...string) told {
		q := s.run("runs", "show", id, "--json")
		var all shown
		if err := json.Unmarshal([]byte(q.out), &all); err != nil || len(all.Questions) != 1 {
			t.Fatal(q)
		}
		return s.want(code, append([]string{"runs", "answer", id, all.Questions[0].ID, "truck"}, more...)...)
	}
	before := m.count()
	if got := answer(0, asked.Run.ID); !strings.Contains(got.out, "The model: truck is lorry") || m.count() != before+2 {
		t.Errorf("asked %d times: %v", m.count()-before, got)
	}

	plain := s.want(exitWaiting, "run", "nco", "driver", "--json").last(t)
	if nco.Modeled(plain.Run.Version) || plain.Run.Labels[labelModel] != "" {
		t.Errorf("%+v", plain.Run)
	}
	before = m.count()
	s.env = append(s.env, "PAWL_NCO_MODEL=dear") // a run that was begun without one stays without one
	if got := answer(exitUnavailable, plain.Run.ID, "--model", "fast"); !strings.Contains(got.err, "it was begun without a model, and this is with one") || !strings.Contains(got.err, `--model ''`) {
		t.Error(got)
	}
	if got := s.want(0, "runs", "watch", plain.Run.ID); !strings.Contains(got.out, "MATCH_FOUND") || m.count() != before {
		t.Errorf("asked %d times: %v", m.count()-before, got)
	}
	if s.want(0, "run", "nco", "I drive a lorry"); m.count() != before+2 {
		t.Error("the variable counts for nothing")
	}
}

// TestNCOFallsBack: whatever keeps a model away is told with the result and in what is shown of the run, but for a name that
// somebody has mistyped.
func TestNCOFallsBack(t *testing.T) {
	t.Parallel()
	m := newChat(t, func(int, bool, []string) (string, int, string) { return "no JSON", 0, "" })
	s := m.shell(t)
	without := s.want(0, "run", "nco", "I drive a lorry between cities").out
	for model, why := range map[string]string{"fast": "none of 2 answers of mine/small could be used", "keyless": "PAWL_PROVIDERS_OPENAI_KEY", "nobody/x": "provider nobody is not configured"} {
		r := s.want(0, "run", "nco", "--model", model, "I drive a lorry between cities", "--json").last(t)
		show := s.want(0, "runs", "show", r.Run.ID).out
		if strings.Count(show, "Without the model: ") != 2 || !strings.Contains(show, why) || !strings.Contains(show, "fallback") || !strings.Contains(show, `{"at":"expand","why":`) {
			t.Errorf("%s:\n%s", model, show)
		}
		for line := range strings.Lines(without) {
			if !strings.Contains(show, line) && !strings.HasPrefix(line, "because") {
				t.Errorf("%s: %q is not in\n%s", model, line, show)
			}
		}
	}
	if got := s.want(exitUsage, "run", "nco", "--model", "fats", "I drive a lorry"); !strings.Contains(got.err, "there is no model \"fats\"") {
		t.Error(got)
	}
	if got := s.want(exitUsage, "nco", "--in", os.Args[0], "--column", "x", "--out", filepath.Join(s.dir, "o"), "--budget", "llm=2"); got.out != "" {
		t.Error(got)
	}
}

// TestNCOModelOfAWorker: a worker with a model goes on with runs of both kinds, and begins those with one.
func TestNCOModelOfAWorker(t *testing.T) {
	t.Parallel()
	m := newChat(t, sensible)
	s := m.shell(t)
	plain := s.want(exitWaiting, "run", "nco", "driver", "--json").last(t)
	s.env = append(s.env, "PAWL_NCO_MODEL=fast")
	h := s.hosts("2025-06-18")
	if out := h.call("nco", args{"text": "I drive a lorry"}, false); !strings.Contains(string(out.Output), "The model: ") || m.count() != 2 {
		t.Errorf("%+v", out)
	}
	h.call("run_answer", args{"run": plain.Run.ID, "question": plain.Questions[0].ID, "answer": args{"text": "truck"}}, false)
	if got := s.want(0, "runs", "watch", plain.Run.ID); !strings.Contains(got.out, "MATCH_FOUND") || m.count() != 2 {
		t.Errorf("asked %d times, %v", m.count(), got)
	}
}

func column(t *testing.T, file, name string) (cells []string) {
	rows := rowsIn(t, file)
	i := slices.Index(rows[0], name)
	for _, row := range rows[1:] {
		cells = append(cells, row[i])
	}
	return cells
}

const drivers = "id,job title\n1,lorry driver\n2,truck driver in Pune\n3,lorry driver\n4,I drive trucks\n5,heavy truck driver\n6,driver of lorries\n"

// TestBulkModel: a model codes a file, the same title once; what it cost and how many rows it did not code is told.
func TestBulkModel(t *testing.T) {
	t.Parallel()
	m := newChat(t, func(n int, reading bool, codes []string) (string, int, string) {
		if n == 0 {
			return "", 429, "1"
		}
		return sensible(n, reading, codes)
	})
	s := m.shell(t)
	put(t, s.dir, "in.csv", drivers)
	in, out := filepath.Join(s.dir, "in.csv"), filepath.Join(s.dir, "out.csv")
	began := time.Now()
	got := s.want(0, "nco", "--in", in, "--column", "job title", "--out", out, "--model", "fast", "--workers", "1")
	if !strings.Contains(got.out, "rows 6  matched 6  asked 0  refused 0  fell back 0  llm 11  usd $0.019") || m.count() != 11 || time.Since(began) < time.Second {
		t.Errorf("asked %d times: %v", m.count(), got)
	}
	if why := column(t, out, bulkFallback); strings.Join(why, "") != "" || len(why) != 6 {
		t.Errorf("%q", why)
	}
	left, _ := filepath.Glob(out + ".*")
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	got = s.want(0, "nco", "--in", in, "--column", "job title", "--out", out, "--overwrite", "--model", "fast", "--workers", "1", "--budget", "llm=5", "--json")
	var end bulkEnd
	if err := json.Unmarshal([]byte(got.out), &end); err != nil || end.Model == nil || *end.Model != (bulkCost{Name: "fast: mine/small", FellBack: 3, Calls: 5, USD: "$0.0095"}) || m.count() != 16 {
		t.Errorf("asked %d times: %v %v", m.count(), got, err)
	}
	for i, why := range column(t, out, bulkFallback) {
		if fell := i > 2; fell != strings.Contains(why, "budget llm is spent: 5 of 5") {
			t.Errorf("row %d: %q", i+1, why)
		}
	}
	got = s.want(0, "nco", "--in", in, "--column", "job title", "--out", out, "--overwrite", "--model", "fast", "--budget", "usd=0.01")
	if n := m.count() - 16; n > 3 || !strings.Contains(got.out, "fell back ") {
		t.Errorf("asked %d times: %v", n, got)
	}
	plain := s.want(0, "nco", "--in", in, "--column", "job title", "--out", out, "--overwrite")
	if strings.Contains(plain.out, "fell back") || slices.Contains(rowsIn(t, out)[0], bulkFallback) {
		t.Error(plain)
	}
	put(t, s.dir, "mine.csv", "nco_fallback,job title\nx,cook\n")
	s.want(0, "nco", "--in", filepath.Join(s.dir, "mine.csv"), "--column", "job title", "--out", filepath.Join(s.dir, "mine.out"))
	s.want(exitUsage, "nco", "--in", filepath.Join(s.dir, "mine.csv"), "--column", "job title", "--out", filepath.Join(s.dir, "mine2.out"), "--model", "fast")
}

// TestBulkModelGoesOn: a command that goes on has what the one that was stopped has left of the budget, and no row is asked for again.
func TestBulkModelGoesOn(t *testing.T) {
	t.Parallel()
	third, release := make(chan struct{}), make(chan struct{})
	m := newChat(t, func(n int, reading bool, codes []string) (string, int, string) {
		if n == 4 {
			close(third)
			<-release
		}
		return sensible(n, reading, codes)
	})
	s := m.shell(t)
	put(t, s.dir, "in.csv", drivers)
	out := filepath.Join(s.dir, "out.csv")
	command := []string{"nco", "--in", filepath.Join(s.dir, "in.csv"), "--column", "job title", "--out", out, "--model", "fast", "--workers", "1", "--budget", "llm=8"}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	var says bytes.Buffer
	go func() {
		ended <- Shell{Args: command, In: strings.NewReader(""), Out: &says, Err: &says, Env: s.env}.Run(ctx, s.ws...)
	}()
	<-third
	stop()
	if code := <-ended; code != exitInterrupted || !strings.Contains(says.String(), "--budget llm=8") || !strings.Contains(says.String(), "--model fast") {
		t.Fatalf("%d: %s", code, says.String())
	}
	close(release)
	if got := s.want(exitConflict, append(slices.Clone(command), "--model", "dear")...); !strings.Contains(got.err, "the model was \"fast: mine/small\" and is \"dear: mine/big\"") {
		t.Error(got)
	}
	got := s.want(0, command...)
	// Two titles are done with four calls, and the third one had begun: three calls are left, for a row and a half.
	if m.count() != 8 || !strings.Contains(got.out, "rows 6 (3 of them before)  matched 6  asked 0  refused 0  fell back 2  llm 8") {
		t.Errorf("asked %d times: %v", m.count(), got)
	}
}

// TestFaultBulkModelKilled: killed with kill -9 while a model is asked, as often as may be, a file never costs more than its budget.
func TestFaultBulkModelKilled(t *testing.T) {
	t.Parallel()
	const most = 30
	m := newChat(t, sensible)
	s := m.shell(t)
	put(t, s.dir, "in.csv", madeUpTitles(40))
	kills := 0
	for stops := 5; ; stops += 6 { // requests, counted over all commands
		p := s.start(s.bulkArgs("out.csv", "--model", "fast", "--workers", "2", "--budget", fmt.Sprint("llm=", most))...)
		for m.count() < min(stops, most+1) {
			select {
			case <-p.done:
			case <-time.After(time.Millisecond):
				continue
			}
			break
		}
		if m.count() < most {
			_ = p.Process.Kill()
			kills++
		}
		if end := p.end(t); end.code == 0 {
			break
		} else if kills > most {
			t.Fatal(end)
		}
		spent := got(t, s.dir, "out.csv.part.spent")
		var counted map[string]int
		last := spent[strings.LastIndex(strings.TrimSpace(spent), "\n")+1:]
		if err := json.Unmarshal([]byte(last), &counted); err != nil || counted["llm"] < m.count() { // written before it was asked
			t.Errorf("asked %d times, written: %s, %v", m.count(), last, err)
		}
		put(t, s.dir, "out.csv.part.spent", spent+`{"llm":`) // the line that the power cut off
	}
	fell := 0
	for _, why := range column(t, filepath.Join(s.dir, "out.csv"), bulkFallback) {
		if why != "" {
			fell++
		}
	}
	t.Logf("killed %d times, asked %d times, %d of 40 rows fell back", kills, m.count(), fell)
	if kills < 3 || m.count() > most || fell == 0 {
		t.Errorf("killed %d times, asked %d times, %d rows fell back", kills, m.count(), fell)
	}
}
