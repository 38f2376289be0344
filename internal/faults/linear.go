package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// command is one command of a client to the run of a key, and said what it was told.
type command struct{ what, key, question, value string }

// What a client is told. lost: the outcome is unknown, the command may have been carried out or not.
const (
	saidOK       = "ok"
	saidConflict = "conflict"
	saidLost     = "lost"
)

// life is what a run has come to by its commands, as a client can know it.
type life struct {
	exists, answered, cancelled bool
	again                       bool   // it has had more than one attempt
	ended                       string // succeeded or cancelled, once somebody was told so
	answers                     string // question=value, in their order
}

func (l life) answer(q string) (value string, given bool) {
	_, rest, given := strings.Cut(l.answers, q+"=")
	value, _, _ = strings.Cut(rest, ";")
	return value, given
}

// step gives what a run may be after a command that was told so: none, if that cannot have been said.
func (l life) step(c command, said string) (out []life) {
	if said == saidLost {
		for _, s := range []string{saidOK, "", pawl.ExistingAgain} {
			out = append(out, l.step(c, s)...)
		}
		return append(out, l)
	}
	keep := func(ok bool) []life {
		if ok {
			return []life{l}
		}
		return nil
	}
	switch c.what {
	case "start":
		return l.started(said, keep)
	case "answer":
		value, given := l.answer(c.question)
		switch {
		case said == saidOK && given:
			return keep(value == c.value)
		case said == saidOK && l.exists:
			l.answers, l.answered = l.answers+c.question+"="+c.value+";", true
			return []life{l}
		case said == saidConflict:
			return keep(given && value != c.value || !given && (l.cancelled || l.again))
		}
	case "cancel":
		switch {
		case said == saidOK && l.exists && l.ended == "":
			l.cancelled = true
			return []life{l}
		case said == saidConflict:
			return keep(l.cancelled || l.answered)
		}
	case "retry":
		switch {
		case said == saidOK && l.cancelled && l.ended != string(pawl.StatusSucceeded):
			return []life{{exists: true, again: true, answers: l.answers}}
		case said == saidConflict:
			return keep(l.exists && l.ended != string(pawl.StatusCancelled))
		}
	case "fork":
		return keep(l.exists && (said == saidOK || said == saidConflict))
	case "get":
		switch pawl.Status(said) {
		case pawl.StatusSucceeded:
			if l.ended != string(pawl.StatusCancelled) && l.answered && !l.cancelled {
				l.ended = said
				return []life{l}
			}
		case pawl.StatusCancelled:
			if l.cancelled && l.ended != string(pawl.StatusSucceeded) {
				l.ended = said
				return []life{l}
			}
		case pawl.StatusFailed, pawl.StatusMerged:
		default:
			return keep(l.exists && l.ended == "")
		}
	}
	return nil
}

func (l life) started(said string, keep func(bool) []life) []life {
	switch said {
	case "":
		if !l.exists {
			return []life{{exists: true}}
		}
	case pawl.ExistingRunning:
		return keep(l.exists && l.ended == "")
	case pawl.ExistingDone:
		if l.answered && !l.cancelled {
			l.ended = string(pawl.StatusSucceeded)
			return []life{l}
		}
	case pawl.ExistingAgain:
		if l.cancelled {
			return []life{{exists: true, again: true, answers: l.answers}}
		}
	}
	return nil
}

// History is 8 clients that start, answer, cancel, retry, fork and get a few runs at once, while the store loses some of what it
// should say. It is linearisable if the commands to each run can be put into one order in which each was told the truth
// (Herlihy and Wing, 1990; checked by porcupine after Wing and Gong, 1993, and Lowe, 2017).
func History(seed uint64, s store.Store, ops int) (broken string, err error) {
	h := &history{s: s, rng: rand.New(rand.NewPCG(seed, 5))}
	g := pawl.New[Job, State, Done]("poll", pawl.Options{Version: "1"})
	a := g.Node("ask", nodePlan{kind: kindAsk, n: 1}.body(NewWorld(NewWitness())))
	g.Start(a, func(j Job) (State, error) { return State{Path: j.Path}, nil })
	g.From(a).Otherwise(g.Succeed("DONE"))
	g.Finish(func(s State, _ pawl.Ending) (Done, error) { return Done{Sum: s.Sum}, nil })
	w, err := g.Build()
	if err != nil {
		return "", err
	}
	c := engine.Config{Lease: 2 * time.Second, Poll: 50 * time.Millisecond}
	pace := &lazy{rng: h.rng} // a worker that takes a while leaves open what clients are at
	worker, err := engine.New(&Store{Real: s, Seen: NewWitness(), Lease: c.Lease, Plan: Calm{}, Slow: pace.next}, []*pawl.Workflow{w}, c)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- worker.Work(ctx) }()
	var wg sync.WaitGroup
	for client := range 8 {
		way := rand.New(rand.NewPCG(seed, uint64(200+client))) // its own calls come one after the other
		e, err := engine.New(&Store{Real: s, Seen: NewWitness(), Lease: c.Lease,
			Slow: func() time.Duration { return time.Duration(way.IntN(3)) * time.Millisecond },
			Plan: NewChance(seed*100+uint64(client), 0, Rates{Refuse: 20, Lose: 60})}, []*pawl.Workflow{w}, c)
		if err != nil {
			stop()
			return "", err
		}
		rng := rand.New(rand.NewPCG(seed, uint64(100+client)))
		wg.Go(func() {
			for range ops / 8 {
				h.command(ctx, client, rng, e.As(all))
			}
		})
	}
	wg.Wait()
	stop()
	if err := <-done; err != nil {
		return "", err
	}
	return h.check(context.WithoutCancel(ctx)), nil
}

