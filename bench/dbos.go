package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
)

func dbosSQLite() subject {
	return subject{"DBOS Go, direct", "SQLite", "synchronous=FULL", func(ctx context.Context, dir string) (func(context.Context) error, func(), error) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "dbos.db")+
			"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_txlock=immediate")
		if err != nil {
			return nil, nil, err
		}
		db.SetMaxOpenConns(1)
		return dbosOn(ctx, dbos.Config{AppName: "bench", SQLiteSystemDB: db})
	}}
}

func dbosPostgres(url string) subject {
	return subject{"DBOS Go, direct", "Postgres", "synchronous_commit=on", func(ctx context.Context, _ string) (func(context.Context) error, func(), error) {
		return dbosOn(ctx, dbos.Config{AppName: "bench", DatabaseURL: url})
	}}
}

func countSteps(ctx dbos.Context, n int) (int, error) {
	for range steps {
		got, err := dbos.RunAsStep(ctx, func(context.Context) (int, error) { return n + 1, nil })
		if err != nil {
			return n, err
		}
		n = got
	}
	return n, nil
}

// dbosOn starts workflows directly, which is its fastest way: its queue is polled.
func dbosOn(ctx context.Context, c dbos.Config) (func(context.Context) error, func(), error) {
	c.Logger = slog.New(slog.DiscardHandler)
	d, err := dbos.NewContext(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	dbos.RegisterWorkflow(d, countSteps)
	if err := dbos.Launch(d); err != nil {
		return nil, nil, err
	}
	run := func(context.Context) error {
		h, err := dbos.RunWorkflow(d, countSteps, 0)
		if err != nil {
			return err
		}
		n, err := h.GetResult()
		if err == nil && n != steps {
			err = fmt.Errorf("it came to %d", n)
		}
		return err
	}
	return run, func() { dbos.Shutdown(d, 5*time.Second) }, nil
}
