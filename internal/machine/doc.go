// Package machine decides: a record and what happened go in, the next record and what is to be written come out.
//
// It may never read a clock, start a goroutine, do I/O or see a run's state: times are handed in, conditions were
// evaluated by the driver in the order that Open gives, and effects leave as values of type Move.
//
// Start reading at Record, then Machine.Advance; table.go is the whole life of a run, and testdata holds it as stories.
package machine
