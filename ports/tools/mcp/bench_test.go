package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pawl/ports/tools"
	"pawl/ports/tools/mcp"
	"pawl/ports/tools/toolstest"
)

// The variables that make this test's own program a server.
const (
	envMode     = "PAWL_TEST_MCP"
	envRevision = "PAWL_TEST_MCP_REVISION"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(envMode); mode != "" {
		serve(mode)
		return
	}
	os.Exit(m.Run())
}

// revisions are the current one and those before it.
var revisions = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}

// bench is the SDK's server with the bench of the law, and those revisions that are not newer than one; empty: all.
// life ends what hangs: behind HTTP the SDK does not tell a tool that its caller has gone.
func bench(life context.Context, revision string, die func()) *sdk.Server {
	o := &sdk.ServerOptions{PageSize: 3} // lists come in several pages
	for _, r := range sdk.SupportedProtocolVersions() {
		if revision != "" && r <= revision {
			o.SupportedProtocolVersions = append(o.SupportedProtocolVersions, r)
		}
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, o)
	for _, w := range toolstest.Bench(die) {
		do := w.Do
		w.Do = func(ctx context.Context, args map[string]any) (string, bool) {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			defer context.AfterFunc(life, stop)()
			return do(ctx, args)
		}
		offer(s, w)
	}
	return s
}

func offer(s *sdk.Server, w toolstest.Work) {
	tool := &sdk.Tool{Name: w.Name, Description: w.Description, InputSchema: w.Schema,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: w.ReadOnly, IdempotentHint: w.Idempotent}}
	sdk.AddTool(s, tool, func(ctx context.Context, _ *sdk.CallToolRequest, args map[string]any) (*sdk.CallToolResult, any, error) {
		text, failed := w.Do(ctx, args)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: failed}, nil, nil
	})
}

// serve is a server with a fault.
func serve(mode string) {
	s := bench(context.Background(), os.Getenv(envRevision), func() {
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(3)
	})
	var t sdk.Transport = &sdk.StdioTransport{}
	switch mode {
	case "bench":
	case "slow start":
		time.Sleep(1500 * time.Millisecond)
	case "exits at once":
		fmt.Fprintln(os.Stderr, "the key is missing")
		os.Exit(4)
	case "tells its key":
		fmt.Println("the key " + os.Getenv("KEY"))
		fmt.Fprintln(os.Stderr, strings.Repeat("?", 4000), "the key", os.Getenv("KEY"), "is wrong", strings.Repeat(".", 480))
		time.Sleep(100 * time.Millisecond) // the first line is read
		os.Exit(4)
	case "is deaf":
		time.Sleep(time.Hour)
	case "prints noise":
		t = noisy()
	case "floods":
		go func() {
			for {
				fmt.Print(strings.Repeat("nothing of interest\n", 1000))
				time.Sleep(time.Millisecond)
			}
		}()
	case "answers nobody":
		go every(time.Millisecond, `{"jsonrpc":"2.0","id":77777,"result":{"content":[]}}`)
	case "pings":
		go func() {
			for i := 0; ; i++ {
				fmt.Printf(`{"jsonrpc":"2.0","id":"ping-%d","method":"ping"}`+"\n", i)
				fmt.Println(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
				time.Sleep(5 * time.Millisecond)
			}
		}()
	case "changes":
		changing(s)
	case "tells its process":
		say(s, "pid", func(context.Context, *sdk.ServerSession) (string, error) { return fmt.Sprint(os.Getpid()), nil })
		say(s, "env", func(context.Context, *sdk.ServerSession) (string, error) {
			return strings.Join(os.Environ(), "\n"), nil
		})
	case "asks back":
		asking(s)
	case "has a child":
		child := exec.Command("sleep", "300") // it holds our output
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
	case "stops reading":
		t = &sdk.IOTransport{Reader: &upTo{Reader: bufio.NewReader(os.Stdin), lines: 3}, Writer: os.Stdout}
	default:
		panic(mode)
	}
	_ = s.Run(context.Background(), t)
}

func every(d time.Duration, line string) {
	for {
		fmt.Println(line)
		time.Sleep(d)
	}
}

// noisy is standard output with all sorts of things between the messages.
func noisy() sdk.Transport {
	fmt.Println("Welcome to the server!\nListening…")
	fmt.Print("\n\n  \n{\"level\":\"info\",\"msg\":\"up\"}\n[]\n[1]\nnull\n\"text\"\n{\"jsonrpc\":\"2.0\"}\n{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}\n\x00\xff\n")
	r, w := io.Pipe()
	go func() {
		for in := bufio.NewReaderSize(r, 1<<20); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Print("about to answer\n", strings.Repeat("y", 100_000), "\n", strings.TrimRight(line, "\n"), "\r\n{half a message\n")
		}
	}()
	return &sdk.IOTransport{Reader: os.Stdin, Writer: w}
}