// lazy takes a few milliseconds for each call; the calls of a worker come from several goroutines.
type lazy struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (l *lazy) next() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.rng.IntN(6)) * time.Millisecond
}

type history struct {
	s     store.Store
	rng   *rand.Rand
	clock atomic.Int64

	mu    sync.Mutex
	ops   []porcupine.Operation
	forks []string // that were acknowledged
	runs  sync.Map // id by key
}

// command gives one command by chance and notes what was said.
func (h *history) command(ctx context.Context, client int, rng *rand.Rand, rs pawl.Runs) {
	c := command{key: fmt.Sprint("k", rng.IntN(6)), value: fmt.Sprint(rng.IntN(3))}
	run := ""
	if id, ok := h.runs.Load(c.key); ok {
		run = id.(string)
	}
	c.what = []string{"start", "answer", "answer", "answer", "cancel", "retry", "fork", "get", "get"}[rng.IntN(9)]
	if run == "" {
		c.what = "start"
	}
	if c.what == "answer" {
		qs, err := h.s.Questions(ctx, everything, store.Filter{Run: run}, store.Page{Limit: 1})
		if err != nil || len(qs) == 0 {
			c.what = "get"
		} else {
			c.question = qs[0].ID
		}
	}
	call := h.clock.Add(1)
	said, err := h.give(ctx, rs, c, run)
	back := h.clock.Add(1)
	if err != nil {
		switch pawl.Coded(err).Code {
		case pawl.CodeConflict:
			said = saidConflict
		case pawl.CodeUnavailable:
			said, back = saidLost, 1<<62
		default:
			said = err.Error()
		}
	}
	h.mu.Lock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: c, Output: said, Call: call, Return: back})
	h.mu.Unlock()
	_ = wait(ctx, time.Duration(rng.IntN(4))*time.Millisecond)
}

func (h *history) give(ctx context.Context, rs pawl.Runs, c command, run string) (said string, err error) {
	switch c.what {
	case "start":
		st, err := rs.Start(ctx, "poll", json.RawMessage(fmt.Sprintf(`{"path":%q,"sum":1}`, c.key)), pawl.StartOptions{Key: c.key})
		if err == nil {
			h.runs.Store(c.key, st.Run.ID)
		}
		return st.Existing, err
	case "answer":
		return saidOK, rs.Answer(ctx, run, c.question, json.RawMessage(c.value))
	case "cancel":
		return saidOK, rs.Cancel(ctx, run, "")
	case "retry":
		_, err := rs.Retry(ctx, run)
		return saidOK, err
	case "fork":
		f, err := rs.Fork(ctx, run, 1, nil)
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.forks = append(h.forks, f.ID)
		}
		return saidOK, err
	}
	r, err := rs.Get(ctx, run)
	return string(r.Status), err
}

// check looks for an order in which everybody was told the truth, and for the forks.
func (h *history) check(ctx context.Context) string {
	for _, id := range h.forks {
		if _, err := h.s.Get(ctx, everything, id); err != nil {
			return fmt.Sprintf("the fork %s was acknowledged: %v", id, err)
		}
	}
	model := porcupine.NondeterministicModel{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			by := map[string][]porcupine.Operation{}
			for _, o := range ops {
				k := o.Input.(command).key
				by[k] = append(by[k], o)
			}
			var out [][]porcupine.Operation
			for _, part := range by {
				out = append(out, part)
			}
			return out
		},
		Init: func() []any { return []any{life{}} },
		Step: func(state, in, out any) (next []any) {
			for _, l := range state.(life).step(in.(command), out.(string)) {
				next = append(next, l)
			}
			return next
		},
		Equal: func(a, b any) bool { return a == b },
	}
	m := model.ToModel()
	if porcupine.CheckOperationsTimeout(m, h.ops, time.Minute) == porcupine.Ok {
		return ""
	}
	for _, part := range model.Partition(h.ops) {
		if porcupine.CheckOperationsTimeout(m, part, time.Minute) != porcupine.Ok {
			var b strings.Builder
			for _, o := range part {
				fmt.Fprintf(&b, "\n\t%d-%d client %d: %+v: %v", o.Call, o.Return, o.ClientId, o.Input, o.Output)
			}
			return "no order of these commands explains what was said:" + b.String()
		}
	}
	return "not linearisable within a minute"
}
