package machine

import (
	"fmt"
	"slices"

	"pawl"
)

// Happening is one kind of thing that can happen to a run.
type Happening string

// What can happen to a run.
const (
	Starts    Happening = "start"     // it is created
	Advances  Happening = "advance"   // a visit ended and an edge to a node was taken
	Tries     Happening = "try"       // a try failed and the next one follows
	Parks     Happening = "park"      // a visit waits for an answer, a time or a child
	Holds     Happening = "hold"      // no worker here has its version
	Moves     Happening = "migrate"   // it was carried over to another version
	Stops     Happening = "interrupt" // its worker stops
	Succeeds  Happening = "succeed"   // it reached a Succeed terminal
	Fails     Happening = "fail"      // it reached a Fail terminal, or an error that no edge claims
	Cancels   Happening = "cancel"    // it was cancelled
	Merges    Happening = "merge"     // another run owns its key
	Restarts  Happening = "restart"   // the next attempt begins
	Continues Happening = "fork"      // it is created from a step of another run
)

// Rule says what a happening makes of a run's status. From is empty for a run that does not exist yet.
type Rule struct {
	What Happening
	From []pawl.Status
	To   pawl.Status
	Text string
}

var live = []pawl.Status{pawl.StatusQueued, pawl.StatusRunning, pawl.StatusWaiting}

// Rules is the life of a run, complete: a happening that is not listed for a status is refused. docs/state-machine.md is
// made of it.
var Rules = []Rule{
	{Starts, nil, pawl.StatusQueued, "A run is created with its first state; the start function has accepted the input."},
	{Continues, nil, pawl.StatusQueued, "A run is created from a step of another run, with that step's state or an edited one."},
	{Advances, live, pawl.StatusRunning, "A visit ended: state, edge counters, step row, events and the journal's end move in one commit."},
	{Tries, live, pawl.StatusWaiting, "A try failed and may be repeated: the number of the try is durable before it begins."},
	{Parks, live, pawl.StatusWaiting, "The visit is thrown away and runs again when what it waits for has come. No lease is held."},
	{Holds, live, pawl.StatusWaiting, "No worker has the run's version, or its graph changed without a new one. Nothing is lost."},
	{Moves, live, pawl.StatusRunning, "A migration carried node and state over to another version."},
	{Stops, live, pawl.StatusRunning, "The worker gave the lease back after a commit; the next one goes on."},
	{Succeeds, live, pawl.StatusSucceeded, "Final: output and closing events are part of the commit."},
	{Fails, live, pawl.StatusFailed, "Final, until a retry begins the next attempt."},
	{Cancels, live, pawl.StatusCancelled, "Final, until a retry begins the next attempt. Children are cancelled with it."},
	{Merges, live, pawl.StatusMerged, "Final: whoever asks for this run is led to the owner of the key."},
	{Restarts, []pawl.Status{pawl.StatusFailed, pawl.StatusCancelled}, pawl.StatusQueued, "The same row, attempt + 1, from the start, with fresh counters."},
}

// to moves the record's status by the table.
func (r *Record) to(what Happening) error {
	for _, rule := range Rules {
		if rule.What == what && (rule.From == nil && r.Status == "" || slices.Contains(rule.From, r.Status)) {
			r.Status = rule.To
			return nil
		}
	}
	return fmt.Errorf("%w: %s of a run that is %q", pawl.ErrTransition, what, r.Status)
}
