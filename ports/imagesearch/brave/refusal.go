package brave

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/imagesearch"
)

// meanings say what the codes of errors mean, where the status alone says something else or too little.
var meanings = map[string]string{
	"SUBSCRIPTION_TOKEN_INVALID": pawl.CodeForbidden, "SUBSCRIPTION_NOT_FOUND": pawl.CodeForbidden, "OPTION_NOT_IN_PLAN": pawl.CodeForbidden,
	"QUOTA_LIMITED": imagesearch.CodeQuota,
}

// complaint is an error: in the reference's examples a list, on the wire one.
type complaint struct {
	Error  trouble   `json:"error"`
	Errors []trouble `json:"errors"`
}

type trouble struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Meta   struct {
		Component string `json:"component"`
	} `json:"meta"`
}

func fault(err error) error {
	return imagesearch.FaultOf(name, err, func(f *imagesearch.Failure, body []byte) {
		explain(f, body)
		var e *rest.Error
		if errors.As(err, &e) && f.Code == imagesearch.CodeRateLimited {
			limited(f, e.Header.Get("X-RateLimit-Remaining"), e.Header.Get("X-RateLimit-Reset"))
		}
	})
}

// explain reads the words of a refusal.
func explain(f *imagesearch.Failure, body []byte) {
	var c complaint
	if json.Unmarshal(body, &c) != nil {
		return // what is of another form says nothing
	}
	said := c.Error
	if said.Code == "" && len(c.Errors) > 0 {
		said = c.Errors[0]
	}
	if said.Code != "" {
		f.Text = rest.Line(said.Code + ": " + said.Detail)
	}
	if meant, known := meanings[said.Code]; known {
		f.Code = meant
	} else if said.Meta.Component == "authentication" {
		f.Code = pawl.CodeForbidden
	}
}

// limited reads the headers of a rate limit, which speak of each window, shortest first: "0, 812" are left, and "1, 1419704" is when
// each begins anew, in seconds. Where the longest is spent, it is the month's quota. See
// https://api-dashboard.search.brave.com/app/documentation/web-search/response-headers.
func limited(f *imagesearch.Failure, remaining, reset string) {
	left := strings.Split(remaining, ",")
	if len(left) > 1 && strings.TrimSpace(left[len(left)-1]) == "0" {
		f.Code, f.Text = imagesearch.CodeQuota, f.Text+" (no searches are left for the month)"
		return
	}
	first, _, _ := strings.Cut(reset, ",")
	if s, err := strconv.ParseUint(strings.TrimSpace(first), 10, 16); err == nil && f.After < 0 {
		f.After = time.Duration(s) * time.Second
	}
}
