package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"pawl"
)

func (c *call) forkCommand() *cobra.Command {
	var step int64
	var from string
	cmd := &cobra.Command{
		Use: "fork RUN [PATH=VALUE…]", Short: "Begin a new run from a step of another one, with its state or an edited one",
		Long: "Begin a new run from a step of another one, with the state that the step left, and work it. PATH=VALUE edits that state\n" +
			"(such as name=ann, plan[0].text=shorter or answers[2]='{\"yes\":true}'); --state gives it whole. The source stays as it is;\n" +
			"the fork has counters, budgets and bounds of its own, which begin anew, and no idempotency key.",
		Args: cobra.ArbitraryArgs,
		RunE: c.does(func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return invalid("%s takes RUN [PATH=VALUE…]", cmd.CommandPath())
			}
			if step < 0 {
				return invalid("--step: there is no step %d", step)
			}
			return c.fork(cmd.Context(), args[0], step, from, args[1:])
		}),
	}
	flags := cmd.Flags()
	flags.Int64Var(&step, "step", 0, "go on behind this step (`N`); 0: the latest")
	flags.StringVar(&from, "state", "", "the whole state as JSON: a `FILE`, or - for standard input")
	c.timeoutFlag(cmd)
	return c.withOptions(cmd)
}

func (c *call) fork(ctx context.Context, id string, step int64, from string, edits []string) error {
	ctx, stop := c.timed(ctx)
	defer stop()
	state, err := c.readJSON(ctx, "--state", from)
	if err != nil {
		return err
	}
	rs, run, o, err := c.runsFor(ctx, id)
	if err != nil {
		return err
	}
	if o == nil {
		return &pawl.Error{Code: pawl.CodeNotFound, Text: fmt.Sprintf("this program has no workflow %s: fork the run with one that has it", run.Workflow)}
	}
	if len(edits) > 0 {
		if state == nil {
			if state, err = rs.State(ctx, run.ID, step); err != nil {
				return err
			}
		}
		if state, err = edited(state, edits); err != nil {
			return err
		}
	}
	forked, err := rs.Fork(ctx, run.ID, step, state)
	if err != nil {
		return err
	}
	c.say.line("run %s  %s@%s, forked from run %s at step %d", forked.ID, forked.Workflow, forked.Version, run.ID, forked.ForkStep)
	if o.Workflow.Name() != forked.Workflow { // of a child: its parent's way to be shown is not its own
		o = &Opened{Workflow: o.Workflow}
	}
	f := &following{c: c, runs: rs, opened: o, id: forked.ID}
	return f.follow(ctx)
}

// edited is a state with PATH=VALUE put into it. Whether it is one is for the engine to say.
func edited(state json.RawMessage, edits []string) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(state))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, invalid("the state: %v", err)
	}
	for _, e := range edits {
		path, text, ok := strings.Cut(e, "=")
		steps, err := pathSteps(path)
		if !ok || err != nil {
			return nil, invalid("%s is not PATH=VALUE, such as name=ann or plan[0].text=shorter", shortened(e))
		}
		if !utf8.ValidString(text) {
			return nil, invalid("%s: not valid UTF-8", shortened(path))
		}
		if tree, err = setAt(tree, steps, text); err != nil {
			return nil, invalid("%s: %v", shortened(path), err)
		}
	}
	return compact(tree), nil
}

// pathSteps takes a path apart: names of fields and, as ints, places in lists.
func pathSteps(path string) (steps []any, err error) {
	rest := strings.TrimPrefix(path, ".")
	for rest != "" {
		if strings.HasPrefix(rest, "[") {
			number, after, ok := strings.Cut(rest[1:], "]")
			n, err := strconv.Atoi(number)
			if !ok || err != nil || n < 0 {
				return nil, fmt.Errorf("%q is no place in a list", number)
			}
			steps, rest = append(steps, n), after
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, fmt.Errorf("an empty name")
			}
			steps, rest = append(steps, rest[:end]), rest[end:]
		}
		if after, dot := strings.CutPrefix(rest, "."); dot {
			if rest = after; rest == "" {
				return nil, fmt.Errorf("an empty name")
			}
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("an empty path")
	}
	return steps, nil
}

// setAt sets the value at a path.
func setAt(at any, steps []any, text string) (any, error) {
	if len(steps) == 0 {
		return typed(at, text)
	}
	switch step := steps[0].(type) {
	case string:
		fields, ok := at.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("there is no field %q: what holds it is not an object", step)
		}
		old, there := fields[step]
		if !there && len(steps) > 1 {
			return nil, fmt.Errorf("there is no field %q", step)
		}
		v, err := setAt(old, steps[1:], text)
		fields[step] = v
		return fields, err
	case int:
		items, ok := at.([]any)
		if !ok && at != nil || step > len(items) || step == len(items) && len(steps) > 1 {
			return nil, fmt.Errorf("there is no place %d: the list has %d", step, len(items))
		}
		if step == len(items) {
			items = append(items, nil)
		}
		v, err := setAt(items[step], steps[1:], text)
		items[step] = v
		return items, err
	}
	return at, nil
}

// typed is a text in the place of a value: text where that is text, else JSON; where there is nothing yet, JSON if it is.
func typed(old any, text string) (any, error) {
	if _, is := old.(string); is {
		return text, nil
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	if old == nil {
		return text, nil
	}
	return nil, fmt.Errorf("want JSON, such as %s, not %s", shortened(string(compact(old))), shortened(text))
}
