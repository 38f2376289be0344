package googlecse

import (
	"encoding/json"
	"strings"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/imagesearch"
)

// meanings say what the reasons of errors mean, https://developers.google.com/search/apis/indexing-api/v3/core-errors: a daily limit
// may come as 403, and a rate limit too.
var meanings = map[string]string{
	"dailyLimitExceeded": imagesearch.CodeQuota, "dailyLimitExceededUnreg": imagesearch.CodeQuota, "quotaExceeded": imagesearch.CodeQuota,
	"rateLimitExceeded": imagesearch.CodeRateLimited, "userRateLimitExceeded": imagesearch.CodeRateLimited,
	"servingLimitExceeded": imagesearch.CodeRateLimited, "concurrentLimitExceeded": imagesearch.CodeRateLimited,
	"accessNotConfigured": pawl.CodeForbidden, "keyInvalid": pawl.CodeForbidden, "keyExpired": pawl.CodeForbidden,
	"API_KEY_INVALID": pawl.CodeForbidden,
}

// complaint is an error. It is read in parts, so that one of another form does not hide the others.
type complaint struct {
	Error struct {
		Message json.RawMessage `json:"message"`
		Errors  json.RawMessage `json:"errors"`
		Details json.RawMessage `json:"details"`
	} `json:"error"`
}

// detail is one of the errors, or of the details.
type detail struct {
	Reason   string `json:"reason"`
	Metadata struct {
		Limit string `json:"quota_limit"` // DefaultPerDayPerProject
	} `json:"metadata"`
}

// explain reads the words of a refusal. The newer of Google's gates say rateLimitExceeded, with 429, also of the limit of a day.
func explain(f *imagesearch.Failure, body []byte) {
	var c complaint
	if json.Unmarshal(body, &c) != nil {
		return // what is of another form says nothing
	}
	var message string
	var errors, details []detail
	_ = json.Unmarshal(c.Error.Message, &message)
	_ = json.Unmarshal(c.Error.Errors, &errors)
	_ = json.Unmarshal(c.Error.Details, &details)
	if message != "" {
		f.Text = rest.Line(message)
	}
	daily := strings.Contains(message, "Queries per day")
	for _, d := range append(errors, details...) {
		if meant, known := meanings[d.Reason]; known {
			f.Code = meant
		}
		daily = daily || strings.Contains(d.Metadata.Limit, "PerDay")
	}
	if daily && f.Code == imagesearch.CodeRateLimited {
		f.Code = imagesearch.CodeQuota
	}
}
