package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The codes of errors. A graph may use codes of its own beside them.
const (
	CodeInvalid     = "invalid"
	CodeNotFound    = "not_found"
	CodeConflict    = "conflict"
	CodeForbidden   = "forbidden"
	CodeTimeout     = "timeout"
	CodeUnavailable = "unavailable"
	CodeExhausted   = "exhausted" // a budget, a cap or a size limit
	CodeCancelled   = "cancelled"
	CodeWaiting     = "waiting"
	CodeInternal    = "internal"
	CodeCrashLoop   = "crash_loop"   // one visit was begun too often without an end
	CodeStepTimeout = "step_timeout" // a node overran its time in every try
	CodeStepCap     = "step_cap"     // a run took more steps than any run may
)

// What calls answer when they cannot be made. None of them can be swallowed: the visit's end is decided already.
var (
	ErrNotRunning = errors.New("pawl: not inside a run")
	ErrTransition = errors.New("pawl: the graph has no such move")
	ErrDeadline   = errors.New("pawl: nobody answered in time")
	ErrKeyUsed    = errors.New("pawl: the key was used before in this execution, or for another request")
	ErrNested     = errors.New("pawl: a call inside the function of another call")
	ErrNotInCall  = errors.New("pawl: only possible inside the function of a call")
	ErrParked     = errors.New("pawl: the visit is closed, it waits for something")
	ErrCancelled  = errors.New("pawl: the run was cancelled")
	ErrFenced     = errors.New("pawl: another worker has the run")
	ErrClosed     = errors.New("pawl: the node has returned")
	ErrDrained    = errors.New("pawl: the worker stops")
)

// Error is a coded error: the form in which every error leaves an engine and is recorded. Err is what it wraps; of it
// only a *BudgetError or a *RunError survives being stored.
type Error struct {
	Code string
	Op   string // what was done: start, answer, …
	Run  string
	Node string
	Text string
	Err  error
}

func (e *Error) Error() string {
	switch {
	case e.Text != "":
		return e.Text
	case e.Err != nil:
		return e.Err.Error()
	}
	return e.Code
}

func (e *Error) Unwrap() error { return e.Err }

// BudgetError says that a call would have passed a meter's cap. Nothing was counted.
type BudgetError struct {
	Meter string `json:"meter"`
	Used  int64  `json:"used"`
	Cap   int64  `json:"cap"`
}

func (e *BudgetError) Error() string {
	if e.Meter == MeterUSD {
		return fmt.Sprintf("budget usd is spent: %s of %s", USD(e.Used), USD(e.Cap))
	}
	return fmt.Sprintf("budget %s is spent: %d of %d", e.Meter, e.Used, e.Cap)
}

// RunError is what a parent sees of a child that did not succeed.
type RunError struct {
	Run      string       `json:"run,omitempty"`
	Status   Status       `json:"status"`
	Terminal string       `json:"terminal,omitempty"`
	Code     string       `json:"code"`
	Text     string       `json:"text"`
	Budget   *BudgetError `json:"budget,omitempty"`
}

func (e *RunError) Error() string { return e.Text }

// Unwrap makes a child's spent budget an *BudgetError of the parent too.
func (e *RunError) Unwrap() error {
	if e.Budget == nil {
		return nil
	}
	return e.Budget
}

// AskError is what Ask returns where nobody can be asked: outside a run and in Execute.
type AskError struct{ Question Question }

func (e *AskError) Error() string { return "pawl: nobody to ask: " + e.Question.Text }

// Is makes an *AskError an ErrNotRunning.
func (e *AskError) Is(target error) bool { return target == ErrNotRunning }

// IsBudget claims any spent budget, of this run or of a child: OnError("out of budget", pawl.IsBudget, to).
func IsBudget[S any](s S, err error) (S, bool) {
	var b *BudgetError
	return s, errors.As(err, &b)
}

// IsAny claims every error.
func IsAny[S any](s S, _ error) (S, bool) { return s, true }

// mark is what retries look at; it wraps the error that it speaks of.
type mark struct {
	err       error
	permanent bool
	tried     bool // a call with its own retries gave up
	after     time.Duration
}

func (m *mark) Error() string { return m.err.Error() }
func (m *mark) Unwrap() error { return m.err }

// Permanent marks an error that no further try can mend.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, permanent: true}
}

// RetryAfter marks an error whose next try should not come before d has passed, such as a 429 with Retry-After.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, after: max(d, 0)}
}

// Tried marks an error of a call that had retries of its own, so that the node's are not spent on it too.
func Tried(err error) error {
	if err == nil {
		return nil
	}
	return &mark{err: err, tried: true}
}

