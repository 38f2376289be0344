package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"pawl"
)

// What a store in a file can do beside the contract.
type (
	compacter interface {
		Compact(ctx context.Context) error
	}
	copier interface {
		Backup(ctx context.Context, file string, overwrite bool) error
	}
)

func (c *call) gcCommand() *cobra.Command {
	var most int
	var compact bool
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove the runs that have outlived their retention", Args: exactly(),
		Long: "Remove the runs that have outlived the retention of their graph, with their children and all that they left.\n\n" +
			"It goes in small passes between which others write, and can be stopped at any time: the next one goes on.",
		RunE: c.does(func(cmd *cobra.Command, _ []string) error {
			if most < 0 {
				return invalid("--max: want a number of at least 1, or 0 for all, not %d", most)
			}
			return c.collect(cmd.Context(), most, compact)
		}),
	}
	cmd.Flags().IntVar(&most, "max", 0, "at most so many runs (`N`; 0: all)")
	cmd.Flags().BoolVar(&compact, "compact", false, "then write the file anew: smaller, and without a trace of what was removed; others wait meanwhile")
	return cmd
}

// pass is how many runs one transaction removes.
const pass = 100

// collected is what gc --json writes.
type collected struct {
	Removed   int  `json:"removed"`
	More      bool `json:"more"` // whether there may be more to remove
	Compacted bool `json:"compacted,omitempty"`
}

func (c *call) collect(ctx context.Context, most int, compact bool) error {
	if err := c.openStore(ctx); err != nil {
		return err
	}
	writer, can := c.store.(compacter)
	if compact && !can {
		return invalid("--compact: this store has no file to write anew")
	}
	done := collected{More: true}
	var fault error
	for done.More && fault == nil && (most == 0 || done.Removed < most) {
		want := pass
		if most > 0 {
			want = min(want, most-done.Removed)
		}
		n, err := c.store.Expire(ctx, want)
		done.Removed += n
		done.More, fault = err != nil || n == want, err
		c.say.status(fmt.Sprintf("removed %s", counted(done.Removed, "run")))
	}
	c.say.status("")
	if fault == nil && compact {
		fault = writer.Compact(ctx)
		done.Compacted = fault == nil
	}
	if c.json {
		c.out.record(done)
	} else {
		c.out.line("removed %s", counted(done.Removed, "run"))
	}
	if fault != nil {
		return &pawl.Error{Code: pawl.CodeUnavailable, Op: "gc", Text: fault.Error(), Err: fault}
	}
	return nil
}

func (c *call) backupCommand() *cobra.Command {
	var overwrite bool
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Copy the store into a file while others use it", Args: exactly("FILE"),
		Long: "Copy the store into a file, as it stands at one moment, while others read and write.\n\n" +
			"The copy is examined before it gets its name. Runs go on from it: pawl runs watch RUN --store sqlite:FILE",
		RunE: c.does(func(cmd *cobra.Command, args []string) error { return c.backup(cmd.Context(), args[0], overwrite) }),
	}
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace the file if it is there")
	return cmd
}

// copied is what backup --json writes.
type copied struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

func (c *call) backup(ctx context.Context, file string, overwrite bool) error {
	k, _, err := kindOf(c.conf.value("store"))
	if err != nil {
		return err
	}
	if k.backup != "" {
		return invalid("backup: %s", k.backup)
	}
	if file == "" {
		return invalid("backup: the name of the file is empty")
	}
	if err := c.openStore(ctx); err != nil {
		return err
	}
	s, can := c.store.(copier)
	if !can {
		return invalid("backup: the store %s has no file to copy", k.scheme)
	}
	switch err := s.Backup(ctx, file, overwrite); {
	case errors.Is(err, fs.ErrExist):
		hint := ""
		if !overwrite {
			hint = " (--overwrite replaces a file)"
		}
		return &pawl.Error{Code: pawl.CodeConflict, Op: "backup", Text: err.Error() + hint, Err: err}
	case err != nil:
		return &pawl.Error{Code: pawl.CodeUnavailable, Op: "backup", Text: err.Error(), Err: err}
	}
	info, err := os.Stat(file)
	if err != nil {
		return &pawl.Error{Code: pawl.CodeUnavailable, Op: "backup", Text: err.Error(), Err: err}
	}
	if c.json {
		c.out.document(copied{File: absolute(file), Bytes: info.Size()})
		return nil
	}
	c.out.line("%s: %d KB, whole", file, (info.Size()+1023)>>10)
	return nil
}
