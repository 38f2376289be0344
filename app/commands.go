package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pawl"
	"pawl/internal/draw"
	"pawl/store"
)

// root is the command tree. It is made anew for every call.
func (c *call) root() *cobra.Command {
	root := &cobra.Command{
		Use: "pawl", Short: "Run durable LLM agents that are state machines",
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true,
		Args: cobra.ArbitraryArgs, RunE: group,
	}
	root.Use = c.short()
	root.SetIn(c.In)
	root.SetOut(c.out)
	root.SetErr(c.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return invalid("%v", err) })
	flags := root.PersistentFlags()
	flags.String("config", "", "configuration file (default: pawl/config.json in the user's configuration folder)")
	flags.BoolVar(&c.json, "json", false, "write JSON, for programs")
	for _, s := range c.settings() {
		if s.flag != "" && !strings.Contains(s.key, ".") {
			addSetting(flags, s)
		}
	}
	root.AddCommand(c.runCommand(), c.workCommand(), c.mcpCommand(), c.runsCommand(), c.graphCommand(), c.workflowsCommand(), c.doctorCommand(), c.gcCommand(),
		c.backupCommand(), c.migrateCommand(), c.versionCommand())
	root.AddCommand(c.ncoCommands()...)
	root.AddCommand(c.developer()...)
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, sub := range root.Commands() {
		if sub.Name() == "completion" {
			sub.Args, sub.RunE = cobra.ArbitraryArgs, group
		}
	}
	return root
}

// helpCommand is help that knows when there is nothing to help with.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND…]", Short: "Help about any command", Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return invalid("there is no command %s to help with", shortened(strings.Join(args, " ")))
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// group is a command that only has others under it.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	_, under, _ := strings.Cut(cmd.CommandPath(), " ")
	return invalid("there is no command %s%s", shortened(strings.TrimSpace(under+" "+args[0])), suggest(args[0], names))
}

// exactly refuses a wrong number of arguments in one line.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return invalid("%s takes %s", cmd.CommandPath(), wanted(names))
	}
}

func wanted(names []string) string {
	if len(names) == 0 {
		return "no arguments"
	}
	return strings.Join(names, " ")
}

func addSetting(flags *pflag.FlagSet, s *setting) {
	if flags.Lookup(s.flag) != nil {
		return // another workflow has an option of that name: one flag sets both
	}
	flags.Var(&word{arg: s.arg}, s.flag, s.usage)
	flags.Lookup(s.flag).DefValue = s.def
}

// word is a flag's text, which help names as the setting does.
type word struct{ text, arg string }

func (w *word) Set(text string) error { w.text = text; return nil }
func (w *word) String() string        { return w.text }
func (w *word) Type() string          { return w.arg }

// withOptions gives a command the options of the workflows.
func (c *call) withOptions(cmd *cobra.Command) *cobra.Command {
	for _, s := range c.settings() {
		if s.flag != "" && strings.Contains(s.key, ".") {
			addSetting(cmd.Flags(), s)
		}
	}
	return cmd
}

// does makes a RunE that reads the configuration first.
func (c *call) does(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if c.timeout < 0 {
			return invalid("--timeout: %s is below nothing (0: never)", c.timeout)
		}
		if err := c.configure(cmd.Flags()); err != nil {
			return err
		}
		return f(cmd, args)
	}
}

