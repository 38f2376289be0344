// Package llmtest is the law of port llm, which every vendor's model passes, and a model that says what a test wants.
//
// It may never be linked into a program, and it knows no vendor.
//
// Start reading at Script.
package llmtest
