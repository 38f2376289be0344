package parcel

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"unicode/utf8"

	"pawl/store"
)

// Read reads a whole file, and believes none of it before it has seen its end.
func Read(r io.Reader) (Header, []Run, error) {
	raw := bufio.NewReader(r)
	z, err := gzip.NewReader(raw)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrForeign
		}
		return Header{}, nil, err
	}
	z.Multistream(false)
	p := &reader{s: bufio.NewScanner(io.LimitReader(z, MaxBytes+MaxLine)), sum: sha256.New()}
	p.s.Buffer(make([]byte, 0, 64<<10), MaxLine)
	h, runs, err := p.file()
	if err != nil {
		return Header{}, nil, err
	}
	if p.s.Scan() {
		return Header{}, nil, fmt.Errorf("%w: lines behind its end", ErrDamaged)
	}
	if err := p.fault(); err != nil { // gzip's own checksum
		return Header{}, nil, err
	}
	if _, err := raw.ReadByte(); err != io.EOF {
		return Header{}, nil, fmt.Errorf("%w: bytes behind its end", ErrDamaged)
	}
	return h, runs, nil
}

// reader reads line by line.
type reader struct {
	s     *bufio.Scanner
	sum   hash.Hash
	lines int
	bytes int
	rows  int
	last  *runLine // whose rows are read
}

// fault is why there is no further line, nil if the file ended.
func (p *reader) fault() error {
	switch err := p.s.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%w: line %d has more than %d bytes", ErrLarge, p.lines+1, MaxLine)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrCut
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	case errors.As(err, new(flate.CorruptInputError)):
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	default:
		return err // of whatever is read from
	}
}

// next is the next line; the checksum is over all before the last one.
func (p *reader) next() ([]byte, error) {
	if !p.s.Scan() {
		if err := p.fault(); err != nil {
			return nil, err
		}
		return nil, ErrCut
	}
	b := p.s.Bytes()
	if p.bytes += len(b) + 1; p.bytes > MaxBytes+1<<10 { // the last line does not count
		return nil, fmt.Errorf("%w: more than %d bytes", ErrLarge, MaxBytes)
	}
	return b, nil
}

func (p *reader) counts(b []byte) {
	p.lines++
	p.sum.Write(b)
	p.sum.Write([]byte{'\n'})
}

func (p *reader) file() (h Header, runs []Run, err error) {
	if h, err = p.header(); err != nil {
		return h, nil, err
	}
	for {
		b, err := p.next()
		if err != nil {
			return h, nil, err
		}
		var l line
		if err := strict(b, &l); err != nil {
			return h, nil, p.damaged(err)
		}
		if l.End != nil {
			return h, runs, p.end(h, runs, l)
		}
		if runs, err = p.take(h, runs, l); err != nil {
			return h, nil, err
		}
		p.counts(b)
	}
}

// strict reads one value without unknown fields. What the data of a row holds is not looked at: it may have any keys.
func strict(b []byte, v any) error {
	if !utf8.Valid(b) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("text behind the JSON value")
	}
	return nil
}

// damaged is the error of a line, unless it is what is left of one where the file could not be read on.
func (p *reader) damaged(err error) error {
	if f := p.fault(); f != nil {
		return f
	}
	return fmt.Errorf("%w: line %d: %v", ErrDamaged, p.lines+1, err)
}

func (p *reader) header() (h Header, err error) {
	b, err := p.next()
	if errors.Is(err, ErrLarge) {
		err = ErrForeign
	}
	if err != nil {
		return h, err
	}
	var kind struct {
		Pawl   string `json:"pawl"`
		Format int    `json:"format"`
	}
	if json.Unmarshal(b, &kind) != nil || kind.Pawl != pawlRuns || kind.Format < 1 {
		return h, ErrForeign
	}
	if kind.Format > Format {
		return h, fmt.Errorf("%w (it is of format %d, this one reads up to %d)", ErrNewer, kind.Format, Format)
	}
	if err := strict(b, &h); err != nil {
		return h, p.damaged(err)
	}
	if h.Runs < 1 || h.Runs > MaxRuns || h.Root == "" {
		return h, fmt.Errorf("%w: %d runs of %q", ErrDamaged, h.Runs, h.Root)
	}
	if err := name("root", h.Root, maxName); err != nil {
		return h, p.damaged(err)
	}
	p.counts(b)
	return h, nil
}