// names completes the names of workflows.
func (c *call) names(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if len(args) == 0 {
		for _, w := range c.workflows {
			out = append(out, w.Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// startFlags are the flags of run.
type startFlags struct {
	input, key, budget string
	labels             []string
	priority           int
	detach             bool
}

func (c *call) runCommand() *cobra.Command {
	var f startFlags
	cmd := &cobra.Command{
		Use:   "run WORKFLOW [FIELD=VALUE…|TEXT…]",
		Short: "Start a run and work it to its end or its question",
		Long: "Start a run and work it to its end or its question.\n\n" +
			"Plain text fills the fields that the workflow marks as positional, FIELD=VALUE any field of its input; after -- everything\n" +
			"is text. A run that needs an answer asks on a terminal; elsewhere the command ends with exit code 7 and says how to answer.\n" +
			"Ctrl-C stops after the step under way and leaves the run to be gone on with; a second one stops at once.",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.names,
		RunE: c.does(func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return invalid("%s takes WORKFLOW [FIELD=VALUE…|TEXT…]", cmd.CommandPath())
			}
			dash := cmd.ArgsLenAtDash()
			if dash >= 0 {
				dash = max(dash-1, 0) // the workflow's name is no part of the input
			}
			return c.run(cmd.Context(), args[0], args[1:], dash, f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.input, "input", "", "the whole input as JSON: a `FILE`, or - for standard input")
	flags.StringVar(&f.key, "key", "", "idempotency `KEY`: the same key again finds the same run")
	flags.StringVar(&f.budget, "budget", "", "lower the ceilings of this run: `METER=AMOUNT,…` such as search=8,usd=1,runtime=5m")
	flags.StringArrayVar(&f.labels, "label", nil, "put a label on the run: `KEY=VALUE`, any number of times")
	flags.IntVar(&f.priority, "priority", 0, "runs of a higher `N` are worked first")
	flags.BoolVar(&f.detach, "detach", false, "only start the run")
	c.timeoutFlag(cmd)
	return c.withOptions(cmd)
}

func (c *call) timeoutFlag(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.timeout, "timeout", 0, "stop working after that `TIME` and leave the run to be gone on with (0: never)")
}

// timed is ctx until --timeout is over.
func (c *call) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

func (c *call) run(ctx context.Context, name string, args []string, dash int, f startFlags) error {
	ctx, stop := c.timed(ctx)
	defer stop()
	budget, err := budgets(f.budget)
	if err != nil {
		return err
	}
	labels, err := readLabels(f.labels)
	if err != nil {
		return err
	}
	o, err := c.open(ctx, name, nil)
	if err != nil {
		return err
	}
	input, err := c.input(ctx, o.Workflow, args, dash, f.input)
	if err != nil {
		return err
	}
	maps.Copy(labels, o.Labels)
	rs, err := c.runs(ctx, o.Workflow)
	if err != nil {
		return err
	}
	if f.detach && !c.lasting {
		return invalid("--detach: this store ends with the command, and the run with it")
	}
	started, err := rs.Start(ctx, o.Workflow.ID(), input, pawl.StartOptions{Key: f.key, Priority: f.priority, Budget: budget, Labels: labels})
	if err != nil {
		return err
	}
	c.greet(started)
	for _, meter := range slices.Sorted(maps.Keys(budget)) {
		if known := metersOf(o.Workflow); !slices.Contains(known, meter) {
			c.say.line("--budget: %s has no ceiling %s, and is bounded by it only if one of its nodes charges it%s", name, shortened(meter), suggest(meter, known))
		}
	}
	if f.detach {
		return c.detached(ctx, started)
	}
	g := &following{c: c, runs: rs, opened: o, id: started.Run.ID, existing: started.Existing}
	if started.Existing != "" {
		g.since = started.Run.Updated.Add(time.Nanosecond)
	}
	return g.follow(ctx)
}

// ownLabels is how the labels begin that the program itself puts on runs, to find again what they were begun with.
const ownLabels = "pawl."

func readLabels(given []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, l := range given {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return nil, invalid("--label: %s is not KEY=VALUE", shortened(l))
		}
		if strings.HasPrefix(k, ownLabels) {
			return nil, invalid("--label: %s: labels that begin with %s are the program's own", shortened(k), ownLabels)
		}
		labels[k] = v
	}
	return labels, nil
}

// greet says which run it is.
func (c *call) greet(s pawl.Started) {
	what := ""
	switch s.Existing {
	case pawl.ExistingDone:
		what = ": the key's run has ended already"
	case pawl.ExistingRunning:
		what = ": the key's run is under way"
		if s.Run.ETA > 0 {
			what += ", for about " + took(s.Run.ETA) + " more"
		}
	case pawl.ExistingAgain:
		what = fmt.Sprintf(": the key's run had not succeeded, attempt %d begins", s.Run.Attempt)
	}
	c.say.line("run %s  %s@%s%s", s.Run.ID, s.Run.Workflow, s.Run.Version, what)
}

// detached says who will work a run that was only started.
func (c *call) detached(ctx context.Context, s pawl.Started) error {
	workers, err := c.store.Workers(ctx)
	if err != nil {
		return &pawl.Error{Code: pawl.CodeUnavailable, Text: err.Error(), Err: err}
	}
	alive := slices.ContainsFunc(workers, func(w store.Worker) bool { return canWork(w.Kinds, s.Run.Workflow+"@"+s.Run.Version) })
	if alive { // it may be one that works nothing but another run: only a run that moves is in good hands
		s.Run = c.taken(ctx, s.Run)
	}
	next := c.again("runs", "watch", s.Run.ID)
	switch r := s.Run; {
	case r.Status.Ended():
		c.say.line("it has ended: %s", r.Status)
	case r.Worker != "" || r.Status != pawl.StatusQueued:
		c.say.line("a live worker has taken it; watch it with: %s", next)
	case alive:
		c.say.line("there is a live worker, but it has not taken the run; work it here with: %s", next)
	default:
		c.say.line("no live worker can take it; start one with: %s; or work it here with: %s", c.again("work"), next)
	}
	if c.json {
		c.out.record(result{Type: "result", Run: &s.Run, Existing: s.Existing, Command: next})
		return nil
	}
	c.out.line("%s", s.Run.ID)
	return nil
}

// taken waits a moment for a worker to take a run.
func (c *call) taken(ctx context.Context, run pawl.Run) pawl.Run {
	rs := c.engine.As(c.caller())
	for deadline := time.Now().Add(2 * time.Second); run.Status == pawl.StatusQueued && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return run
		case <-time.After(50 * time.Millisecond):
		}
		if r, err := rs.Get(ctx, run.ID); err == nil {
			run = r
		}
	}
	return run
}

func (c *call) graphCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "graph WORKFLOW", Short: "Draw a workflow", Args: exactly("WORKFLOW"), ValidArgsFunction: c.names,
		RunE: c.does(func(cmd *cobra.Command, args []string) error {
			if c.json {
				format = "json"
			}
			o, err := c.open(cmd.Context(), args[0], nil)
			if err != nil {
				return err
			}
			return c.draw(o.Workflow, format)
		}),
	}
	cmd.Flags().StringVar(&format, "format", "mermaid", "`FORMAT` of the drawing: mermaid, dot, svg or json")
	return c.withOptions(cmd)
}

