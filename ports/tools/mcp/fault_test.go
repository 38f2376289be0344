package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/tools"
	"pawl/ports/tools/mcp"
)

func call(name, arguments string) llm.ToolCall {
	return llm.ToolCall{ID: "1", Name: name, Arguments: json.RawMessage(arguments)}
}

// echoes makes a call that is answered. A machine at work may need longer for it than a server's limit.
func echoes(t *testing.T, s *mcp.Server) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		r, err := s.Call(t.Context(), call("echo", `{"text":"here"}`))
		if err == nil && r.Text == "here" {
			return
		}
		if err == nil || pawl.Coded(err).Code != pawl.CodeTimeout || time.Now().After(deadline) {
			t.Fatalf("echo: %+v, %v", r, err)
		}
	}
}

// fails makes a call that has no result, and returns its error.
func fails(t *testing.T, s *mcp.Server, c llm.ToolCall, code string, words ...string) error {
	t.Helper()
	r, err := s.Call(t.Context(), c)
	if err == nil || pawl.Coded(err).Code != code {
		t.Fatalf("%s: %.100q, %v, want the code %s", c.Name, r.Text, err, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v, want %q in it", c.Name, err, w)
		}
	}
	return err
}

// within fails a test that takes longer, so that a call that waits for ever is told as that.
func within(t *testing.T, d time.Duration) {
	t.Helper()
	began := time.Now()
	t.Cleanup(func() {
		if took := time.Since(began); took > d {
			t.Errorf("it took %s, want at most %s", took, d)
		}
	})
}

// TestFaultOtherOutput: whatever a server prints between its messages, it is used all the same.
func TestFaultOtherOutput(t *testing.T) {
	for _, mode := range []string{"prints noise", "floods", "answers nobody"} {
		t.Run(mode, func(t *testing.T) {
			var noise atomic.Int64
			s := process(t, mode, "", func(c *mcp.Config) { c.Warn = func(string) { noise.Add(1) } })
			if _, err := s.Tools(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				echoes(t, s)
			}
			if told := noise.Load() > 0; told != (mode != "answers nobody") {
				t.Errorf("%d lines were told", noise.Load())
			}
		})
	}
}

// TestFaultPingsAreNoAnswer: a server that only says that it is alive, and how far it is, does not keep a call for longer.
func TestFaultPingsAreNoAnswer(t *testing.T) {
	for _, revision := range revisions[:2] {
		s := process(t, "pings", revision, func(c *mcp.Config) { c.Timeout = time.Second })
		began := time.Now()
		fails(t, s, call("hang", `{}`), pawl.CodeTimeout, "no answer within 1s")
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
		echoes(t, s)
	}
}

// TestFaultHungServerIsReplaced: one that answers nothing at all is ended, one that is slow with a single call is not.
func TestFaultHungServerIsReplaced(t *testing.T) {
	s := process(t, "tells its process", "", func(c *mcp.Config) { c.Timeout = 3 * time.Second })
	pid := func() string {
		t.Helper()
		r, err := s.Call(t.Context(), call("pid", `{}`))
		if err != nil {
			t.Fatal(err)
		}
		return r.Text
	}
	first := pid()
	slow := make(chan error, 1)
	go func() { _, err := s.Call(t.Context(), call("hang", `{}`)); slow <- err }()
	for len(slow) == 0 {
		if again := pid(); again != first {
			t.Fatalf("it was ended beside a slow call: %s, then %s", first, again)
		}
	}
	if err := <-slow; pawl.Coded(err).Code != pawl.CodeTimeout {
		t.Errorf("the slow call: %v", err)
	}
	fails(t, s, call("hang", `{}`), pawl.CodeTimeout)
	if again := pid(); again == first {
		t.Error("it was not ended, although it has answered nothing")
	}
}

