package engine_test

import (
	"context"
	"strings"
	"testing"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// chat grows by one message a turn; every message is 1 KB of its own.
func chat() *graph {
	g := blank("chat", pawl.Options{})
	turn := g.Node("turn", func(_ context.Context, w work) (work, error) {
		w.N++
		return w.line(message(w.N)), nil
	})
	g.Start(turn, begin)
	g.From(turn).When("more", func(w work) bool { return w.N < 400 }, turn).AtMost(400).Otherwise(g.Succeed("END"))
	return g
}

// message is text in which no two blocks are alike, so that nothing of it is found again in others.
func message(n int) string {
	var b strings.Builder
	for x := uint32(n) * 2654435761; b.Len() < 1000; x = x*1664525 + 1013904223 {
		b.WriteByte('a' + byte(x>>24)%26)
	}
	return b.String()
}

// TestLongHistoryOfAGrowingState costs less than three times its last state, in the rows of the step log that carry it: full copies
// come by the size of what stands between them, not by their number.
func TestLongHistoryOfAGrowingState(t *testing.T) {
	onStores(t, func(t *testing.T, open opener) {
		open.virtual(t, func(r *rig) {
			run := r.start("chat", 0)
			if err := r.engine(r.store, engine.Config{}).WorkRun(r.ctx, run.ID); err != nil {
				t.Fatal(err)
			}
			rows, err := r.store.Read(r.ctx, store.Scope{All: true}, run.ID, store.Query{Stream: store.Step})
			if err != nil {
				t.Fatal(err)
			}
			bytes := 0
			for _, row := range rows {
				bytes += len(row.Data) + len(row.Key)
			}
			state, err := r.rs.State(r.ctx, run.ID, 0)
			if err != nil || len(state) < 400_000 || stateOf(t, state).N != 400 || r.steps(run.ID, "turn") != 400 {
				t.Fatalf("a state of %d bytes, %v", len(state), err)
			}
			t.Logf("%d rows of %d bytes for a state of %d bytes: %.2f times its size", len(rows), bytes, len(state), float64(bytes)/float64(len(state)))
			if bytes >= 3*len(state) {
				t.Error("that is too much")
			}
			// The same as the columns of the database hold it; the first stream is the step log.
			if stored := r.sum("SELECT sum(length(key) + length(data)) FROM log WHERE stream = 0"); stored >= 3*len(state) {
				t.Errorf("%d bytes in the columns of the database", stored)
			} else if stored > 0 {
				t.Logf("%d bytes in the columns of the database: %.2f times its size", stored, float64(stored)/float64(len(state)))
			}
		}, build(t, chat()))
	})
}
