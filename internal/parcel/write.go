package parcel

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"unicode/utf8"

	"pawl/store"
)

// Writer writes a file run by run. Nothing is a file before Close has written its end.
type Writer struct {
	z     *gzip.Writer
	sum   hash.Hash
	lines int
	bytes int
	rows  int
	runs  int
	want  int
}

// NewWriter begins a file with its header.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Pawl, h.Format = pawlRuns, Format
	if h.Runs > MaxRuns {
		return nil, fmt.Errorf("%w: %d runs, at most %d", ErrLarge, h.Runs, MaxRuns)
	}
	p := &Writer{z: gzip.NewWriter(w), sum: sha256.New(), want: h.Runs}
	return p, p.put(h)
}

// Run writes one run.
func (p *Writer) Run(r Run) error {
	p.runs++
	if p.rows += len(r.Rows) + len(r.Questions); p.rows > MaxRows {
		return fmt.Errorf("%w: more than %d rows", ErrLarge, MaxRows)
	}
	l := &runLine{
		ID: r.ID, Tenant: r.Tenant, User: r.User, Workflow: r.Workflow, Version: r.Version, Key: r.Key, Parent: r.Parent, Root: r.Root,
		Priority: r.Priority, Created: r.Created, Updated: r.Updated, Head: r.Head, Record: r.Row,
		Rows: len(r.Rows), Asked: len(r.Questions),
	}
	for _, c := range r.Counters {
		l.Counters = append(l.Counters, counterLine(c))
	}
	err := p.checked(l.check, line{Run: l})
	for i := 0; i < len(r.Rows) && err == nil; i++ {
		err = p.row(r.Rows[i])
	}
	for i := 0; i < len(r.Questions) && err == nil; i++ {
		q := r.Questions[i]
		l := &questionLine{ID: q.ID, Closed: q.Closed, Asked: q.Asked, Due: q.Due, Row: q.Row}
		err = p.checked(l.check, line{Question: l})
	}
	return err
}

func (p *Writer) row(r store.Row) error {
	l := rowLine{Stream: r.Stream, Key: r.Key, Told: r.Told, At: r.At}
	if plain(r.Data) {
		l.Data = r.Data
	} else {
		l.Bytes = r.Data
	}
	return p.checked(l.check, line{Row: &l})
}

func (p *Writer) checked(check func() error, l line) error {
	if err := check(); err != nil {
		return fmt.Errorf("parcel: %w", err)
	}
	return p.put(l)
}

// plain reports whether data is JSON that comes back to the byte.
func plain(data []byte) bool {
	var b bytes.Buffer
	return len(data) > 0 && utf8.Valid(data) && json.Compact(&b, data) == nil && bytes.Equal(b.Bytes(), data)
}

// Close writes the end.
func (p *Writer) Close() error {
	if p.runs != p.want {
		return fmt.Errorf("parcel: %d runs, the header says %d", p.runs, p.want)
	}
	if err := p.put(line{End: &endLine{Lines: p.lines, SHA256: hex.EncodeToString(p.sum.Sum(nil))}}); err != nil {
		return err
	}
	return p.z.Close()
}

func (p *Writer) put(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("parcel: %w", err)
	}
	if b.Len() > MaxLine {
		return fmt.Errorf("%w: a line of %d bytes", ErrLarge, b.Len())
	}
	if p.bytes += b.Len(); p.bytes > MaxBytes {
		return fmt.Errorf("%w: more than %d bytes", ErrLarge, MaxBytes)
	}
	p.lines++
	p.sum.Write(b.Bytes())
	_, err := p.z.Write(b.Bytes())
	return err
}
