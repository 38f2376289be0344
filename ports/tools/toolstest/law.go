// Package toolstest is the law of servers of tools, and a scripted server for tests of what uses one.
//
// It may never know one vendor. Every case says why it is a law.
//
// Start reading at Run and Bench; Script is the fake.
package toolstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"pawl"
	"pawl/ports/llm"
	"pawl/ports/tools"
)

// Options are what a case wants of its server.
type Options struct {
	Timeout   time.Duration // of a call; 0: the vendor's own
	MaxResult int           // bytes of a result's text; 0: the vendor's own
}

// Opener makes a server that offers the Bench.
type Opener func(t *testing.T, o Options) tools.Server

// Run holds a server to the law.
func Run(t *testing.T, open Opener) {
	for _, c := range []struct {
		name, why string
		law       func(*testing.T, Opener)
	}{
		{"lists", "what is offered has its schema and its marks: they decide what is checked, and who is asked", lists},
		{"calls", "a call is answered under its own id and name, or the model takes one answer for another", calls},
		{"failure is data", "the model is to see what a tool says went wrong, and may do better", failureIsData},
		{"unknown tool", "a model that asks for what is not there is told so", unknownTool},
		{"wrong arguments", "what the server says of arguments is for the model too", wrongArguments},
		{"side by side", "calls do not wait for each other, and each has its own answer", sideBySide},
		{"bounded time", "a tool that does not answer must not hold a run", boundedTime},
		{"cancelled", "a run that ends does not wait for its tools", cancelled},
		{"bounded result", "a result must not flood the model", boundedResult},
		{"too large", "an answer that nobody can take is no reason to lose the server", tooLarge},
		{"dies", "a server that goes away fails its call, and comes back for the next one", dies},
		{"not twice", "what may have been done is not done again, where that would make a difference", notTwice},
		{"closed", "a closed server says so, and closing is safe", closed},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			c.law(t, open)
			if t.Failed() {
				t.Logf("the law: %s", c.why)
			}
		})
	}
}

func opened(t *testing.T, open Opener, o Options) tools.Server {
	t.Helper()
	s := open(t, o)
	t.Cleanup(func() { s.Close() })
	return s
}

func call(name string, args any) llm.ToolCall {
	raw, _ := json.Marshal(args)
	return llm.ToolCall{ID: "call of " + name, Name: name, Arguments: raw}
}

type object = map[string]any

// result makes a call that has a result.
func result(t *testing.T, s tools.Server, c llm.ToolCall) llm.ToolResult {
	t.Helper()
	r, err := s.Call(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	if r.ID != c.ID || r.Name != c.Name {
		t.Errorf("%s: the answer is that of %q %q", c.Name, r.ID, r.Name)
	}
	return r
}

// fails makes a call that has none, and says whether it may be made again.
func fails(t *testing.T, s tools.Server, c llm.ToolCall, code string) (retryable bool) {
	t.Helper()
	r, err := s.Call(t.Context(), c)
	if err == nil || pawl.Coded(err).Code != code {
		t.Fatalf("%s: %.100q, %v, want the code %s", c.Name, r.Text, err, code)
	}
	_, retryable = pawl.Retryable(err)
	return retryable
}

func lists(t *testing.T, open Opener) {
	s := opened(t, open, Options{})
	got, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Bench(nil)
	if len(got) != len(want) {
		t.Fatalf("%d tools, want %d", len(got), len(want))
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(t tools.Tool) bool { return t.Name == w.Name })
		if i < 0 {
			t.Errorf("%s is not listed", w.Name)
			continue
		}
		g := got[i]
		if g.Description != w.Description || g.ReadOnly != w.ReadOnly || g.Idempotent != w.Idempotent || !sameJSON(g.Schema, w.Schema) {
			t.Errorf("%+v, want %+v", g, w.Tool)
		}
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

func calls(t *testing.T, open Opener) {
	s := opened(t, open, Options{})
	for _, text := range []string{"hello", "", "zwei\nZeilen", "नमस्ते 🚚", `{"id":1}`, `"}]`, "\u2028"} {
		if r := result(t, s, call("echo", object{"text": text})); r.Text != text || r.Failed {
			t.Errorf("echo of %q: %+v", text, r)
		}
	}
	if r := result(t, s, call("write", object{"text": "it"})); r.Text != "it" {
		t.Errorf("write: %+v", r)
	}
}

func failureIsData(t *testing.T, open Opener) {
	s := opened(t, open, Options{})
	if r := result(t, s, call("fail", object{})); !r.Failed || r.Text != "there is no such file" {
		t.Errorf("%+v", r)
	}
	if r := result(t, s, llm.ToolCall{ID: "call of fail", Name: "fail"}); !r.Failed {
		t.Errorf("without arguments: %+v", r)
	}
}

func unknownTool(t *testing.T, open Opener) {
	s := opened(t, open, Options{})
	if r := result(t, s, call("nothing", object{})); !r.Failed || !strings.Contains(r.Text, "nothing") {
		t.Errorf("%+v", r)
	}
}

func wrongArguments(t *testing.T, open Opener) {
	s := opened(t, open, Options{})
	if r := result(t, s, call("echo", object{"text": 1})); !r.Failed || r.Text == "" {
		t.Errorf("%+v", r)
	}
}

func sideBySide(t *testing.T, open Opener) {
	s := opened(t, open, Options{})
	ctx, stop := context.WithCancel(t.Context())
	var hangs, wg sync.WaitGroup
	hangs.Go(func() { _, _ = s.Call(ctx, call("hang", object{})) })
	for i := range 20 {
		wg.Go(func() {
			text := fmt.Sprint("number ", i)
			c := call("echo", object{"text": text})
			c.ID = text
			if r, err := s.Call(t.Context(), c); err != nil || r.Text != text || r.ID != text {
				t.Errorf("%s: %+v, %v", text, r, err)
			}
		})
	}
	wg.Wait()
	stop()
	hangs.Wait()
}

func boundedTime(t *testing.T, open Opener) {
	s := opened(t, open, Options{Timeout: time.Second})
	if _, err := s.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if !fails(t, s, call("hang", object{}), pawl.CodeTimeout) {
		t.Error("a tool that is read-only may be called again")
	}
	if took := time.Since(began); took < 500*time.Millisecond || took > 20*time.Second {
		t.Errorf("it took %s, the limit is 1 s", took)
	}
	for deadline := began.Add(time.Minute); ; { // a machine at work may need longer than the limit to start it again
		r, err := s.Call(t.Context(), call("echo", object{"text": "afterwards"}))
		if err == nil && r.Text == "afterwards" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("afterwards: %+v, %v", r, err)
		}
	}
}

func cancelled(t *testing.T, open Opener) {
	s := opened(t, open, Options{})
	result(t, s, call("echo", object{"text": "it is there"}))
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond) // the caller's own time, which says nothing of the server
	defer stop()
	began := time.Now()
	if _, err := s.Call(ctx, call("hang", object{})); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	result(t, s, call("echo", object{"text": "afterwards"}))
}

