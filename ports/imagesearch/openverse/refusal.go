package openverse

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"pawl/internal/rest"
	"pawl/ports/imagesearch"
)

func fault(err error) error {
	if err == nil {
		return nil
	}
	return imagesearch.FaultOf(name, err, func(f *imagesearch.Failure, body []byte) {
		explain(f, body)
		var e *rest.Error
		if errors.As(err, &e) && f.Code == imagesearch.CodeRateLimited && spent(e.Header) {
			f.Code, f.Text = imagesearch.CodeQuota, f.Text+" (no searches are left for the day)"
		}
	})
}

// explain reads the words of a refusal: {"detail": "…"}, or an object of the fields that were wrong.
func explain(f *imagesearch.Failure, body []byte) {
	var c struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &c) != nil || len(c.Detail) == 0 {
		return // what is of another form says nothing
	}
	text := string(c.Detail)
	_ = json.Unmarshal(c.Detail, &text) // what is no text is told as it is
	f.Text = rest.Line(text)
}

// spent says whether the limit of a day is. Each limit has two headers: X-RateLimit-Limit-SCOPE: 200/day and
// X-RateLimit-Available-SCOPE: 0.
func spent(h http.Header) bool {
	for key, limit := range h {
		scope, ok := strings.CutPrefix(key, "X-Ratelimit-Limit-")
		if !ok || !strings.HasSuffix(limit[0], "/day") {
			continue
		}
		if left := h["X-Ratelimit-Available-"+scope]; len(left) > 0 && (left[0] == "0" || strings.HasPrefix(left[0], "-")) {
			return true
		}
	}
	return false
}
