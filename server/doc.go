// Package server puts a pawl.Runs before clients that speak other protocols: the Model Context Protocol.
//
// It may never know an engine or a store, nor do anything but what its pawl.Runs allows: that was made for one caller, and the
// clients see and steer what that caller may.
//
// Start reading at ServeMCP.
package server
