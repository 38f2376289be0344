// Package visualdegrees connects two public figures through photographs in which both of an edge are recognized: a search by pictures,
// with a recognizer as the only authority on who is in one, a planner that picks whom to go on with, and budgets for all three.
//
// It may never identify a face, infer a relationship, suggest a path that is not proven, keep a picture, or know a vendor: who
// searches, fetches, recognizes and plans is handed in.
//
// Start reading at Graph, then State; evidence.go is what photographs prove, strategy.go where to look next.
package visualdegrees
