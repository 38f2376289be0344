package app

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pawl"
	"pawl/internal/machine"
)

// build is what the program knows of itself.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	System   string `json:"system"`
	Pawl     string `json:"pawl,omitempty"` // in a program of another module
}

func thisBuild() build {
	b := build{Version: "unknown", Commit: "unknown", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == "pawl" {
			b.Pawl = d.Version
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (c *call) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which version this is", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if c.json {
				c.out.document(b)
				return nil
			}
			c.out.line("%s", b.text(c.short()))
			return nil
		},
	}
}

func (b build) text(name string) string {
	commit := b.Commit
	if b.Modified {
		commit += " with changes"
	}
	if b.Pawl != "" {
		commit += ", pawl " + b.Pawl
	}
	return fmt.Sprintf("%s %s, commit %s, %s %s", name, b.Version, commit, b.Go, b.System)
}

// finding is one line of doctor. A fault makes doctor fail, advice does not.
type finding struct {
	About  string `json:"about"`
	Name   string `json:"name"`
	Value  string `json:"value"`
	Fault  string `json:"fault,omitempty"`
	Advice string `json:"advice,omitempty"`
}

func (c *call) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Examine the program, its configuration and its store", Args: exactly(),
		RunE: c.does(func(cmd *cobra.Command, _ []string) error { return c.doctor(cmd.Context()) }),
	}
	return c.withOptions(cmd)
}

func (c *call) doctor(ctx context.Context) error {
	b := thisBuild()
	all := []finding{{About: "program", Name: "version", Value: b.text(c.short())}}
	all = append(all, c.examineConfig()...)
	all = append(all, c.examineModels()...)
	all = append(all, c.examineSearch(), c.examineFaces(ctx), c.examineKV(ctx), c.examineTraces())
	all = append(all, c.examineWorkflows(ctx)...)
	all = append(all, c.examineTools(ctx)...)
	all = append(all, c.examineStore(ctx)...)
	faults := 0
	for _, f := range all {
		if f.Fault != "" {
			faults++
		}
	}
	if c.json {
		c.out.document(all)
	} else if err := c.report(all); err != nil {
		return err
	}
	if faults > 0 {
		c.say.line("%s: faults: %d", c.short(), faults)
		return exit(exitUnavailable)
	}
	return nil
}

func (c *call) report(all []finding) error {
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, f := range all {
		mark := "ok"
		text := f.Value
		switch {
		case f.Fault != "":
			mark, text = "FAULT", strings.TrimSpace(text+"  "+f.Fault)
		case f.Advice != "":
			mark, text = "note", strings.TrimSpace(text+"  "+f.Advice)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", mark, f.About, oneLine(f.Name, 60), oneLine(text, 1000))
	}
	return t.Flush()
}

func (c *call) examineConfig() (all []finding) {
	file := c.conf.file
	if file == "" {
		file = "(none)"
	}
	all = append(all, finding{About: "config", Name: "file", Value: file})
	known := map[string]bool{"PAWL_CONFIG": true}
	for _, s := range c.conf.settings {
		known[s.env()] = true
		known[s.env()+"_FILE"] = s.secret
		if s.rare && s.value == "" {
			continue
		}
		from := s.source
		if s.from != "" {
			from += " " + s.from
		}
		all = append(all, finding{About: "config", Name: s.key, Value: s.shown() + "  (" + from + ")"})
	}
	for _, kv := range c.Env {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "PAWL_") && !known[name] {
			all = append(all, finding{About: "config", Name: name, Advice: "this variable is not known here and does nothing"})
		}
	}
	return all
}

func (c *call) examineWorkflows(ctx context.Context) (all []finding) {
	for _, w := range c.workflows {
		f := finding{About: "workflow", Name: w.Name}
		if o, err := c.open(ctx, w.Name, nil); err != nil {
			f.Fault = err.Error()
		} else {
			f.Value = o.Workflow.ID()
		}
		all = append(all, f)
	}
	return all
}

