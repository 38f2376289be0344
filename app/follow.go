package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"pawl"
	"pawl/internal/machine"
)

// result is the last line of --json.
type result struct {
	Type      string      `json:"type"`
	Run       *pawl.Run   `json:"run,omitempty"`
	Existing  string      `json:"existing,omitempty"`
	Questions []pawl.Open `json:"questions,omitempty"`
	Error     *pawl.Error `json:"error,omitempty"`
	Command   string      `json:"command,omitempty"` // what goes on with it
	Exit      int         `json:"exit"`
}

// following works one run and shows it, until it has ended or needs what this command cannot give.
type following struct {
	c        *call
	runs     pawl.Runs
	opened   *Opened // nil: this program does not have its workflow
	id       string
	existing string
	since    time.Time // earlier events are not shown
	cancels  bool      // a cancelled run is what was wanted

	after int64 // the last event that was seen
	shown *progress
}

// follow is the loop of run, watch, answer, cancel and retry: work, ask, work.
func (f *following) follow(ctx context.Context) error {
	reads := context.WithoutCancel(ctx)
	f.shown = newProgress(f.c, f.id)
	if f.opened != nil {
		f.shown.tell = f.opened.Tell
	}
	defer f.c.say.status("")
	told := false
	for {
		run, err := f.runs.Get(reads, f.id)
		if err != nil {
			return err
		}
		f.shown.look(run)
		if run.Worker != "" && !told {
			told = true
			f.c.say.line("run %s is in the hands of another process; if that dies, this one takes over", run.ID)
		}
		if !run.Status.Ended() || f.existing == "" {
			if run, err = f.work(ctx, reads); err != nil {
				return f.broken(run, err)
			}
		}
		f.c.say.status("")
		switch {
		case run.MergedInto != "":
			f.c.say.line("run %s is the same as run %s, which goes on", run.ID, run.MergedInto)
			f.id, f.after, f.existing = run.MergedInto, 0, ""
			continue
		case run.Status.Ended():
			return f.ended(run)
		case ctx.Err() != nil:
			return f.stopped(ctx, run)
		}
		open, err := f.runs.Questions(reads, pawl.QuestionFilter{Run: f.id}, "", 0)
		if err != nil {
			return err
		}
		if len(open) == 0 || !f.c.asks() {
			return f.parked(run, open)
		}
		answered, err := f.ask(ctx, open[len(open)-1])
		switch {
		case err != nil && ctx.Err() == nil:
			return f.broken(run, err)
		case err != nil:
			f.c.say.line("%s: %s", f.c.short(), explain(err.Error())) // the answer was not taken
			return f.stopped(ctx, run)
		case ctx.Err() != nil:
			return f.stopped(ctx, run)
		case !answered:
			return f.parked(run, open)
		}
	}
}

// The rhythm of following.
const (
	frame  = 120 * time.Millisecond // how often the status is drawn
	look   = 500 * time.Millisecond // how often the counters are read
	quiet  = 500 * time.Millisecond // without an event for so long, all have been read
	settle = 30 * time.Millisecond  // the same, where the last one says that the run stands
	leave  = 3 * time.Second        // how long the second interrupt waits for what it has thrown away
)

// work runs the run while its events are shown, and returns it as it then is.
func (f *following) work(ctx, reads context.Context) (pawl.Run, error) {
	watching, unwatch := context.WithCancel(reads)
	defer unwatch()
	events := f.watch(watching)
	worked := make(chan error, 1)
	if f.opened != nil {
		f.c.tell()
	}
	drive := sync.OnceFunc(func() { go func() { worked <- f.drive(ctx) }() })
	begin := time.After(settle) // or with the first event: from then on whatever is written is shown

	ticks := time.NewTicker(frame)
	defer ticks.Stop()
	interrupted, now := ctx.Done(), f.c.now
	var looked time.Time
	var giveUp <-chan time.Time
	for {
		select {
		case l, ok := <-events:
			drive()
			if !ok {
				events = nil
				continue
			}
			f.event(l)
		case <-begin:
			drive()
		case <-ticks.C:
			if f.c.say.live && time.Since(looked) > look {
				looked = time.Now()
				if run, err := f.runs.Get(reads, f.id); err == nil {
					f.shown.look(run)
				}
			}
			f.shown.tick()
		case <-interrupted:
			interrupted = nil
			if errors.Is(ctx.Err(), context.Canceled) {
				f.c.say.line("stopping after the step under way; Ctrl-C again stops at once")
			}
		case <-now:
			now, giveUp = nil, time.After(leave)
			f.c.engine.Abort()
		case <-giveUp:
			return f.runs.Get(reads, f.id)
		case err := <-worked:
			run, got := f.runs.Get(reads, f.id)
			if err == nil {
				err = got
			}
			f.drain(events, run)
			return run, err
		}
	}
}

