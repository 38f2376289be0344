package openai

import (
	"encoding/json"
	"strconv"
	"strings"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/llm"
)

// meanings say what the codes and types of errors mean, those of OpenAI (https://platform.openai.com/docs/guides/error-codes), Groq
// (https://console.groq.com/docs/errors) and Workers AI (https://developers.cloudflare.com/workers-ai/platform/errors).
var meanings = map[string]string{
	"insufficient_quota": llm.CodeQuota, "billing_hard_limit_reached": llm.CodeQuota, "billing_not_active": llm.CodeQuota,
	"3036": llm.CodeQuota, "4006": llm.CodeQuota,
	"model_not_found": llm.CodeRetired, "model_decommissioned": llm.CodeRetired, "model_not_active": llm.CodeRetired,
	"5007": llm.CodeRetired, "3042": llm.CodeRetired,
	"context_length_exceeded": llm.CodeTooLong, "3006": llm.CodeTooLong,
	"content_filter": llm.CodeRefused, "content_policy_violation": llm.CodeRefused,
	"json_validate_failed": llm.CodeFormat,
	"invalid_api_key":      pawl.CodeForbidden, "rate_limit_exceeded": llm.CodeRateLimited,
}

// phrases are what some say only in words, in small letters.
var phrases = []struct{ words, code string }{
	{"json mode couldn't be met", llm.CodeFormat},
	{"maximum context length", llm.CodeTooLong},
	{"context window", llm.CodeTooLong},
	{"has been decommissioned", llm.CodeRetired},
}

// complaint is an error in one of the forms that are about: {"error":{…}}, {"error":"…"}, {"errors":[{…}]} and {…} itself.
type complaint struct {
	Message json.RawMessage   `json:"message"`
	Type    json.RawMessage   `json:"type"`
	Code    json.RawMessage   `json:"code"`
	Error   json.RawMessage   `json:"error"`
	Errors  []json.RawMessage `json:"errors"`
}

func complaintOf(body []byte) (c complaint) {
	if json.Unmarshal(body, &c) != nil {
		return complaint{}
	}
	inner := c.Error
	if len(c.Errors) > 0 {
		inner = c.Errors[0]
	}
	switch {
	case len(inner) == 0 || string(inner) == "null":
		return c
	case inner[0] == '"':
		return complaint{Message: inner}
	}
	c = complaint{}
	_ = json.Unmarshal(inner, &c) // what is of another form says nothing
	return c
}

// explain reads the words of a refusal.
func explain(f *llm.Failure, body []byte) {
	c := complaintOf(body)
	code, kind := plain(c.Code), plain(c.Type)
	if text := rest.Line(plain(c.Message)); text != "" {
		f.Text = text
		if code != "" {
			f.Text += " (" + rest.Line(code) + ")"
		}
	}
	if n, err := strconv.Atoi(code); f.Status == 0 && err == nil && n >= 400 && n < 600 {
		f.Code = llm.StatusCode(n)
	}
	for _, name := range []string{code, kind} {
		if meant, known := meanings[name]; known && (meant != llm.CodeRateLimited || f.Status == 0) {
			f.Code = meant
			return
		}
	}
	for _, p := range phrases {
		if strings.Contains(strings.ToLower(f.Text), p.words) {
			f.Code = p.code
			return
		}
	}
}
