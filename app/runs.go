package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pawl"
)

func (c *call) runsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "runs", Short: "See and steer runs", Args: cobra.ArbitraryArgs, RunE: group}
	cmd.AddCommand(c.listCommand(), c.showCommand(), c.watchCommand(), c.answerCommand(), c.cancelCommand(), c.retryCommand(),
		c.removeCommand(), c.forkCommand(), c.replayCommand(), c.exportCommand(), c.importCommand())
	return cmd
}

func (c *call) listCommand() *cobra.Command {
	var f pawl.RunFilter
	var status, after string
	var limit int
	cmd := &cobra.Command{
		Use: "ls", Short: "List runs, the newest first", Args: exactly(),
		RunE: c.does(func(cmd *cobra.Command, _ []string) error {
			f.Status = pawl.Status(status)
			if limit < 1 {
				return invalid("--limit: want a number of at least 1, not %d", limit)
			}
			return c.list(cmd.Context(), f, after, limit)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Workflow, "workflow", "", "only runs of this workflow (`NAME`)")
	flags.StringVar(&status, "status", "", "only runs in this `STATUS`: queued, running, interrupted, waiting, succeeded, failed, cancelled, merged")
	flags.StringVar(&f.Key, "key", "", "only the run with this idempotency `KEY`")
	flags.StringVar(&after, "after", "", "only runs that are older than this `RUN`")
	flags.IntVar(&limit, "limit", 20, "at most so many (`N`)")
	return cmd
}

func (c *call) list(ctx context.Context, f pawl.RunFilter, after string, limit int) error {
	rs, err := c.runs(ctx)
	if err != nil {
		return err
	}
	all, err := rs.List(ctx, f, after, limit)
	if err != nil {
		return err
	}
	if c.json {
		for _, r := range all {
			c.out.record(r)
		}
		return nil
	}
	if len(all) == 0 {
		c.say.line("there are no such runs in %s", storeTyped(c.conf.value("store")))
		return nil
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return &pawl.Error{Code: pawl.CodeUnavailable, Text: err.Error(), Err: err}
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tWORKFLOW\tSTATUS\tAT\tSTEPS\tUPDATED\tUSER")
	for _, r := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.ID, oneLine(r.Workflow, 40), r.Status, oneLine(place(r), 40), r.Steps,
			took(now.Sub(r.Updated))+" ago", oneLine(r.User, 30))
	}
	return t.Flush()
}

// place is where a run stands or how it ended.
func place(r pawl.Run) string {
	switch {
	case r.Imported != "" && !r.Status.Ended():
		return r.Node + " (a copy)"
	case heldReason(r) != "":
		return r.Node + " (parked)"
	case r.Terminal != "":
		return r.Terminal
	case r.MergedInto != "":
		return r.MergedInto
	}
	return r.Node
}

// shown is what runs show --json writes.
type shown struct {
	Run       pawl.Run        `json:"run"`
	Steps     []pawl.Step     `json:"steps"`
	Calls     []pawl.Made     `json:"calls"`
	Questions []pawl.Open     `json:"questions"`
	State     json.RawMessage `json:"state,omitempty"`
}

func (c *call) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show RUN", Short: "Show a run: steps, calls, questions, meters, output", Args: exactly("RUN"),
		RunE: c.does(func(cmd *cobra.Command, args []string) error { return c.show(cmd.Context(), args[0]) }),
	}
	return cmd
}

func (c *call) show(ctx context.Context, id string) error {
	rs, err := c.runs(ctx)
	if err != nil {
		return err
	}
	s := shown{Calls: []pawl.Made{}}
	if s.Run, err = rs.Get(ctx, id); err != nil {
		return err
	}
	if s.Steps, err = allSteps(ctx, rs, id); err != nil {
		return err
	}
	for _, step := range s.Steps {
		if step.Visit == 0 {
			continue
		}
		made, err := rs.Calls(ctx, id, step.Seq)
		if err != nil {
			return err
		}
		s.Calls = appendNew(s.Calls, made)
	}
	if !s.Run.Status.Ended() {
		made, err := rs.Calls(ctx, id, 0)
		if err != nil {
			return err
		}
		s.Calls = appendNew(s.Calls, made)
	}
	if s.Questions, err = rs.Questions(ctx, pawl.QuestionFilter{Run: id, Closed: true}, "", 1000); err != nil {
		return err
	}
	if c.json {
		if s.State, err = rs.State(ctx, id, 0); err != nil {
			return err
		}
		c.out.document(s)
		return nil
	}
	return c.showText(ctx, s)
}

