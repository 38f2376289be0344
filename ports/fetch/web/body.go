package web

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"pawl/ports/fetch"
)

// What is unpacked may be so much larger than what came, once it is large at all. Pages are packed to a tenth, bombs to a thousandth.
const (
	maxRatio   = 100
	ratioAfter = 1 << 20
)

// body reads a body with all that it is held to. Partial: it ended before it was all there.
func (f *Fetcher) body(ctx context.Context, resp *http.Response, tooSlow context.CancelCauseFunc) (all []byte, partial bool, err error) {
	if resp.ContentLength > f.MaxBytes {
		return nil, false, f.large()
	}
	came := &counted{r: resp.Body, most: f.MaxBytes}
	defer came.watch(f.Pace, func() { tooSlow(errSlow) })()
	in := io.Reader(came)
	switch packed := strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ",")); packed {
	case "", "identity":
	case "gzip", "x-gzip":
		switch in, err = gzip.NewReader(came); {
		case err == io.EOF:
			return nil, false, nil
		case err != nil:
			return nil, false, unpacked(err)
		}
	default: // one in the other, too
		return nil, false, refuse(fetch.CodeType, "it is packed in a way that is not unpacked")
	}
	piece := make([]byte, 32<<10)
	for {
		n, err := in.Read(piece)
		all = append(all, piece[:n]...)
		size := int64(len(all))
		switch {
		case errors.Is(err, errLarge), size > f.MaxBytes:
			return nil, false, f.large()
		case size > ratioAfter && size > maxRatio*came.n.Load():
			return nil, false, refuse(fetch.CodeTooLarge, "it unpacks to more than %d times of what came", maxRatio)
		case err == io.EOF:
			return all, false, nil
		case errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil:
			return all, true, nil
		case err != nil:
			return nil, false, unpacked(err)
		}
	}
}

func (f *Fetcher) large() error {
	return refuse(fetch.CodeTooLarge, "it has more than %d bytes", f.MaxBytes)
}

// unpacked is an error of reading: what cannot be unpacked is no fault of the connection.
func unpacked(err error) error {
	var bad flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &bad) {
		return refuse(fetch.CodeCorrupt, "it cannot be unpacked")
	}
	return err
}

var errLarge = errors.New("web: too large")

// counted counts what comes, and ends it: what is unpacked from much may be nothing, for ever.
type counted struct {
	r    io.Reader
	most int64
	n    atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n.Add(int64(n)) > c.most {
		return 0, errLarge
	}
	return n, err
}

// watch has something done when in one span of time less than a KiB a second was read. Stop ends it.
func (c *counted) watch(span time.Duration, slow func()) (stop func()) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		tick := time.NewTicker(span)
		defer tick.Stop()
		for last := int64(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			n := c.n.Load()
			if float64(n-last) < span.Seconds()*(1<<10) {
				slow()
				return
			}
			last = n
		}
	}()
	return stop
}