func TestFaultSlowStart(t *testing.T) {
	t.Run("is waited for", func(t *testing.T) { echoes(t, process(t, "slow start", "", nil)) })
	t.Run("goes on without its caller", func(t *testing.T) {
		s := process(t, "slow start", "", func(c *mcp.Config) { c.Timeout = 400 * time.Millisecond })
		err := fails(t, s, call("echo", `{"text":"x"}`), pawl.CodeTimeout)
		if _, ok := pawl.Retryable(err); !ok {
			t.Error("what was never sent may be sent again")
		}
		for deadline := time.Now().Add(30 * time.Second); ; {
			if _, err := s.Call(t.Context(), call("echo", `{"text":"x"}`)); err == nil {
				break
			} else if pawl.Coded(err).Code != pawl.CodeTimeout || time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	})
	t.Run("ends with its server", func(t *testing.T) {
		within(t, time.Minute)
		s := process(t, "is deaf", "", nil)
		called := make(chan error, 1)
		go func() { _, err := s.Call(t.Context(), call("echo", `{"text":"x"}`)); called <- err }()
		for len(called) == 0 && !mcp.Starting(s) {
		}
		s.Close()
		if err := <-called; !errors.Is(err, tools.ErrClosed) {
			t.Errorf("the call that started it: %v", err)
		}
	})
	t.Run("has an end", func(t *testing.T) {
		within(t, time.Minute)
		s := process(t, "is deaf", "", func(c *mcp.Config) { c.Start = 300 * time.Millisecond })
		fails(t, s, call("echo", `{"text":"x"}`), pawl.CodeUnavailable, "start", "no answer within 300ms")
	})
}

// TestFaultExitsAtOnce: what it said is told, and it is started again less and less often.
func TestFaultExitsAtOnce(t *testing.T) {
	s := process(t, "exits at once", "", nil)
	waited := time.Duration(0)
	for n := range 4 {
		err := fails(t, s, call("write", `{"text":"x"}`), pawl.CodeUnavailable, "the key is missing", "exit status 4")
		after, ok := pawl.Retryable(err)
		switch {
		case !ok:
			t.Fatal("it cannot be tried again, although nothing was sent")
		case n == 0 && after != 0:
			t.Errorf("the second start waits for %s", after)
		case n > 0 && after <= 0:
			t.Errorf("start %d does not wait", n+2)
		}
		waited = max(waited, after)
		if n > 0 { // at once: it is not started, and says how long to wait
			again, _ := pawl.Retryable(fails(t, s, call("write", `{"text":"x"}`), pawl.CodeUnavailable, "the key is missing"))
			if again <= 0 || again > after {
				t.Errorf("a moment later it says to wait for %s, before for %s", again, after)
			}
			time.Sleep(after)
		}
	}
	if waited < time.Second || waited > 4*time.Second {
		t.Errorf("the longest wait is %s", waited)
	}
	missing, err := mcp.Open(mcp.Config{Name: "missing", Command: []string{"/nowhere/to/be/found"}})
	if err != nil {
		t.Fatal(err)
	}
	fails(t, missing, call("echo", `{}`), pawl.CodeUnavailable, "no such file")
}

// TestListChanges: the next list has what is offered now, and a tool's marks are the new ones.
func TestListChanges(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			s := process(t, "changes", revision, nil)
			names := func() string {
				all, err := s.Tools(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				out := ""
				for _, t := range all {
					out += fmt.Sprint(t.Name, " ", t.ReadOnly, ",")
				}
				return out
			}
			before := names()
			if again := names(); again != before || !strings.Contains(before, "fail true") {
				t.Errorf("%s, then %s", before, again)
			}
			if _, err := s.Call(t.Context(), call("change", `{}`)); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(30 * time.Second); ; { // the notice comes when it comes
				if now := names(); !strings.Contains(now, "fail") && strings.Contains(now, "added false") {
					return
				} else if time.Now().After(deadline) {
					t.Fatalf("still %s", now)
				}
			}
		})
	}
}

// TestAsksBack: a server gets nothing from us but calls.
func TestAsksBack(t *testing.T) {
	for revision, tool := range map[string]string{revisions[0]: "require", revisions[1]: "elicit"} {
		s := process(t, "asks back", revision, nil)
		r, err := s.Call(t.Context(), call(tool, `{}`))
		if refused := err != nil && pawl.Coded(err).Code == tools.CodeProtocol || r.Failed && strings.Contains(r.Text, "does not support"); !refused {
			t.Errorf("%s: %+v, %v", revision, r, err)
		}
		echoes(t, s)
	}
}

// TestFaultChildrenEnd: what a server has started does not stay behind when it is closed, nor when it dies, and does not hold us up.
func TestFaultChildrenEnd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs linux")
	}
	for _, dies := range []bool{false, true} {
		child := make(chan int, 1)
		s := process(t, "has a child", "", func(c *mcp.Config) {
			c.Log = func(line string) {
				if pid, err := strconv.Atoi(strings.TrimPrefix(line, "child ")); err == nil {
					child <- pid
				}
			}
		})
		echoes(t, s)
		pid := <-child
		if err := syscall.Kill(pid, 0); err != nil {
			t.Fatal(err)
		}
		if dies {
			fails(t, s, call("die", `{}`), pawl.CodeUnavailable, "out of memory", "exit status 3")
		}
		s.Close()
		for deadline := time.Now().Add(20 * time.Second); ; { // it was killed; whoever inherited it buries it
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || strings.Contains(string(raw), ") Z ") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("dies %v: its child still runs: %s", dies, raw)
			}
		}
	}
}

// TestFaultDoesNotRead: a server whose input is full does not hold a call for longer than its time, nor those behind it.
func TestFaultDoesNotRead(t *testing.T) {
	within(t, time.Minute)
	s := process(t, "stops reading", "2025-11-25", func(c *mcp.Config) { c.Timeout = time.Second })
	large := call("echo", `{"text":"`+strings.Repeat("x", 60<<10)+`"}`)
	for range 4 {
		if _, err := s.Call(t.Context(), large); err == nil {
			t.Error("a server that does not read has answered")
		}
	}
}

