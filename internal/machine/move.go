package machine

import (
	"encoding/json"
	"time"

	"pawl"
)

// Move is what one decision makes of a run: the next record and all that is written with it, in one transaction.
type Move struct {
	What    Happening
	Next    *Record
	Log     []Entry // rows of the step log; the first carries the state where it changed
	Events  []Event
	State   bool          // the state changed: the first row of Log carries it
	Release bool          // the lease is given back
	After   time.Duration // with Release: due again then; below zero: only after a letter
	End     bool
	Named   bool // with End: at a terminal of the graph, so that there is an output
}

// Entry is a row of the step log as the machine decides it.
type Entry struct {
	Name    string          `json:"n"`
	Before  string          `json:"b,omitempty"`
	After   string          `json:"a,omitempty"`
	Edge    string          `json:"e,omitempty"`
	Payload json.RawMessage `json:"p,omitempty"`
	Told    bool            `json:"-"` // watchers are told of it: the row is an EventStep
}

// Event is one of the engine's own events. That a step was made is not among them: its row of the step log says so (Told).
type Event struct {
	Type string
	Data any
}

// Encode is the event's data as JSON.
func (e Event) Encode() json.RawMessage { return raw(e.Data) }

// The engine's own events.
const (
	EventStarted   = "pawl.started"
	EventStep      = "pawl.step"
	EventRetry     = "pawl.retry"
	EventWaiting   = "pawl.waiting"
	EventHeld      = "pawl.held"
	EventMigrated  = "pawl.migrated"
	EventStopped   = "pawl.interrupted"
	EventEnded     = "pawl.ended"
	EventMerged    = "pawl.merged"
	EventRestarted = "pawl.restarted"
	EventAnswered  = "pawl.answered"
	EventCancel    = "pawl.cancel_requested"
)

// Stepped is the data of EventStep.
type Stepped struct {
	Step  int64  `json:"step"`
	Node  string `json:"node"`
	To    string `json:"to"`
	Edge  string `json:"edge"`
	Visit int64  `json:"visit"`
	MS    int64  `json:"ms,omitempty"`
}

// Retried is the data of EventRetry.
type Retried struct {
	Node    string      `json:"node"`
	Try     int         `json:"try"` // the one that follows
	AfterMS int64       `json:"afterMs"`
	Err     *pawl.Error `json:"error"`
}

// Parked is the data of EventWaiting, EventHeld and EventStopped.
type Parked struct {
	Node  string         `json:"node"`
	Waits []pawl.Waiting `json:"waits,omitempty"`
}

// Ended is the data of EventEnded.
type Ended struct {
	Status   pawl.Status `json:"status"`
	Terminal string      `json:"terminal,omitempty"`
	Outcome  string      `json:"outcome,omitempty"`
	Err      *pawl.Error `json:"error,omitempty"`
}

// Merged is the data of EventMerged.
type Merged struct {
	Into string `json:"into"`
}

// Begun is the data of EventStarted, EventRestarted and EventMigrated.
type Begun struct {
	Workflow string `json:"workflow"`
	Version  string `json:"version"`
	Attempt  int    `json:"attempt"`
	Node     string `json:"node"`
}

// Waiting shows a wait to callers.
func (w Wait) Waiting() pawl.Waiting {
	out := pawl.Waiting{Kind: w.Kind, Key: w.Key, Question: w.Question, Reason: w.Reason}
	if !w.Due.IsZero() {
		due := w.Due
		out.Due = &due
	}
	return out
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data of this package
	}
	return b
}
