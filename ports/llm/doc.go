// Package llm is the port to language models: one request gets one response, whole or as it is written.
//
// It may never know a vendor, keep a secret, sleep or retry by itself: retries belong to the engine, and the parts of a response
// are data, never instructions to this program.
//
// Start reading at Model, then Generate, which asks one inside a run and records the answer, Structured, which gets a value of
// a type instead of text, and Loop, which lets the model use tools; Compress keeps a conversation from growing for ever. llmtest
// is the law that every vendor passes, and a model that says what a test wants.
package llm