func (c *call) examineStore(ctx context.Context) (all []finding) {
	rs, err := c.runs(ctx)
	if err != nil {
		return []finding{{About: "store", Name: "open", Fault: err.Error()}}
	}
	fs, err := c.store.Check(ctx)
	if err != nil {
		all = append(all, finding{About: "store", Name: "check", Fault: err.Error()})
	}
	for _, f := range fs {
		all = append(all, finding{About: "store", Name: f.Name, Value: f.Value, Fault: f.Fault})
	}
	all = append(all, c.examineClock(ctx), c.examineWorkers(ctx))
	for _, look := range []struct {
		name   string
		filter pawl.RunFilter
		advice string
	}{
		{"parked runs", pawl.RunFilter{Outcome: machine.OutcomeHeld}, "no program here had their version: runs show RUN says which"},
		{"interrupted runs", pawl.RunFilter{Status: pawl.StatusInterrupted}, "runs watch RUN goes on with one"},
	} {
		found, err := rs.List(ctx, look.filter, "", 100)
		f := finding{About: "runs", Name: look.name}
		if err != nil {
			f.Fault = err.Error()
			all = append(all, f)
			continue
		}
		var ids []string
		for _, r := range found {
			if !r.Status.Ended() && r.Imported == "" {
				ids = append(ids, r.ID)
			}
		}
		f.Value = fmt.Sprint(len(ids))
		if len(ids) == 100 {
			f.Value = "100 or more"
		}
		if len(ids) > 0 {
			f.Advice = look.advice + ": " + someOf(ids)
		}
		all = append(all, f)
	}
	return append(all, c.examineRuns(ctx)...)
}

// examineRuns looks for runs that nobody works at and that nothing wakes.
func (c *call) examineRuns(ctx context.Context) []finding {
	orphaned, stuck := finding{About: "runs", Name: "orphan leases"}, finding{About: "runs", Name: "stuck runs"}
	found, err := c.engine.Examine(ctx, c.caller())
	if err != nil {
		stuck.Fault = err.Error()
		return []finding{stuck}
	}
	orphaned.Value, stuck.Value = fmt.Sprint(len(found.Orphaned)), fmt.Sprint(len(found.Stuck))
	if len(found.Orphaned) > 0 {
		orphaned.Advice = "their worker has died and no other has taken them over: start one, or go on with runs watch RUN: " + someOf(found.Orphaned)
	}
	if len(found.Stuck) > 0 {
		stuck.Fault = "nothing will wake them: end each with runs cancel RUN, then begin it anew with runs retry RUN: " + someOf(found.Stuck)
	}
	return []finding{orphaned, stuck}
}

func someOf(ids []string) string { return strings.Join(ids[:min(len(ids), 5)], ", ") }

// examineClock compares the store's clock, by which leases and timers go, with this machine's.
func (c *call) examineClock(ctx context.Context) finding {
	f := finding{About: "store", Name: "clock difference"}
	before := time.Now()
	at, err := c.store.Now(ctx)
	if err != nil {
		f.Fault = err.Error()
		return f
	}
	f.Value, f.Fault = differs(at, before, time.Now())
	return f
}

// differs tells how far a clock that was read between two times of ours is off, and what to do about it.
func differs(at, before, after time.Time) (value, fault string) {
	off := time.Duration(0)
	switch {
	case at.Before(before):
		off = at.Sub(before)
	case at.After(after):
		off = at.Sub(after)
	}
	if off.Abs() > 2*time.Second {
		fault = "the store's clock and this machine's do not agree: set both by a time server, or timers and deadlines come at other times than they show"
	}
	return off.Round(time.Millisecond).String(), fault
}

func (c *call) examineWorkers(ctx context.Context) finding {
	f := finding{About: "store", Name: "live workers"}
	ws, err := c.store.Workers(ctx)
	if err != nil {
		f.Fault = err.Error()
		return f
	}
	busy := 0
	for _, w := range ws {
		busy += w.Runs
	}
	f.Value = fmt.Sprintf("%d, runs in hand: %d", len(ws), busy)
	return f
}

// canWork says whether a worker takes runs of a kind; one that names none takes all.
func canWork(kinds []string, kind string) bool {
	return len(kinds) == 0 || slices.Contains(kinds, kind)
}