// appendNew adds the calls that are not there yet: two steps of one visit have them in common.
func appendNew(all, more []pawl.Made) []pawl.Made {
	last := int64(0)
	if len(all) > 0 {
		last = all[len(all)-1].Seq
	}
	for _, m := range more {
		if m.Seq > last {
			all = append(all, m)
		}
	}
	return all
}

func allSteps(ctx context.Context, rs pawl.Runs, id string) ([]pawl.Step, error) {
	all, after := []pawl.Step{}, int64(0)
	for {
		page, err := rs.Steps(ctx, id, after, 500)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < 500 {
			return all, nil
		}
		after = page[len(page)-1].Seq
	}
}

// showText writes a run for people.
func (c *call) showText(ctx context.Context, s shown) error {
	r := s.Run
	o := c.out
	t := tabwriter.NewWriter(o, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, oneLine(value, 2000))
		}
	}
	row("run", r.ID)
	row("workflow", r.Workflow+"@"+r.Version)
	row("status", string(r.Status))
	row("at", place(r))
	row("parked", heldReason(r))
	row("tenant", r.Tenant)
	row("user", r.User)
	row("key", r.Key)
	row("parent", r.Parent)
	row("merged into", r.MergedInto)
	if r.ForkOf != "" {
		row("fork of", fmt.Sprintf("%s at step %d", r.ForkOf, r.ForkStep))
	}
	row("imported", r.Imported)
	row("worker", r.Worker)
	row("attempt", fmt.Sprint(r.Attempt))
	row("created", r.Created.UTC().Format(time.RFC3339))
	row("updated", r.Updated.UTC().Format(time.RFC3339))
	row("labels", labelText(r.Labels))
	row("meters", counters(r.Meters))
	row("input", string(r.Input))
	if r.Err != nil {
		row("error", reason(r.Err))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := c.showSteps(s); err != nil {
		return err
	}
	for _, q := range s.Questions {
		state := "open"
		if q.Closed {
			state = "closed"
		}
		o.line("\nquestion %s (%s): %s", q.ID, state, oneLine(q.Text, 500))
		for i, choice := range q.Choices {
			o.line("  %d  %s", i+1, oneLine(choice, 200))
		}
		if len(q.Answer) > 0 {
			o.line("  answered: %s%s", by(q), oneLine(string(q.Answer), 500))
		}
	}
	if len(r.Output) > 0 && string(r.Output) != "null" {
		o.line("\noutput")
		f := &following{c: c}
		if w, err := c.open(ctx, r.Workflow, &r); err == nil { // its way to be shown; without it, JSON
			f.opened = w
		}
		return f.output(r.Output)
	}
	return nil
}

func by(q pawl.Open) string {
	if q.By == "" {
		return ""
	}
	return oneLine(q.By, 40) + ": "
}

func labelText(labels map[string]string) string {
	var parts []string
	for k, v := range labels {
		parts = append(parts, k+"="+v)
	}
	return strings.Join(sorted(parts), " ")
}

func (c *call) showSteps(s shown) error {
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nSTEP\tNAME\tFROM\tTO\tEDGE\tTOOK\tCOST\tPAYLOAD")
	for _, x := range s.Steps {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.Seq, oneLine(x.Name, 40), oneLine(x.StateBefore, 40), oneLine(x.StateAfter, 40),
			oneLine(x.Edge, 40), took(time.Duration(x.DurationMS)*time.Millisecond), x.CostUSD, oneLine(string(x.Payload), 120))
	}
	if len(s.Calls) > 0 {
		fmt.Fprintln(t, "\nCALL\tKIND\tKEY\tVISIT\tTRIES\tTOOK\tEND")
	}
	for _, m := range s.Calls {
		end := string(m.Result)
		if m.Err != nil {
			end = reason(m.Err)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%d\t%s\t%s\n", m.Seq, oneLine(m.Kind, 20), oneLine(m.Key, 40), m.Visit, m.Physical,
			took(time.Duration(m.Took)*time.Millisecond), oneLine(end, 120))
	}
	return t.Flush()
}

