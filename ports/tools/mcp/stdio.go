package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// program is a server that is a process of ours.
type program struct {
	conf *Config

	mu  sync.Mutex // of the start, and the end that may overtake it
	cmd *exec.Cmd  // nil: it was not started
	in  io.WriteCloser

	incoming chan read
	writing  chan struct{} // holds one while somebody writes
	stop     sync.Once
	ending   chan struct{} // closed when it is to end
	gone     chan struct{} // closed when the process is
	spoken   *tail
}

type read struct {
	m   jsonrpc.Message
	err error
}

// How long a process has to end by itself when its input is closed, and when it is told to; and how long what it has written is
// still read after its end, where others hold its output open.
const (
	closeGrace = 2 * time.Second
	termGrace  = 2 * time.Second
	drainGrace = time.Second
)

var (
	_ link           = (*program)(nil)
	_ sdk.Connection = (*program)(nil)
)

func newProgram(c *Config) *program {
	return &program{conf: c, ending: make(chan struct{}), gone: make(chan struct{}), incoming: make(chan read), writing: make(chan struct{}, 1),
		spoken: &tail{conf: c}}
}

// Connect starts the process.
func (p *program) Connect(context.Context) (sdk.Connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, err := p.start()
	if err != nil {
		close(p.gone)
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		killGroup(p.cmd) // what it has left behind
		close(p.gone)
		time.AfterFunc(drainGrace, func() { out.Close() })
	}()
	go p.read(out)
	return p, nil
}

func (p *program) start() (out io.ReadCloser, err error) {
	select {
	case <-p.ending:
		return nil, io.EOF
	default:
	}
	out, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	cmd := exec.Command(p.conf.Command[0], p.conf.Command[1:]...)
	cmd.Env, cmd.Dir = append([]string{}, p.conf.Env...), p.conf.Dir // not nil: that would be ours
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = write, p.spoken, drainGrace
	group(cmd)
	if p.in, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		out.Close()
		return nil, err
	}
	p.cmd = cmd
	return out, nil
}

// read hands on what the process writes, until it ends or is to end.
func (p *program) read(out io.ReadCloser) {
	defer out.Close()
	l := newLines(out, func(line string) { p.conf.Warn(strings.TrimSpace(line[:min(len(line), keptLine)])) })
	for {
		m, err := l.next()
		if err != nil {
			err = io.EOF
		}
		select {
		case p.incoming <- read{m, err}:
		case <-p.ending:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read is the next message of the server.
func (p *program) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case r := <-p.incoming:
		return r.m, r.err
	case <-p.ending:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a message. A server that does not read keeps nobody for longer than ctx lasts; half a message is its end.
func (p *program) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	select {
	case p.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ending:
		return io.EOF
	}
	written := make(chan error, 1)
	go func() {
		_, err := p.in.Write(append(data, '\n'))
		<-p.writing
		written <- err
	}()
	select {
	case err = <-written:
	case <-ctx.Done():
		select {
		case err = <-written:
		case <-time.After(100 * time.Millisecond): // it was cancelled in the moment of writing, or it is stuck
			p.end()
			return ctx.Err()
		}
	}
	if err != nil {
		return io.EOF
	}
	return nil
}

// Close lets the process end. It does not wait for it.
func (p *program) Close() error {
	p.stop.Do(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.ending)
		if p.cmd == nil {
			return
		}
		go func() {
			p.in.Close()
			for _, step := range []struct {
				grace time.Duration
				then  func(*exec.Cmd)
			}{{closeGrace, termGroup}, {termGrace, killGroup}} {
				select {
				case <-p.gone:
					return
				case <-time.After(step.grace):
					step.then(p.cmd)
				}
			}
		}()
	})
	return nil
}

// end lets the process end, and waits until it is gone.
func (p *program) end() {
	_ = p.Close()
	<-p.gone
}

// SessionID is none.
func (p *program) SessionID() string { return "" }

// why says how the process ended and what it said last.
func (p *program) why() string {
	out := ""
	select {
	case <-p.gone:
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.cmd != nil {
			out = fmt.Sprintf(" (%s)", p.cmd.ProcessState)
		}
	case <-time.After(drainGrace): // the end of its output may be seen before the end of the process
	}
	if said := p.spoken.last(); said != "" {
		out += "; it said: " + said
	}
	return out
}

// tail is what a process writes to standard error: told by the line, and kept by its end.
type tail struct {
	conf *Config

	mu   sync.Mutex
	kept []byte
	line []byte
}

const (
	keptTail = 500 // of keptLine bytes, without secrets: one that was cut could not be found
	keptLine = 4 << 10
)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-keptLine):]
	for rest := b; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		t.line = append(t.line, line[:min(len(line), keptLine-len(t.line))]...)
		if rest = after; whole {
			t.conf.Log(string(t.line))
			t.line = t.line[:0]
		}
	}
	return len(b), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.conf.mask(string(t.kept))
	return strings.ToValidUTF8(strings.Join(strings.Fields(said[max(0, len(said)-keptTail):]), " "), "")
}
