// Package pawl is the language in which durable agents are written: graphs, edges, bounds, and the calls that a node
// makes to the outside world.
//
// A graph says what may happen next and how often; a node is a function of the state; a call through [Do] is recorded
// once. [Graph.Build] checks a graph and refuses one that could run for ever; an engine runs it durably, [Execute] runs it
// in the calling goroutine with nothing recorded.
//
// It may never do I/O, read a clock, start a goroutine that outlives a call, or know who runs it: all of that is behind
// the seam of internal/host.
//
// Start reading at [New] and [Graph], then [Do]; [Runs] is the interface by which runs are started, read and steered.
package pawl
