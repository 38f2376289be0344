package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/internal/text"
	"pawl/store"
)

// call is one command under way: what it was called with, and what it has opened.
type call struct {
	Shell
	workflows []Workflow
	conf      *config
	json      bool          // --json
	timeout   time.Duration // --timeout

	store   store.Store
	lasting bool
	engine  *engine.Engine
	closers []func() error

	out   *output
	say   *voice
	lines *lines
	over  chan struct{} // closed at the end
	now   chan struct{} // closed by the second interrupt
}

func newCall(s Shell, ws []Workflow) *call {
	if s.Name == "" {
		s.Name = "pawl"
	}
	c := &call{Shell: s, workflows: ws, over: make(chan struct{}), now: make(chan struct{})}
	c.out = newOutput(s.Out)
	c.say = newVoice(s.Err, c.lookup)
	c.lines = &lines{r: s.In}
	return c
}

// short is the program's name without the folder.
func (c *call) short() string { return strings.TrimSuffix(filepath.Base(c.Name), ".exe") }

// lookup reads a variable of the environment; the last one of a name counts.
func (c *call) lookup(name string) string {
	for i := len(c.Env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(c.Env[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}

// close gives back what was opened, the last first.
func (c *call) close() error {
	var faults []error
	for i := len(c.closers) - 1; i >= 0; i-- {
		faults = append(faults, c.closers[i]())
	}
	return errors.Join(faults...)
}

// caller is who gives the command. Who names neither a user nor a tenant is the operator of the store and sees
// everything; their runs and answers carry the name of their account.
func (c *call) caller() pawl.Caller {
	who := pawl.Caller{Tenant: c.conf.value("tenant"), User: c.conf.value("user")}
	switch {
	case who.User != "":
	case who.Tenant != "":
		who.Scopes = []string{pawl.ScopeTenant}
	default:
		who.Scopes = []string{pawl.ScopeAll}
	}
	if who.User == "" {
		who.User = c.lookup("USER")
	}
	if who.User == "" {
		who.User = c.lookup("USERNAME")
	}
	return who
}

// runs opens the store and an engine that knows these workflows.
func (c *call) runs(ctx context.Context, ws ...*pawl.Workflow) (pawl.Runs, error) {
	if err := c.openStore(ctx); err != nil {
		return nil, err
	}
	e, err := engine.New(c.store, ws, engine.Config{Trace: engine.Trace{Fault: c.say.fault}})
	if err != nil {
		return nil, err
	}
	c.engine = e
	return e.As(c.caller()), nil
}

// runsFor is runs with the workflow of a run that exists, opened as that run was begun. A workflow that this program does
// not have is no fault here: the run can be read, and the opened workflow is nil.
func (c *call) runsFor(ctx context.Context, id string) (pawl.Runs, pawl.Run, *Opened, error) {
	rs, err := c.runs(ctx)
	if err != nil {
		return nil, pawl.Run{}, nil, err
	}
	run, err := rs.Get(ctx, id)
	for n := 0; err == nil && run.MergedInto != "" && n < 10; n++ {
		run, err = rs.Get(ctx, run.MergedInto)
	}
	if err != nil {
		return nil, run, nil, err
	}
	name := run.Workflow
	if run.Root != run.ID { // a child is worked with its family
		if root, err := rs.Get(ctx, run.Root); err == nil {
			name = root.Workflow
		}
	}
	o, err := c.open(ctx, name, &run)
	if pawl.Coded(err) != nil && pawl.Coded(err).Code == pawl.CodeNotFound {
		return rs, run, nil, nil
	}
	if err != nil {
		return nil, run, nil, err
	}
	rs, err = c.runs(ctx, o.Workflow)
	return rs, run, o, err
}

func invalid(format string, a ...any) error {
	return &pawl.Error{Code: pawl.CodeInvalid, Text: fmt.Sprintf(format, a...)}
}

// suggest names what somebody may have meant, as the end of a message.
func suggest(wrong string, names []string) string {
	best, likeness := "", 0.3
	for _, n := range names {
		if l := text.Likeness(strings.ToLower(wrong), strings.ToLower(n)); l > likeness {
			best, likeness = n, l
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf(": did you mean %q?", best)
	case len(names) > 0 && len(names) <= 20:
		return fmt.Sprintf(" (there are: %s)", strings.Join(names, ", "))
	}
	return ""
}
