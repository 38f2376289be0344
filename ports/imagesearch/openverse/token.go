package openverse

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"strings"
	"time"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/imagesearch"
)

const (
	tokenPath = "/v1/auth_tokens/token/"
	early     = time.Minute    // a token is renewed so long before its end
	longest   = 24 * time.Hour // a token is believed to last; twelve hours are usual
)

// application is who has registered.
type application struct {
	rest       *rest.Client
	id, secret string
	now        func() time.Time
	tokens     chan token // whoever has taken what is in it may renew it
}

func newApplication(c Config, client *rest.Client) *application {
	a := &application{rest: client, id: c.ID, secret: c.Secret, now: c.Now, tokens: make(chan token, 1)}
	if a.now == nil {
		a.now = time.Now
	}
	a.tokens <- token{}
	return a
}

// token is what an application searches with.
type token struct {
	text string
	end  time.Time
}

// token is one that lasts, and whether it was got just now. Whoever searches while one is got waits for it.
func (a *application) token(ctx context.Context) (t token, fresh bool, err error) {
	select {
	case t = <-a.tokens:
	case <-ctx.Done():
		return t, false, fault(ctx.Err())
	}
	defer func() { a.tokens <- t }()
	if t.text != "" && a.now().Before(t.end.Add(-early)) {
		return t, false, nil
	}
	got, err := a.renew(ctx)
	if err != nil {
		return t, false, err
	}
	t = got
	return t, true, nil
}

// drop forgets a token, if it is still the one.
func (a *application) drop(ctx context.Context, old token) error {
	select {
	case t := <-a.tokens:
		if t.text == old.text {
			t = token{}
		}
		a.tokens <- t
		return nil
	case <-ctx.Done():
		return fault(ctx.Err())
	}
}

// renew gets a token by the client credentials of https://api.openverse.org/v1/.
func (a *application) renew(ctx context.Context) (token, error) {
	raw, err := a.rest.Form(ctx, tokenPath, url.Values{
		"grant_type": {"client_credentials"}, "client_id": {a.id}, "client_secret": {a.secret},
	})
	if err != nil {
		return token{}, imagesearch.FaultOf(name, err, func(f *imagesearch.Failure, _ []byte) {
			f.Text = "no token: " + f.Text
			if f.Code == pawl.CodeInvalid { // 400 is what a wrong application gets
				f.Code = pawl.CodeForbidden
			}
		})
	}
	var got struct {
		Token   string  `json:"access_token"`
		Type    string  `json:"token_type"`
		Expires float64 `json:"expires_in"`
	}
	if err := json.Unmarshal(raw, &got); err != nil || got.Token == "" || !strings.EqualFold(got.Type, "Bearer") {
		return token{}, imagesearch.Strange(name, "no token")
	}
	return token{got.Token, a.now().Add(time.Duration(min(max(got.Expires, 0), longest.Seconds()) * float64(time.Second)))}, nil
}

// as is the client that searches with a token.
func (a *application) as(t token) *rest.Client {
	c := *a.rest
	c.Header = maps.Clone(c.Header)
	c.Header["Authorization"] = "Bearer " + t.text
	c.Secrets = []string{a.secret, t.text}
	return &c
}