func (c *call) draw(w *pawl.Workflow, format string) error {
	shape, text := w.Program().Shape, ""
	switch format {
	case "mermaid":
		text = draw.Mermaid(shape)
	case "dot":
		text = draw.Dot(shape)
	case "svg":
		text = draw.SVG(shape)
	case "json":
		raw, err := draw.JSON(shape)
		if err != nil {
			return err
		}
		text = string(raw)
	default:
		return invalid("--format: there is no %s: use mermaid, dot, svg or json", shortened(format))
	}
	fmt.Fprintln(c.out, strings.TrimRight(text, "\n"))
	return nil
}

func (c *call) workflowsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workflows", Short: "List what can be started", Args: exactly(),
		RunE: c.does(func(cmd *cobra.Command, _ []string) error { return c.listWorkflows(cmd.Context()) }),
	}
	return c.withOptions(cmd)
}

func (c *call) listWorkflows(ctx context.Context) error {
	all := []pawl.WorkflowInfo{}
	for _, w := range c.workflows {
		o, err := c.open(ctx, w.Name, nil)
		if err != nil {
			return err
		}
		b := o.Workflow
		all = append(all, pawl.WorkflowInfo{Name: b.Name(), Version: b.Version(), Fingerprint: b.Fingerprint(), Input: b.Input(),
			Output: b.Output(), Positional: b.Positional()})
	}
	if c.json {
		c.out.document(all)
		return nil
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tVERSION\tINPUT")
	for _, w := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\n", plain(w.Name), plain(w.Version), plain(takes(w)))
	}
	return t.Flush()
}

// takes says in short what a workflow's input is.
func takes(w pawl.WorkflowInfo) string {
	s, err := parseSchema(w.Input)
	if err != nil {
		return "?"
	}
	if len(s.Properties) == 0 {
		return s.wants()
	}
	var parts []string
	for _, p := range w.Positional {
		parts = append(parts, strings.ToUpper(p)+"…")
	}
	for _, f := range s.fields() {
		parts = append(parts, f+"="+strings.ReplaceAll(s.Properties[f].wants(), " ", "-"))
	}
	return strings.Join(parts, " ")
}
