package engine

import (
	"pawl/internal/machine"
	"pawl/store"
)

// sheet is what a hand writes its commits on, to use the room again: a store keeps nothing of what it is handed.
type sheet struct {
	page    []byte
	pen     machine.Pen
	record  []byte
	rows    []store.Row
	changes []store.Change
}

// begin throws away what was written before.
func (s *sheet) begin() {
	s.page = s.page[:0]
	if s.changes == nil {
		s.changes = make([]store.Change, 1)
	}
}

// write lets f append to the page, and is what was appended.
func (s *sheet) write(f func([]byte) []byte) []byte {
	at := len(s.page)
	b := f(s.page)
	s.page = b
	return b[at:len(b):len(b)]
}

// clear makes the sheet ready for the next commit. Large pages, blobs and notes shall not be kept alive.
func (s *sheet) clear() {
	s.page, s.record = reusable(s.page), reusable(s.record)
	clear(s.rows[:cap(s.rows)])
	clear(s.changes)
}

// reusable is a buffer to be written again, unless so much was in it that it is better given back.
func reusable(b []byte) []byte {
	const most = 64 << 10
	if cap(b) > most {
		return nil
	}
	return b[:0]
}
