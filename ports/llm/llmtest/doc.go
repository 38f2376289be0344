// Package llmtest is the law of models, what each vendor's client does with what a provider says, over real HTTP; and a model that
// says what a test wants.
//
// It may never be linked into a program or know one vendor: a vendor's tests bring a Wire, the other side of its client, written
// from the vendor's description. Every case says why it is a law.
//
// Start reading at Run for the law (Provider is the server that speaks as a Wire does), and at Script for the model.
package llmtest
