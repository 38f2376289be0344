package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// host is a client of the protocol with this program as its server, in a process of its own.
type host struct {
	*testing.T
	session *sdk.ClientSession
	cmd     *exec.Cmd
	says    *bytes.Buffer

	mu       sync.Mutex
	progress []string
}

// hosts starts the program as a server and connects to it in a revision of the protocol.
func (s *shell) hosts(revision string, args ...string) *host {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	h := &host{T: s.t, cmd: exec.Command(self, append([]string{"mcp"}, args...)...), says: &bytes.Buffer{}}
	h.cmd.Env = append(append([]string{}, s.env...), "APP_TEST_PROGRAM=1", "GOCOVERDIR="+s.dir)
	h.cmd.Stderr = h.says
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.progress = append(h.progress, r.Params.Message)
		},
	})
	transport := &sdk.CommandTransport{Command: h.cmd, TerminateDuration: 20 * time.Second}
	h.session, err = client.Connect(s.t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		s.t.Fatalf("connect: %v\n%s", err, h.says)
	}
	s.t.Cleanup(func() { h.session.Close() })
	if got := h.session.InitializeResult().ProtocolVersion; got != revision {
		s.t.Errorf("it speaks %s, want %s", got, revision)
	}
	return h
}

// seen is a run as a client sees it.
type seen struct {
	Run, Workflow, Status, Terminal, Existing, Next string
	Output                                          json.RawMessage
	Questions                                       []struct {
		ID, Run, Text string
		Choices       []string
		Data, Schema  json.RawMessage
	}
	Error *struct{ Code, Text string }
	Runs  []struct{ Run, Workflow, Status string }
}

type args = map[string]any

// call calls a tool that answers, marked as an error or not.
func (h *host) call(name string, a any, failed bool, meta ...any) (out seen) {
	h.Helper()
	p := &sdk.CallToolParams{Name: name, Arguments: a, Meta: sdk.Meta{}}
	for i := 0; i+1 < len(meta); i += 2 {
		p.Meta[meta[i].(string)] = meta[i+1]
	}
	r, err := h.session.CallTool(h.Context(), p)
	if err != nil {
		h.Fatalf("%s: %v\n%s", name, err, h.says)
	}
	text := r.Content[0].(*sdk.TextContent).Text
	structured, _ := json.Marshal(r.StructuredContent)
	var x, y any
	if json.Unmarshal([]byte(text), &x) != nil || json.Unmarshal(structured, &y) != nil || fmt.Sprint(x) != fmt.Sprint(y) {
		h.Errorf("%s: text and structured content differ:\n%s\n%s", name, text, structured)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		h.Fatal(err)
	}
	if r.IsError != failed {
		h.Fatalf("%s: marked as an error %v, want %v: %s", name, r.IsError, failed, text)
	}
	return out
}

// TestMCP: workflows are tools of a client that starts this program, in the current revision of the protocol and the one before.
func TestMCP(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			h := newShell(t).hosts(revision, "--wait", "20s")
			h.lists()
			h.short()
			h.refuses()
			h.asks()
			if err := h.session.Close(); err != nil {
				t.Errorf("the program's end: %v", err)
			}
			if !strings.Contains(h.says.String(), "speaking the Model Context Protocol") {
				t.Errorf("standard error: %s", h.says)
			}
		})
	}
}

func (h *host) lists() {
	var names []string
	for tool, err := range h.session.Tools(h.Context(), nil) {
		if err != nil {
			h.Fatal(err)
		}
		names = append(names, tool.Name)
		if reads := tool.Annotations.ReadOnlyHint; reads != slices.Contains([]string{"run_get", "run_list"}, tool.Name) {
			h.Errorf("%s: read-only %v", tool.Name, reads)
		}
		if in, _ := json.Marshal(tool.InputSchema); tool.Name == "hello" && !strings.Contains(string(in), "whom to greet") {
			h.Errorf("the input of hello: %s", in)
		}
	}
	slices.Sort(names)
	if want := "approve broken family hello nco number run_answer run_cancel run_get run_list run_retry slow"; strings.Join(names, " ") != want {
		h.Errorf("tools %s, want %s", names, want)
	}
}

