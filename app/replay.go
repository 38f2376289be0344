package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"pawl"
	"pawl/engine"
)

func (c *call) replayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "replay RUN", Short: "Execute a run's nodes again, answered by its journal, and show where they diverge",
		Long: "Execute a run's nodes again, from its first step on, and show the first place where they do something else than was\n" +
			"recorded. Calls, questions, timers and children are answered by the journal: nothing is asked or done outside, and the run\n" +
			"is only read. The exit code is 0 where all is equal and 1 where the run diverges.",
		Args: exactly("RUN"),
		RunE: c.does(func(cmd *cobra.Command, args []string) error { return c.replay(cmd.Context(), args[0]) }),
	}
	c.timeoutFlag(cmd)
	return c.withOptions(cmd)
}

func (c *call) replay(ctx context.Context, id string) error {
	ctx, stop := c.timed(ctx)
	defer stop()
	_, run, o, err := c.runsFor(ctx, id)
	if err != nil {
		return err
	}
	if o == nil {
		return &pawl.Error{Code: pawl.CodeNotFound, Text: fmt.Sprintf("this program has no workflow %s: replay the run with one that has it", run.Workflow)}
	}
	got, err := c.engine.Replay(ctx, c.caller(), id)
	if err != nil {
		return err
	}
	if c.json {
		c.out.document(got)
	} else {
		c.replayed(got)
	}
	if got.Diverged != nil {
		return exit(exitFailed)
	}
	return nil
}

// replayed writes what a replay has found, for people.
func (c *call) replayed(r engine.Replay) {
	c.out.line("run %s  %s@%s", r.Run, r.Workflow, r.Version)
	for _, n := range r.Notes {
		c.out.line("note: %s", oneLine(n, 500))
	}
	counts := fmt.Sprintf("%d of %d steps compared, %d executions of nodes, %d answers of the journal, %d events",
		r.Steps, r.Of, r.Executions, r.Calls, r.Events)
	d := r.Diverged
	switch {
	case d == nil && r.Stopped != "":
		c.out.line("equal as far as it goes: %s\n%s", counts, oneLine(r.Stopped, 500))
	case d == nil:
		c.out.line("equal: %s", counts)
	default:
		c.out.line("diverges at step %d%s: %s", d.Step, whereabouts(d), oneLine(d.Text, 500))
		if len(d.Recorded) > 0 {
			c.out.line("  recorded  %s", oneLine(string(d.Recorded), 500))
		}
		if len(d.Replayed) > 0 {
			c.out.line("  replayed  %s", oneLine(string(d.Replayed), 500))
		}
		c.out.line("equal before it: %s", counts)
	}
}

func whereabouts(d *engine.Divergence) string {
	if d.Node == "" {
		return ""
	}
	return fmt.Sprintf(", node %s (visit %d, try %d)", oneLine(d.Node, 60), d.Visit, d.Try)
}
