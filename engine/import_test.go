package engine_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl"
	"pawl/engine"
	"pawl/internal/parcel"
	"pawl/store"
	"pawl/store/memory"
	"pawl/store/sqlite"
)

// export is the file of a run.
func (r *rig) export(e *engine.Engine, id string) []byte {
	r.Helper()
	var b bytes.Buffer
	if err := e.Export(r.ctx, operator, id, &b); err != nil {
		r.Fatal(err)
	}
	return b.Bytes()
}

// readable is all that can be read of a run and its family, without what an import changes.
func (r *rig) readable(rs pawl.Runs, id string) string {
	r.Helper()
	all := []any{}
	family, err := rs.List(r.ctx, pawl.RunFilter{Root: id}, "", 0)
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range family {
		run, err := rs.Get(r.ctx, f.ID)
		if err != nil {
			r.Fatal(err)
		}
		run.Tenant, run.User, run.Key, run.Outcome, run.Imported, run.Due = "", "", "", "", "", nil
		for i := range run.Meters { // of one that runs by the clock
			run.Meters[i].Used = 0
		}
		steps, err := rs.Steps(r.ctx, f.ID, 0, 0)
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, run, steps)
		for _, s := range steps {
			state, err := rs.State(r.ctx, f.ID, s.Seq)
			if err != nil {
				r.Fatal(err)
			}
			calls, err := rs.Calls(r.ctx, f.ID, s.Seq)
			if err != nil {
				r.Fatal(err)
			}
			all = append(all, state, calls)
		}
	}
	qs, err := rs.Questions(r.ctx, pawl.QuestionFilter{Run: id, Closed: true}, "", 0)
	if err != nil {
		r.Fatal(err)
	}
	for i := range qs {
		qs[i].Closed = true
	}
	b, err := json.Marshal(append(all, qs))
	if err != nil {
		r.Fatal(err)
	}
	return string(b)
}

func (r *rig) eventsOf(rs pawl.Runs, id string) string {
	r.Helper()
	var all []pawl.Logged
	for l, err := range rs.Events(r.ctx, id, 0) {
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, l)
	}
	b, _ := json.Marshal(all)
	return string(b)
}

func TestAnImportedRunIsWhatItWas(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New() },
		"sqlite": func(t *testing.T) store.Store {
			s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			var run pawl.Run
			var file []byte
			var was [2]string
			virtual(t, func(r *rig) {
				run = r.travel()
				e := r.engine(r.store, engine.Config{})
				file = r.export(e, run.ID)
				was = [2]string{r.readable(e.As(operator), run.ID), r.eventsOf(r.rs, run.ID)}
			}, built(t, journey("", &tally{})))
			there := open(t)
			defer there.Close()
			r := &rig{T: t, store: there, ws: []*pawl.Workflow{built(t, journey("", &tally{}))}, ctx: t.Context()}
			r.roundTrip(run, file, was)
		})
	}
}

func (r *rig) roundTrip(run pawl.Run, file []byte, was [2]string) {
	e := r.engine(r.store, engine.Config{})
	got, err := e.Import(r.ctx, operator, bytes.NewReader(file))
	if err != nil {
		r.Fatal(err)
	}
	if got.Runs != 4 || got.Run.ID != run.ID || got.Run.Imported == "" || got.Run.User != "op" || got.Run.Status != pawl.StatusSucceeded {
		r.Errorf("%+v", got)
	}
	rs := e.As(operator)
	if is := r.readable(rs, run.ID); is != was[0] {
		r.Errorf("the copy reads\n%s\nand was\n%s", is, was[0])
	}
	if is := r.eventsOf(rs, run.ID); is != was[1] {
		r.Errorf("events\n%s\nwere\n%s", is, was[1])
	}
	rep, err := e.Replay(r.ctx, operator, run.ID)
	if err != nil || rep.Diverged != nil || rep.Steps != rep.Of {
		r.Errorf("replay %+v, %v", rep, err)
	}
	again, err := e.Import(r.ctx, operator, bytes.NewReader(file))
	named(r.T, pawl.Coded(err), pawl.CodeConflict, "is in this store already")
	if again.Runs != 0 {
		r.Errorf("%+v", again)
	}
	var b bytes.Buffer
	if err := e.Export(r.ctx, operator, run.ID, &b); err != nil { // a copy of a copy
		r.Fatal(err)
	}
	third := r.engine(memory.New(), engine.Config{})
	if _, err := third.Import(r.ctx, operator, &b); err != nil {
		r.Fatal(err)
	}
	if rep, err := third.Replay(r.ctx, operator, run.ID); err != nil || rep.Diverged != nil {
		r.Errorf("replay of a copy's copy %+v, %v", rep, err)
	}
}

