package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"

	"pawl"
	"pawl/engine"
	"pawl/internal/parcel"
	"pawl/store/memory"
)

// FuzzImport changes the bytes of one part of a run in a file whose checksum is right. Whatever a stranger has written is taken
// or refused: what was taken can be read, replayed, forked and exported without a panic.
func FuzzImport(f *testing.F) {
	w, file := polled(f)
	h, rs, err := parcel.Read(bytes.NewReader(file))
	if err != nil || len(rs) != 1 {
		f.Fatal(err)
	}
	run := rs[0]
	f.Add(0, []byte(run.Head))
	f.Add(1, []byte(run.Row))
	f.Add(2, []byte(run.Questions[0].Row))
	for i, row := range run.Rows {
		f.Add(3+i, row.Data)
	}
	f.Add(1, bytes.Replace(run.Row, []byte(`"v":2`), []byte(`"v":9000000000000000000`), 1))
	f.Add(1, bytes.Replace(run.Row, []byte(`"s":"waiting"`), []byte(`"s":"failed"`), 1))
	f.Fuzz(func(t *testing.T, part int, data []byte) {
		bad := run
		bad.Rows, bad.Questions = append(bad.Rows[:0:0], bad.Rows...), append(bad.Questions[:0:0], bad.Questions...)
		switch n := part - 3; {
		case part == 0:
			bad.Head = data
		case part == 1:
			bad.Row = data
		case part == 2:
			bad.Questions[0].Row = data
		case n >= 0 && n < len(bad.Rows):
			bad.Rows[n].Data = data
		default:
			return
		}
		var b bytes.Buffer
		p, err := parcel.NewWriter(&b, h)
		if err == nil {
			err = p.Run(bad)
		}
		if err == nil {
			err = p.Close()
		}
		if err == nil {
			used(t, w, b.Bytes(), run.ID)
		}
	})
}

// polled is the file of a run that waits for its answer.
func polled(t testing.TB) (*pawl.Workflow, []byte) {
	w, err := poll("1", "ask", 1).Build()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(memory.New(), []*pawl.Workflow{w}, engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	s, err := e.As(operator).Start(ctx, "asking", json.RawMessage("1"), pawl.StartOptions{})
	if err == nil {
		err = e.WorkRun(ctx, s.Run.ID)
	}
	var b bytes.Buffer
	if err == nil {
		err = e.Export(ctx, operator, s.Run.ID, &b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w, b.Bytes()
}

// used imports a file into a store of its own and does with it all that a copy is for.
func used(t *testing.T, w *pawl.Workflow, file []byte, id string) {
	s := memory.New()
	defer s.Close()
	e, err := engine.New(s, []*pawl.Workflow{w}, engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, rs := t.Context(), e.As(operator)
	if _, err := e.Import(ctx, operator, bytes.NewReader(file)); err != nil {
		if all, err := rs.List(ctx, pawl.RunFilter{}, "", 0); err != nil || len(all) > 0 {
			t.Fatalf("refused, and there are %v, %v", all, err)
		}
		return
	}
	steps, err := rs.Steps(ctx, id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if _, err := rs.State(ctx, id, step.Seq); err != nil {
			t.Fatalf("the state of step %d: %v", step.Seq, err)
		}
		_, _ = rs.Calls(ctx, id, step.Seq)
	}
	for _, err := range rs.Events(ctx, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _ = rs.Questions(ctx, pawl.QuestionFilter{Run: id, Closed: true}, "", 0)
	_, _ = e.Replay(ctx, operator, id)
	_, _ = rs.Fork(ctx, id, 0, nil)
	if err := e.WorkRun(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := e.Export(ctx, operator, id, io.Discard); err != nil {
		t.Fatalf("what was imported cannot be exported: %v", err)
	}
}