// take adds a line to the runs that were read.
func (p *reader) take(h Header, runs []Run, l line) ([]Run, error) {
	var err error
	switch {
	case l.Run != nil && l.Row == nil && l.Question == nil:
		if err = l.Run.check(); err == nil {
			err = p.whole(runs)
		}
		if err == nil && len(runs) == h.Runs {
			err = errors.New("more runs than the header says")
		}
		p.last, runs = l.Run, append(runs, l.Run.run())
	case l.Run != nil || p.last == nil || (l.Row == nil) == (l.Question == nil):
		err = errors.New("it is neither a run nor a row nor a question of one")
	default:
		err = p.add(&runs[len(runs)-1], l)
	}
	if err != nil {
		return nil, p.damaged(err)
	}
	if p.rows > MaxRows {
		return nil, fmt.Errorf("%w: more than %d rows", ErrLarge, MaxRows)
	}
	return runs, nil
}

// add adds a row or a question.
func (p *reader) add(to *Run, l line) error {
	p.rows++
	if l.Row != nil {
		if len(to.Rows) == p.last.Rows {
			return errors.New("more rows than the run says")
		}
		to.Rows = append(to.Rows, l.Row.row())
		return l.Row.check()
	}
	if len(to.Questions) == p.last.Asked {
		return errors.New("more questions than the run says")
	}
	to.Questions = append(to.Questions, l.Question.question(to))
	return l.Question.check()
}

// whole reports whether the last run has all of its rows.
func (p *reader) whole(runs []Run) error {
	if p.last == nil {
		return nil
	}
	if r := runs[len(runs)-1]; len(r.Rows) != p.last.Rows || len(r.Questions) != p.last.Asked {
		return fmt.Errorf("run %s has less rows than it says", r.ID)
	}
	return nil
}

// end checks the last line.
func (p *reader) end(h Header, runs []Run, l line) error {
	switch {
	case l.Run != nil || l.Row != nil || l.Question != nil:
		return p.damaged(errors.New("an end that is something else too"))
	case l.End.Lines != p.lines || l.End.SHA256 != hex.EncodeToString(p.sum.Sum(nil)):
		return fmt.Errorf("%w: its checksum is another one", ErrDamaged)
	case p.whole(runs) != nil:
		return p.damaged(p.whole(runs))
	case len(runs) != h.Runs:
		return fmt.Errorf("%w: %d runs, its header says %d", ErrDamaged, len(runs), h.Runs)
	}
	return nil
}

func (l *runLine) run() Run {
	r := Run{
		Run: store.Run{
			ID: l.ID, Tenant: l.Tenant, User: l.User, Workflow: l.Workflow, Version: l.Version, Key: l.Key, Parent: l.Parent, Root: l.Root,
			Priority: l.Priority, Created: l.Created.UTC(), Updated: l.Updated.UTC(),
			Head: bytes.Clone(l.Head), Row: bytes.Clone(l.Record),
		},
	}
	for _, c := range l.Counters {
		r.Counters = append(r.Counters, store.Counter(c))
	}
	return r
}

func (l *rowLine) row() store.Row {
	r := store.Row{Stream: l.Stream, Key: l.Key, Told: l.Told, At: l.At.UTC(), Data: l.Bytes}
	if len(l.Data) > 0 {
		r.Data = bytes.Clone(l.Data)
	}
	return r
}

func (l *questionLine) question(of *Run) store.Question {
	q := store.Question{ID: l.ID, Run: of.ID, Closed: l.Closed, Asked: l.Asked.UTC(), Row: bytes.Clone(l.Row)}
	if !l.Due.IsZero() {
		q.Due = l.Due.UTC()
	}
	return q
}
