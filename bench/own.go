package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// opener opens one database; called twice it is as two processes have it.
type opener struct {
	name string
	open func(ctx context.Context, dir string) (store.Store, error)
}

// crowd is how many interrupted runs are recovered.
const crowd = 10_000

// own prints what the commands of Pawl cost on each store.
func own(stores []opener) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "store\tstart, 1 / 32 at once\tanswer, 1 / 32 at once\t10,000 interrupted runs go on and end\twake-up, p50 / p99")
	for _, o := range stores {
		var cells [6]string
		for i, measure := range []func(context.Context, opener, string) (string, error){starts(1), starts(32), answers(1), answers(32), recovery, wakes} {
			dir, err := os.MkdirTemp("", "pawl-bench-")
			if err != nil {
				return err
			}
			cells[i], err = measure(context.Background(), o, dir)
			if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
		}
		fmt.Fprintf(w, "%s\t%s / %s a second\t%s / %s a second\t%s\t%s\n", o.name, cells[0], cells[1], cells[2], cells[3], cells[4], cells[5])
	}
	return w.Flush()
}

// question is a graph that asks once.
func question() *pawl.Graph[int, string, string] {
	g := pawl.New[int, string, string]("question", pawl.Options{Version: "1"})
	ask := g.Node("ask", func(ctx context.Context, _ string) (string, error) {
		return pawl.Ask[string](ctx, "q", pawl.Question{Text: "Well?"})
	})
	done := g.Succeed("DONE")
	g.Start(ask, func(int) (string, error) { return "", nil })
	g.From(ask).OnAnswer("said", done).AtMost(1).Otherwise(done)
	g.Finish(func(s string, _ pawl.Ending) (string, error) { return s, nil })
	return g
}

// begin opens a database and an engine with both graphs.
func begin(ctx context.Context, o opener, dir string) (s store.Store, e *engine.Engine, runs pawl.Runs, err error) {
	var ws []*pawl.Workflow
	for _, build := range []func() (*pawl.Workflow, error){count().Build, question().Build} {
		w, err := build()
		if err != nil {
			return nil, nil, nil, err
		}
		ws = append(ws, w)
	}
	if s, err = o.open(ctx, dir); err != nil {
		return nil, nil, nil, err
	}
	if e, err = engine.New(s, ws, engine.Config{}); err != nil {
		return nil, nil, nil, errors.Join(err, s.Close())
	}
	return s, e, e.As(pawl.Caller{User: "bench"}), nil
}

// each does something n times, so many at once, and gives the times a second.
func each(n, flight int, do func(i int) error) (float64, error) {
	var wg sync.WaitGroup
	next, fault := make(chan int), make(chan error, flight)
	began := time.Now()
	for range flight {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					select {
					case fault <- err:
					default:
					}
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	took := time.Since(began)
	select {
	case err := <-fault:
		return 0, err
	default:
		return float64(n) / took.Seconds(), nil
	}
}

func starts(flight int) func(context.Context, opener, string) (string, error) {
	return func(ctx context.Context, o opener, dir string) (string, error) {
		s, _, runs, err := begin(ctx, o, dir)
		if err != nil {
			return "", err
		}
		defer s.Close()
		rate, err := each(500*min(flight, 8), flight, func(int) error {
			_, err := runs.Start(ctx, "count", []byte("0"), pawl.StartOptions{})
			return err
		})
		return fmt.Sprintf("%.0f", rate), err
	}
}

func answers(flight int) func(context.Context, opener, string) (string, error) {
	return func(ctx context.Context, o opener, dir string) (string, error) {
		s, e, runs, err := begin(ctx, o, dir)
		if err != nil {
			return "", err
		}
		defer s.Close()
		n := 500 * min(flight, 4)
		if _, err := each(n, 32, func(int) error {
			_, err := runs.Start(ctx, "question", []byte("0"), pawl.StartOptions{})
			return err
		}); err != nil {
			return "", err
		}
		asking, stop := context.WithCancel(ctx)
		worked := make(chan error, 1)
		go func() { worked <- e.Work(asking) }()
		var open []pawl.Open
		for len(open) < n && err == nil {
			open = nil
			for after := ""; ; after = open[len(open)-1].ID {
				var page []pawl.Open
				page, err = runs.Questions(ctx, pawl.QuestionFilter{}, after, 200)
				open = append(open, page...)
				if len(page) < 200 || err != nil {
					break
				}
			}
		}
		stop()
		if err := errors.Join(err, <-worked); err != nil {
			return "", err
		}
		rate, err := each(n, flight, func(i int) error { return runs.Answer(ctx, open[i].Run, open[i].ID, []byte(`"yes"`)) })
		return fmt.Sprintf("%.0f", rate), err
	}
}

// recovery leaves runs in the hands of a worker that is dead, and lets another one bring all of them to their end.
func recovery(ctx context.Context, o opener, dir string) (string, error) {
	s, e, runs, err := begin(ctx, o, dir)
	if err != nil {
		return "", err
	}
	defer s.Close()
	if _, err := each(crowd, 64, func(int) error {
		_, err := runs.Start(ctx, "count", []byte("0"), pawl.StartOptions{})
		return err
	}); err != nil {
		return "", err
	}
	for dead := 0; dead < crowd; {
		got, _, err := s.Claim(ctx, store.Claim{Worker: "dead", Max: 500, Hold: time.Millisecond})
		if err != nil {
			return "", err
		}
		dead += len(got)
	}
	began := time.Now()
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- e.Work(working) }()
	for {
		left, err := s.List(ctx, store.Scope{All: true}, store.Filter{Statuses: []string{string(pawl.StatusQueued), string(pawl.StatusRunning)}}, store.Page{Limit: 1})
		if err != nil || len(left) == 0 {
			stop()
			took := time.Since(began)
			return fmt.Sprintf("%.1f s, %.0f steps/s", took.Seconds(), crowd*steps/took.Seconds()), errors.Join(err, <-worked)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// wakes measures from the return of a start in one process to the claim in another one that had nothing to do.
func wakes(ctx context.Context, o opener, dir string) (string, error) {
	ours, _, runs, err := begin(ctx, o, dir)
	if err != nil {
		return "", err
	}
	defer ours.Close()
	theirs, err := o.open(ctx, dir)
	if err != nil {
		return "", err
	}
	defer theirs.Close()
	w, err := question().Build()
	if err != nil {
		return "", err
	}
	claimed := make(chan time.Time, 1)
	e, err := engine.New(theirs, []*pawl.Workflow{w}, engine.Config{Trace: engine.Trace{
		Claimed: func(string, string, int64) { claimed <- time.Now() },
	}})
	if err != nil {
		return "", err
	}
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- e.Work(working) }()
	defer func() { stop(); <-worked }()
	var all []time.Duration
	for i := range 210 {
		if _, err := runs.Start(ctx, "question", []byte("0"), pawl.StartOptions{}); err != nil {
			return "", err
		}
		started := time.Now()
		if at := <-claimed; i >= 10 {
			all = append(all, max(at.Sub(started), 0))
		}
		time.Sleep(20 * time.Millisecond)
	}
	slices.Sort(all)
	return fmt.Sprintf("%s / %s", all[len(all)/2].Round(100*time.Microsecond), all[len(all)*99/100].Round(100*time.Microsecond)), nil
}
