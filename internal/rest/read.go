package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ErrDone ends a stream whose reader has all that it wants.
var ErrDone = errors.New("rest: done")

var (
	errSilent = errors.New("rest: silent")
	errLarge  = errors.New("rest: too large")
)

// Event is one event of a stream.
type Event struct {
	Name string
	Data []byte
}

// events reads a stream of server-sent events, as https://html.spec.whatwg.org/multipage/server-sent-events.html has them: lines
// that begin with a colon are only there to keep the connection, and an event that no empty line ends is none.
func events(r io.Reader, each func(Event) error) error {
	in := bufio.NewReader(r)
	var e Event
	data := false
	for first := true; ; first = false {
		line, err := in.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if first {
			line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
		}
		if len(line) == 0 {
			if data {
				if err := each(e); errors.Is(err, ErrDone) {
					return nil
				} else if err != nil {
					return err
				}
			}
			e, data = Event{}, false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.Name = string(value)
		case "data":
			if data {
				e.Data = append(e.Data, '\n')
			}
			e.Data, data = append(e.Data, value...), true
		}
	}
}

// quiet ends a context when a service is silent for too long.
type quiet struct {
	ctx            context.Context
	cancel         context.CancelCauseFunc
	timer          *time.Timer
	first, between time.Duration
	heard          atomic.Bool
}

func listen(ctx context.Context, first, between time.Duration) *quiet {
	q := &quiet{first: first, between: between}
	q.ctx, q.cancel = context.WithCancelCause(ctx)
	q.timer = time.AfterFunc(first, func() { q.cancel(errSilent) })
	return q
}

func (q *quiet) hear() {
	q.heard.Store(true)
	q.timer.Reset(q.between)
}

func (q *quiet) limit() time.Duration {
	if q.heard.Load() {
		return q.between
	}
	return q.first
}

func (q *quiet) stop() {
	q.timer.Stop()
	q.cancel(nil)
}

// bounded reads at most left bytes, and says of each that it was heard.
type bounded struct {
	r    io.Reader
	left int64
	*quiet
}

func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if n > 0 {
		b.hear()
	}
	if b.left -= int64(n); b.left < 0 {
		return 0, errLarge
	}
	if err != nil && err != io.EOF {
		err = &readError{err}
	}
	return n, err
}

// readError tells what reading has met from what was made of the bytes.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// failed says whether an error is one of reading.
func (b *bounded) failed(err error) bool {
	var r *readError
	return errors.As(err, &r) || errors.Is(err, errLarge)
}

// mostAfter is the longest wait that is believed: a service that wants more is as good as gone.
const mostAfter = 24 * time.Hour

// After reads how long a service wants to be left alone: seconds, or a date, which the service's own clock reckons where the
// response tells it. Two headers may have been joined to one; then the first counts. Negative: it does not say.
func After(h http.Header, now func() time.Time) time.Duration {
	if ms, err := strconv.ParseInt(h.Get("Retry-After-Ms"), 10, 64); err == nil && ms >= 0 {
		return min(time.Duration(min(ms, mostAfter.Milliseconds()))*time.Millisecond, mostAfter)
	}
	said := strings.TrimSpace(h.Get("Retry-After"))
	if at, err := http.ParseTime(said); err == nil {
		from, err := http.ParseTime(h.Get("Date"))
		if err != nil {
			from = now()
		}
		return min(max(at.Sub(from), 0), mostAfter)
	}
	one, _, _ := strings.Cut(said, ",")
	s, err := strconv.ParseInt(strings.TrimSpace(one), 10, 64)
	if err != nil || s < 0 {
		return -1
	}
	return time.Duration(min(s, int64(mostAfter/time.Second))) * time.Second
}
