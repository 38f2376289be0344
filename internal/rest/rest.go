// Package rest asks services of others that take and give JSON, or bytes, over HTTP: whole, or as a stream of events.
//
// It may never know one service, try again by itself, follow a redirect (it would carry the key along), hold more of a response
// than it may, or tell a secret in an error. How long a service may be silent is its business; how long a call may take is its
// caller's, by the context.
//
// Start reading at Client.Get, Client.Post and Client.Stream, and Client.Bytes for what is no JSON; Error is what goes wrong.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"pawl"
	"pawl/internal/codec"
)

// Client asks one service. Only URL is needed.
type Client struct {
	URL     string            // every path is put behind it
	Header  map[string]string // of every request: who asks, and in which version
	Secrets []string          // what no error may tell
	HTTP    *http.Client      // nil: one with Go's usual transport
	First   time.Duration     // until the first byte of a response; 0: 90 s
	Silence time.Duration     // between its bytes; 0: 30 s
	Most    int64             // bytes of a response, unpacked; 0: 16 MB
	Now     func() time.Time  // the local clock; nil: this machine's

	Refuses func(answer json.RawMessage) bool // says of an answer with success that it is a refusal; nil: none is
}

// What holds where a Client does not say.
const (
	defaultFirst   = 90 * time.Second
	defaultSilence = 30 * time.Second
	defaultMost    = 16 << 20
	mostRefusal    = 64 << 10 // bytes that are read of a response that is none
)

// Get asks with parameters in the address, and gives the JSON object that is answered.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	return c.object(ctx, request{method: http.MethodGet, path: path + "?" + query.Encode()})
}

// Form sends a form and gives the JSON object that is answered.
func (c *Client) Form(ctx context.Context, path string, form url.Values) (json.RawMessage, error) {
	return c.object(ctx, request{http.MethodPost, path, "application/x-www-form-urlencoded", []byte(form.Encode())})
}

// Post sends a body as JSON and gives the JSON object that is answered.
func (c *Client) Post(ctx context.Context, path string, body any) (json.RawMessage, error) {
	r, err := posted(path, body)
	if err != nil {
		return nil, err
	}
	return c.object(ctx, r)
}

// Put sends bytes and gives the JSON object that is answered.
func (c *Client) Put(ctx context.Context, path string, query url.Values, body []byte) (json.RawMessage, error) {
	return c.object(ctx, request{http.MethodPut, path + "?" + query.Encode(), "application/octet-stream", body})
}

// Delete has taken away what stands there, and gives the JSON object that is answered.
func (c *Client) Delete(ctx context.Context, path string) (json.RawMessage, error) {
	return c.object(ctx, request{method: http.MethodDelete, path: path})
}

// Bytes gives what stands there as it is: here a page is an answer too, and not told from one.
func (c *Client) Bytes(ctx context.Context, path string) (out []byte, err error) {
	err = c.ask(ctx, request{method: http.MethodGet, path: path}, "*/*", func(_ *http.Response, in io.Reader) error {
		out, err = io.ReadAll(in)
		return err
	})
	return out, err
}

// object makes a request whose answer is one JSON object.
func (c *Client) object(ctx context.Context, r request) (out json.RawMessage, err error) {
	err = c.ask(ctx, r, "application/json", func(resp *http.Response, in io.Reader) error {
		raw, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		out, err = object(raw)
		switch {
		case err != nil:
			return c.strange(resp, raw)
		case c.Refuses != nil && c.Refuses(out):
			return c.refusal(resp, out)
		}
		return nil
	})
	return out, err
}

// Stream sends a body as JSON and hands out the events that are answered, until the stream ends or each returns ErrDone. A
// service that answers with one JSON object instead has it handed out as an event without a name.
func (c *Client) Stream(ctx context.Context, path string, body any, each func(Event) error) error {
	r, err := posted(path, body)
	if err != nil {
		return err
	}
	return c.ask(ctx, r, "text/event-stream", func(resp *http.Response, r io.Reader) error {
		if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
			return events(r, each)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		one, err := object(raw)
		if err != nil {
			return c.strange(resp, raw)
		}
		if err := each(Event{Data: one}); !errors.Is(err, ErrDone) {
			return err
		}
		return nil
	})
}

// request is what is sent.
type request struct {
	method, path string
	kind         string // of the body
	body         []byte
}

// posted is the request that sends a body as JSON.
func posted(path string, body any) (request, error) {
	raw, err := codec.Encode(body)
	if err != nil {
		return request{}, &Error{Code: pawl.CodeInvalid, Text: "request: " + err.Error(), After: -1, Err: err}
	}
	return request{http.MethodPost, path, "application/json", raw}, nil
}