func TestACopyIsNeverWorkedAndCanBeForked(t *testing.T) {
	virtual(t, func(r *rig) {
		run, question := r.waiting()
		here := r.engine(r.store, engine.Config{})
		file := r.export(here, run.ID)
		r.rs = r.engine(memory.New(), engine.Config{}).As(operator)
		e := r.engine(memory.New(), engine.Config{})
		r.rs = e.As(operator)
		got, err := e.Import(r.ctx, operator, bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if got.Run.Outcome != "imported" || got.Run.Status != pawl.StatusWaiting || got.Run.Due != nil {
			t.Errorf("%+v", got.Run)
		}
		for what, err := range map[string]error{
			"answer": r.rs.Answer(r.ctx, run.ID, question, json.RawMessage("3")),
			"cancel": r.rs.Cancel(r.ctx, run.ID, "no"),
			"retry":  func() error { _, err := r.rs.Retry(r.ctx, run.ID); return err }(),
		} {
			if err == nil {
				t.Fatalf("%s of a copy was accepted", what)
			}
			named(t, pawl.Coded(err), pawl.CodeConflict, "imported copy")
		}
		stop := r.worker(e)
		defer stop()
		if err := e.WorkRun(r.ctx, run.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if now := r.get(run.ID); now.Status != pawl.StatusWaiting || now.Steps != run.Steps || now.Worker != "" {
			t.Errorf("the copy has moved: %+v", now)
		}
		if open, _ := r.rs.Questions(r.ctx, pawl.QuestionFilter{}, "", 0); len(open) != 0 {
			t.Errorf("open questions of a copy: %+v", open)
		}
		fork, err := r.rs.Fork(r.ctx, run.ID, 0, nil)
		if err != nil || fork.Imported != "" || fork.ForkOf != run.ID {
			t.Fatalf("%+v, %v", fork, err)
		}
		r.becomes(fork.ID, pawl.StatusWaiting)
		r.reply(fork.ID, "3")
		r.ends(fork.ID, pawl.StatusSucceeded)
		rep, err := e.Replay(r.ctx, operator, fork.ID)
		if err != nil || rep.Diverged != nil {
			t.Errorf("%+v, %v", rep, err)
		}
	}, built(t, poll("1", "ask", 1)))
}

// changed reads a file, lets it be changed, and writes it again with the right checksum.
func changed(t *testing.T, file []byte, change func(rs []parcel.Run)) []byte {
	t.Helper()
	h, rs, err := parcel.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	change(rs)
	var b bytes.Buffer
	w, err := parcel.NewWriter(&b, h)
	for _, r := range rs {
		if err == nil {
			err = w.Run(r)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestABadFileImportsNothing(t *testing.T) {
	virtual(t, func(r *rig) {
		run := r.travel()
		file := r.export(r.engine(r.store, engine.Config{}), run.ID)
		s := memory.New()
		e := r.engine(s, engine.Config{})
		row := func(stream store.Stream, f func(*store.Row)) func([]parcel.Run) {
			return func(rs []parcel.Run) {
				for i := range rs[0].Rows {
					if rs[0].Rows[i].Stream == stream {
						f(&rs[0].Rows[i])
						return
					}
				}
				t.Fatalf("no row in %s", stream)
			}
		}
		aside := func(blob string) func(*store.Row) { // instead of the result
			return func(w *store.Row) { w.Data = bytes.Replace(w.Data, []byte(`"r":1`), []byte(blob), 1) }
		}
		replaced := func(old, new string) func([]parcel.Run) {
			return func(rs []parcel.Run) { rs[0].Row = bytes.Replace(rs[0].Row, []byte(old), []byte(new), 1) }
		}
		for name, c := range map[string]struct {
			change func([]parcel.Run)
			text   string
		}{
			"an id of another kind":    {func(rs []parcel.Run) { rs[3].ID = "../../etc" }, "no id of a run"},
			"an id twice":              {func(rs []parcel.Run) { rs[3].ID = rs[2].ID }, "twice"},
			"another first run":        {func(rs []parcel.Run) { rs[0], rs[1] = rs[1], rs[0] }, "first run"},
			"a parent that is missing": {func(rs []parcel.Run) { rs[2].Parent = "nobody" }, "nobody"},
			"parents in a circle":      {func(rs []parcel.Run) { rs[1].Parent, rs[2].Parent = rs[2].ID, rs[1].ID }, "do not lead"},
			"a budget that is none": {func(rs []parcel.Run) {
				rs[0].Head = bytes.Replace(rs[0].Head, []byte(`"hash"`), []byte(`"budget":{"llm":-1},"hash"`), 1)
			}, "llm"},
			"an odd status":            {replaced(`"s":"succeeded"`, `"s":"splendid"`), "splendid"},
			"more steps":               {replaced(`"t":`, `"t":1`), "steps"},
			"a record that is none":    {func(rs []parcel.Run) { rs[1].Row = []byte(`[]`) }, "row cannot be read"},
			"a head that is none":      {func(rs []parcel.Run) { rs[1].Head = []byte(`7`) }, "row cannot be read"},
			"another state":            {row(store.Step, func(w *store.Row) { w.Data = bytes.Replace(w.Data, []byte(`"N":5`), []byte(`"N":6`), 1) }), "does not verify"},
			"a step that is none":      {row(store.Step, func(w *store.Row) { w.Data = []byte(`{}`) }), "step 1"},
			"a step less":              {row(store.Step, func(w *store.Row) { w.Stream, w.Data, w.Told = store.Audit, []byte(`{}`), false }), "step"},
			"a call that is none":      {row(store.Call, func(w *store.Row) { w.Data = []byte(`"x"`) }), "call"},
			"a result that is missing": {row(store.Call, aside(`"b":"`+run.ID+`/00"`)), "blob 00 is missing"},
			"a result of another run":  {row(store.Call, aside(`"b":"another/00"`)), "another run"},
			"an event that is none":    {row(store.Event, func(w *store.Row) { w.Data = []byte("\xff\xff") }), "event"},
			"a blob of another name": {func(rs []parcel.Run) {
				rs[0].Rows = append(rs[0].Rows, store.Row{Stream: store.Blob, Key: "x", At: time.Now(), Data: []byte("y")})
			}, "blob"},
			"a question of another name": {func(rs []parcel.Run) { rs[0].Questions[0].ID = "q" }, "question"},
			"a question that is none":    {func(rs []parcel.Run) { rs[0].Questions[0].Row = []byte("[]") }, "question"},
		} {
			_, err := e.Import(r.ctx, operator, bytes.NewReader(changed(t, file, c.change)))
			if err == nil {
				t.Errorf("%s: taken", name)
				continue
			}
			named(t, pawl.Coded(err), pawl.CodeInvalid, c.text)
		}
		for name, bad := range map[string][]byte{"cut": file[:len(file)/2], "text": []byte("hello"), "nothing": nil} {
			if _, err := e.Import(r.ctx, operator, bytes.NewReader(bad)); err == nil || pawl.Coded(err).Code != pawl.CodeInvalid {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := e.Import(r.ctx, pawl.Caller{Tenant: "acme", User: "ann", Scopes: []string{pawl.ScopeTenant}}, bytes.NewReader(file))
		named(t, pawl.Coded(err), pawl.CodeForbidden)
		if all, err := e.As(operator).List(r.ctx, pawl.RunFilter{}, "", 0); err != nil || len(all) != 0 {
			t.Fatalf("something was imported: %v, %v", all, err)
		}

		// One child is there already: nothing else comes in.
		_, rs, _ := parcel.Read(bytes.NewReader(file))
		if err := s.Create(r.ctx, store.NewRun{ID: rs[2].ID, Workflow: "w", Version: "1", Head: []byte("{}"), Row: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		_, err = e.Import(r.ctx, operator, bytes.NewReader(file))
		named(t, pawl.Coded(err), pawl.CodeConflict, rs[2].ID)
		if _, err := s.Get(r.ctx, store.Scope{All: true}, run.ID); err == nil {
			t.Error("half a file was imported")
		}
	}, built(t, journey("", &tally{})))
}

func TestAnExportIsReadableAndOfItsCaller(t *testing.T) {
	virtual(t, func(r *rig) {
		run, _ := r.waiting()
		e := r.engine(r.store, engine.Config{})
		z, err := gzip.NewReader(bytes.NewReader(r.export(e, run.ID)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil || !strings.HasPrefix(string(text), `{"pawl":"runs","format":1,`) || !strings.Contains(string(text), `"text":"How many?"`) {
			t.Errorf("%s, %v", text, err)
		}
		err = e.Export(r.ctx, pawl.Caller{User: "eve"}, run.ID, io.Discard)
		named(t, pawl.Coded(err), pawl.CodeNotFound)
	}, built(t, poll("1", "ask", 1)))
}

// TestAnExportThatTheRunOvertakes: a run that moves between two reads is read again.
func TestAnExportThatTheRunOvertakes(t *testing.T) {
	virtual(t, func(r *rig) {
		defer r.worker(r.engine(r.store, engine.Config{}))()
		run, _ := r.waiting()
		moves := sync.OnceFunc(func() {
			r.reply(run.ID, "3")
			r.ends(run.ID, pawl.StatusSucceeded)
		})
		h := &hooked{Store: r.store, read: func(q store.Query, do func() error) error {
			if q.Stream == store.Event {
				moves()
			}
			return do()
		}}
		file := r.export(r.engine(h, engine.Config{}), run.ID)
		got, err := r.engine(memory.New(), engine.Config{}).Import(r.ctx, operator, bytes.NewReader(file))
		if err != nil || got.Run.Status != pawl.StatusSucceeded {
			t.Errorf("%+v, %v", got, err)
		}
	}, built(t, poll("1", "ask", 1)))
}