// drive works the run; where this program does not have its workflow, it only waits while somebody else does.
func (f *following) drive(ctx context.Context) error {
	if f.opened != nil {
		err := f.c.engine.WorkRun(ctx, f.id)
		if ctx.Err() != nil {
			return nil // it was told to stop: what it could not ask any more is no fault
		}
		return err
	}
	for {
		run, err := f.runs.Get(ctx, f.id)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil || run.Status.Ended() || run.Worker == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(look):
		}
	}
}

// watch reads the events of the run until it has ended or ctx is done.
func (f *following) watch(ctx context.Context) <-chan pawl.Logged {
	events := make(chan pawl.Logged)
	go func() {
		defer close(events)
		for l, err := range f.runs.Events(ctx, f.id, f.after) {
			if err != nil {
				if ctx.Err() == nil {
					f.c.say.fault("events", err)
				}
				return
			}
			select {
			case events <- l:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// drain shows the events that are still to come of a run that nobody works here any more: to their end where the run has
// ended, else until it is quiet.
func (f *following) drain(events <-chan pawl.Logged, run pawl.Run) {
	for events != nil {
		patience := quiet
		switch {
		case run.Status.Ended():
			patience = leave
		case f.shown.last == machine.EventWaiting || f.shown.last == machine.EventHeld || f.shown.last == machine.EventStopped:
			patience = settle
		}
		select {
		case l, ok := <-events:
			if !ok {
				return
			}
			f.event(l)
		case <-time.After(patience):
			return
		}
	}
}

func (f *following) event(l pawl.Logged) {
	if l.Seq > 0 {
		f.after = l.Seq
	}
	if l.At.Before(f.since) {
		f.shown.note(l)
		return
	}
	f.shown.event(l)
}

// ended shows the end of a run.
func (f *following) ended(run pawl.Run) error {
	code := exitOK
	if run.Status != pawl.StatusSucceeded && (!f.cancels || run.Status != pawl.StatusCancelled) {
		code = exitFailed
	}
	v := f.c.say
	end := string(run.Status)
	if run.Terminal != "" && run.Terminal != pawl.TerminalFailed && run.Terminal != pawl.TerminalCancelled {
		end += ": " + run.Terminal
	}
	switch {
	case code == exitOK:
		v.raw(v.paint(green, plain(f.shown.mark(true)+"run "+run.ID+" "+end)) + f.shown.sum(run))
	default:
		v.raw(v.paint(red, plain(f.shown.mark(false)+"run "+run.ID+" "+end)) + f.shown.sum(run))
		if run.Err != nil {
			v.line("%s: %s", f.c.short(), oneLine(reason(run.Err), 2000))
		}
		if f.c.lasting && run.Imported == "" {
			v.line("begin it again with: %s", f.c.again("runs", "retry", run.ID))
		}
	}
	if f.c.json {
		f.c.out.record(result{Type: "result", Run: &run, Existing: f.existing, Exit: code})
		return exit(code)
	}
	if err := f.output(run.Output); err != nil {
		return err
	}
	return exit(code)
}

// output shows what a run has come to: as its workflow wants it shown, else as JSON.
func (f *following) output(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if f.opened != nil && f.opened.Render != nil {
		var b bytes.Buffer // whole: what steers a terminal is taken out, and no character may be cut in two
		if err := f.opened.Render(&b, raw); err != nil {
			return err
		}
		_, err := f.c.out.Write([]byte(plain(b.String())))
		return err
	}
	f.c.out.document(raw)
	return nil
}

// broken is the end of a command whose store failed: the error, and how to go on.
func (f *following) broken(run pawl.Run, err error) error {
	f.c.say.status("")
	next := ""
	if f.c.lasting {
		next = f.c.again("runs", "watch", f.id)
		f.c.say.line("run %s can be gone on with: %s", f.id, next)
	}
	if !f.c.json {
		return err
	}
	e := pawl.Coded(err)
	code, known := exitCodes[e.Code]
	if !known {
		code = exitFailed
	}
	f.c.say.line("%s: %s", f.c.short(), explain(e.Error()))
	f.c.out.record(result{Type: "result", Run: &run, Command: next, Error: e, Exit: code})
	return exit(code)
}

// stopped is the end of a command that was interrupted, or whose time was up.
func (f *following) stopped(ctx context.Context, run pawl.Run) error {
	code := exitInterrupted
	why := "interrupted"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code, why = exitTimeout, "the time is up"
	}
	next := f.c.again("runs", "watch", run.ID)
	if f.c.lasting {
		f.c.say.line("%s; run %s stands at %s; go on with: %s", why, run.ID, run.Node, next)
	} else {
		next = ""
		f.c.say.line("%s; the run was in the memory store and ends here", why)
	}
	if f.c.json {
		f.c.out.record(result{Type: "result", Run: &run, Command: next, Exit: code})
	}
	return exit(code)
}

// parked is the end of a command whose run waits for what nobody gives here: an answer, or another version.
func (f *following) parked(run pawl.Run, open []pawl.Open) error {
	r := result{Type: "result", Run: &run, Existing: f.existing, Questions: open, Exit: exitUnavailable}
	v := f.c.say
	switch held := heldReason(run); {
	case run.Imported != "":
		v.line("run %s is an imported copy, which nobody works", run.ID)
		r.Command = f.c.again("runs", "fork", run.ID)
		v.line("begin a run from it with: %s", r.Command)
	case held != "":
		v.line("run %s is parked: %s", run.ID, held)
		r.Command = f.free(run)
	case len(open) > 0 && !f.c.lasting:
		r.Exit = exitWaiting
		for _, q := range open {
			f.put(q)
		}
		v.line("run %s was in the memory store and ends here, unanswered", run.ID)
	case len(open) > 0:
		r.Exit = exitWaiting
		r.Command = f.tell(open)
	case f.opened == nil:
		v.line("run %s is %s: this program has no workflow %s and cannot go on with it", run.ID, run.Status, run.Workflow)
	case f.opened.Workflow.Version() != run.Version: // the sweep parks no run whose version a live worker has
		v.line("run %s is %s at %s: version %s of %s is not registered here; a process that has it is, or was a moment ago, at work elsewhere", run.ID, run.Status, run.Node, run.Version, run.Workflow)
		r.Command = f.free(run)
	default:
		v.line("run %s is %s at %s and waits for what nobody does here", run.ID, run.Status, run.Node)
		r.Command = f.c.again("runs", "watch", run.ID)
	}
	if f.c.json {
		f.c.out.record(r)
	}
	return exit(r.Exit)
}

// free says what to do about a parked run, and returns the command.
func (f *following) free(run pawl.Run) (command string) {
	v := f.c.say
	if f.opened == nil {
		v.line("%s has no workflow %s: go on with a program that has it", f.c.short(), run.Workflow)
		return ""
	}
	words := []string{"runs", "watch", run.ID}
	if f.opened.Held != nil {
		why, flags := f.opened.Held(run)
		v.line("%s", why)
		words = append(words, flags...)
	}
	command = f.c.again(words...)
	v.line("go on with: %s", command)
	return command
}

func heldReason(run pawl.Run) string {
	for _, w := range run.Waits {
		if w.Kind == pawl.WaitsForVersion {
			return w.Reason
		}
	}
	return ""
}
