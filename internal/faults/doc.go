// Package faults breaks stores, processes, disks and clocks under an engine, and checks that nothing promised was broken
// with them: named crash points, invariants, an oracle of the store contract, random graphs, a fault disk, planted bugs.
//
// It may never be linked into what is released, decide anything about a run, or know an engine's inside beyond the bytes that
// it stores: whatever is broken here is broken from outside, by a store, a driver, a disk or a signal.
//
// Start reading at Points, the list of places at which a worker dies, then Store, which kills it there, and Check, which
// looks at what is left. What happens to a real Postgres begins at Storm. The layers of the design's reliability page are the
// tests of this package, one file each; backends, in points_test.go, are the stores that they are played on.
package faults
