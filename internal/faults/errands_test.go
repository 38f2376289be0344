package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
)

// errands is a Map of 30 items; each is told to a receiver outside of the process, with its idempotency key.
const errands = 30

func errandGraph(receiver string) (*pawl.Workflow, error) {
	g := pawl.New[int, int, int]("errands", pawl.Options{Version: "1"})
	run := g.Node("run", func(ctx context.Context, n int) (int, error) {
		items := make([]int, n)
		for i := range items {
			items[i] = i
		}
		done, err := pawl.Map(ctx, "errand", items, 4, func(ctx context.Context, i int) (int, error) {
			return i + 1, post(ctx, receiver, pawl.IdempotencyKey(ctx), fmt.Sprint(i))
		})
		for _, d := range done {
			n += d
		}
		return n, err
	})
	g.Start(run, func(n int) (int, error) { return n, nil })
	g.From(run).Otherwise(g.Succeed("DONE"))
	g.Finish(func(n int, _ pawl.Ending) (int, error) { return n, nil })
	return g.Build()
}

func post(ctx context.Context, receiver, key, item string) error {
	form := url.Values{"item": {item}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, receiver, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return errors.New(a.Status)
	}
	return nil
}

// ErrandWorker is the process that is killed.
func ErrandWorker(ctx context.Context, address, receiver string, out io.Writer) error {
	w, err := errandGraph(receiver)
	if err != nil {
		return err
	}
	return workOn(ctx, address, Short, out, w)
}

// errandWorker starts it.
func (s *site) errandWorker(receiver string) *proc {
	s.Helper()
	return s.process("works", []string{"FAULTS_ERRANDS=" + s.address, "FAULTS_RECEIVER=" + receiver})
}

// recorded are the items whose calls the journal of a run holds as finished.
func (s *site) recorded(run string) map[string]bool {
	s.Helper()
	made, err := s.office.As(all).Calls(s.Context(), run, 0)
	if err != nil {
		s.Fatal(err)
	}
	out := map[string]bool{}
	for _, c := range made {
		if c.Err == nil && len(c.Result) > 0 {
			out[strings.TrimSuffix(strings.TrimPrefix(c.Key, "errand["), "]")] = true
		}
	}
	return out
}

// onErrands makes a site whose workers run errands, for a receiver that both counts all deliveries and knows their keys. before
// is called when an effect has been made, before the worker hears of it; the number is how many have been.
func onErrands(t *testing.T, address string, before func(n int, item string)) (s *site, w *World, receiver string) {
	s, w = database(t, address), NewWorld(NewWitness())
	var mu sync.Mutex
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, to := range []*Receiver{w.Many, w.Once} {
			if err := to.receive(r.Header.Get("Idempotency-Key"), r.FormValue("item")); err != nil {
				t.Error(err)
			}
		}
		mu.Lock()
		n++
		now := n
		mu.Unlock()
		before(now, r.FormValue("item"))
	}))
	t.Cleanup(server.Close)
	flow, err := errandGraph(server.URL)
	if err == nil {
		s.office, err = engine.New(s.store, []*pawl.Workflow{flow}, shortly(Short))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, w, server.URL
}

// TestFaultKilledInAMap kills a process in the middle of a Map of 30 items, at an effect that it has made and not yet recorded.
// Another one goes on: no item that was recorded is made again, each one that was not is made with the same key, so that a
// receiver which knows the keys has everything exactly once, and one which does not has at least once.
func TestFaultKilledInAMap(t *testing.T) {
	t.Parallel()
	onGrounds(t, func(t *testing.T, address func(*testing.T) string) {
		seed := uint64(time.Now().UnixNano())
		rng := rand.New(rand.NewPCG(seed, 0))
		kept, again := 0, 0
		for range number("FAULTS_MAPS", 10) {
			k, p, cut := 6+rng.IntN(20), (*proc)(nil), ""
			armed, killed := make(chan struct{}), make(chan struct{})
			s, w, receiver := onErrands(t, address(t), func(n int, item string) {
				if n == k {
					<-armed
					p.kill()
					cut = item
					close(killed)
				}
			})
			st, err := s.office.As(all).Start(t.Context(), "errands", []byte(fmt.Sprint(errands)), pawl.StartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			p = s.errandWorker(receiver)
			close(armed)
			<-killed
			finished, made := s.recorded(st.Run.ID), w.Many.Done()
			next := s.errandWorker(receiver)
			s.soon("the run ends", func() bool { return !s.live() })
			next.kill()

			run, err := s.office.As(all).Get(t.Context(), st.Run.ID)
			if want := fmt.Sprint(errands + errands*(errands+1)/2); err != nil || run.Status != pawl.StatusSucceeded || string(run.Output) != want {
				t.Fatalf("the run is %s with %s, %v", run.Status, run.Output, err)
			}
			if len(finished) == 0 || finished[cut] || made[cut] != 1 {
				t.Errorf("the process died at item %s with %d effects made, %d of them recorded: that is not the middle", cut, len(made), len(finished))
			}
			row, err := s.store.Get(t.Context(), everything, st.Run.ID)
			if err != nil {
				t.Fatal(err)
			}
			claims := int(row.Epoch) // two, or more where the machine is so slow that a lease has run out by itself
			all, once := w.Many.Done(), w.Once.Done()
			for i := range errands {
				item := fmt.Sprint(i)
				switch n := all[item]; {
				case n == 0 || n > claims, once[item] != 1:
					t.Errorf("item %s was made %d times, %d times where keys are known; the run was claimed %d times", item, n, once[item], claims)
				case finished[item] && n != 1:
					t.Errorf("item %s was recorded when the process died, and was made %d times", item, n)
				case item == cut && n < 2:
					t.Errorf("item %s had been made and not recorded, and was not made again", item)
				case n > 1:
					again++
				}
			}
			kept += len(finished)
		}
		t.Logf("seed %d: %d recorded items were not made again; %d that were made and not recorded were, with the same key", seed, kept, again)
	})
}
