package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"testing"
	"time"

	"pawl/app"
	"pawl/internal/faults"
	"pawl/internal/pgtest"
)

// TestMain makes this test binary a process that is killed, where it is called as one: a worker with short leases, or the program
// that people start, with workflows whose effects are seen.
func TestMain(m *testing.M) {
	ledger := os.Getenv("FAULTS_LEDGER")
	switch address := os.Getenv("FAULTS_WORKER"); {
	case address != "":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		lease, err := time.ParseDuration(os.Getenv("FAULTS_LEASE"))
		ends(errors.Join(err, faults.Worker(ctx, address, ledger, lease, os.Stdout)))
	case os.Getenv("FAULTS_ERRANDS") != "":
		ends(faults.ErrandWorker(context.Background(), os.Getenv("FAULTS_ERRANDS"), os.Getenv("FAULTS_RECEIVER"), os.Stdout))
	case os.Getenv("FAULTS_PROGRAM") != "":
		ends(program(ledger))
	}
	debug.SetGCPercent(400) // thousands of small worlds, each soon forgotten
	os.Exit(pgtest.Main(m))
}

func program(ledger string) error {
	f, err := os.OpenFile(ledger, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	ws, err := faults.Quick(f)
	if err != nil {
		return err
	}
	var lines []app.Workflow
	for _, w := range ws {
		lines = append(lines, app.Built(w))
	}
	app.Main(lines...)
	return nil
}

func ends(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