// short runs come to their end within the call.
func (h *host) short() {
	h.Helper()
	if got := h.call("hello", args{"name": "Ann"}, false); got.Status != "succeeded" || got.Terminal != "GREETED" || !strings.Contains(string(got.Output), `"Ann"`) {
		h.Errorf("hello: %+v", got)
	}
	if got := h.call("number", args{"input": 7}, false); string(got.Output) != "7" {
		h.Errorf("number: %+v", got)
	}
	if got := h.call("broken", args{"name": "x"}, true); got.Status != "failed" || got.Error == nil || got.Error.Text != "it cannot be done" || got.Run == "" {
		h.Errorf("broken: %+v", got)
	} else if again := h.call("run_get", args{"run": got.Run}, false); again.Status != "failed" || again.Error == nil {
		h.Errorf("what failed, read: %+v", again)
	} else if again = h.call("run_retry", args{"run": got.Run}, false); again.Status != "failed" {
		h.Errorf("what failed, again: %+v", again)
	}
	if got := h.call("broken", args{"name": "panic"}, true); strings.Contains(got.Error.Text, "goroutine") {
		h.Errorf("a stack comes out: %s", got.Error.Text)
	}
	first := h.call("hello", args{"name": "Key"}, false, "pawl/key", "k1")
	if again := h.call("hello", args{"name": "Key"}, false, "pawl/key", "k1"); again.Run != first.Run || again.Existing != "done" {
		h.Errorf("the same key: %+v", again)
	}
	if other := h.call("hello", args{"name": "Other"}, true, "pawl/key", "k1"); other.Error.Code != "conflict" {
		h.Errorf("the same key with another input: %+v", other)
	}
}

// refuses says what is wrong: to the caller as a result, of what is no tool as the protocol's error.
func (h *host) refuses() {
	h.Helper()
	for _, c := range []struct {
		name string
		args any
		code string
		says string
	}{
		{"hello", args{}, "invalid", "name"},
		{"hello", args{"name": "x", "nmae": 1}, "invalid", "nmae"},
		{"hello", args{"name": ""}, "invalid", "empty"},
		{"number", args{"input": "seven"}, "invalid", "integer"},
		{"number", args{"n": 7}, "invalid", "n"},
		{"run_get", args{}, "invalid", "run"},
		{"run_get", args{"run": "nowhere"}, "not_found", ""},
		{"run_get", args{"run": 1}, "invalid", ""},
		{"run_cancel", args{"run": "nowhere"}, "not_found", ""},
		{"run_answer", args{"run": "nowhere", "question": "q", "answer": 1}, "not_found", ""},
		{"run_answer", args{"run": "nowhere"}, "invalid", "answer"},
		{"run_list", args{"status": 1}, "invalid", ""},
		{"run_cancel", json.RawMessage(`{"run":"nowhere","run":"there"}`), "invalid", `"run" stands twice`}, // two readers would end two runs
		{"run_answer", json.RawMessage(`{"run":"nowhere","question":"q","answer":false,"Answer":true}`), "invalid", "differ only by case"},
		{"number", json.RawMessage(`{"input":7,"input":8}`), "invalid", `"input" stands twice`},
		{"hello", json.RawMessage(`{"name":"x","name":"y"}`), "invalid", `"name" stands twice`},
	} {
		got := h.call(c.name, c.args, true)
		if got.Error == nil || got.Error.Code != c.code || !strings.Contains(got.Error.Text, c.says) {
			h.Errorf("%s %v: %+v", c.name, c.args, got.Error)
		}
	}
	_, err := h.session.CallTool(h.Context(), &sdk.CallToolParams{Name: "nothing"})
	if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != jsonrpc.CodeInvalidParams {
		h.Errorf("no such tool: %v", err)
	}
}

// asks has a person answer, the questions of children too.
func (h *host) asks() {
	h.Helper()
	for _, name := range []string{"approve", "family"} {
		run := h.call(name, args{}, false)
		for run.Status != "waiting" || len(run.Questions) == 0 { // a child's question comes when it comes
			run = h.call("run_get", args{"run": run.Run, "wait": 0.05}, false)
		}
		q := run.Questions[0]
		if !strings.HasPrefix(q.Text, "Go ahead?") || strings.Join(q.Choices, " ") != "yes no" || string(q.Data) != `{"cost":3}` || !strings.Contains(string(q.Schema), "approve") {
			h.Errorf("%s: question %+v", name, q)
		}
		if wrong := h.call("run_answer", args{"run": run.Run, "question": q.ID, "answer": "perhaps"}, true); wrong.Error.Code != "invalid" {
			h.Errorf("%s: %+v", name, wrong.Error)
		}
		answer := args{"run": run.Run, "question": q.ID, "answer": args{"approve": true, "comment": "fine"}}
		if name == "family" { // it is the only one
			delete(answer, "question")
		}
		if done := h.call("run_answer", answer, false); done.Status != "succeeded" || string(done.Output) != `{"approve":true,"comment":"fine"}` {
			h.Errorf("%s: %+v", name, done)
		}
		if other := h.call("run_answer", args{"run": run.Run, "question": q.ID, "answer": args{"approve": false}}, true); other.Error.Code != "conflict" {
			h.Errorf("%s: another answer: %+v", name, other.Error)
		}
	}
}

