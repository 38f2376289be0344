package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"pawl"
)

func (c *call) exportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "export RUN", Short: "Write a run and its children to one file, for somebody else to replay",
		Long: "Write a run and its children to one file, which runs import reads. Everything that is recorded of them is in it: inputs,\n" +
			"states, requests, results, answers, and the names of their user and tenant. Nothing is masked.",
		Args: exactly("RUN"),
		RunE: c.does(func(cmd *cobra.Command, args []string) error { return c.export(cmd.Context(), args[0], out) }),
	}
	cmd.Flags().StringVar(&out, "out", "", "write to this `FILE`, or - for standard output (default: RUN.pawl.gz here)")
	return cmd
}

func (c *call) export(ctx context.Context, id, out string) error {
	rs, err := c.runs(ctx)
	if err != nil {
		return err
	}
	run, err := rs.Get(ctx, id)
	if err != nil {
		return err
	}
	if out == "" {
		out = run.ID + ".pawl.gz"
	}
	if out == "-" {
		if c.out.terminal {
			return invalid("--out -: the file is not for a terminal: send it to another program, or name a file")
		}
		return c.engine.Export(ctx, c.caller(), run.ID, c.out)
	}
	if err := c.exportTo(ctx, run.ID, out); err != nil {
		return err
	}
	c.say.line("it holds all that is recorded of the run: inputs, states, results and answers; nothing is masked")
	if c.json {
		c.out.record(map[string]string{"run": run.ID, "out": out})
		return nil
	}
	c.out.line("%s", out)
	return nil
}

// exportTo writes a file that was not there. Only its owner may read it: who knows what a run has seen.
func (c *call) exportTo(ctx context.Context, id, out string) (err error) {
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return &pawl.Error{Code: pawl.CodeConflict, Text: fmt.Sprintf("--out: %s is there already", shortened(out))}
	case err != nil:
		return invalid("--out: %v", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = written(cerr)
		}
		if err != nil {
			_ = os.Remove(out)
		}
	}()
	w := bufio.NewWriter(f)
	if err := c.engine.Export(ctx, c.caller(), id, w); err != nil {
		return written(err)
	}
	if err := w.Flush(); err != nil {
		return written(err)
	}
	return written(f.Sync())
}

// written gives a fault of the disk its code.
func written(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return &pawl.Error{Code: pawl.CodeUnavailable, Text: "--out: " + err.Error(), Err: err}
	}
	return err
}

func (c *call) importCommand() *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Read a file of runs export: copies that can be shown, replayed and forked",
		Long: "Read a file that runs export has written, or - for standard input. Its runs keep their ids and become copies: they can be\n" +
			"shown, replayed and forked, and nobody works them. A file is taken whole or not at all.",
		Args: exactly("FILE"),
		RunE: c.does(func(cmd *cobra.Command, args []string) error { return c.importFile(cmd.Context(), args[0]) }),
	}
}

func (c *call) importFile(ctx context.Context, from string) error {
	r := c.In
	if from != "-" {
		f, err := os.Open(filepath.Clean(from))
		if err != nil {
			return invalid("%v", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return invalid("%s is a folder, not a file of runs export", from)
		}
		r = f
	}
	if r == nil {
		return invalid("there is no standard input")
	}
	if _, err := c.runs(ctx); err != nil {
		return err
	}
	got, err := c.engine.Import(ctx, c.caller(), io.Reader(r))
	if err != nil {
		return err
	}
	if c.json {
		c.out.document(got)
		return nil
	}
	more := ""
	if n := got.Runs - 1; n > 0 {
		more = fmt.Sprintf(", with %d below it", n)
	}
	c.say.line("run %s  %s@%s, %s at %s%s", got.Run.ID, got.Run.Workflow, got.Run.Version, got.Run.Status, place(got.Run), more)
	if c.lasting {
		c.say.line("replay it with: %s", c.again("runs", "replay", got.Run.ID))
	}
	c.out.line("%s", strings.TrimSpace(got.Run.ID))
	return nil
}
