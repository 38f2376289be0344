package runstest

import (
	"encoding/json"
	"fmt"

	"pawl"
)

func keyLaws() []law {
	return []law{
		{"new", "a key that nobody owns starts a run", keyNew},
		{"running", "the second submit of a form finds the first one's run", keyRunning},
		{"done", "a finished run answers from what it has", keyDone},
		{"again after a failure", "the same row begins its next attempt, so that one key is one row for ever", keyAgain},
		{"again after a cancel", "a cancelled run is no obstacle", keyAgainCancelled},
		{"other input", "an old result is never given for another question", keyOtherInput},
		{"the same input in another order", "JSON objects have no order", keyOrder},
		{"fifty at once", "fifty submits at once are one run and one bill", keyParallel},
		{"fifty again at once", "also where each begins the next attempt", keyParallelAgain},
		{"per tenant and workflow", "keys of others do not collide", keyApart},
		{"no key", "without a key each start is a run", keyNone},
	}
}

const keyed = `{"text":"a"}`

func (l *lab) key(input, key string) pawl.Started {
	l.Helper()
	return l.begin("desk", input, pawl.StartOptions{Key: key})
}

func keyNew(l *lab) {
	s := l.key(keyed, "k")
	if s.Existing != "" || s.Run.Key != "k" {
		l.Errorf("%+v", s)
	}
}

func keyRunning(l *lab) {
	s := l.key(`{"text":"a","do":"ask"}`, "k")
	for range 2 {
		again := l.key(`{"text":"a","do":"ask"}`, "k")
		if again.Existing != pawl.ExistingRunning || again.Run.ID != s.Run.ID || again.Run.Attempt != 1 {
			l.Errorf("%+v", again)
		}
		l.on(s.Run.ID) // the second time it waits
	}
}

func keyDone(l *lab) {
	s := l.key(keyed, "k")
	r := l.on(s.Run.ID)
	again := l.key(keyed, "k")
	if again.Existing != pawl.ExistingDone || again.Run.ID != r.ID || string(again.Run.Output) != string(r.Output) || len(r.Output) == 0 {
		l.Errorf("%+v, want %+v", again, r)
	}
}

func keyAgain(l *lab) {
	in := `{"text":"a","do":"flaky"}`
	s := l.key(in, "k")
	l.is(l.on(s.Run.ID), pawl.StatusFailed)
	again := l.key(in, "k")
	if again.Existing != pawl.ExistingAgain || again.Run.ID != s.Run.ID || again.Run.Attempt != 2 || again.Run.Err != nil {
		l.Fatalf("%+v", again)
	}
	r := l.on(s.Run.ID)
	l.is(r, pawl.StatusSucceeded)
	if len(l.all(ann(), pawl.RunFilter{Key: "k"})) != 1 {
		l.Errorf("more than one row")
	}
	if s := l.key(in, "k"); s.Existing != pawl.ExistingDone || s.Run.Attempt != 2 {
		l.Errorf("%+v", s)
	}
}

func keyAgainCancelled(l *lab) {
	in := `{"text":"a","do":"ask"}`
	s := l.key(in, "k")
	if err := l.rs.Cancel(l.ctx, s.Run.ID, ""); err != nil {
		l.Fatal(err)
	}
	l.is(l.on(s.Run.ID), pawl.StatusCancelled)
	if s := l.key(in, "k"); s.Existing != pawl.ExistingAgain || s.Run.Attempt != 2 {
		l.Fatalf("%+v", s)
	}
	l.is(l.on(s.Run.ID), pawl.StatusWaiting)
}

func keyOtherInput(l *lab) {
	s := l.key(keyed, "k")
	for range 2 {
		_, err := l.rs.Start(l.ctx, "desk", json.RawMessage(`{"text":"b"}`), pawl.StartOptions{Key: "k"})
		l.refused(err, pawl.CodeConflict, "k", s.Run.ID)
		l.on(s.Run.ID) // also once it is done
	}
}

func keyOrder(l *lab) {
	s := l.key(`{"text":"a","n":1}`, "k")
	if again := l.key(` { "n" : 1 , "text" : "\u0061" } `, "k"); again.Run.ID != s.Run.ID {
		l.Errorf("another run: %+v", again)
	}
}

func keyParallel(l *lab) {
	ids := make([]string, 50)
	fresh := make([]bool, 50)
	for i, err := range parallel(50, func(i int) error {
		s, err := l.as(ann()).Start(l.ctx, "desk", json.RawMessage(`{"text":"a","do":"ask"}`), pawl.StartOptions{Key: "k"})
		ids[i], fresh[i] = s.Run.ID, s.Existing == ""
		return err
	}) {
		if err != nil {
			l.Errorf("start %d: %v", i, err)
		}
	}
	one := 0
	for i := range ids {
		if ids[i] != ids[0] {
			l.Errorf("another run: %s, %s", ids[i], ids[0])
		}
		if fresh[i] {
			one++
		}
	}
	if one != 1 || len(l.all(ann(), pawl.RunFilter{})) != 1 {
		l.Errorf("%d starts were new", one)
	}
}

func keyParallelAgain(l *lab) {
	in := `{"text":"a","do":"flaky"}`
	s := l.key(in, "k")
	l.is(l.on(s.Run.ID), pawl.StatusFailed)
	again := make([]bool, 50)
	for i, err := range parallel(50, func(i int) error {
		s, err := l.as(ann()).Start(l.ctx, "desk", json.RawMessage(in), pawl.StartOptions{Key: "k"})
		again[i] = s.Existing == pawl.ExistingAgain
		return err
	}) {
		if err != nil {
			l.Errorf("start %d: %v", i, err)
		}
	}
	one := 0
	for _, a := range again {
		if a {
			one++
		}
	}
	if r := l.get(s.Run.ID); one != 1 || r.Attempt != 2 {
		l.Errorf("%d starts began the next attempt, the run is in attempt %d", one, r.Attempt)
	}
}

func keyApart(l *lab) {
	seen := map[string]string{}
	for _, c := range []struct {
		c        pawl.Caller
		workflow string
	}{{ann(), "desk"}, {ann(), "inner"}, {eve(), "desk"}, {pawl.Caller{}, "desk"}} {
		s, err := l.as(c.c).Start(l.ctx, c.workflow, json.RawMessage(keyed), pawl.StartOptions{Key: "k"})
		if err != nil || s.Existing != "" {
			l.Errorf("%+v %s: %+v, %v", c.c, c.workflow, s, err)
		}
		if who := seen[s.Run.ID]; who != "" {
			l.Errorf("%+v shares a run with %s", c, who)
		}
		seen[s.Run.ID] = fmt.Sprint(c)
	}
}

func keyNone(l *lab) {
	if a, b := l.start(keyed), l.start(keyed); a.ID == b.ID {
		l.Error("two starts, one run")
	}
}
