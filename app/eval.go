package app

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"pawl/workflows/nco"
)

func (c *call) evalCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "eval", Short: "Measure a workflow against queries with known answers", Args: cobra.ArbitraryArgs, RunE: group}
	var queries string
	var misses bool
	sub := &cobra.Command{
		Use: "nco --queries FILE.csv", Short: "Measure how well nco ranks, and whether it asks where it should",
		Long: "Measure how well nco ranks, and whether it asks where it should. Nobody is asked anything, and no model either.\n\n" +
			"The file of queries has one of two layouts, found by the names of its columns; others are ignored:\n" +
			"  query, language, category, accept_codes, accept_family4, needs_clarification (yes, no or optional)\n" +
			"  job_title, isco08_gold",
		Args: exactly(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.does(func(cmd *cobra.Command, _ []string) error { return c.evalNCO(cmd.Context(), queries, misses) }),
	}
	sub.Flags().StringVar(&queries, "queries", "", "queries with what is right for each, a CSV `FILE`")
	sub.Flags().BoolVar(&misses, "misses", false, "also show each query that missed, and what it got instead")
	_ = sub.MarkFlagFilename("queries", "csv")
	cmd.AddCommand(c.withNCO(sub, "catalog"), c.evalBrainCommand(), c.evalDegreesCommand())
	return cmd
}

// evalNCO measures nco with the catalogue of the configuration and prints what came out.
func (c *call) evalNCO(ctx context.Context, file string, misses bool) error {
	if file == "" {
		return invalid("eval nco takes --queries FILE.csv")
	}
	f, err := os.Open(file)
	if err != nil {
		return invalid("eval nco: queries: %v", err)
	}
	defer f.Close()
	queries, err := nco.LoadGold(file, f)
	if err != nil {
		return invalid("eval nco: %v", err)
	}
	agent, err := c.offlineNCO(ctx)
	if err != nil {
		return err
	}
	c.say.status(fmt.Sprintf("measuring %d queries", len(queries)))
	v, err := agent.Evaluate(ctx, queries)
	c.say.status("")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if c.json {
		c.out.document(v)
	} else if err := c.evalTable(v); err != nil {
		return err
	}
	if misses {
		say := c.out.line
		if c.json {
			say = c.say.line
		}
		evalMisses(say, v.Rows)
	}
	return nil
}

// evalTable writes a line for each language, then for each category, then for all.
func (c *call) evalTable(v nco.Evaluation) error {
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "by\tgroup\tn\ttop1_8\ttop5_8\ttop1_4\ttop5_4\tasked_when_unclear\tasked_when_clear")
	row := func(by, name string, s nco.Score) {
		cells := []string{by, oneLine(name, 40), strconv.Itoa(s.N)}
		for _, share := range []*float64{s.Top1Code, s.Top5Code, s.Top1Family, s.Top5Family, s.AskedWhenUnclear, s.AskedWhenClear} {
			if share == nil {
				cells = append(cells, "-")
				continue
			}
			cells = append(cells, strconv.FormatFloat(*share, 'f', 3, 64))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	for _, name := range slices.Sorted(maps.Keys(v.ByLanguage)) {
		row("language", name, v.ByLanguage[name])
	}
	for _, name := range slices.Sorted(maps.Keys(v.ByCategory)) {
		row("category", name, v.ByCategory[name])
	}
	row("all", "", v.All)
	return t.Flush()
}

// evalMisses says each query that did not go as it should.
func evalMisses(say func(format string, a ...any), rows []nco.Measured) {
	for _, m := range rows {
		faults := m.Faults()
		if len(faults) == 0 {
			continue
		}
		wanted := slices.Concat(m.Codes, m.Families)
		if m.Needs != "" {
			wanted = append(wanted, "needs a question: "+m.Needs)
		}
		say("\nline %d  %s", m.Line, oneLine(m.Text, 300))
		say("  %s", strings.Join(faults, "; "))
		say("  wanted  %s", strings.Join(wanted, " "))
		for i, k := range m.Candidates {
			say("  %d       %s  %s", i+1, k.Code, oneLine(k.Metadata.Title, 100))
		}
		say("  status  %s  %s", m.Status, oneLine(m.Question, 300))
	}
}
