package app

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"pawl"
	"pawl/ports/llm"
)

// Main is the whole main of a program: it runs the command line with these workflows and exits.
func Main(ws ...Workflow) {
	s := Shell{
		Name: calledAs(os.Args[0]), Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(),
		Interrupts: interrupts(),
	}
	os.Exit(s.Run(context.Background(), ws...))
}

// calledAs is how a command that we print names this program: as it was called, but for what `go run` has built.
func calledAs(arg string) string {
	if strings.Contains(arg, "go-build") || !strings.ContainsRune(arg, filepath.Separator) {
		return strings.TrimSuffix(filepath.Base(arg), ".exe")
	}
	return arg
}

// interrupts gives one value for each Ctrl-C or SIGTERM. The third one ends the program, and so does the second if that
// takes too long.
func interrupts() <-chan struct{} {
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	out := make(chan struct{}, 2)
	go func() {
		for n := 1; ; n++ {
			<-signals
			switch n {
			case 2:
				time.AfterFunc(5*time.Second, func() { os.Exit(exitInterrupted) })
			case 3:
				os.Exit(exitInterrupted)
			}
			out <- struct{}{}
		}
	}()
	return out
}

// Shell is one call of the program and all that it touches, so that a test can make one in its own process.
type Shell struct {
	Name     string   // of the program, for the commands that it prints; empty: pawl
	Args     []string // without the name
	In       io.Reader
	Out, Err io.Writer
	Env      []string // KEY=VALUE
	// Interrupts gives a value for each Ctrl-C: the first stops after the current commit, the second at once.
	Interrupts <-chan struct{}
}

// Screen is what a reader or writer of a Shell implements to pass for a terminal; an *os.File is asked itself.
type Screen interface {
	// Size is the width in characters; ok is false where it is no terminal.
	Size() (width int, ok bool)
}

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitForbidden   = 5
	exitTimeout     = 6
	exitWaiting     = 7
	exitUnavailable = 8
	exitInterrupted = 130
)

// exitCodes says with which exit code an error ends a command. What is not in it is exitFailed.
var exitCodes = map[string]int{
	pawl.CodeInvalid:     exitUsage,
	pawl.CodeNotFound:    exitNotFound,
	pawl.CodeConflict:    exitConflict,
	pawl.CodeForbidden:   exitForbidden,
	pawl.CodeTimeout:     exitTimeout,
	pawl.CodeStepTimeout: exitTimeout,
	pawl.CodeWaiting:     exitWaiting,
	pawl.CodeUnavailable: exitUnavailable,
	pawl.CodeCancelled:   exitInterrupted,
	llm.CodeUnset:        exitUsage,
}

func exitCode(e *pawl.Error) int {
	if code, known := exitCodes[e.Code]; known {
		return code
	}
	return exitFailed
}

// exit ends a command with a code whose reason has been said already.
type exit int

func (e exit) Error() string { return "exit" }

// Run carries out one command and returns its exit code.
func (s Shell) Run(ctx context.Context, ws ...Workflow) int {
	c := newCall(s, ws)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.listen(ctx, cancel)
	root := c.root()
	root.SetArgs(append([]string{}, s.Args...)) // nil would mean the program's own
	if before, _, _ := cut(s.Args, "--"); slices.Contains(before, "--json") {
		c.json = true // also for the errors of flags that stand before it
	}
	err := c.usable()
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	c.say.hush()
	if closed := c.close(); err == nil {
		err = closed
	}
	code := c.conclude(ctx, err)
	if err := c.out.flush(); err != nil {
		c.say.line("%s: standard output: %v", c.short(), err)
		code = max(code, exitUnavailable)
	}
	return code
}

// cut parts a list at its first such word.
func cut(all []string, word string) (before, after []string, found bool) {
	if i := slices.Index(all, word); i >= 0 {
		return all[:i], all[i+1:], true
	}
	return all, nil, false
}

// listen turns the first interrupt into the end of ctx, the second into the end of whatever is under way.
func (c *call) listen(ctx context.Context, cancel func()) {
	for n := 1; ; n++ {
		select {
		case <-c.Interrupts:
		case <-c.over:
			return
		}
		switch n {
		case 1:
			cancel()
		case 2:
			close(c.now)
		}
	}
}

// conclude says an error and gives its exit code.
func (c *call) conclude(ctx context.Context, err error) int {
	close(c.over)
	var done exit
	if err == nil || errors.As(err, &done) {
		return int(done)
	}
	e := pawl.Coded(err)
	text := explain(e.Error())
	switch { // where the command was told to stop, a store calls it unavailable
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		e = &pawl.Error{Code: pawl.CodeCancelled, Op: e.Op, Run: e.Run, Node: e.Node, Text: "interrupted: " + text, Err: err}
		text = "interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		text = "the time is up: " + text
		e = &pawl.Error{Code: pawl.CodeTimeout, Op: e.Op, Run: e.Run, Node: e.Node, Text: text, Err: err}
	}
	code := exitCode(e)
	c.say.line("%s: %s", c.short(), text)
	if c.json {
		c.out.record(result{Type: "result", Error: e, Exit: code})
	}
	return code
}

// explain is an error's text without the stack that a panic of a graph left in it.
func explain(text string) string {
	text, _, _ = strings.Cut(text, "\ngoroutine ")
	return strings.TrimSpace(text)
}
