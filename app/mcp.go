package app

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"pawl/engine"
	"pawl/server"
)

// mcpFlags are the flags of mcp.
type mcpFlags struct {
	work workFlags
	wait time.Duration
}

func (c *call) mcpCommand() *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use: "mcp [WORKFLOW…]", Short: "Offer workflows as tools to a client of the Model Context Protocol",
		Long: "Speak the Model Context Protocol on standard input and output, for a client that starts this program: these workflows, or all\n" +
			"that this program has, are its tools, and run_get, run_list, run_answer, run_cancel and run_retry steer their runs, which are\n" +
			"worked here. What is not the protocol goes to standard error. When the client hangs up, the steps under way come to their\n" +
			"commit, and whatever is not at its end is gone on with by the next command that works the store.",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.names,
		RunE:              c.does(func(cmd *cobra.Command, args []string) error { return c.mcp(cmd.Context(), args, f) }),
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.wait, "wait", 5*time.Second, "how long a call waits for its run's end before it answers with the run's id (`TIME`, at most 1m)")
	flags.IntVar(&f.work.slots, "slots", 16, "have so many runs in hand at once (`N`)")
	flags.DurationVar(&f.work.drain, "drain", 2*time.Second, "after the client has hung up, throw away what has not come to its commit after that `TIME`")
	return c.withOptions(cmd)
}

// mcp serves one client and works its runs, until the client hangs up or the first interrupt.
func (c *call) mcp(ctx context.Context, names []string, f mcpFlags) error {
	c.json = false // standard output is the protocol's
	switch {
	case f.work.drain <= 0:
		return invalid("--drain: %s is not above nothing", f.work.drain)
	case f.wait <= 0 || f.wait > time.Minute:
		return invalid("--wait: want a time up to 1m, not %s", f.wait)
	case c.In == nil:
		return invalid("there is no standard input to speak the protocol on")
	}
	if err := f.work.checked(); err != nil {
		return err
	}
	if err := c.openStore(ctx); err != nil {
		return err
	}
	ws, err := c.openAll(ctx, names)
	if err != nil {
		return err
	}
	log := newWorkLog(c)
	conf, err := c.engineConfig()
	if err != nil {
		return err
	}
	conf.Slots, conf.Outage = f.work.slots, 0
	conf.Trace = conf.Trace.And(engine.Trace{Ended: log.ended})
	if c.engine, err = engine.New(c.store, ws, conf); err != nil {
		return err
	}
	serving, hangUp := context.WithCancel(ctx)
	defer hangUp()
	served := make(chan error, 1)
	go func() {
		defer hangUp()
		served <- server.ServeMCP(serving, c.engine.As(c.caller()), c.In, c.Shell.Out, server.MCPOptions{
			Version: thisBuild().Version, Wait: f.wait,
		})
	}()
	c.say.line("speaking the Model Context Protocol on standard input and output; the client hangs up, or Ctrl-C stops")
	err = c.workUntilTold(serving, log, f.work.drain)
	hangUp()
	select {
	case lost := <-served:
		if err == nil {
			err = lost
		}
	case <-time.After(leave): // it still reads, and nobody writes to it any more
	}
	return err
}
