// Package pawltest runs a graph to its end for a test: durably, on a store in memory, in virtual time, with scripted
// answers, failures and crashes.
//
// It may never decide anything about a run: the engine that it drives is the one of production, so what holds here holds
// there. It is never linked into a program, and nothing in it waits for real time where the test is a *testing.T.
//
// Start reading at Run and Script; EveryCrash drops the worker after each durable write and demands the same end.
package pawltest
