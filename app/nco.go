package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"pawl"
	"pawl/ports/index/fts"
	"pawl/ports/llm"
	"pawl/workflows/nco"
)

// The labels by which a run remembers the catalogue file and the model that it was begun with.
const (
	labelCatalog = ownLabels + "catalog"
	labelModel   = ownLabels + "model"
)

// NCO wires the workflow nco.
func NCO() Workflow {
	return Workflow{
		Name: "nco",
		Options: []Option{
			{Name: "catalog", Value: "FILE", Usage: "catalogue of occupations as CSV (default: the families of NCO-2015, built in)"},
			{Name: "model", Value: "NAME", Usage: "model that reads and judges, an alias or PROVIDER/MODEL (default: none, the built-in rules do)"},
			{Name: "turns", Value: "N", Usage: "how many questions a run may ask, 0: none", Default: "5"},
		},
		Open: openNCO,
	}
}

func openNCO(ctx context.Context, o Opening) (*Opened, error) {
	turns, err := strconv.Atoi(o.Value("turns"))
	if err != nil || turns < 0 || turns > 1000 {
		return nil, invalid("nco: turns: want a number from 0 to 1000, not %s", shortened(o.Value("turns")))
	}
	if turns == 0 {
		turns = -1 // to the workflow, 0 is its own default
	}
	agent, index, file, err := ncoAgent(ctx, o)
	if err != nil {
		return nil, err
	}
	agent.Turns = turns
	out := &Opened{Labels: map[string]string{}, Render: renderNCO, Close: index.Close}
	if file != "" {
		out.Labels[labelCatalog] = file
	}
	model, err := ncoModel(o)
	if err == nil {
		out.Workflow, err = nco.Graph(agent).Build()
	}
	if err == nil && model != "" {
		out.Labels[labelModel] = model
		out.Also = []*pawl.Workflow{out.Workflow}
		agent.Model = func() (llm.Model, error) { return o.exactly(model) }
		out.Workflow, err = nco.Graph(agent).Build()
	}
	if err != nil {
		_ = index.Close()
		return nil, err
	}
	out.Held = func(run pawl.Run) (string, []string) { return ncoHeld(run, file, out.Workflow.Version()) }
	return out, nil
}

// ncoModel is the name of the model for a new run, or for one that was begun with one: its version says whether, its label with
// which. Empty: none. Only what somebody must have mistyped is refused: for whatever else keeps a model away there are the rules.
func ncoModel(o Opening) (string, error) {
	name := o.Value("model")
	if o.Run != nil && !o.Flag("model") {
		if !nco.Modeled(o.Run.Version) {
			return "", nil
		}
		return cmp.Or(o.Run.Labels[labelModel], name, defaultAlias), nil
	}
	return name, o.conf.known(name)
}

// ncoAgent is nco with the catalogue of the configuration, and the index over it, which whoever asked for it closes. file is
// the catalogue's, empty for the built-in one.
func ncoAgent(ctx context.Context, o Opening) (a nco.Agent, ix *fts.Index, file string, err error) {
	catalog, file, err := ncoCatalog(o)
	if err != nil {
		return a, nil, file, err
	}
	index, err := fts.Open(ctx, catalog.Documents(), catalog.Groups()...)
	if err != nil {
		return a, nil, file, fmt.Errorf("nco: index: %w", err)
	}
	return nco.Agent{Catalog: catalog, Index: index}, index, file, nil
}

// ncoCatalog loads the catalogue that was given as a flag; else, for a run, the one that it was begun with; else the
// configured one; else what is built in. file is empty for that.
func ncoCatalog(o Opening) (catalog *nco.Catalog, file string, err error) {
	file = o.Value("catalog")
	if o.Run != nil && !o.Flag("catalog") {
		if began := o.Run.Labels[labelCatalog]; began != "" {
			file = began
		} else if ncoBuiltIn(o.Run.Version) {
			file = ""
		}
	}
	if file == "" {
		return nco.Embedded(), "", nil
	}
	file = absolute(file)
	f, err := os.Open(file)
	if err != nil {
		return nil, file, invalid("nco: catalogue: %v", err)
	}
	defer f.Close()
	if catalog, err = nco.Load(file, f); err != nil {
		return nil, file, invalid("nco: %v", err)
	}
	return catalog, file, nil
}

