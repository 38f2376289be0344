package pawltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// T is what this package needs of a *testing.T. With a *testing.T a run is played in a bubble of testing/synctest, so it
// must not be in one already; with anything else, such as a *testing.B, the time is real.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Script is what happens to a run from outside. The zero value answers nothing, fails nothing and crashes nothing.
type Script struct {
	// Answers by the key of the question, in the order in which it is asked. A value is stored as JSON; a
	// func(pawl.Open) any makes the answer from the question.
	Answers map[string][]any
	// Silence are keys of questions that nobody answers: time passes until their deadlines.
	Silence []string
	// Think is how long a person takes for each answer.
	Think time.Duration

	// Cancel cancels the run that long after its start; 0: never.
	Cancel time.Duration

	// Fail by the key of a call (of an item of Map: key[0], key[1], …) are the errors of its physical tries, in order,
	// over the whole run. nil lets the call be made. Panic, ErrCrash and ErrLost do more than to fail.
	Fail map[string][]error
	// Crash drops workers: the first one after that many durable writes of its own, the next one after the second number,
	// and so on. Its lease runs out and another worker goes on.
	Crash []int

	// Replay replays the run and its children afterwards: the test fails where a node does not do again what was recorded,
	// because it decides by something that is neither in the state nor in the result of a call.
	Replay bool
	// Varies are fields of the output, the state and the events, by their JSON names and wherever they stand, that differ from play to
	// play without a fault, such as how long it took: EveryCrash does not compare them.
	Varies []string

	Start  pawl.StartOptions
	Caller pawl.Caller
	Also   []*pawl.Workflow // that the graph names only inside its nodes: in Call and Enqueue
	Engine engine.Config
	Open   func() store.Store // the store of a play, closed after it; nil: one in memory
	Begin  time.Time          // when the run starts; zero: when virtual time does
	Within time.Duration      // virtual time in which the run must end; 0: 30 days
}

// Errors of Script.Fail that end the worker.
var (
	ErrCrash = errors.New("pawltest: the worker crashes before the call is made")
	ErrLost  = errors.New("pawltest: the worker crashes after the call was made and before it is recorded")
)

type panics struct{ text string }

func (p *panics) Error() string { return "pawltest: panic: " + p.text }

// Panic makes the call panic.
func Panic(text string) error { return &panics{text} }

// answer is the next scripted answer to a question.
func (p *player) answer(ctx context.Context, q pawl.Open) (given bool, err error) {
	if slices.Contains(p.script.Silence, q.Key) {
		return false, nil
	}
	all, n := p.script.Answers[q.Key], p.answered[q.Key]
	if n >= len(all) {
		return false, nil
	}
	p.answered[q.Key]++
	v := all[n]
	if f, ok := v.(func(pawl.Open) any); ok {
		v = f(q)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return false, fmt.Errorf("answer %d to question %q: %w", n+1, q.Key, err)
	}
	time.Sleep(p.script.Think)
	if err := p.office.Answer(ctx, q.Run, q.ID, b); err != nil {
		return false, fmt.Errorf("answer %d to question %q: %w", n+1, q.Key, err)
	}
	return true, nil
}
