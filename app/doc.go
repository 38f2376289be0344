// Package app is the command line: the command tree, the configuration, the tables of stores and of vendors, and one
// wiring file for each workflow of the house.
//
// It never decides what a run does and never writes to a store by itself: every command is a call of pawl.Runs or of the
// engine, or of pawl.Execute where no run is wanted. It holds no state between two commands. Data goes to standard output, talk to standard error, and nothing that
// a run has said reaches a terminal with control characters in it.
//
// Start reading at Main and Shell.Run, then commands.go (the tree), follow.go (how a run is worked and shown),
// stores.go and models.go. A workflow is wired in a file of its own, such as nco.go.
package app
