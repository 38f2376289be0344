// Package parcel is runs as one file: what an export writes and an import reads. The file is one gzip stream of JSON lines: a
// header, then for each run a line of itself and one for each of its rows and questions, and at the end a checksum over all that
// stands before it.
//
// It knows how a file is written, bounded and checked, and nothing of what the bytes of a run mean: it never decodes a row, has
// no store and touches no disk. What it reads is from strangers: it is bounded before it is believed.
//
// Start reading at Writer, then Read.
package parcel
