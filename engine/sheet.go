package engine

import "pawl/store"

// sheet is what a hand writes its commits on, to use the room again: a store keeps nothing of what it is handed. The row of
// the last commit stays as it is until the next one is made.
type sheet struct {
	pages   [2][]byte
	page    int // the one that is written on; the other one holds the last row
	record  []byte
	rows    []store.Row
	changes []store.Change
}

// begin throws away what was written since the last commit.
func (s *sheet) begin() {
	s.pages[s.page] = s.pages[s.page][:0]
	if s.changes == nil {
		s.changes = make([]store.Change, 1)
	}
}

// write lets f append to the page, and is what was appended.
func (s *sheet) write(f func([]byte) []byte) []byte {
	at := len(s.pages[s.page])
	b := f(s.pages[s.page])
	s.pages[s.page] = b
	return b[at:len(b):len(b)]
}

// turn keeps the page of a commit that was made, and goes on on the other one.
func (s *sheet) turn() {
	s.page = 1 - s.page
	s.pages[s.page], s.record = reusable(s.pages[s.page]), reusable(s.record)
	clear(s.rows[:cap(s.rows)]) // blobs and notes shall not be kept alive
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
