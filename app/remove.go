package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"pawl"
)

func (c *call) removeCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "rm RUN…", Short: "Erase runs that have ended, with their children and all that they left", Args: cobra.ArbitraryArgs,
		RunE: c.does(func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return invalid("%s takes RUN…", cmd.CommandPath())
			}
			return c.remove(cmd.Context(), args, yes)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask: it cannot be taken back")
	return cmd
}

// removed is a line of runs rm --json.
type removed struct {
	Type  string      `json:"type"`
	Run   string      `json:"run"`
	Error *pawl.Error `json:"error,omitempty"`
}

// remove erases each of the runs. One that cannot be erased does not keep the others; the first such says the exit code.
func (c *call) remove(ctx context.Context, ids []string, yes bool) error {
	rs, err := c.runs(ctx)
	if err != nil {
		return err
	}
	if !yes {
		sure, err := c.sure(ctx, fmt.Sprintf("Erase %s, with children and all that was recorded? It cannot be taken back.", counted(len(ids), "run")),
			strings.Join(ids, " "))
		if err != nil || !sure {
			return err
		}
	}
	code, failed := exitOK, false
	for _, id := range ids {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := rs.Remove(ctx, id)
		if err != nil && ctx.Err() != nil {
			return err
		}
		line := removed{Type: "removed", Run: id}
		if err != nil {
			line.Type, line.Error = "kept", pawl.Coded(err)
			if c.say.line("%s: %s", c.short(), explain(line.Error.Error())); !failed {
				failed, code = true, exitCode(line.Error)
			}
		}
		switch {
		case c.json:
			c.out.record(line)
		case err == nil:
			c.out.line("removed %s", id)
		}
	}
	if failed {
		return exit(code)
	}
	return nil
}

// sure asks on the terminal; where nobody can be asked the answer has to be given beforehand.
func (c *call) sure(ctx context.Context, question, about string) (bool, error) {
	if !c.asks() {
		return false, invalid("%s Nobody can be asked here: say so with --yes", question)
	}
	c.say.line("%s", oneLine(about, 2000))
	c.say.prompt(question + " [y/N] ")
	select {
	case <-ctx.Done():
		c.say.prompt("\n")
		return false, context.Cause(ctx)
	case text, ok := <-c.lines.next():
		if !ok {
			c.say.prompt("\n")
		}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "y", "yes":
			return true, nil
		}
		c.say.line("nothing was done")
		return false, nil
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
