package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/monoprocess"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
	"github.com/google/uuid"
)

func addOne(_ context.Context, n int) (int, error) { return n + 1, nil }

func countActivities(ctx workflow.Context, n int) (int, error) {
	for range steps {
		got, err := workflow.ExecuteActivity[int](ctx, workflow.DefaultActivityOptions, addOne, n).Get(ctx)
		if err != nil {
			return n, err
		}
		n = got
	}
	return n, nil
}

// goWorkflows is in its mode for one process, which is woken and need not poll.
func goWorkflows() subject {
	return subject{"go-workflows, monoprocess", "SQLite", "synchronous=FULL", func(ctx context.Context, dir string) (func(context.Context) error, func(), error) {
		quiet := slog.New(slog.DiscardHandler)
		b := monoprocess.NewMonoprocessBackend(sqlite.NewSqliteBackend(filepath.Join(dir, "wf.db"), sqlite.WithBackendOptions(backend.WithLogger(quiet))))
		working, cancel := context.WithCancel(ctx)
		o := worker.NewWorkflowOrchestrator(b, nil)
		for _, err := range []error{o.RegisterWorkflow(countActivities), o.RegisterActivity(addOne), o.Start(working)} {
			if err != nil {
				cancel()
				return nil, nil, err
			}
		}
		run := func(ctx context.Context) error {
			i, err := o.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: uuid.NewString()}, countActivities, 0)
			if err != nil {
				return err
			}
			n, err := client.GetWorkflowResult[int](ctx, o.Client, i, time.Minute)
			if err == nil && n != steps {
				err = fmt.Errorf("it came to %d", n)
			}
			return err
		}
		return run, func() { cancel(); _ = o.WaitForCompletion(); _ = b.Close() }, nil
	}}
}
