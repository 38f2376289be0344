//go:build torture

package app

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pawl/internal/faults"
	"pawl/internal/pgtest"
)

// developer are the commands that only a developer's build has: go build -tags torture ./cmd/pawl
func (c *call) developer() []*cobra.Command {
	var minutes float64
	var seed uint64
	cmd := &cobra.Command{
		Use: "torture", Short: "Break stores, processes and disks with fresh seeds for a while (developer build)", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			x := &faults.Torture{Stores: []string{"memory", "sqlite", "postgres"}}
			asked := false
			if f := cmd.Flag("store"); f != nil && f.Changed {
				k, rest, err := kindOf(f.Value.String())
				if err != nil {
					return err
				}
				if x.Stores, asked = []string{k.scheme}, true; rest != "" {
					x.Postgres.URL = f.Value.String()
				}
			}
			if seed == 0 {
				seed = uint64(time.Now().Unix())
			}
			dir, err := os.MkdirTemp("", "pawl-torture-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			x.Folder = dir
			if slices.Contains(x.Stores, "postgres") && x.Postgres.URL == "" {
				switch s, err := pgtest.New(true); {
				case errors.Is(err, pgtest.ErrMissing) && !asked:
					c.say.line("without Postgres: %s", err)
					x.Stores = x.Stores[:2]
				case err != nil:
					return err
				default:
					defer s.Remove()
					x.Postgres = faults.Server{URL: s.URL(), Crash: s.Crash, Up: s.Up}
				}
			}
			c.say.line("torture from seed %d for %.1f minutes on %v", seed, minutes, x.Stores)
			t := tester()
			x.Bubble = func(f func()) {
				synctest.Test(t, func(*testing.T) {
					f()
					time.Sleep(24 * time.Hour) // what was left behind comes to its end
				})
			}
			err = x.Until(cmd.Context(), time.Now().Add(time.Duration(minutes*float64(time.Minute))), seed)
			return c.scored(x.Scores(), err)
		},
	}
	cmd.Flags().Float64Var(&minutes, "minutes", 5, "how long")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "the first seed (default: a fresh one)")
	return []*cobra.Command{cmd}
}

// tester is a test that never ends: virtual time is given only to one. Its goroutine is left to the end of the process.
func tester() *testing.T {
	given := make(chan *testing.T)
	hand := func(t *testing.T) { given <- t; select {} }
	go testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "torture", F: hand}}, nil, nil)
	return <-given
}

// scored prints the table.
func (c *call) scored(all []*faults.Score, err error) error {
	broken := 0
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	if !c.json {
		fmt.Fprintln(w, "LAYER\tSTORE\tTRIALS\tFAULTS\tINVALID\tVIOLATIONS")
	}
	for _, s := range all {
		if broken += s.Violations; c.json {
			c.out.record(s)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n", s.Layer, s.Store, s.Trials, s.Faults, s.Invalid, s.Violations)
	}
	if !c.json {
		if ferr := w.Flush(); err == nil {
			err = ferr
		}
	}
	for _, s := range all {
		for _, t := range s.Told {
			c.say.line("%s", t)
		}
	}
	if err == nil && broken > 0 {
		return exit(exitFailed)
	}
	return err
}
