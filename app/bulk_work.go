package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"pawl"
	"pawl/workflows/nco"
)

// bulkRefused is the status of a row that nothing could be made of; the others are those of nco.
const bulkRefused = "REFUSED"

// bulkInput gives the rows of the input once more, after the survey.
type bulkInput struct {
	name string
	file *bulkFile
	in   io.ReadSeeker
	r    *rowReader
	hash hash.Hash
	row  csvRow
	held bool // row is the next one
}

func newBulkInput(name string, file *bulkFile, in io.ReadSeeker) (*bulkInput, error) {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return nil, invalid("--in: %v", err)
	}
	i := &bulkInput{name: name, file: file, in: in, hash: sha256.New()}
	i.r = newRowReader(io.TeeReader(in, i.hash), maxBulkRow)
	i.r.bom()
	row, err := i.r.next()
	for err == nil && row.blank() {
		row, err = i.r.next()
	}
	if err != nil || !bytes.Equal(row.raw, file.head) {
		return nil, i.changed()
	}
	return i, nil
}

func (i *bulkInput) changed() error {
	return conflict("%s has changed while it was read: begin anew with --overwrite", i.name)
}

// next is the next row that is to be coded, io.EOF behind the last one. It is the same one until it is taken.
func (i *bulkInput) next() (csvRow, error) {
	for !i.held {
		row, err := i.r.next()
		switch {
		case errors.Is(err, io.EOF):
			if hex.EncodeToString(i.hash.Sum(nil)) != i.file.hash {
				return row, i.changed()
			}
			return row, io.EOF
		case err != nil:
			if _, bad := errors.AsType[*rowFault](err); bad {
				return row, i.changed()
			}
			return row, &pawl.Error{Code: pawl.CodeUnavailable, Text: i.name + ": " + err.Error(), Err: err}
		case i.file.skips(row):
			continue
		case len(row.fields) != len(i.file.header):
			return row, i.changed()
		}
		i.row, i.held = row, true
	}
	return i.row, nil
}

func (i *bulkInput) taken() { i.held = false }

// matches says whether a row of an output begins with the next row of the input.
func (i *bulkInput) matches(out []byte) (row csvRow, fits bool, err error) {
	row, err = i.next()
	if errors.Is(err, io.EOF) {
		return row, false, nil
	}
	n := len(row.raw)
	return row, err == nil && len(out) > n && out[n] == ',' && bytes.HasPrefix(out, row.raw), err
}

// bulk is one job under way.
type bulk struct {
	workers int
	input   *bulkInput
	part    *bulkPart
	code    func(ctx context.Context, text string) (nco.Output, error)
	shown   *bulkShown
	tally   bulkTally
	purse   *purse // nil: no model is asked
}

// bulkRow is a row on its way.
type bulkRow struct {
	n    int // from 1
	raw  []byte
	text string
	done chan codedRow // gets one value
}

// codedRow is a row of the output, with the end of its line.
type codedRow struct {
	line   []byte
	status string
	fell   bool  // the rules coded it, and not the model
	err    error // it was not coded: the work stops
}

// work codes the rows that are left, several at a time, and writes them in their order. Only so many rows are in memory
// as the workers need to be busy. What is written when it fails stays.
func (b *bulk) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	window := 8 * b.workers
	order := make(chan chan codedRow, window)
	todo := make(chan bulkRow, window)
	var wg sync.WaitGroup
	var unread error
	wg.Go(func() { unread = b.read(ctx, order, todo) })
	for range b.workers {
		wg.Go(func() {
			for r := range todo {
				r.done <- b.codeRow(ctx, r)
			}
		})
	}
	err := b.write(order)
	cancel()
	wg.Wait()
	if err == nil {
		err = unread
	}
	if kept := b.part.sync(true); err == nil {
		err = kept
	}
	return err
}

