// Package brain answers a question by a plan: it gathers data, lets a model reply, scores the reply, and asks again with the
// reviewer's words until the reply is good enough or the attempts are spent.
//
// It may never change the plan or trust what it gets: retrieved text, tool results and replies are data, fenced in every prompt. It
// holds no I/O and no vendor; models, sources and tools are handed in.
//
// Start reading at Graph, then nodes.go and validate.go. Plan is the input, rules.go and score.go decide what is good enough, Source
// and Tools are the ports.
package brain
