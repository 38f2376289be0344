package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"pawl"
	"pawl/workflows/visualdegrees"
)

func (c *call) evalDegreesCommand() *cobra.Command {
	var album, pairs, budget string
	var hops int
	cmd := &cobra.Command{
		Use: "visualdegrees --album FILE --pairs FILE.csv", Short: "Measure how many pairs visualdegrees connects in an album",
		Long: "Measure how many pairs visualdegrees connects in an album, beside a breadth-first search from the first of each pair that has no budget (bfs)\n" +
			"and the seed of the workflow read word by word (plain). All three search, fetch and recognize in the album, and no model plans.\n\n" +
			"The file of pairs has the columns source and target; others are ignored. A pair is reachable if a chain of fetchable photographs connects it,\n" +
			"in each of which both are recognized.",
		Args: exactly(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.does(func(cmd *cobra.Command, _ []string) error {
			return c.evalDegrees(cmd.Context(), album, pairs, budget, hops)
		}),
	}
	cmd.Flags().StringVar(&album, "album", "", "photographs and who is in them, a `FILE` (default: those that are built in)")
	cmd.Flags().StringVar(&pairs, "pairs", "", "pairs to connect, a CSV `FILE`")
	cmd.Flags().StringVar(&budget, "budget", "", "what each pair may use: search=15,recognition=75,llm=10 (the default)")
	cmd.Flags().IntVar(&hops, "hops", visualdegrees.DefaultHops, "edges that a path may have")
	_ = cmd.MarkFlagFilename("pairs", "csv")
	return cmd
}

func (c *call) evalDegrees(ctx context.Context, albumFile, pairs, budget string, hops int) error {
	if pairs == "" {
		return invalid("eval visualdegrees takes --pairs FILE.csv")
	}
	if hops < 1 || hops > visualdegrees.MaxHops {
		return invalid("eval visualdegrees: hops: want 1 to %d, not %d", visualdegrees.MaxHops, hops)
	}
	allowed, err := degreesBudget(budget)
	if err != nil {
		return err
	}
	f, err := os.Open(pairs)
	if err != nil {
		return invalid("eval visualdegrees: pairs: %v", err)
	}
	defer f.Close()
	qs, err := visualdegrees.LoadQuestions(pairs, f)
	if err != nil {
		return invalid("eval visualdegrees: pairs: %v", err)
	}
	al, err := Opening{conf: c.conf}.Album(albumFile)
	if err != nil {
		return err
	}
	c.say.status(fmt.Sprintf("connecting %d pairs, in three ways", len(qs)))
	r, err := visualdegrees.Trial{
		Agent: visualdegrees.Agent{Search: al.Searcher, Fetch: al.Fetcher, Faces: al.Recognizer, Budget: allowed}, Album: al.Photos, Hops: hops,
	}.Run(ctx, qs)
	c.say.status("")
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if c.json {
		c.out.document(r)
		return nil
	}
	c.out.line("%s", degreesTable(r))
	return nil
}

// degreesBudget reads what each pair may use.
func degreesBudget(text string) (pawl.Budget, error) {
	b, err := budgets(text)
	if err != nil {
		return nil, err
	}
	for meter, n := range b {
		most, ok := map[string]int64{
			visualdegrees.MeterSearch: visualdegrees.MaxSearch, visualdegrees.MeterRecognition: visualdegrees.MaxRecognition,
			visualdegrees.MeterModel: visualdegrees.MaxModel,
		}[meter]
		switch {
		case !ok:
			return nil, invalid("--budget: there is no meter %s: search, recognition, llm", shortened(meter))
		case n > most:
			return nil, invalid("--budget: %s=%d: a run can have %d at most", meter, n, most)
		}
	}
	return b, nil
}

// degreesTable is a comparison for people.
func degreesTable(r visualdegrees.Comparison) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\tpairs\treachable\tfound\tshare\tfalse edges\tmislabelled\tinvalid paths\tsearches\trecognitions\tllm\tby reason")
	for _, row := range []struct {
		name string
		r    visualdegrees.Report
	}{{"pawl", r.Pawl}, {"bfs", r.BFS}, {"plain", r.Plain}} {
		var why []string
		for _, reason := range slices.Sorted(maps.Keys(row.r.ByReason)) {
			why = append(why, fmt.Sprintf("%s %d", reason, row.r.ByReason[reason]))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.3f\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t%s\n", row.name, row.r.Pairs, row.r.Reachable, row.r.Found, row.r.FoundShare,
			row.r.False, row.r.Mislabelled, row.r.Invalid, row.r.Search, row.r.Recognition, row.r.Model, strings.Join(why, ", "))
	}
	_ = w.Flush()
	return strings.TrimRight(b.String(), "\n")
}