// ask makes one request and has what is answered with success used. Whatever goes wrong comes back as an *Error, but for the
// errors of use itself and a context that was cancelled.
func (c *Client) ask(ctx context.Context, r request, accept string, use func(*http.Response, io.Reader) error) error {
	quiet := listen(ctx, cmp.Or(c.First, defaultFirst), cmp.Or(c.Silence, defaultSilence))
	defer quiet.stop()
	req, err := http.NewRequestWithContext(quiet.ctx, r.method, strings.TrimSuffix(c.URL, "/")+r.path, bytes.NewReader(r.body))
	if err != nil {
		return &Error{Code: pawl.CodeInvalid, Text: c.mask("address: " + plain(err).Error()), After: -1}
	}
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	req.Header.Set("Accept", accept)
	for name, value := range c.Header {
		req.Header.Set(name, value)
	}
	resp, err := c.client().Do(req)
	if err != nil {
		return c.broken(ctx, quiet, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		said, _ := io.ReadAll(&bounded{resp.Body, mostRefusal, quiet}) // a refusal is one, however little of it can be read
		if ctx.Err() != nil {
			return c.broken(ctx, quiet, ctx.Err())
		}
		return c.refusal(resp, said)
	}
	in := &bounded{resp.Body, cmp.Or(c.Most, defaultMost), quiet}
	if err := use(resp, in); in.failed(err) {
		return c.broken(ctx, quiet, err)
	} else if err != nil {
		return err
	}
	return nil
}

func (c *Client) client() *http.Client {
	var h http.Client
	if c.HTTP != nil {
		h = *c.HTTP
	}
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &h
}

// Within is a context that lasts at most so long; 0: as long as the one that it is made of.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// object checks that a body is one JSON object.
func object(raw []byte) (json.RawMessage, error) {
	raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF")))
	if !bytes.HasPrefix(raw, []byte("{")) || !json.Valid(raw) {
		return nil, errors.New("no JSON object")
	}
	return raw, nil
}

// Error is what went wrong between this program and a service.
type Error struct {
	Code   string        // pawl's: the request cannot be made, no answer came in time or whole; empty: the service refused it
	Status int           // of the answer; 0: there was none
	Header http.Header   // of a refusal, as it came: to be read, never to be told
	Body   []byte        // of a refusal, without secrets
	Text   string        // what went wrong, without secrets, in one line
	After  time.Duration // how long the service wants to be left alone; negative: it did not say
	Err    error
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Err }

// Answer is what whoever knows the service makes an error of its own from.
func (e *Error) Answer() (code string, status int, body []byte, after time.Duration) {
	return e.Code, e.Status, e.Body, e.After
}

// Refused is what a reader returns of a service that says no where an answer was to come: in an event, or with success.
type Refused struct{ Body []byte }

func (*Refused) Error() string { return "refused" }

// Fault makes an *Error of what a reader has found refused, and leaves others as they are.
func (c *Client) Fault(err error) error {
	var r *Refused
	if !errors.As(err, &r) {
		return err
	}
	body := c.mask(string(r.Body))
	return &Error{Body: []byte(body), Text: Line(body), After: -1}
}

// refusal is the error of an answer that says no.
func (c *Client) refusal(resp *http.Response, body []byte) error {
	body = []byte(c.mask(string(body)))
	text := Line(string(body))
	if text == "" {
		text = http.StatusText(resp.StatusCode)
	}
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	return &Error{Status: resp.StatusCode, Header: resp.Header, Body: body, Text: text, After: After(resp.Header, now)}
}

// strange is the error of an answer that claims success and is none: such as a gateway's page.
func (c *Client) strange(resp *http.Response, body []byte) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	text := "the answer is not JSON"
	if kind != "" {
		text += " but " + kind
	}
	if said := Line(c.mask(string(body[:min(len(body), 1000)]))); said != "" {
		text += ": " + said
	}
	return &Error{Code: pawl.CodeUnavailable, Status: resp.StatusCode, Text: text, After: -1}
}

// broken is the error of an answer that did not come, or not whole.
func (c *Client) broken(ctx context.Context, quiet *quiet, err error) error {
	e := &Error{Code: pawl.CodeUnavailable, After: -1}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case ctx.Err() != nil:
		e.Code, e.Text, e.Err = pawl.CodeTimeout, "the time of the call is up", ctx.Err()
	case errors.Is(context.Cause(quiet.ctx), errSilent):
		e.Code, e.Text = pawl.CodeTimeout, fmt.Sprintf("nothing came for %s", quiet.limit())
	case errors.Is(err, errLarge):
		e.Code, e.Text = pawl.CodeExhausted, fmt.Sprintf("the response is larger than %d bytes", cmp.Or(c.Most, defaultMost))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.Text = "the connection broke before the end"
	default:
		e.Text = Line(c.mask(plain(err).Error()))
	}
	return e
}

// plain is an error of net/http without the address, which may hold a secret.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func (c *Client) mask(text string) string { return Mask(text, c.Secrets) }

// Mask hides secrets in a text, also as they stand in addresses and in JSON. Very short ones are no secrets, and would hide half of
// every text.
func Mask(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) < 4 {
			continue
		}
		quoted, _ := json.Marshal(s) // a text
		inner := string(quoted[1 : len(quoted)-1])
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), inner, strings.ReplaceAll(inner, "/", `\/`)} {
			text = strings.ReplaceAll(text, form, "****")
		}
	}
	return text
}

// mostLine is how long a text of others in an error may be.
const mostLine = 500

// Line is a text of others as one bounded line, fit for an error.
func Line(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if runes := []rune(text); len(runes) > mostLine {
		text = string(runes[:mostLine]) + "…"
	}
	return text
}