// TestMCPLongRuns: a run that takes longer than a call waits is asked for, told of, ended, and gone on with by the next server.
func TestMCPLongRuns(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	h := s.hosts("2026-07-28", "--wait", "300ms")
	run := h.call("slow", args{"n": 30, "ms": 50}, false, "progressToken", "p1")
	if run.ended() || run.Run == "" || !strings.Contains(run.Next, "run_get") {
		t.Errorf("at first: %+v", run)
	}
	for !run.ended() {
		run = h.call("run_get", args{"run": run.Run, "wait": 30}, false, "progressToken", "p2")
	}
	if run.Status != "succeeded" || string(run.Output) != `{"n":30,"ms":50,"done":30}` {
		t.Errorf("at the end: %+v", run)
	}
	h.mu.Lock()
	if len(h.progress) == 0 || !strings.Contains(strings.Join(h.progress, " "), "pawl.step") {
		t.Errorf("progress %q", h.progress)
	}
	h.mu.Unlock()

	run = h.call("slow", args{"n": 1, "ms": 600_000}, false)
	if list := h.call("run_list", args{"workflow": "slow", "limit": 5}, false); len(list.Runs) != 2 || list.Runs[0].Run != run.Run {
		t.Errorf("list: %+v", list.Runs)
	}
	h.call("run_cancel", args{"run": run.Run, "reason": "enough"}, false)
	for !run.ended() {
		run = h.call("run_get", args{"run": run.Run, "wait": 30}, false)
	}
	if run.Status != "cancelled" {
		t.Errorf("cancelled: %+v", run)
	}
	if again := h.call("run_cancel", args{"run": run.Run}, true); again.Error.Code != "conflict" {
		t.Errorf("cancelled again: %+v", again.Error)
	}

	// The client gives up on a call, then hangs up in the middle of a run: the run goes on with the next server.
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	given := make(chan error, 1)
	go func() {
		_, err := h.session.CallTool(ctx, &sdk.CallToolParams{Name: "slow", Arguments: args{"n": 40, "ms": 50}})
		given <- err
	}()
	for len(h.call("run_list", args{"workflow": "slow"}, false).Runs) < 3 {
	}
	giveUp()
	<-given // it may have been answered before
	if err := h.session.Close(); err != nil {
		t.Errorf("the program's end: %v\n%s", err, h.says)
	}
	h = s.hosts("2025-11-25", "--wait", "300ms")
	list := h.call("run_list", args{"workflow": "slow", "limit": 1}, false)
	for run = h.call("run_get", args{"run": list.Runs[0].Run}, false); !run.ended(); {
		run = h.call("run_get", args{"run": run.Run, "wait": 30}, false)
	}
	if run.Status != "succeeded" || !strings.Contains(string(run.Output), `"done":40`) {
		t.Errorf("after the next start: %+v", run)
	}
}

func (s seen) ended() bool {
	return s.Status == "succeeded" || s.Status == "failed" || s.Status == "cancelled"
}

// TestMCPCaller: a client sees and steers what its caller may, and nothing else.
func TestMCPCaller(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	ann := s.want(0, "run", "hello", "x", "--user", "ann", "--json").last(t).Run.ID
	h := s.hosts("2026-07-28", "--user", "bob")
	if list := h.call("run_list", args{}, false); len(list.Runs) != 0 {
		t.Errorf("bob sees %+v", list.Runs)
	}
	for _, tool := range []string{"run_get", "run_cancel", "run_retry"} {
		if got := h.call(tool, args{"run": ann}, true); got.Error.Code != "not_found" {
			t.Errorf("%s of ann's run: %+v", tool, got.Error)
		}
	}
	bob := h.call("hello", args{"name": "Bob"}, false)
	if got := s.want(0, "runs", "show", bob.Run, "--json"); !strings.Contains(got.out, `"user": "bob"`) {
		t.Errorf("whose run: %s", got.out)
	}
}

// TestMCPFlags: what cannot be is refused before anything is served.
func TestMCPFlags(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, bad := range [][]string{{"--wait", "2m"}, {"--wait", "0s"}, {"--slots", "0"}, {"--drain", "0s"}, {"--json", "--wait", "2m"}} {
		got := s.want(exitUsage, append([]string{"mcp"}, bad...)...)
		if got.out != "" {
			t.Errorf("%q writes to standard output: %s", bad, got.out)
		}
	}
	oneClearLine(t, s.run("mcp", "nothing"), exitNotFound, "no workflow")
	if got := s.want(0, "mcp"); got.out != "" { // the client hangs up at once
		t.Errorf("standard output: %q", got.out)
	}
}
