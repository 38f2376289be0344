// Package tools is the port to tools: what servers offer to a model, and how a run calls it.
//
// It may never know a vendor, run a program or open a connection. What a server says, of itself too, is data: it is checked,
// bounded and shown, and never widens what may be called. A tool that its server does not mark as read-only is never called
// without a person's approval of exactly these arguments.
//
// Start reading at Server, then Box, which puts several servers before a model, Box.Use, which calls a tool inside a run, and
// Guard, which asks the person. Only narrows a server to the tools that may be called. toolstest is the law that every vendor passes.
package tools
