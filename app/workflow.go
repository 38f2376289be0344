package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"pawl"
	"pawl/ports/fetch/web"
	"pawl/ports/tools"
)

// Workflow is one line of the list that main gives: a name, settings of its own, and how it is opened. Nothing is opened
// before a command needs it.
type Workflow struct {
	Name    string
	Options []Option
	Open    func(ctx context.Context, o Opening) (*Opened, error)

	fault error
}

// Graph lists a graph that needs nothing but itself.
func Graph[I, S, O any](g *pawl.Graph[I, S, O]) Workflow {
	w, err := g.Build()
	if err != nil {
		return Workflow{fault: err}
	}
	return Built(w)
}

// Built lists a workflow that is built already.
func Built(w *pawl.Workflow) Workflow {
	return Workflow{Name: w.Name(), Open: func(context.Context, Opening) (*Opened, error) { return &Opened{Workflow: w}, nil }}
}

// Option is a setting of a workflow: the flag --NAME, the variable PAWL_<WORKFLOW>_<NAME> and, in the configuration
// file, "NAME" in the object named after the workflow.
type Option struct {
	Name    string
	Value   string // what it takes, in capitals: FILE, N
	Usage   string
	Default string
	Secret  bool // has no flag, may stand in a file (PAWL_…_FILE), and is never shown
}

// Opening is what a workflow may know when it is opened.
type Opening struct {
	// Run is the run that is to be gone on with, nil for a new one: its labels say with what it was begun.
	Run *pawl.Run

	prefix string
	conf   *config
	tools  func() (*tools.Box, error)
}

// Tools are what the configured servers of tools offer. They are started when they are first needed, and ended with the command.
func (o Opening) Tools() (*tools.Box, error) { return o.tools() }

// Fetcher reaches the public web and nothing else. All of a process, and whoever recognizes in it, have one room, which bounds the memory
// of its pictures.
func (o Opening) Fetcher() *web.Fetcher { return web.New(web.Config{Room: o.conf.room}) }

// Value of an option.
func (o Opening) Value(name string) string { return o.conf.value(o.prefix + name) }

// Secret is the value of an option that is one.
func (o Opening) Secret(name string) pawl.Secret { return pawl.NewSecret(o.Value(name)) }

// Flag says whether an option was given as a flag: then it outdoes what the run says.
func (o Opening) Flag(name string) bool {
	s := o.conf.find(o.prefix + name)
	return s != nil && s.source == sourceFlag
}

// Opened is a workflow that can run.
type Opened struct {
	Workflow *pawl.Workflow
	// Also are other versions of it, whose runs a worker goes on with; new ones it does not begin.
	Also []*pawl.Workflow
	// Labels are put on every run that is started.
	Labels map[string]string
	// Render writes an output for people; nil: indented JSON.
	Render func(w io.Writer, output json.RawMessage) error
	// Tell is what one of its events says to people, in a line, while the run goes on; empty: its data. nil: all of them.
	Tell func(typ string, data json.RawMessage) string
	// Held says why a run whose version is not the one that was opened cannot go on, and with which flags it could; nil:
	// nothing more than that.
	Held func(run pawl.Run) (why string, flags []string)
	// Close gives back what it holds; nil: nothing.
	Close func() error
}

// usable checks the list of workflows.
func (c *call) usable() error {
	seen := map[string]bool{}
	for _, w := range c.workflows {
		switch {
		case w.fault != nil:
			return w.fault
		case w.Name == "" || w.Open == nil:
			return invalid("a workflow of this program has no name or cannot be opened")
		case slices.Contains([]string{providersSection, modelsSection, pricesKey, toolsKey, "faces", "kv"}, w.Name):
			return invalid("a workflow cannot be called %s: the configuration has a section of that name", w.Name)
		case seen[w.Name]:
			return invalid("two workflows of this program are called %s", w.Name)
		}
		seen[w.Name] = true
		for _, o := range w.Options {
			if !o.Secret && slices.Contains(ownFlags, o.Name) {
				return invalid("workflow %s: option %s: the program has a flag of that name", w.Name, o.Name)
			}
		}
	}
	return nil
}

// ownFlags are the flags of the program itself.
var ownFlags = []string{
	"help", "config", "json", "store", "tenant", "user", "timeout", "input", "key", "budget", "label", "priority", "detach", "reason", "json-answer",
	"limits", "concurrency", "slots", "drain", "wait", "step", "state", "out",
}

// open opens a workflow by its name, for a run that is to be gone on with or, nil, for a new one.
func (c *call) open(ctx context.Context, name string, run *pawl.Run) (*Opened, error) {
	plain, _, _ := strings.Cut(name, "@")
	i := slices.IndexFunc(c.workflows, func(w Workflow) bool { return w.Name == plain })
	if i < 0 {
		var names []string
		for _, w := range c.workflows {
			names = append(names, w.Name)
		}
		return nil, &pawl.Error{Code: pawl.CodeNotFound, Text: fmt.Sprintf("there is no workflow %q%s", name, suggest(plain, names))}
	}
	w := c.workflows[i]
	o, err := w.Open(ctx, Opening{Run: run, prefix: w.Name + ".", conf: c.conf, tools: c.toolbox})
	if err != nil {
		return nil, err
	}
	if o.Close != nil {
		c.closers = append(c.closers, o.Close)
	}
	if name != plain && name != o.Workflow.ID() {
		return nil, &pawl.Error{Code: pawl.CodeNotFound, Text: fmt.Sprintf("there is no workflow %q here, only %s", name, o.Workflow.ID())}
	}
	return o, nil
}

// again is a command of this program that somebody can type, with the settings that were given as flags, but for those
// that the command sets itself.
func (c *call) again(args ...string) string {
	words := append([]string{c.Name}, args...)
	if c.conf != nil {
		for _, s := range c.conf.settings {
			if s.source == sourceFlag && !slices.Contains(args, "--"+s.flag) {
				words = append(words, "--"+s.flag, s.typed())
			}
		}
		if c.conf.fileFlag {
			words = append(words, "--config", absolute(c.conf.file))
		}
	}
	for i, w := range words {
		words[i] = quoted(w)
	}
	return strings.Join(words, " ")
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil && path != "" {
		return abs
	}
	return path
}