// read hands out the rows, each with its place in the order of the output.
func (b *bulk) read(ctx context.Context, order chan<- chan codedRow, todo chan<- bulkRow) error {
	defer close(order)
	defer close(todo)
	for n := b.tally.Rows + 1; ; n++ {
		row, err := b.input.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b.input.taken()
		r := bulkRow{n: n, raw: bytes.Clone(row.raw), text: row.fields[b.input.file.column], done: make(chan codedRow, 1)}
		select {
		case order <- r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		todo <- r // the workers take all that is in it, whatever happens
	}
}

// codeRow makes the row of the output: what the input has, then the columns of nco. Only what is wrong with the cell itself
// refuses a row for good; any other fault stops the job, so that the row can still be coded when it goes on.
func (b *bulk) codeRow(ctx context.Context, r bulkRow) codedRow {
	if ctx.Err() != nil {
		return codedRow{err: ctx.Err()}
	}
	out, err := b.code(ctx, r.text)
	if ctx.Err() != nil {
		return codedRow{err: ctx.Err()}
	}
	status, confidence := string(out.Status), strconv.FormatFloat(out.Confidence, 'f', -1, 64)
	if err != nil {
		e := pawl.Coded(err)
		if e.Code != pawl.CodeInvalid {
			return codedRow{err: &pawl.Error{Code: e.Code, Text: fmt.Sprintf("row %d: it could not be coded: %s", r.n, explain(e.Error())), Err: err}}
		}
		reason := strings.TrimPrefix(explain(e.Error()), "text: ")
		status, confidence, out = bulkRefused, "", nco.Output{Reason: reason}
	}
	var codes, titles []string
	for _, c := range out.Codes {
		codes, titles = append(codes, c.Code), append(titles, c.Title)
	}
	line := r.raw
	for _, field := range []string{
		strconv.Itoa(r.n), status, strings.Join(codes, " "), semicolons(titles), confidence, oneSpace(out.Question), semicolons(out.Choices),
		semicolons(out.Assumptions), oneSpace(out.Reason), semicolons(out.Fallbacks),
	}[:len(b.input.file.added())] {
		line = appendField(append(line, ','), field)
	}
	return codedRow{line: append(line, '\n'), status: status, fell: len(out.Fallbacks) > 0}
}

// semicolons makes one field of several texts, so that it can be taken apart again.
func semicolons(all []string) string {
	parts := make([]string, len(all))
	for i, s := range all {
		parts[i] = strings.ReplaceAll(oneSpace(s), "; ", ", ")
	}
	return strings.Join(parts, "; ")
}

func oneSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

// write puts the rows into the part, in their order. While the next one is not ready, what is there is written, made
// durable when that is due, and shown.
func (b *bulk) write(order <-chan chan codedRow) error {
	ticks := time.NewTicker(frame)
	defer ticks.Stop()
	idle := func() error {
		b.shown.tick(b.tally)
		return b.part.sync(false)
	}
	b.shown.tick(b.tally)
	for {
		done, ok, err := await(order, ticks.C, b.part.flush, idle)
		if err != nil {
			return err
		}
		if !ok {
			return b.part.flush()
		}
		row, _, err := await(done, ticks.C, b.part.flush, idle)
		if err != nil {
			return err
		}
		if row.err != nil {
			return errors.Join(row.err, b.part.flush())
		}
		b.part.add(row.line)
		b.tally.count(row.status, row.fell)
		if len(b.part.pending) >= bulkBuffer {
			if err := errors.Join(b.part.flush(), idle()); err != nil {
				return err
			}
		}
	}
}

// await takes the next value. Where there is none yet it does pause first, and idle at every tick.
func await[T any](from <-chan T, ticks <-chan time.Time, pause, idle func() error) (v T, ok bool, err error) {
	select {
	case v, ok = <-from:
		return v, ok, nil
	default:
	}
	if err := pause(); err != nil {
		return v, false, err
	}
	for {
		select {
		case v, ok = <-from:
			return v, ok, nil
		case <-ticks:
			if err := idle(); err != nil {
				return v, false, err
			}
		}
	}
}

// bulkShown shows how far a job is: on a terminal one line that is drawn anew, elsewhere a line every two seconds.
type bulkShown struct {
	say    *voice
	total  int
	before int // rows that were there at the beginning
	began  time.Time
	said   time.Time
}

const bulkSays = 2 * time.Second

// rate is the rows a second since the beginning of this command.
func (s *bulkShown) rate(t bulkTally, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(t.Rows-s.before) / d.Seconds()
}

func (s *bulkShown) tick(t bulkTally) {
	now := time.Now()
	if s.say.live {
		s.say.status(s.text(t, now))
		return
	}
	if now.Sub(s.said) >= bulkSays {
		s.said = now
		s.say.line("%s", s.text(t, now))
	}
}

func (s *bulkShown) text(t bulkTally, now time.Time) string {
	rate := s.rate(t, now.Sub(s.began))
	left := "?"
	if rate > 0 {
		left = time.Duration(float64(s.total-t.Rows) / rate * float64(time.Second)).Round(time.Second).String()
	}
	return fmt.Sprintf("rows %d of %d  %.0f rows/s  asked %d  %s left", t.Rows, s.total, rate, t.Asked, left)
}
