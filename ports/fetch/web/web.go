// Package web fetches from the public web, and from nowhere else.
//
// It may never look a name up twice, dial what is not public, believe a Content-Type, keep a cookie, take a proxy from the environment,
// or say in an error what stands behind a name.
//
// Start reading at Config and New; address.go is what addresses are held to, dial.go what is dialed, body.go what is read.
package web

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"code.dny.dev/ssrf"

	"pawl"
	"pawl/internal/picture"
	"pawl/internal/rest"
	"pawl/ports/fetch"
)

// Config is what a fetcher is held to. Its zero value is what holds for the public web.
type Config struct {
	UserAgent string         // who asks; some sites want an address to write to in it
	Ports     []uint16       // that may be dialed; nil: 80 and 443
	Allow     []netip.Prefix // that may be reached though they are not public, such as a site of one's own
	Resolver  *net.Resolver  // nil: Go's
	Proxy     *url.URL       // through which everything goes. It looks names up itself: that they lead nowhere inside is its business
	Connect   time.Duration  // until there is a connection, and again until there is an answer; 0: 10 s
	Total     time.Duration  // 0: 30 s
	Pace      time.Duration  // in which at least so many KiB come as it has seconds; 0: 5 s
	MaxBytes  int64          // unpacked; 0: 10 MiB
	MinSide   int            // pixels of a picture's shorter side
	Room      *picture.Room  // where pictures are decoded; nil: one of its own
}

const (
	defaultAgent = "pawl (fetches what a person or an agent asks for)"
	maxRedirects = 5
	maxHeader    = 64 << 10 // bytes
)

// Fetcher is a fetch.Fetcher and a fetch.Getter.
type Fetcher struct {
	Config
	guard     *ssrf.Guardian
	dialer    *net.Dialer
	transport *http.Transport
}

// New makes a fetcher. It keeps no connection between two requests.
func New(c Config) *Fetcher {
	c.UserAgent = cmp.Or(c.UserAgent, defaultAgent)
	c.Connect = cmp.Or(c.Connect, 10*time.Second)
	c.Total = cmp.Or(c.Total, 30*time.Second)
	c.Pace = cmp.Or(c.Pace, 5*time.Second)
	c.MaxBytes = cmp.Or(c.MaxBytes, 10<<20)
	if c.Ports == nil {
		c.Ports = []uint16{80, 443}
	}
	if c.Room == nil {
		c.Room = picture.NewRoom(0)
	}
	g := guarding(c.Ports, c.Allow)
	d := dialer(c, g)
	return &Fetcher{Config: c, guard: g, dialer: d, transport: transport(c, d)}
}

// Image fetches a picture.
func (f *Fetcher) Image(ctx context.Context, url string) (fetch.Image, error) {
	got, err := f.get(ctx, url, "image/jpeg, image/png, image/webp, image/gif", "identity")
	if err != nil {
		return fetch.Image{}, failed(ctx, url, err)
	}
	info, err := f.Room.Check(ctx, got.Bytes, picture.Limits{MinSide: f.MinSide})
	var flaw *picture.Error
	switch {
	case errors.As(err, &flaw) && flaw.Code == picture.CodeCorrupt && got.Partial:
		err = refuse(pawl.CodeUnavailable, "it broke off")
	case errors.As(err, &flaw):
		err = refuse(flaw.Code, "%s", flaw.Text)
	}
	if err != nil {
		return fetch.Image{}, failed(ctx, url, err)
	}
	return fetch.Image{
		URL: got.URL, Type: info.Type, Width: info.Width, Height: info.Height, Bytes: got.Bytes, Partial: got.Partial || info.Partial, Review: got.Review,
	}, nil
}

// Get fetches anything.
func (f *Fetcher) Get(ctx context.Context, url string) (fetch.Document, error) {
	got, err := f.get(ctx, url, "*/*", "gzip")
	if err != nil {
		return fetch.Document{}, failed(ctx, url, err)
	}
	got.Type, _, _ = strings.Cut(http.DetectContentType(got.Bytes), ";")
	if kind := picture.Sniff(got.Bytes); strings.HasPrefix(kind, "image/") {
		got.Type = kind
	}
	return got, nil
}

// get makes the request, goes where it is led, and reads what is there.
func (f *Fetcher) get(ctx context.Context, raw, accept, packed string) (d fetch.Document, err error) {
	if err := ctx.Err(); err != nil {
		return d, err
	}
	at, review, err := f.address(raw)
	if err != nil {
		return d, err
	}
	ctx, stop := context.WithTimeout(ctx, f.Total)
	defer stop()
	ctx, tooSlow := context.WithCancelCause(ctx)
	defer tooSlow(nil)
	for range 1 + maxRedirects {
		// The transport alone: a client would follow by itself, keep cookies and tell where it came from.
		resp, err := f.transport.RoundTrip((&http.Request{Method: http.MethodGet, URL: at, Header: http.Header{
			"User-Agent": {f.UserAgent}, "Accept": {accept}, "Accept-Encoding": {packed},
		}}).WithContext(ctx))
		if err != nil {
			return d, broken(ctx, err)
		}
		defer resp.Body.Close()
		to, odd, err := f.leads(at, resp)
		switch {
		case err != nil:
			return d, err
		case to != nil:
			at, review = to, cmp.Or(review, odd)
			resp.Body.Close() // what it says beside is not read
			continue
		case resp.StatusCode/100 != 2:
			return d, &failure{
				Code: fetch.StatusCode(resp.StatusCode), Status: resp.StatusCode, Text: http.StatusText(resp.StatusCode),
				After: rest.After(resp.Header, time.Now),
			}
		}
		d.URL, d.Review = at.String(), review
		if d.Bytes, d.Partial, err = f.body(ctx, resp, tooSlow); err != nil {
			return fetch.Document{}, broken(ctx, err)
		}
		return d, nil
	}
	return d, refuse(fetch.CodeRedirects, "it leads on more than %d times", maxRedirects)
}

// leads is the address to which an answer leads, held to the same as the first; nil: it does not.
func (f *Fetcher) leads(from *url.URL, resp *http.Response) (to *url.URL, review string, err error) {
	location := resp.Header.Get("Location")
	if location == "" || !slices.Contains([]int{301, 302, 303, 307, 308}, resp.StatusCode) {
		return nil, "", nil
	}
	if err := written(location); err != nil {
		return nil, "", err
	}
	if to, err = from.Parse(location); err != nil {
		return nil, "", blocked("the address is none")
	}
	return f.address(to.String())
}

// failure is a fetch.Failure on its way, while nobody has asked yet at which address.
type failure fetch.Failure

func (f *failure) Error() string { return f.Text }
