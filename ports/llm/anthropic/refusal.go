package anthropic

import (
	"encoding/json"
	"strings"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/llm"
)

// meanings say what the types of errors mean (https://platform.claude.com/docs/en/api/errors), where they come without a status.
var meanings = map[string]string{
	"invalid_request_error": pawl.CodeInvalid, "authentication_error": pawl.CodeForbidden, "permission_error": pawl.CodeForbidden,
	"billing_error": llm.CodeQuota, "not_found_error": llm.CodeRetired, "request_too_large": llm.CodeTooLong,
	"rate_limit_error": llm.CodeRateLimited, "timeout_error": pawl.CodeTimeout, "conflict_error": pawl.CodeUnavailable,
	"overloaded_error": pawl.CodeUnavailable, "api_error": pawl.CodeUnavailable,
}

// phrases are what an invalid_request_error says only in words, in small letters.
var phrases = []struct{ words, code string }{
	{"prompt is too long", llm.CodeTooLong},
	{"exceed context limit", llm.CodeTooLong},
	{"credit balance is too low", llm.CodeQuota},
	{"usage limits", llm.CodeQuota},
}

// explain reads the words of a refusal.
func explain(f *llm.Failure, body []byte) {
	var c struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &c) != nil {
		return
	}
	if text := rest.Line(c.Error.Message); text != "" {
		f.Text = text
	}
	if c.Error.Type != "" {
		f.Text += " (" + rest.Line(c.Error.Type) + ")"
	}
	if meant, known := meanings[c.Error.Type]; known && f.Status == 0 {
		f.Code = meant
	}
	if f.Code != pawl.CodeInvalid {
		return
	}
	for _, p := range phrases {
		if strings.Contains(strings.ToLower(c.Error.Message), p.words) {
			f.Code = p.code
		}
	}
}
