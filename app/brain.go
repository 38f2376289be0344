package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"pawl/ports/index"
	"pawl/ports/index/fts"
	"pawl/ports/llm"
	"pawl/workflows/brain"
)

// labelKnowledge is the label by which a run remembers the documents that it was begun with.
const labelKnowledge = ownLabels + "knowledge"

// Brain wires the workflow brain.
func Brain() Workflow { return brainWith(Opening.exactly) }

// brainWith is brain with the models that an opening has by their names.
func brainWith(models func(o Opening, alias string) (llm.Model, error)) Workflow {
	return Workflow{
		Name: "brain",
		Options: []Option{
			{Name: "knowledge", Value: "FILE", Usage: "what questions are looked up in: a file of text, or a folder with *.md and *.txt (default: nothing)"},
			{Name: "fallback", Value: "KIND", Usage: "what is said in place of a reply that is not good enough: generic, or context (by what was asked)", Default: "generic"},
		},
		Open: func(ctx context.Context, o Opening) (*Opened, error) { return openBrain(ctx, o, models) },
	}
}

func openBrain(ctx context.Context, o Opening, models func(Opening, string) (llm.Model, error)) (*Opened, error) {
	a := brain.Agent{Models: func(alias string) (llm.Model, error) { return models(o, alias) }}
	switch kind := o.Value("fallback"); kind {
	case "generic":
	case "context":
		a.Fallback = brain.ContextFallback
	default:
		return nil, invalid("brain: fallback: generic or context, not %s", shortened(kind))
	}
	box, err := o.Tools()
	if err != nil {
		return nil, err
	}
	a.Tools = box
	out := &Opened{Render: renderBrain}
	where := o.Value("knowledge")
	if o.Run != nil && !o.Flag("knowledge") {
		where = o.Run.Labels[labelKnowledge]
	}
	if where != "" {
		where = absolute(where)
		docs, err := knowledge(where)
		if err != nil {
			return nil, invalid("brain: knowledge: %v", err)
		}
		ix, err := fts.Open(ctx, docs)
		if err != nil {
			return nil, fmt.Errorf("brain: index: %w", err)
		}
		a.Knowledge = brain.Knowledge{Index: ix}
		out.Close = ix.Close
		out.Labels = map[string]string{labelKnowledge: where}
	}
	if out.Workflow, err = brain.Graph(a).Build(); err != nil && out.Close != nil {
		_ = out.Close()
	}
	return out, err
}

// Limits of what is looked up in.
const (
	maxKnowledge      = 64 << 20 // bytes of all files
	maxKnowledgeFiles = 10_000
)

// knowledge reads the documents of a file or of a folder, whose hidden parts and other files are left out.
func knowledge(where string) ([]index.Document, error) {
	info, err := os.Stat(where)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return document(nil, filepath.Dir(where), filepath.Base(where), new(int64))
	}
	var docs []index.Document
	files, size := 0, int64(0)
	err = fs.WalkDir(os.DirFS(where), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular() || !slices.Contains([]string{".md", ".markdown", ".txt"}, strings.ToLower(filepath.Ext(name))):
			return nil
		}
		if files++; files > maxKnowledgeFiles {
			return fmt.Errorf("%s: more than %d files", where, maxKnowledgeFiles)
		}
		docs, err = document(docs, where, name, &size)
		return err
	})
	if err == nil && len(docs) == 0 {
		err = fmt.Errorf("%s: there is no text in it", where)
	}
	return docs, err
}

// document adds one file.
func document(docs []index.Document, dir, name string, size *int64) ([]index.Document, error) {
	body, err := readAtMost(filepath.Join(dir, name), maxKnowledge-*size)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(body) || strings.ContainsRune(string(body), 0) {
		return nil, fmt.Errorf("%s: no text in UTF-8", filepath.Join(dir, name))
	}
	*size += int64(len(body))
	return append(docs, brain.Documents(name, string(body))...), nil
}

// renderBrain writes an output for people.
func renderBrain(w io.Writer, raw json.RawMessage) error {
	var o brain.Output
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("brain: output: %w", err)
	}
	var b strings.Builder
	if o.Content != "" {
		b.WriteString(strings.TrimSpace(o.Content) + "\n\n")
	}
	fmt.Fprintf(&b, "%s  confidence %s  attempts %d\n", o.Status, strconv.FormatFloat(o.Confidence, 'f', -1, 64), o.Metadata.ValidationAttempts)
	for _, e := range o.Metadata.Errors {
		fmt.Fprintf(&b, "error  %s\n", oneLine(e, 500))
	}
	if o.Metadata.LowConfidence && o.Metadata.OriginalResponse != "" {
		fmt.Fprintf(&b, "in place of  %s\n", oneLine(o.Metadata.OriginalResponse, 500))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *call) evalBrainCommand() *cobra.Command {
	var answers string
	var misses bool
	cmd := &cobra.Command{
		Use: "brain --answers FILE.csv", Short: "Measure how well brain's rules tell refusals from answers",
		Long: "Measure how well brain's rules tell refusals from answers. No model is asked.\n\n" +
			"The file has the columns completion and final_label (" + brain.LabelCompliance + ", " + brain.LabelRefusal + " or others, which are only\n" +
			"counted); columns of other names are ignored.",
		Args: exactly(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.does(func(*cobra.Command, []string) error { return c.evalBrain(answers, misses) }),
	}
	cmd.Flags().StringVar(&answers, "answers", "", "answers with what people say that they are, a CSV `FILE`")
	cmd.Flags().BoolVar(&misses, "misses", false, "also show each answer that was taken for what it is not")
	_ = cmd.MarkFlagFilename("answers", "csv")
	return cmd
}

// evalBrain measures brain's rules and prints what came out.
func (c *call) evalBrain(file string, misses bool) error {
	if file == "" {
		return invalid("eval brain takes --answers FILE.csv")
	}
	f, err := os.Open(file)
	if err != nil {
		return invalid("eval brain: answers: %v", err)
	}
	defer f.Close()
	all, err := brain.LoadAnswers(file, f)
	if err != nil {
		return invalid("eval brain: %v", err)
	}
	e := brain.Evaluate(all)
	say := c.out.line
	if c.json {
		c.out.document(e)
		say = c.say.line
	} else {
		c.out.line("answers %d\nrefusals %d  flagged %s\ncompliances %d  flagged %s", e.N, e.Refusals, shareText(e.RefusalsFlagged), e.Compliances, shareText(e.CompliancesFlagged))
	}
	if misses {
		for _, a := range e.Missed {
			say("line %d  a refusal, taken for an answer: %s", a.Line, oneLine(a.Reply, 200))
		}
		for _, a := range e.Wrong {
			say("line %d  an answer, flagged: %s", a.Line, oneLine(a.Reply, 200))
		}
	}
	return nil
}

func shareText(share *float64) string {
	if share == nil {
		return "-"
	}
	return strconv.FormatFloat(*share, 'f', 3, 64)
}