// Retryable reports whether another try could help, and how long to wait for it at least.
func Retryable(err error) (after time.Duration, ok bool) {
	final := false
	marks(err, func(m *mark) {
		final = final || m.permanent || m.tried
		after = max(after, m.after)
	})
	if final {
		return 0, false
	}
	var b *BudgetError
	if errors.As(err, &b) {
		return 0, false
	}
	for _, never := range []error{ErrKeyUsed, ErrNested, ErrNotInCall, ErrDeadline, ErrNotRunning, ErrCancelled, ErrParked, ErrFenced, ErrClosed, ErrDrained} {
		if errors.Is(err, never) {
			return 0, false
		}
	}
	var e *Error
	if errors.As(err, &e) {
		switch e.Code {
		case CodeInvalid, CodeForbidden, CodeExhausted, CodeCancelled, CodeConflict, CodeNotFound:
			return 0, false
		}
	}
	return after, true
}

// marks shows every mark in the tree of an error: a join may hold several.
func marks(err error, see func(*mark)) {
	if m, ok := err.(*mark); ok {
		see(m)
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		marks(u.Unwrap(), see)
	case interface{ Unwrap() []error }:
		for _, e := range u.Unwrap() {
			marks(e, see)
		}
	}
}

// Coded gives any error its recorded form: its own code where it has one, CodeInternal where it is a stranger.
func Coded(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok && e.Code != "" {
		return e
	}
	out := &Error{Code: code(err), Text: err.Error(), Err: err}
	var e *Error
	if errors.As(err, &e) {
		out.Op, out.Run, out.Node = e.Op, e.Run, e.Node
	}
	return out
}

func code(err error) string {
	var (
		e *Error
		r *RunError
		b *BudgetError
	)
	switch {
	case errors.As(err, &e) && e.Code != "":
		return e.Code
	case errors.As(err, &r):
		return r.Code
	case errors.As(err, &b):
		return CodeExhausted
	case errors.Is(err, ErrDeadline), errors.Is(err, context.DeadlineExceeded):
		return CodeTimeout
	case errors.Is(err, ErrCancelled), errors.Is(err, context.Canceled):
		return CodeCancelled
	case errors.Is(err, ErrKeyUsed), errors.Is(err, ErrNested), errors.Is(err, ErrNotInCall), errors.Is(err, ErrTransition):
		return CodeInvalid
	case errors.Is(err, ErrNotRunning):
		return CodeWaiting
	}
	return CodeInternal
}

// wire is an Error as it is stored and sent.
type wire struct {
	Code      string       `json:"code"`
	Text      string       `json:"text"`
	Op        string       `json:"op,omitempty"`
	Run       string       `json:"run,omitempty"`
	Node      string       `json:"node,omitempty"`
	Budget    *BudgetError `json:"budget,omitempty"`
	Child     *RunError    `json:"child,omitempty"`
	Deadline  bool         `json:"deadline,omitempty"`
	Permanent bool         `json:"permanent,omitempty"`
	Tried     bool         `json:"tried,omitempty"`
	AfterMS   int64        `json:"retryAfterMs,omitempty"`
}

// MarshalJSON stores what a recorded error keeps.
func (e *Error) MarshalJSON() ([]byte, error) {
	w := wire{Code: e.Code, Text: strings.ToValidUTF8(e.Error(), "\uFFFD"), Op: e.Op, Run: e.Run, Node: e.Node}
	if !errors.As(e.Err, &w.Child) {
		errors.As(e.Err, &w.Budget)
	}
	w.Deadline = errors.Is(e.Err, ErrDeadline)
	marks(e.Err, func(m *mark) {
		w.Permanent, w.Tried = w.Permanent || m.permanent, w.Tried || m.tried
		w.AfterMS = max(w.AfterMS, m.after.Milliseconds())
	})
	return json.Marshal(w)
}

// UnmarshalJSON restores it.
func (e *Error) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*e = Error{Code: w.Code, Text: w.Text, Op: w.Op, Run: w.Run, Node: w.Node}
	switch {
	case w.Child != nil:
		e.Err = w.Child
	case w.Budget != nil:
		e.Err = w.Budget
	case w.Deadline:
		e.Err = ErrDeadline
	}
	if w.Permanent || w.Tried || w.AfterMS > 0 {
		inner := e.Err
		if inner == nil {
			inner = errors.New(w.Text)
		}
		e.Err = &mark{err: inner, permanent: w.Permanent, tried: w.Tried, after: time.Duration(w.AfterMS) * time.Millisecond}
	}
	return nil
}
