package app

import (
	"bufio"
	"context"
	"io"
	"strings"
	"time"

	"pawl"
)

// lines reads standard input line by line, for as long as somebody wants one.
type lines struct {
	r    io.Reader
	over <-chan struct{} // nobody wants one any more
	in   chan string     // closed at the end of input
}

// next starts reading at the first call. A reader that blocks is left behind when the program ends.
func (l *lines) next() <-chan string {
	if l.in == nil {
		l.in = make(chan string)
		go func() {
			defer close(l.in)
			b := bufio.NewReaderSize(l.r, 64<<10)
			for {
				text, err := b.ReadString('\n')
				if text != "" {
					select {
					case l.in <- strings.TrimRight(text, "\r\n"):
					case <-l.over:
						return
					}
				}
				if err != nil {
					return
				}
			}
		}()
	}
	return l.in
}

// asks says whether somebody is there who can be asked.
func (c *call) asks() bool {
	if c.json || c.In == nil || !c.say.terminal {
		return false
	}
	_, ok := screen(c.In)
	return ok
}

// ask puts a question on the terminal until it has a valid answer, or nobody wants to give one (false).
func (f *following) ask(ctx context.Context, q pawl.Open) (answered bool, err error) {
	v := f.c.say
	f.put(q)
	v.prompt("> ")
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			v.prompt("\n")
			return false, nil
		case <-poll.C:
			if f.closed(ctx, q) {
				v.prompt("\n")
				v.line("the question was closed meanwhile")
				return true, nil
			}
		case text, ok := <-f.c.lines.next():
			if !ok {
				v.prompt("\n")
				return false, nil
			}
			err := f.give(ctx, q, text)
			e := pawl.Coded(err)
			switch {
			case err == nil:
				return true, nil
			case e.Code == pawl.CodeConflict: // somebody else was faster
				v.line("%s", e.Error())
				return true, nil
			case e.Code != pawl.CodeInvalid:
				return false, err
			}
			v.line("%s", e.Error())
			v.prompt("> ")
		}
	}
}

// put shows a question.
func (f *following) put(q pawl.Open) {
	v := f.c.say
	v.raw(v.paint(bold, plain(q.Text)))
	if len(q.Data) > 0 {
		v.line("%s", indented(q.Data))
	}
	for i, choice := range q.Choices {
		v.line("  %d  %s", i+1, choice)
	}
	if q.Due != nil {
		v.line("  (open until %s)", q.Due.Local().Format("2006-01-02 15:04"))
	}
}

// give sends an answer; the number of a choice stands for it.
func (f *following) give(ctx context.Context, q pawl.Open, text string) error {
	if strings.TrimSpace(text) == "" {
		return invalid("an answer is not empty (Ctrl-D: answer later)")
	}
	answer, err := answered(q, text, "")
	if err != nil {
		return err
	}
	return f.runs.Answer(ctx, q.Run, q.ID, answer)
}

// closed says whether a question has been answered elsewhere, or its time is up.
func (f *following) closed(ctx context.Context, q pawl.Open) bool {
	open, err := f.runs.Questions(ctx, pawl.QuestionFilter{Run: q.Run, ID: q.ID}, "", 1)
	if err != nil {
		return false
	}
	now, err := f.c.store.Now(ctx)
	return len(open) == 0 || err == nil && q.Due != nil && now.After(*q.Due)
}

// tell prints the questions of a run with the command that answers each, and returns the first command.
func (f *following) tell(open []pawl.Open) (first string) {
	v := f.c.say
	for i := len(open) - 1; i >= 0; i-- { // the oldest first
		q := open[i]
		f.put(q)
		v.line("question %s of run %s", q.ID, q.Run)
		words := []string{"runs", "answer", f.id, q.ID}
		var command string
		if s, err := parseSchema(q.Schema); err == nil && (s.kind() != "object" || s.wrapped() != "") {
			command = f.c.again(words...)
			command = strings.Replace(command, quoted(q.ID), quoted(q.ID)+` "…"`, 1)
		} else {
			command = f.c.again(words...) + " --json-answer '{…}'"
			v.line("the answer is JSON: %s", q.Schema)
		}
		v.line("answer it with: %s", command)
		if first == "" {
			first = command
		}
	}
	return first
}

// answer closes a question from the command line and works the run on.
func (c *call) answer(ctx context.Context, id, question, text, raw string) error {
	ctx, stop := c.timed(ctx)
	defer stop()
	rs, run, o, err := c.runsFor(ctx, id)
	if err != nil {
		return err
	}
	qs, err := rs.Questions(ctx, pawl.QuestionFilter{Run: run.ID, ID: question, Closed: true}, "", 1)
	if err != nil {
		return err
	}
	if len(qs) == 0 || question == "" {
		return c.noQuestion(ctx, rs, run, question)
	}
	answer, err := answered(qs[0], text, raw)
	if err != nil {
		return err
	}
	since, err := c.store.Now(ctx)
	if err != nil {
		return &pawl.Error{Code: pawl.CodeUnavailable, Text: err.Error(), Err: err}
	}
	if err := rs.Answer(ctx, run.ID, qs[0].ID, answer); err != nil {
		return err
	}
	f := &following{c: c, runs: rs, opened: o, id: run.Root, since: since} // a child's answer lets its family go on
	return f.follow(ctx)
}

// noQuestion names the questions that there are.
func (c *call) noQuestion(ctx context.Context, rs pawl.Runs, run pawl.Run, question string) error {
	open, err := rs.Questions(ctx, pawl.QuestionFilter{Run: run.ID}, "", 0)
	if err != nil {
		return err
	}
	e := &pawl.Error{Code: pawl.CodeNotFound, Run: run.ID, Text: "run " + run.ID + " has no question " + shortened(question)}
	var ids []string
	for _, q := range open {
		ids = append(ids, q.ID)
	}
	if len(ids) == 0 {
		e.Text += " and waits for no answer"
	} else {
		e.Text += " (open: " + strings.Join(ids, ", ") + ")"
	}
	return e
}
