// Package telemetry tells others what runs do: spans to a receiver of OpenTelemetry, and numbers to whoever asks for them.
//
// Spans are made from the log, after the commit: the log is the outbox, a mark in it says how far it was told, and what a
// dead process has left is told by the next one. The package may never make a run wait or fail, hold what the log holds, or
// tell a secret.
//
// Start reading at Traces.Work, then spans.go, which is what a receiver gets; Metrics stands for itself.
package telemetry
