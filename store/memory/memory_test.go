package memory_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pawl/store"
	"pawl/store/memory"
	"pawl/store/storetest"
)

func TestLaw(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memory.New() }, storetest.Options{})
}

// Virtual time: an hour's timer comes at once, and Watch is idle in a way that synctest understands.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan string, 10)
		go func() {
			for id := range s.Watch(ctx) {
				got <- id
			}
			close(got)
		}()
		synctest.Wait()
		if err := s.Create(ctx, store.NewRun{ID: "r", After: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if id := <-got; id != "r" {
			t.Fatal(id)
		}
		_, next, err := s.Claim(ctx, store.Claim{Max: 1, Hold: time.Minute})
		if err != nil || next != time.Hour {
			t.Fatal(next, err)
		}
		time.Sleep(next)
		rs, _, err := s.Claim(ctx, store.Claim{Max: 1, Hold: time.Minute})
		if err != nil || len(rs) != 1 {
			t.Fatal(rs, err)
		}
		cancel()
		for range got {
		}
	})
}

func BenchmarkApply(b *testing.B) {
	ctx, s, row := context.Background(), memory.New(), make([]byte, 1500)
	if err := s.Create(ctx, store.NewRun{ID: "r"}); err != nil {
		b.Fatal(err)
	}
	rs, _, _ := s.Claim(ctx, store.Claim{Max: 1, Hold: 24 * time.Hour})
	add := []store.Row{{Stream: store.Step, Data: make([]byte, 100)}, {Stream: store.Event, Data: make([]byte, 100)}}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Apply(ctx, store.Change{Run: "r", Epoch: rs[0].Epoch, Row: row, Add: add}); err != nil {
			b.Fatal(err)
		}
	}
}

// A hundred thousand runs that wait must not be felt by a claim.
func BenchmarkClaim(b *testing.B) {
	for _, waiting := range []int{0, 100_000} {
		b.Run(fmt.Sprint(waiting, " waiting"), func(b *testing.B) {
			ctx, s := context.Background(), memory.New()
			for i := range waiting {
				_ = s.Create(ctx, store.NewRun{ID: fmt.Sprintf("x%06d", i), Workflow: "w", Version: "1", After: time.Hour})
			}
			_ = s.Create(ctx, store.NewRun{ID: "r", Workflow: "w", Version: "1"})
			for b.Loop() {
				rs, _, err := s.Claim(ctx, store.Claim{Worker: "w", Kinds: []string{"w@1"}, Max: 8, Hold: time.Minute})
				if err != nil || len(rs) != 1 {
					b.Fatal(rs, err)
				}
				_ = s.Apply(ctx, store.Change{Run: "r", Epoch: rs[0].Epoch, Release: true})
			}
		})
	}
}
