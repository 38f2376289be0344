package engine

import (
	"time"

	"pawl"
)

// Trace is called as work goes on. Every field may be nil; none may block.
type Trace struct {
	Claimed   func(run, node string, epoch int64)
	Visit     func(Visited)
	Call      func(Called)
	Committed func(Committed)
	Ended     func(run string, status pawl.Status, err *pawl.Error)
	Fault     func(op string, err error) // the engine goes on, but somebody should know
}

// Visited is one execution of a node. It may still be thrown away: Committed says what became of it.
type Visited struct {
	Run, Workflow, Node string
	Visit               int64
	Try                 int
	Took                time.Duration
	Err                 error
}

// Called is one end of a call, or a recorded one that was read. Attrs are what the call was annotated with.
type Called struct {
	Run, Workflow, Node, Key string
	Visit                    int64
	Took                     time.Duration
	Recorded                 bool
	Attrs                    map[string]any
	Err                      error
}

// Committed is a commit of the holder of a run: what the step log says up to Step is durable.
type Committed struct {
	Run, Workflow, Worker string
	Step                  int64
	Status                pawl.Status
	End                   bool
}

// And is a trace that calls this one and then the other.
func (t Trace) And(o Trace) Trace {
	return Trace{
		Claimed: func(run, node string, epoch int64) {
			if t.Claimed != nil {
				t.Claimed(run, node, epoch)
			}
			if o.Claimed != nil {
				o.Claimed(run, node, epoch)
			}
		},
		Visit:     both(t.Visit, o.Visit),
		Call:      both(t.Call, o.Call),
		Committed: both(t.Committed, o.Committed),
		Ended: func(run string, status pawl.Status, err *pawl.Error) {
			if t.Ended != nil {
				t.Ended(run, status, err)
			}
			if o.Ended != nil {
				o.Ended(run, status, err)
			}
		},
		Fault: func(op string, err error) { t.fault(op, err); o.fault(op, err) },
	}
}

func both[T any](a, b func(T)) func(T) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(v T) { a(v); b(v) }
}

func (t Trace) fault(op string, err error) {
	if t.Fault != nil && err != nil {
		t.Fault(op, err)
	}
}