func (c *call) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch RUN", Short: "Show a run as it goes, and work it where nobody else does", Args: exactly("RUN"),
		RunE: c.does(func(cmd *cobra.Command, args []string) error {
			ctx, stop := c.timed(cmd.Context())
			defer stop()
			rs, run, o, err := c.runsFor(ctx, args[0])
			if err != nil {
				return err
			}
			f := &following{c: c, runs: rs, opened: o, id: run.ID}
			return f.follow(ctx)
		}),
	}
	c.timeoutFlag(cmd)
	return c.withOptions(cmd)
}

func (c *call) answerCommand() *cobra.Command {
	var raw string
	cmd := &cobra.Command{
		Use: "answer RUN QUESTION TEXT…", Short: "Answer a question, and work the run on", Args: cobra.ArbitraryArgs,
		RunE: c.does(func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || (len(args) == 2) != (raw != "") {
				return invalid("%s takes RUN QUESTION TEXT…, or RUN QUESTION --json-answer JSON", cmd.CommandPath())
			}
			return c.answer(cmd.Context(), args[0], args[1], strings.Join(args[2:], " "), raw)
		}),
	}
	cmd.Flags().StringVar(&raw, "json-answer", "", "the answer as `JSON`, where it is more than one text")
	c.timeoutFlag(cmd)
	return c.withOptions(cmd)
}

func (c *call) cancelCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "cancel RUN", Short: "End a run and its children", Args: exactly("RUN"),
		RunE: c.does(func(cmd *cobra.Command, args []string) error {
			return c.steer(cmd.Context(), args[0], func(ctx context.Context, rs pawl.Runs, id string) error {
				return rs.Cancel(ctx, id, reason)
			}, true)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever reads it later (`TEXT`)")
	c.timeoutFlag(cmd)
	return c.withOptions(cmd)
}

func (c *call) retryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "retry RUN", Short: "Begin the next attempt of a run that failed or was cancelled", Args: exactly("RUN"),
		RunE: c.does(func(cmd *cobra.Command, args []string) error {
			return c.steer(cmd.Context(), args[0], func(ctx context.Context, rs pawl.Runs, id string) error {
				_, err := rs.Retry(ctx, id)
				return err
			}, false)
		}),
	}
	c.timeoutFlag(cmd)
	return c.withOptions(cmd)
}

// steer does something to a run and works it on.
func (c *call) steer(ctx context.Context, id string, do func(context.Context, pawl.Runs, string) error, cancels bool) error {
	ctx, stop := c.timed(ctx)
	defer stop()
	rs, run, o, err := c.runsFor(ctx, id)
	why, gone := errors.AsType[*notOpened](err)
	if gone && cancels { // what is to end needs no catalogue
		c.say.line("%s: %s", c.short(), explain(why.Error()))
		err = nil
	}
	if err != nil {
		return err
	}
	since, err := c.store.Now(ctx)
	if err != nil {
		return &pawl.Error{Code: pawl.CodeUnavailable, Text: err.Error(), Err: err}
	}
	if err := do(ctx, rs, run.ID); err != nil {
		return err
	}
	if gone {
		return c.asked(ctx, rs, run.ID)
	}
	f := &following{c: c, runs: rs, opened: o, id: run.ID, since: since, cancels: cancels}
	return f.follow(ctx)
}

// asked is the end of a command that asked a run to end which nothing here can work.
func (c *call) asked(ctx context.Context, rs pawl.Runs, id string) error {
	run, err := rs.Get(ctx, id)
	if err != nil {
		return err
	}
	c.say.line("run %s is asked to end: the next worker that has its workflow ends it", id)
	if c.json {
		c.out.record(result{Type: "result", Run: &run, Exit: exitOK})
	}
	return nil
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}

// indented is JSON for people.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
