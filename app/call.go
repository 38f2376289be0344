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
	"pawl/ports/tools"
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
	box     *tools.Box // of the configured servers; nil: not opened yet
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
	c.lines = &lines{r: s.In, over: c.over}
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
	conf, err := c.engineConfig()
	if err != nil {
		return nil, err
	}
	e, err := engine.New(c.store, ws, conf)
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
	begun := run
	if run.Root != run.ID { // a child is worked with its family
		if begun, err = rs.Get(ctx, run.Root); err != nil {
			return nil, run, nil, err
		}
	}
	o, err := c.open(ctx, begun.Workflow, &begun)
	switch {
	case err == nil:
	case pawl.Coded(err).Code == pawl.CodeNotFound:
		return rs, run, nil, nil
	default:
		return rs, run, nil, &notOpened{err}
	}
	rs, err = c.runs(ctx, o.Workflow)
	return rs, run, o, err
}

// notOpened is the error of a workflow that cannot be opened as a run was begun, such as with a catalogue that is gone. The
// run can be read and cancelled all the same.
type notOpened struct{ error }

func (n *notOpened) Unwrap() error { return n.error }

func invalid(format string, a ...any) error {
	return &pawl.Error{Code: pawl.CodeInvalid, Text: fmt.Sprintf(format, a...)}
}

// suggest names what somebody may have meant, as the end of a message.
func suggest(wrong string, names []string) string {
	best, slips := "", 1+len(wrong)/4
	for _, n := range names {
		if d := distance(strings.ToLower(wrong), strings.ToLower(n)); d <= slips && d < len(n) {
			best, slips = n, d-1
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

// distance is how many letters have to be changed, put in, left out or swapped with their neighbor.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
