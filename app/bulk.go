package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pawl"
	"pawl/ports/llm"
	"pawl/workflows/nco"
)

// bulkFlags are the flags of nco.
type bulkFlags struct {
	in, column, out string
	budget          string
	workers         int
	overwrite       bool
	anyColumn       bool
}

// ncoCommands are the commands that only a program with our workflow nco has.
func (c *call) ncoCommands() []*cobra.Command {
	for _, s := range c.settings() {
		if s.key == "nco.catalog" {
			return []*cobra.Command{c.bulkCommand(), c.evalCommand()}
		}
	}
	return nil
}

// withNCO gives a command flags of nco.
func (c *call) withNCO(cmd *cobra.Command, flags ...string) *cobra.Command {
	for _, s := range c.settings() {
		if name, ok := strings.CutPrefix(s.key, "nco."); ok && slices.Contains(flags, name) {
			addSetting(cmd.Flags(), s)
			if s.path {
				_ = cmd.MarkFlagFilename(s.flag, "csv")
			}
		}
	}
	return cmd
}

// offlineNCO opens nco as it works without runs: it asks nobody.
func (c *call) offlineNCO(ctx context.Context) (nco.Agent, error) {
	agent, index, _, err := ncoAgent(ctx, Opening{prefix: "nco.", conf: c.conf})
	if err != nil {
		if ctx.Err() != nil { // an index that was interrupted says so in its own words
			err = ctx.Err()
		}
		return agent, err
	}
	c.closers = append(c.closers, index.Close)
	agent.Turns = -1
	return agent, nil
}

