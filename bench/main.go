// Command bench runs the same durable workflow of ten trivial steps on Pawl, on DBOS Go and on go-workflows, in one process and
// in turns, and prints how many steps a second each of them comes to.
//
// It never holds a claim: figures are of this machine and this minute, and the ratios are what carries over. It is a module of
// its own so that none of the others becomes a dependency of pawl.
//
// Start reading at main, then subject.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// steps of each workflow.
const steps = 10

// subject is one engine on one store.
type subject struct {
	engine, store string
	durability    string // what an acknowledged step survives
	open          func(ctx context.Context, dir string) (run func(context.Context) error, stop func(), err error)
}

func main() {
	rounds := flag.Int("rounds", 3, "rounds of each measurement; the median counts")
	span := flag.Duration("time", 3*time.Second, "how long one measurement takes")
	postgres := flag.String("postgres", "", "`URL` of a Postgres database whose schemas pawl and dbos may be made anew; empty: SQLite only")
	commands := flag.Bool("commands", false, "measure what Pawl's own commands cost instead: start, answer, recovery, wake-up")
	flag.Parse()
	run := func() error { return measure(*rounds, *span, *postgres) }
	if *commands {
		run = func() error { return own(openers(*postgres)) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func measure(rounds int, span time.Duration, postgres string) error {
	dir, err := os.MkdirTemp("", "pawl-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	subjects := []subject{pawlSQLite(), dbosSQLite(), goWorkflows()}
	if postgres != "" {
		subjects = append(subjects, pawlPostgres(postgres), dbosPostgres(postgres))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "engine\tstore\tdurability\t1 in flight, steps/s\t32 in flight, steps/s\tpawl is faster by")
	base := map[string][2]float64{}
	rates := make([][2][]float64, len(subjects))
	for range rounds { // in turns, so that a machine that slows down does it to all
		for i, s := range subjects {
			for j, flight := range []int{1, 32} {
				rate, err := s.measure(dir, flight, span)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", s.engine, s.store, err)
				}
				rates[i][j] = append(rates[i][j], rate)
			}
		}
	}
	for i, s := range subjects {
		r := [2]float64{median(rates[i][0]), median(rates[i][1])}
		faster := ""
		if b, ok := base[s.store]; ok {
			faster = fmt.Sprintf("%.1f× / %.1f×", b[0]/r[0], b[1]/r[1])
		} else {
			base[s.store] = r
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%.0f\t%s\n", s.engine, s.store, s.durability, r[0], r[1], faster)
	}
	return w.Flush()
}

// measure runs workflows on a new store, so many at a time, and gives steps a second.
func (s subject) measure(dir string, flight int, span time.Duration) (float64, error) {
	dir, err := os.MkdirTemp(dir, "")
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	run, stop, err := s.open(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer stop()
	if err := run(ctx); err != nil { // what is prepared at the first use is not measured
		return 0, err
	}
	var mu sync.Mutex
	var fault error
	done, began := 0, time.Now()
	var wg sync.WaitGroup
	for range flight {
		wg.Go(func() {
			for time.Since(began) < span {
				err := run(ctx)
				mu.Lock()
				done++
				fault = cmp.Or(fault, err)
				stop := fault != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(done*steps) / time.Since(began).Seconds(), fault
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