// upTo reads so many lines and no more.
type upTo struct {
	*bufio.Reader
	lines int
	left  []byte
}

func (u *upTo) Read(p []byte) (int, error) {
	if len(u.left) == 0 {
		if u.lines == 0 {
			time.Sleep(time.Hour)
		}
		u.lines--
		var err error
		if u.left, err = u.ReadBytes('\n'); err != nil {
			return 0, err
		}
	}
	n := copy(p, u.left)
	u.left = u.left[n:]
	return n, nil
}

func (u *upTo) Close() error { return nil }

// changing replaces its tools when one of them is called.
func changing(s *sdk.Server) {
	w := toolstest.Bench(nil)[0]
	w.Name = "change"
	w.Schema = json.RawMessage(`{"type":"object"}`)
	w.Do = func(context.Context, map[string]any) (string, bool) {
		s.RemoveTools("fail", "big")
		added := toolstest.Bench(nil)[0]
		added.Name, added.ReadOnly = "added", false
		offer(s, added)
		return "changed", false
	}
	offer(s, w)
}

// asking asks the client for input, as the revisions before the current one have it, and as that has it.
func asking(s *sdk.Server) {
	input := &sdk.ElicitParams{Message: "your password?"}
	say(s, "elicit", func(ctx context.Context, ss *sdk.ServerSession) (string, error) {
		_, err := ss.Elicit(ctx, input)
		return "it told me", err
	})
	tool := &sdk.Tool{Name: "require", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}
	s.AddTool(tool, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"1": input}}, nil
	})
}

// say adds a tool without arguments.
func say(s *sdk.Server, name string, text func(context.Context, *sdk.ServerSession) (string, error)) {
	tool := &sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}
	s.AddTool(tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		said, err := text(ctx, r.Session)
		if err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: said}}}, nil
	})
}

// process is a server of ours in a process of its own.
func process(t *testing.T, mode, revision string, change func(*mcp.Config)) *mcp.Server {
	t.Helper()
	c := mcp.Config{Name: "bench", Command: []string{os.Args[0]}, Env: append(os.Environ(), envMode+"="+mode, envRevision+"="+revision)}
	var said sync.Mutex
	over := false
	c.Log = func(line string) {
		said.Lock()
		defer said.Unlock()
		if !over {
			t.Logf("server: %.200q", line)
		}
	}
	if change != nil {
		change(&c)
	}
	s, err := mcp.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		said.Lock()
		defer said.Unlock()
		over = true
	})
	return s
}

// site is a server of ours behind HTTP. Only one without sessions speaks the current revision.
func site(t *testing.T, revision string, change func(*mcp.Config)) *mcp.Server {
	t.Helper()
	var srv *httptest.Server
	life, end := context.WithCancel(context.Background())
	s := bench(life, revision, func() { go srv.CloseClientConnections() })
	o := &sdk.StreamableHTTPOptions{Stateless: revision == "" || revision >= "2026"}
	srv = httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, o))
	t.Cleanup(func() {
		end()
		srv.CloseClientConnections()
		srv.Close()
	})
	c := mcp.Config{Name: "bench", URL: srv.URL}
	if change != nil {
		change(&c)
	}
	out, err := mcp.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	return out
}

// TestLaw holds both ways to a server to the law of the port: in the current revision of the protocol and in those before it.
func TestLaw(t *testing.T) {
	law := func(name, revision string, open func(*testing.T, string, func(*mcp.Config)) *mcp.Server) {
		t.Run(name+"_"+revision, func(t *testing.T) {
			toolstest.Run(t, func(t *testing.T, o toolstest.Options) tools.Server {
				return open(t, revision, func(c *mcp.Config) { c.Timeout, c.MaxResult = o.Timeout, o.MaxResult })
			})
		})
	}
	for _, r := range revisions {
		law("stdio", r, func(t *testing.T, revision string, f func(*mcp.Config)) *mcp.Server {
			return process(t, "bench", revision, f)
		})
	}
	for _, r := range revisions[:2] {
		law("http", r, site)
	}
}
