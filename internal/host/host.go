// Package host is the seam between node code and whoever runs it: an engine, pawl.Execute, a test.
//
// It holds two things: Host, what a running visit offers to the calls of package pawl, and Program, a built graph without
// its type parameters. It may never hold behavior, a clock or I/O: only shapes that both sides agree on.
//
// Start reading at Host, then Program.
package host

import (
	"context"
	"time"
)

// Host is what a running visit offers to node code. All methods may be called from several goroutines.
// The errors are those of package pawl.
type Host interface {
	// Call makes one outside call to a recorded end: fn's result, or its final error in its recorded form.
	Call(ctx context.Context, c Call, fn func(context.Context) ([]byte, error)) ([]byte, error)
	// Ask returns the accepted answer, or closes the visit to wait for it.
	Ask(ctx context.Context, a Ask) ([]byte, error)
	// Sleep returns once the time has come: after d, or at the instant until when that is set.
	Sleep(ctx context.Context, key string, d time.Duration, until time.Time) error
	// Children runs one child an input, at most Limit at a time.
	Children(ctx context.Context, f Family) ([]Child, error)
	// Enqueue starts a background run when this visit commits, and returns its id.
	Enqueue(ctx context.Context, e Enqueue) (string, error)
	// Emit makes an event visible; one that does not last is for live watchers only.
	Emit(ctx context.Context, typ string, data []byte, lasting bool) error
	// Note adds a row to the step log, committed with the try.
	Note(ctx context.Context, step string, payload []byte) error
	// Charge counts n units of meter, now and durably; only inside a call's fn.
	Charge(ctx context.Context, meter string, n int64) error
	// Hold reserves up to n units of meter; settle gives back what was not used, when the call's end is recorded.
	Hold(ctx context.Context, meter string, n int64) (settle func(used int64), err error)
	// Cap lowers this run's cap of a meter.
	Cap(ctx context.Context, meter string, n int64) error
	// Remaining is what is left under the tightest cap, of the run or an ancestor; below zero if there is no cap.
	Remaining(ctx context.Context, meter string) (int64, error)
	// Annotate adds attributes to the call that ctx belongs to, or to the visit.
	Annotate(ctx context.Context, attrs ...any)
	// Now is the store's clock.
	Now(ctx context.Context) time.Time
	// Info says where node code runs.
	Info(ctx context.Context) Info
	// Left says how often an edge of the running node may still be taken; below zero: no bound. False: no such edge.
	Left(edge string) (int, bool)
	// IdempotencyKey is the key of the call that ctx belongs to, empty outside one.
	IdempotencyKey(ctx context.Context) string
}

// Call names one outside call and how it is tried.
type Call struct {
	Key      string
	For      []byte // the encoded request, nil if none: the same key with another request is refused, not an old answer
	Retry    Retry
	Timeout  time.Duration
	Charge   map[string]int64
	Limit    string
	Admitted func() // called once when the first try has been charged, or the call was found recorded, or was refused
}

// Ask is a question to a person.
type Ask struct {
	Key, Text string
	Choices   []string
	Data      []byte
	Schema    []byte // JSON Schema of the answer
	For       time.Duration
}

// Family is the children of one call.
type Family struct {
	Key      string
	Numbered bool // keys are Key[0], Key[1], …: Each; otherwise there is one child under Key itself
	Program  *Program
	N        int
	Input    func(i int) ([]byte, error)
	Limit    int  // 0: no limit
	Collect  bool // false: the first failure stops the rest
}

// Child is the end of one child.
type Child struct {
	Run    string
	Output []byte
	Err    error // *pawl.RunError
}

// Enqueue is a background run to be started.
type Enqueue struct {
	Key     string
	Program *Program
	Input   []byte
	Options []byte // encoded pawl.StartOptions
	RunKey  string // its idempotency key
}

// Info is where node code runs.
type Info struct {
	Run, Node, Tenant, User, Sensitivity, Correlation string
	Attempt, Visit, Try                               int
	Labels                                            map[string]string
}

// Key is the key of a context's value that is its Host.
type Key struct{}

// With returns a context in which the calls of package pawl go to h.
func With(ctx context.Context, h Host) context.Context { return context.WithValue(ctx, Key{}, h) }

// From returns the host of a context, nil outside a run.
func From(ctx context.Context) Host { h, _ := ctx.Value(Key{}).(Host); return h }