// TestFaultFiftyMegabytes: the answer is thrown away, and the server, and the calls beside it, go on.
func TestFaultFiftyMegabytes(t *testing.T) {
	for name, s := range map[string]*mcp.Server{"stdio": process(t, "bench", "", nil), "http": site(t, "", nil)} {
		r, err := s.Call(t.Context(), call("big", `{"bytes":52428800}`))
		if err != nil || !r.Failed || !strings.Contains(r.Text, "larger than 8 MB") {
			t.Errorf("%s: %.100q, %v", name, r.Text, err)
		}
		echoes(t, s)
	}
}

// TestHTTPRefusals: each status has its code, and a redirect does not take the secrets along.
func TestHTTPRefusals(t *testing.T) {
	var status atomic.Int64
	var elsewhere atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) }))
	defer other.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Error("the header did not come along")
		}
		w.Header().Set("Location", other.URL)
		w.WriteHeader(int(status.Load()))
	}))
	defer srv.Close()
	for code, want := range map[int]string{
		401: pawl.CodeForbidden, 403: pawl.CodeForbidden, 404: pawl.CodeUnavailable, 429: pawl.CodeUnavailable, 500: pawl.CodeUnavailable,
		503: pawl.CodeUnavailable, 307: pawl.CodeUnavailable,
	} {
		status.Store(int64(code))
		s, err := mcp.Open(mcp.Config{Name: "site", URL: srv.URL, Header: http.Header{"Authorization": {"Bearer secret"}}})
		if err != nil {
			t.Fatal(err)
		}
		err = fails(t, s, call("echo", `{}`), want)
		if _, ok := pawl.Retryable(err); ok != (want == pawl.CodeUnavailable) {
			t.Errorf("%d: retryable %v", code, ok)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", code, err)
		}
		s.Close()
	}
	gone, err := mcp.Open(mcp.Config{Name: "site", URL: "http://user:secret@127.0.0.1:1/mcp?key=secret"})
	if err != nil {
		t.Fatal(err)
	}
	if err := fails(t, gone, call("echo", `{}`), pawl.CodeUnavailable, "refused"); strings.Contains(err.Error(), "secret") {
		t.Errorf("a secret in the address is told: %v", err)
	}
	if elsewhere.Load() {
		t.Error("a redirect was followed")
	}
}

// TestFaultTellsItsKey: what a server says of its secrets is not told on, also where it is cut in the middle of one.
func TestFaultTellsItsKey(t *testing.T) {
	const key = "canary/+0123456789"
	var mu sync.Mutex
	var lines []string
	tell := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	s := process(t, "tells its key", "", func(c *mcp.Config) {
		c.Env, c.Secrets, c.Log, c.Warn = append(c.Env, "KEY="+key), []string{key}, tell, tell
	})
	err := fails(t, s, call("echo", `{}`), pawl.CodeUnavailable, "is wrong", "exit status 4")
	mu.Lock()
	defer mu.Unlock()
	said := strings.Join(lines, "\n")
	if strings.Contains(said+err.Error(), "canary") || strings.Contains(err.Error(), "0123456789") {
		t.Errorf("the key is told: %v\n%.200s", err, said)
	}
	if !strings.Contains(said, "the key ****") {
		t.Errorf("no line of it is told: this shows nothing: %.200s", said)
	}

	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no %s"}}`, asked.ID, r.Header.Get("X-Key"))
	}))
	defer refuses.Close()
	site, err := mcp.Open(mcp.Config{Name: "site", URL: refuses.URL, Header: http.Header{"X-Key": {key}}, Secrets: []string{key}})
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	if _, err := site.Call(t.Context(), call("echo", `{}`)); err == nil || !strings.Contains(err.Error(), "no ****") {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []mcp.Config{
		{Name: "a b", URL: "http://localhost"}, {Name: "a"}, {Name: "a", URL: "http://localhost", Command: []string{"x"}},
		{Name: "a", URL: "http://localhost", Timeout: -1},
	} {
		if _, err := mcp.Open(c); pawl.Coded(err).Code != pawl.CodeInvalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestEnvironment: a server has what it was given, and nothing of ours.
func TestEnvironment(t *testing.T) {
	t.Setenv("PAWL_SECRET", "ours")
	s := process(t, "bench", "", func(c *mcp.Config) { c.Env = []string{"ONLY=this", envMode + "=tells its process"} })
	r, err := s.Call(t.Context(), call("env", `{}`))
	if err != nil || r.Text != "ONLY=this\n"+envMode+"=tells its process" {
		t.Errorf("%q, %v", r.Text, err)
	}
}