func (c *call) bulkCommand() *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{
		Use: "nco --in FILE.csv --column NAME --out FILE.csv", Short: "Code the job descriptions of a CSV file",
		Long: "Code a CSV file of job descriptions with the workflow nco, without asking anybody: offline, or with --model.\n\n" +
			"Every row of the input is a row of the output, in the same order: what it had, then nco_row, nco_status (MATCH_FOUND,\n" +
			"MORE_INFO or REFUSED), nco_codes, nco_titles, nco_confidence, nco_question, nco_choices, nco_assumptions, nco_reason;\n" +
			"with a model also nco_fallback: why the built-in rules coded the row in its place, where they did.\n" +
			"The rows stand in OUT.part until all are there. Whatever stops it, even kill -9: the same command goes on.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return invalid("nco takes a file, with --in, and no arguments; for one description: %s", c.again("run", "nco", args[0]))
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              c.does(func(cmd *cobra.Command, _ []string) error { return c.bulk(cmd.Context(), f) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.in, "in", "", "the descriptions: a CSV `FILE` with a header, in UTF-8")
	flags.StringVar(&f.column, "column", "", "`NAME` of the column that holds the descriptions of work")
	flags.StringVar(&f.out, "out", "", "where the coded rows go, a `FILE`")
	flags.IntVar(&f.workers, "workers", 0, "code so many rows at a time (`N`; default: one for each processor)")
	flags.BoolVar(&f.overwrite, "overwrite", false, "replace an output that is there, and throw away the part of another job")
	flags.StringVar(&f.budget, "budget", "", "what a model may cost at the most, for the whole file: `METER=AMOUNT,…` of llm (attempts) and usd")
	flags.BoolVar(&f.anyColumn, "any-column", false, "code the column even where most of its cells look like ids or numbers")
	_ = cmd.MarkFlagFilename("in", "csv")
	_ = cmd.MarkFlagFilename("out", "csv")
	return c.withNCO(cmd, "catalog", "model")
}

// bulk codes a file, or goes on with one whose coding was stopped.
func (c *call) bulk(ctx context.Context, f bulkFlags) error {
	if f.in == "" || f.out == "" {
		return invalid("nco takes --in FILE.csv --column NAME --out FILE.csv")
	}
	if f.workers < 0 || f.workers > 1024 {
		return invalid("--workers: want a number from 1 to 1024, or 0 for one a processor, not %d", f.workers)
	}
	in, err := os.Open(f.in)
	if err != nil {
		return invalid("--in: %v", err)
	}
	defer in.Close()
	info, err := bulkApart(in, f.out, c.conf.value("nco.catalog"))
	if err != nil {
		return err
	}
	c.say.status("reading " + f.in)
	file, err := surveyBulk(ctx, f.in, in, f.column, f.anyColumn)
	c.say.status("")
	if err != nil {
		return err
	}
	input, err := newBulkInput(f.in, file, in)
	if err != nil {
		return err
	}
	agent, err := c.offlineNCO(ctx)
	if err != nil {
		return err
	}
	p, err := c.modelPurse(f)
	if err != nil {
		return err
	}
	model := ""
	if p != nil {
		if err := file.byModel(f.in); err != nil {
			return err
		}
		model = p.model
		agent.Model = func() (llm.Model, error) { return c.bulkModel(p) }
	}
	graph := nco.Graph(agent)
	w, err := graph.Build()
	if err != nil {
		return err
	}
	program, err := programHash()
	if err != nil {
		return err
	}
	job := bulkJob{
		Input: file.hash, Rows: file.rows, Column: file.header[file.column], Workflow: w.ID(), Catalog: agent.Catalog.Hash(),
		Model: model, Program: program,
	}
	known := memo{code: func(ctx context.Context, text string) (nco.Output, error) {
		return pawl.Execute(ctx, graph, nco.Input{Text: text})
	}}
	b := &bulk{
		workers: f.workers, input: input, part: newBulkPart(f.out, job, f.overwrite), code: known.get,
		shown: &bulkShown{say: c.say, total: file.rows}, purse: p,
	}
	if b.workers == 0 {
		b.workers = runtime.GOMAXPROCS(0)
	}
	if err := b.do(ctx, info.Mode().Perm()); err != nil {
		return c.bulkStopped(ctx, b, f, err)
	}
	c.bulkSum(b)
	return nil
}

// bulkApart refuses an input that is no file, and an input or a catalogue that is part of the output.
func bulkApart(in *os.File, out, catalog string) (os.FileInfo, error) {
	info, err := in.Stat()
	if err != nil {
		return nil, invalid("--in: %v", err)
	}
	if !info.Mode().IsRegular() {
		return nil, invalid("--in: %s is not a file: it is read twice, so a pipe or a folder is none", in.Name())
	}
	p := newBulkPart(out, bulkJob{}, false)
	read, unread := os.Stat(catalog) // one that is not there is refused when it is loaded
	for _, name := range append(p.besides(), p.out, p.path) {
		there, err := os.Stat(name)
		switch {
		case err != nil:
		case os.SameFile(info, there):
			return nil, invalid("--out: %s would be written over the input: name another file", name)
		case unread == nil && os.SameFile(read, there):
			return nil, invalid("--out: %s would be written over the catalogue: name another file", name)
		}
	}
	return info, nil
}

// do makes the output: what an earlier call has done is kept, the rest is worked, then the output gets its name.
func (b *bulk) do(ctx context.Context, mode os.FileMode) error {
	p := b.part
	defer func() { _ = p.close() }()
	b.shown.began, b.shown.said = time.Now(), time.Now()
	head := b.input.file.outHead()
	done, err := p.complete()
	if err != nil {
		return err
	}
	if done {
		if whole, err := b.recount(head); err != nil {
			return err
		} else if whole {
			return p.clean()
		}
	}
	if err := p.open(mode); err != nil {
		return err
	}
	goesOn, err := p.begin()
	if err != nil {
		return err
	}
	if goesOn {
		b.tally, err = p.recall(head, b.input)
	} else {
		err = p.restart(head)
	}
	if err != nil {
		return err
	}
	if b.tally.Rows > 0 {
		b.shown.say.line("%s has %d of %d rows: going on with the next one", p.path, b.tally.Rows, b.shown.total)
	}
	b.shown.before, b.shown.began = b.tally.Rows, time.Now()
	defer b.shown.say.status("")
	if b.purse != nil {
		err = b.purse.over(ctx, p.spent(), goesOn, b.work)
	} else {
		err = b.work(ctx)
	}
	if err != nil {
		return err
	}
	return p.finish()
}

// outHead is the beginning of the output: the header, behind the byte order mark that the input may have.
func (f *bulkFile) outHead() []byte {
	var head []byte
	if f.bom {
		head = append(head, "\xEF\xBB\xBF"...)
	}
	head = append(head, f.head...)
	for _, name := range f.added() {
		head = appendField(append(head, ','), name)
	}
	return append(head, '\n')
}

// recount counts the rows of an output that has its name and the size that was recorded, and says whether it is whole: the
// size alone does not tell what is in it. One that is not is refused, or made anew where that was said.
func (b *bulk) recount(head []byte) (whole bool, err error) {
	p := b.part
	f, err := os.Open(p.out)
	if err != nil {
		return false, unwritable(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, unwritable(err)
	}
	t, end, err := recall(f, head, b.input)
	if err != nil {
		return false, err
	}
	if t.Rows == b.input.file.rows && end == info.Size() {
		b.tally, b.shown.before = t, t.Rows
		return true, nil
	}
	if !p.overwrite {
		return false, conflict("%s is not what was written: %d of its %d rows are; begin anew with --overwrite, or name another file with --out",
			p.out, t.Rows, b.input.file.rows)
	}
	b.input, err = newBulkInput(b.input.name, b.input.file, b.input.in)
	return false, err
}

// programHash is the SHA-256 of the program that runs, in hex.
func programHash() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("where this program is: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("this program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("this program: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// bulkEnd is what a job has come to.
type bulkEnd struct {
	bulkTally
	Before        int     `json:"before"`        // of the rows, those that an earlier call had coded
	Seconds       float64 `json:"seconds"`       // of this call
	RowsPerSecond float64 `json:"rowsPerSecond"` // of this call
	Out           string  `json:"out"`
	Workflow      string  `json:"workflow"`

	Model *bulkCost `json:"model,omitempty"`
}

// bulkSum says what the job has come to.
func (c *call) bulkSum(b *bulk) {
	d := time.Since(b.shown.began)
	if b.shown.before == b.tally.Rows {
		d = 0
	}
	end := bulkEnd{
		bulkTally: b.tally, Before: b.shown.before, Seconds: math.Round(d.Seconds()*1000) / 1000,
		RowsPerSecond: math.Round(b.shown.rate(b.tally, d)*10) / 10, Out: b.part.out, Workflow: b.part.job.Workflow,
	}
	with := ""
	if b.purse != nil {
		end.Model = b.purse.cost(b.tally)
		with = fmt.Sprintf("  fell back %d  llm %d  usd %s", end.Model.FellBack, end.Model.Calls, end.Model.USD)
	}
	if c.json {
		c.out.record(end)
		return
	}
	before := ""
	if end.Before > 0 {
		before = fmt.Sprintf(" (%d of them before)", end.Before)
	}
	c.out.line("rows %d%s  matched %d  asked %d  refused %d%s  seconds %.1f  rows/s %.0f", end.Rows, before, end.Matched, end.Asked,
		end.Refused, with, end.Seconds, end.RowsPerSecond)
}

// bulkStopped says what stays of a job that did not come to its end, and how it goes on.
func (c *call) bulkStopped(ctx context.Context, b *bulk, f bulkFlags, err error) error {
	words := []string{"nco", "--in", absolute(f.in), "--column", f.column, "--out", absolute(f.out)}
	if f.workers > 0 {
		words = append(words, "--workers", strconv.Itoa(f.workers))
	}
	if f.budget != "" {
		words = append(words, "--budget", f.budget)
	}
	if f.overwrite {
		words = append(words, "--overwrite")
	}
	if f.anyColumn {
		words = append(words, "--any-column")
	}
	next := c.again(words...)
	stands := ""
	if b.part.begun {
		stands = fmt.Sprintf("; %d of %d rows are in %s; go on with: %s", b.part.rows, b.shown.total, b.part.path, next)
	}
	switch e := pawl.Coded(err); {
	case ctx.Err() != nil:
		code, why := exitInterrupted, "interrupted"
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			code, why = exitTimeout, "the time is up"
		}
		c.say.line("%s%s", why, stands)
		if c.json {
			c.out.record(result{Type: "result", Command: next, Exit: code})
		}
		return exit(code)
	case stands != "" && e.Code != pawl.CodeConflict: // a conflict says itself what to do
		return &pawl.Error{Code: e.Code, Text: e.Error() + stands, Err: err}
	}
	return err
}
