package engine_test

import (
	"testing"

	"pawl"
	"pawl/engine"
	"pawl/store"
)

// TestADamagedRowDoesNotHideTheOthers: a list shows it by its names, with the error; asking for the run itself is the error.
func TestADamagedRowDoesNotHideTheOthers(t *testing.T) {
	virtual(t, func(r *rig) {
		r.engine(r.store, engine.Config{})
		good, bad := r.start("ring", 1), r.start("ring", 1)
		if err := r.store.Apply(r.ctx, store.Change{Run: bad.ID, Takeover: true, Status: "queued", Node: "a", Row: []byte("{")}); err != nil {
			t.Fatal(err)
		}
		rs, err := r.rs.List(r.ctx, pawl.RunFilter{}, "", 0)
		if err != nil || len(rs) != 2 || rs[1].ID != good.ID || rs[1].Err != nil {
			t.Fatal(rs, err)
		}
		if rs[0].ID != bad.ID || rs[0].Err == nil || rs[0].Workflow != "ring" {
			t.Errorf("%+v", rs[0])
		}
		if _, err := r.rs.Get(r.ctx, bad.ID); pawl.Coded(err) == nil {
			t.Error("no error")
		}
	}, build(t, ring()))
}
