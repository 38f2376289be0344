package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"pawl"
	"pawl/engine"
	"pawl/store"
	"pawl/store/postgres"
	"pawl/store/sqlite"
)

// count is a node that runs ten times: each time a step with a commit of its own.
func count() *pawl.Graph[int, int, int] {
	g := pawl.New[int, int, int]("count", pawl.Options{Version: "1"})
	add := g.Node("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	done := g.Succeed("DONE")
	g.Start(add, func(int) (int, error) { return 0, nil })
	g.From(add).When("again", func(n int) bool { return n < steps }, add).AtMost(steps).Otherwise(done)
	g.Finish(func(n int, _ pawl.Ending) (int, error) { return n, nil })
	return g
}

func pawlSQLite() subject {
	return subject{"pawl", "SQLite", "synchronous=FULL", func(ctx context.Context, dir string) (func(context.Context) error, func(), error) {
		s, err := openSQLite(ctx, dir)
		if err != nil {
			return nil, nil, err
		}
		return pawlOn(ctx, s)
	}}
}

func openSQLite(ctx context.Context, dir string) (store.Store, error) {
	return sqlite.Open(ctx, filepath.Join(dir, "pawl.db"), sqlite.Options{})
}

func openers(address string) []opener {
	all := []opener{{"SQLite", openSQLite}}
	if address != "" {
		all = append(all, opener{"Postgres", openPostgres(address)})
	}
	return all
}

func pawlPostgres(address string) subject {
	return subject{"pawl", "Postgres", "synchronous_commit=on", func(ctx context.Context, dir string) (func(context.Context) error, func(), error) {
		s, err := openPostgres(address)(ctx, dir)
		if err != nil {
			return nil, nil, err
		}
		return pawlOn(ctx, s)
	}}
}

// openPostgres takes a schema of its own for each folder.
func openPostgres(address string) func(context.Context, string) (store.Store, error) {
	return func(ctx context.Context, dir string) (store.Store, error) {
		return postgres.Open(ctx, address, postgres.Options{Schema: "bench_" + strings.ToLower(filepath.Base(dir))})
	}
}

// pawlOn works a store, and starts runs that it waits for by their events.
func pawlOn(ctx context.Context, s store.Store) (func(context.Context) error, func(), error) {
	w, err := count().Build()
	if err != nil {
		return nil, nil, err
	}
	e, err := engine.New(s, []*pawl.Workflow{w}, engine.Config{})
	if err != nil {
		return nil, nil, err
	}
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- e.Work(working) }()
	runs := e.As(pawl.Caller{User: "bench"})
	run := func(ctx context.Context) error {
		started, err := runs.Start(ctx, "count", []byte("0"), pawl.StartOptions{})
		if err != nil {
			return err
		}
		for _, err := range runs.Events(ctx, started.Run.ID, 0) { // they end with the run
			if err != nil {
				return err
			}
		}
		r, err := runs.Get(ctx, started.Run.ID)
		if err == nil && r.Status != pawl.StatusSucceeded {
			err = errors.New(string(r.Status))
		}
		return err
	}
	return run, func() { stop(); <-worked; _ = s.Close() }, nil
}