func boundedResult(t *testing.T, open Opener) {
	s := opened(t, open, Options{MaxResult: 1000})
	r := result(t, s, call("big", object{"bytes": 100_000}))
	if len(r.Text) > 1100 || !strings.HasPrefix(r.Text, strings.Repeat("x", 1000)) || !strings.Contains(r.Text, "cut") || r.Failed {
		t.Errorf("%d bytes: …%s", len(r.Text), r.Text[max(0, len(r.Text)-100):])
	}
	r = result(t, s, call("echo", object{"text": strings.Repeat("é", 1000)}))
	if len(r.Text) > 1100 || !utf8.ValidString(r.Text) {
		t.Errorf("%d bytes, UTF-8 %v", len(r.Text), utf8.ValidString(r.Text))
	}
}

func tooLarge(t *testing.T, open Opener) {
	s := opened(t, open, Options{})
	if r := result(t, s, call("big", object{"bytes": 10 << 20})); !r.Failed || !strings.Contains(r.Text, "larger") {
		t.Errorf("%.100s", r.Text)
	}
	result(t, s, call("echo", object{"text": "afterwards"}))
}

func dies(t *testing.T, open Opener) {
	s := opened(t, open, Options{Timeout: 20 * time.Second})
	for range 2 {
		result(t, s, call("echo", object{"text": "it is there"}))
		if _, err := s.Tools(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !fails(t, s, call("die", object{}), pawl.CodeUnavailable) {
			t.Error("a tool that is read-only may be called again")
		}
	}
	result(t, s, call("echo", object{"text": "afterwards"}))
}

func notTwice(t *testing.T, open Opener) {
	s := opened(t, open, Options{})
	if _, err := s.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if fails(t, s, call("destroy", object{}), pawl.CodeUnavailable) {
		t.Error("a call that may have been carried out, of a tool that is not idempotent, may be made again")
	}
}

func closed(t *testing.T, open Opener) {
	s := opened(t, open, Options{})
	result(t, s, call("echo", object{"text": "it is there"}))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := s.Call(t.Context(), call("echo", object{"text": "x"})); !errors.Is(err, tools.ErrClosed) {
		t.Errorf("call: %v", err)
	}
	if _, err := s.Tools(t.Context()); !errors.Is(err, tools.ErrClosed) {
		t.Errorf("list: %v", err)
	}
	if err := opened(t, open, Options{}).Close(); err != nil {
		t.Errorf("one that was never used: %v", err)
	}
}
