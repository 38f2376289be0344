package pawl

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Status of a run.
type Status string

// The statuses of a run. Interrupted is a run that a worker left in the middle: the next one goes on with it.
const (
	StatusQueued      Status = "queued"
	StatusRunning     Status = "running"
	StatusInterrupted Status = "interrupted"
	StatusWaiting     Status = "waiting"
	StatusSucceeded   Status = "succeeded"
	StatusFailed      Status = "failed"
	StatusCancelled   Status = "cancelled"
	StatusMerged      Status = "merged"
)

// Ended reports whether a run in this status will not move again by itself.
func (s Status) Ended() bool {
	switch s {
	case StatusSucceeded, StatusFailed, StatusCancelled, StatusMerged:
		return true
	}
	return false
}

// Caller is who asks. There is no Runs without one. A caller sees its own runs; with the scope "tenant" every run of the
// tenant, with "all" every run.
type Caller struct {
	Tenant, User string
	Scopes       []string
}

// The scopes that a Caller may have.
const (
	ScopeTenant = "tenant"
	ScopeAll    = "all"
)

// Run is a run as its callers see it. Times are UTC.
type Run struct {
	ID         string            `json:"id"`
	Workflow   string            `json:"workflow"`
	Version    string            `json:"version"`
	Tenant     string            `json:"tenant,omitempty"`
	User       string            `json:"user,omitempty"`
	Status     Status            `json:"status"`
	Node       string            `json:"node,omitempty"`
	Terminal   string            `json:"terminal,omitempty"`
	Outcome    string            `json:"outcome,omitempty"`
	Attempt    int               `json:"attempt"`
	Steps      int64             `json:"steps"`
	Key        string            `json:"key,omitempty"`
	Parent     string            `json:"parent,omitempty"`
	Root       string            `json:"root,omitempty"`
	MergedInto string            `json:"mergedInto,omitempty"`
	ForkOf     string            `json:"forkOf,omitempty"`
	ForkStep   int64             `json:"forkStep,omitempty"`
	Imported   string            `json:"imported,omitempty"` // when: a copy of a run of another store, to be read, replayed and forked
	Waits      []Waiting         `json:"waits,omitempty"`
	Input      json.RawMessage   `json:"input,omitempty"`
	Output     json.RawMessage   `json:"output,omitempty"`
	Err        *Error            `json:"error,omitempty"`
	Meters     []Meter           `json:"meters,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Worker     string            `json:"worker,omitempty"`
	Due        *time.Time        `json:"due,omitempty"`
	Created    time.Time         `json:"created"`
	Updated    time.Time         `json:"updated"`
	ETA        time.Duration     `json:"-"` // of a Start that found its key running: the median of what the remaining nodes took before; 0: unknown
}

// Meter is a counter against its cap; a Cap below zero means none. MeterUSD is in micro-dollars.
type Meter struct {
	Name string `json:"name"`
	Used int64  `json:"used"`
	Cap  int64  `json:"cap"`
}

// Waiting is one thing that a run waits for: a question, a timer, a retry, a child, or a worker that has its version.
type Waiting struct {
	Kind     string     `json:"kind"`
	Key      string     `json:"key,omitempty"`
	Question string     `json:"question,omitempty"`
	Run      string     `json:"run,omitempty"`
	Due      *time.Time `json:"due,omitempty"`
	Reason   string     `json:"reason,omitempty"`
}

// The kinds of Waiting.
const (
	WaitsForAnswer  = "answer"
	WaitsForTime    = "timer"
	WaitsForRetry   = "retry"
	WaitsForChild   = "child"
	WaitsForVersion = "version"
)

// Started answers a Start. Existing says what became of an idempotency key: "" new, "done", "running", or "again" (a run
// that had failed or was cancelled begins its next attempt).
type Started struct {
	Run      Run    `json:"run"`
	Existing string `json:"existing,omitempty"`
}

// Existing values of Started.
const (
	ExistingDone    = "done"
	ExistingRunning = "running"
	ExistingAgain   = "again"
)

// Logged is one event of a run. Seq is 0 for a Delta, which is not kept.
type Logged struct {
	Seq  int64           `json:"seq"`
	Type string          `json:"type"`
	Run  string          `json:"run"`
	At   time.Time       `json:"at"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Step is one row of the step log, in the field names that operators expect.
type Step struct {
	Seq         int64           `json:"seq"`
	Run         string          `json:"workflow_run_id"`
	Workflow    string          `json:"workflow_type"`
	Version     string          `json:"version"`
	Attempt     int             `json:"attempt_no"`
	Name        string          `json:"step_name"`
	StateBefore string          `json:"state_before"`
	StateAfter  string          `json:"state_after"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	OccurredAt  time.Time       `json:"occurred_at"`
	DurationMS  int64           `json:"duration_ms"`
	CostUSD     json.Number     `json:"cost_usd,omitempty"`
	Worker      string          `json:"worker,omitempty"`
	Edge        string          `json:"edge,omitempty"`
	Visit       int64           `json:"visit,omitempty"`
	Try         int             `json:"try,omitempty"`
	Hash        string          `json:"state_hash,omitempty"`
}

// Made is one entry of the journal: a call, its request and its end.
type Made struct {
	Seq      int64           `json:"seq"`
	Visit    int64           `json:"visit"`
	Try      int             `json:"try"`
	Kind     string          `json:"kind"`
	Key      string          `json:"key"`
	For      json.RawMessage `json:"for,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Err      *Error          `json:"error,omitempty"`
	Attrs    map[string]any  `json:"attrs,omitempty"`
	Physical int             `json:"physical,omitempty"` // tries that were made
	Took     int64           `json:"tookMs,omitempty"`
	At       time.Time       `json:"at"`
}

// Open is a question and, once it is closed, its answer.
type Open struct {
	ID       string          `json:"id"`
	Run      string          `json:"run"`
	Root     string          `json:"root"`
	Workflow string          `json:"workflow"`
	Key      string          `json:"key"`
	Text     string          `json:"text"`
	Choices  []string        `json:"choices,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Schema   json.RawMessage `json:"schema"`
	Asked    time.Time       `json:"asked"`
	Due      *time.Time      `json:"due,omitempty"`
	Closed   bool            `json:"closed,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
	By       string          `json:"by,omitempty"`
}

// RunFilter narrows List. Empty fields do not.
type RunFilter struct {
	Workflow string
	Status   Status
	Outcome  string
	Key      string
	Parent   string
	Root     string
}

// QuestionFilter narrows Questions; Run includes the questions of its children.
type QuestionFilter struct {
	Run      string
	ID       string
	Workflow string
	Closed   bool // closed ones too
}

// WorkflowInfo is what can be started.
type WorkflowInfo struct {
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Fingerprint string          `json:"fingerprint"`
	Input       json.RawMessage `json:"input"`
	Output      json.RawMessage `json:"output"`
	Positional  []string        `json:"positional,omitempty"`
}

// Runs is how runs are started, read and steered; always for a Caller. An engine, a client and whatever else runs graphs
// satisfy it, and pass one suite (internal/runstest). Every error is an *Error.
type Runs interface {
	// Start begins a run, or finds the one that owns the key. The same key with another input is a conflict.
	Start(ctx context.Context, workflow string, input json.RawMessage, o StartOptions) (Started, error)
	// Get reads a run. A merged run answers as itself, with MergedInto; all other methods but Remove follow it.
	Get(ctx context.Context, run string) (Run, error)
	// List pages through runs, newest first, after the run with that id.
	List(ctx context.Context, f RunFilter, after string, limit int) ([]Run, error)
	// Answer closes a question. The same answer again is accepted again; another one is a conflict that shows the first.
	Answer(ctx context.Context, run, question string, answer json.RawMessage) error
	// Cancel ends a run and its children; when it returns, that is durable. A run that has ended is a conflict.
	Cancel(ctx context.Context, run, reason string) error
	// Fork starts a new run from a step of another one, with that step's state, or an edited one.
	Fork(ctx context.Context, run string, step int64, state json.RawMessage) (Run, error)
	// Remove erases a run that has ended, with its children and all that they left; who removed it, and when, stays behind. One
	// that has not ended is a conflict: cancel it first. So is a child: it goes with its parent. A merged run goes itself.
	Remove(ctx context.Context, run string) error
	// Retry begins the next attempt of a run that failed or was cancelled, from its start.
	Retry(ctx context.Context, run string) (Run, error)
	// Events yields the events after number after, and goes on live until the run has ended or ctx is done. A merged run's
	// events are followed by those of the run that it was merged into, from their first; a number belongs to the run that its
	// event names.
	Events(ctx context.Context, run string, after int64) iter.Seq2[Logged, error]
	// Steps reads the step log.
	Steps(ctx context.Context, run string, after int64, limit int) ([]Step, error)
	// State is the state after a step; step 0 is the latest one.
	State(ctx context.Context, run string, step int64) (json.RawMessage, error)
	// Calls reads the journal of the visit that ended with a step; step 0 is the visit under way.
	Calls(ctx context.Context, run string, step int64) ([]Made, error)
	// Questions pages through questions over all runs, newest first.
	Questions(ctx context.Context, f QuestionFilter, after string, limit int) ([]Open, error)
	// Workflows lists what can be started.
	Workflows(ctx context.Context) ([]WorkflowInfo, error)
}
