// Package engine runs built graphs on a store: claim, run a node, journal its calls, commit, park, wake, try again.
//
// It decides nothing itself (internal/machine does) and remembers nothing outside the store but what it holds a lease
// for. It may never write a run's row without holding its epoch, and never hold a lock across a node, a store call or a
// wait.
//
// Start reading at Engine, then Engine.Work; hand.go is one run in hand, visit.go what node code sees of it.
package engine
