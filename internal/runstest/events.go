package runstest

import (
	"context"
	"encoding/json"
	"strings"

	"pawl"
)

func eventLaws() []law {
	return []law{
		{"numbered without a gap", "a client that has number n asks for what is after n", eventNumbers},
		{"from any number", "a reconnect sees no gap and no duplicate, wherever it was cut off", eventReconnect},
		{"live until the end", "a watcher needs no polling, and its stream ends with the run", eventLive},
		{"one closing event", "exactly one closing event at every end, in the final commit", eventClosing},
		{"ends with its context", "a watcher can leave", eventContext},
		{"of an attempt and the next", "numbers go on through attempts", eventAttempts},
	}
}

func eventNumbers(l *lab) {
	r := l.worked(`{"text":"a","do":"write","n":3}`)
	es := l.ended(r.ID)
	var types []string
	for i, e := range es {
		if e.Seq != int64(i)+1 || e.Run != r.ID || e.At.IsZero() {
			l.Errorf("event %d: %+v", i, e)
		}
		types = append(types, e.Type)
	}
	want := "pawl.started pawl.step line line line pawl.step closed pawl.ended"
	if got := strings.Join(types, " "); got != want {
		l.Errorf("events %s\nwant   %s", got, want)
	}
	var text string
	if err := json.Unmarshal(es[3].Data, &text); err != nil || text != "a 1" {
		l.Errorf("data %s", es[3].Data)
	}
	steps, err := l.rs.Steps(l.ctx, r.ID, 0, 0)
	if err != nil {
		l.Fatal(err)
	}
	for _, e := range es {
		if e.Type != "pawl.step" {
			continue
		}
		var s struct {
			Step, Visit    int64
			Node, To, Edge string
		}
		if err := json.Unmarshal(e.Data, &s); err != nil || s.Step < 2 || s.Step > int64(len(steps)) {
			l.Fatalf("data %s", e.Data)
		}
		if w := steps[s.Step-1]; s.Node != w.StateBefore || s.To != w.StateAfter || s.Edge != w.Edge || s.Visit != w.Visit || s.Edge == "" {
			l.Errorf("the event says %s, the step log %+v", e.Data, w)
		}
	}
}

func eventReconnect(l *lab) {
	r := l.worked(`{"text":"a","do":"write","n":4}`)
	all := l.ended(r.ID)
	for from := range all {
		after := int64(from)
		var got []int64
		for len(got) < len(all)-from { // cut off after every event
			for e, err := range l.rs.Events(l.ctx, r.ID, after) {
				if err != nil {
					l.Fatal(err)
				}
				got = append(got, e.Seq)
				after = e.Seq
				break
			}
		}
		for i, seq := range got {
			if seq != int64(from+i)+1 {
				l.Fatalf("from %d: %v", from, got)
			}
		}
	}
	for e, err := range l.rs.Events(l.ctx, r.ID, int64(len(all))) {
		l.Errorf("after the last one: %+v, %v", e, err)
	}
}

func eventLive(l *lab) {
	r := l.start(`{"text":"a","do":"ask"}`)
	type told struct {
		es  []pawl.Logged
		err error
	}
	waiting, done := make(chan struct{}), make(chan told, 1)
	go func() {
		var t told
		for e, err := range l.as(ann()).Events(l.ctx, r.ID, 0) {
			if t.err = err; err != nil {
				break
			}
			if t.es = append(t.es, e); e.Type == "pawl.waiting" {
				close(waiting)
			}
		}
		done <- t
	}()
	l.on(r.ID)
	select {
	case <-waiting:
	case <-l.ctx.Done():
		l.Fatal("the watcher does not see that the run waits")
	}
	if err := l.answer(r.ID, l.question(r.ID).ID, `{"yes":true}`); err != nil {
		l.Fatal(err)
	}
	l.on(r.ID)
	t := <-done
	if t.err != nil {
		l.Fatal(t.err)
	}
	var types []string
	for i, e := range t.es {
		if e.Seq != int64(i)+1 {
			l.Errorf("event %d has number %d", i, e.Seq)
		}
		types = append(types, e.Type)
	}
	want := "pawl.started pawl.step pawl.waiting pawl.answered pawl.step closed pawl.ended"
	if got := strings.Join(types, " "); got != want {
		l.Errorf("events %s\nwant   %s", got, want)
	}
}

func eventClosing(l *lab) {
	for in, terminal := range map[string]string{
		`{"text":"a"}`: "DONE", `{"text":"a","do":"fail"}`: pawl.TerminalFailed, `{"text":"a","do":"write","n":9}`: pawl.TerminalFailed,
		`{"text":"a","do":"child","names":["fail"]}`: pawl.TerminalFailed,
	} {
		r := l.worked(in)
		var closed []string
		for _, e := range l.ended(r.ID) {
			if e.Type == "closed" {
				closed = append(closed, string(e.Data))
			}
		}
		if len(closed) != 1 || closed[0] != `"`+terminal+`"` || r.Terminal != terminal {
			l.Errorf("%s: terminal %s, closing events %v", in, r.Terminal, closed)
		}
	}
}

func eventContext(l *lab) {
	r, _ := l.asked()
	ctx, cancel := context.WithCancel(l.ctx)
	seen := 0
	var last error
	for _, err := range l.rs.Events(ctx, r.ID, 0) {
		if err != nil {
			last = err
			break
		}
		if seen++; seen == 3 {
			cancel()
		}
	}
	cancel()
	l.refused(last, pawl.CodeCancelled)
}

func eventAttempts(l *lab) {
	r := l.worked(`{"text":"a","do":"flaky"}`)
	first := l.ended(r.ID)
	if _, err := l.rs.Retry(l.ctx, r.ID); err != nil {
		l.Fatal(err)
	}
	l.on(r.ID)
	var types []string
	next := int64(len(first))
	for e, err := range l.rs.Events(l.ctx, r.ID, next) {
		if next++; err != nil || e.Seq != next {
			l.Fatalf("event %+v, %v", e, err)
		}
		types = append(types, e.Type)
	}
	if len(types) < 3 || types[0] != "pawl.restarted" || types[len(types)-1] != "pawl.ended" {
		l.Errorf("events %v", types)
	}
}