// ncoHeld says why a run cannot go on with what was opened, a model or none and the catalogue of a file, and how it could.
func ncoHeld(run pawl.Run, file, version string) (why string, flags []string) {
	switch was, is := nco.Modeled(run.Version), nco.Modeled(version); {
	case was && !is:
		why, flags = "it was begun with a model, and this is without one", []string{"--model", cmp.Or(run.Labels[labelModel], defaultAlias)}
	case is && !was:
		why, flags = "it was begun without a model, and this is with one", []string{"--model", ""}
	}
	if _, catalog, _ := strings.Cut(version, "+"); why != "" && strings.HasSuffix(run.Version, "+"+catalog) {
		return why, flags
	}
	of, with := ncoHeldCatalog(run, file)
	if why != "" {
		of = why + "; " + of
	}
	return of, append(flags, with...)
}

// ncoHeldCatalog says so of the catalogue.
func ncoHeldCatalog(run pawl.Run, file string) (why string, flags []string) {
	now := "the built-in catalogue"
	if file != "" {
		now = file
	}
	began, flag := "a catalogue that is not known here", "FILE"
	switch label := run.Labels[labelCatalog]; {
	case label != "" && label == file:
		began = "what that file said before it was changed"
	case label != "":
		began, flag = label, label
	case ncoBuiltIn(run.Version):
		began, flag = "the built-in catalogue", ""
	}
	return fmt.Sprintf("its version holds the hash of its catalogue: it was begun with %s, and this is %s", began, now),
		[]string{"--catalog", flag}
}

// ncoBuiltIn says whether a version is that of the built-in catalogue.
func ncoBuiltIn(version string) bool {
	return strings.HasSuffix(version, "+"+nco.Embedded().Hash()[:8])
}

// renderNCO writes an output for people.
func renderNCO(w io.Writer, raw json.RawMessage) error {
	var o nco.Output
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("nco: output: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  confidence %s of 10\n", o.Status, strconv.FormatFloat(o.Confidence, 'f', -1, 64))
	for _, c := range o.Codes {
		fmt.Fprintf(&b, "\n  %s  %s\n", c.Code, c.Title)
		if c.Family != c.Code {
			fmt.Fprintf(&b, "      family    %s  %s\n", c.Family, c.FamilyTitle)
		}
		if o.Decided { // there is none: nothing was searched
			continue
		}
		e := c.Evidence
		fmt.Fprintf(&b, "      evidence  rank %d", e.Rank)
		if e.Exact {
			b.WriteString(", the very title")
		}
		if len(e.Words) > 0 {
			fmt.Fprintf(&b, ", words: %s", strings.Join(e.Words, ", "))
		}
		fmt.Fprintf(&b, ", coverage %.2f, likeness %.2f\n", e.Coverage, e.Similarity)
	}
	if len(o.Codes) > 0 {
		b.WriteString("\n")
	}
	if o.Question != "" {
		fmt.Fprintf(&b, "open question  %s\n", o.Question)
	}
	for i, c := range o.Choices {
		fmt.Fprintf(&b, "  %d  %s\n", i+1, c)
	}
	for _, a := range o.Assumptions {
		fmt.Fprintf(&b, "assumed  %s\n", a)
	}
	if o.Reason != "" {
		fmt.Fprintf(&b, "because  %s\n", o.Reason)
	}
	for _, w := range o.Why {
		fmt.Fprintf(&b, "         %s\n", w)
	}
	fmt.Fprintf(&b, "answers  %d given\ncatalog  %s\n", o.Turns, o.Catalog)
	_, err := io.WriteString(w, b.String())
	return err
}
