package gemini

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"pawl"
	"pawl/internal/rest"
	"pawl/ports/llm"
)

// complaint is an error, as https://ai.google.dev/gemini-api/docs/troubleshooting and google.rpc.Status have it.
type complaint struct {
	Error struct {
		Code    int      `json:"code"`
		Message string   `json:"message"`
		Status  string   `json:"status"`
		Details []detail `json:"details"`
	} `json:"error"`
}

type detail struct {
	Reason     string `json:"reason"`
	RetryDelay string `json:"retryDelay"`
	Violations []struct {
		Quota string `json:"quotaId"`
	} `json:"violations"`
}

// mostDelay is the longest that is waited for a quota: what takes longer is told as such.
const mostDelay = 24 * time.Hour

// explain reads the words of a refusal. A stream that is refused from its beginning may say so in a list.
func explain(f *llm.Failure, body []byte) {
	if list := []json.RawMessage{}; bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var c complaint
	if json.Unmarshal(body, &c) != nil {
		return
	}
	if text := rest.Line(c.Error.Message); text != "" {
		f.Text = text
	}
	if c.Error.Status != "" {
		f.Text += " (" + rest.Line(c.Error.Status) + ")"
	}
	if f.Status == 0 && c.Error.Code >= 400 && c.Error.Code < 600 {
		f.Code = llm.StatusCode(c.Error.Code)
	}
	for _, d := range c.Error.Details {
		if delay, err := time.ParseDuration(d.RetryDelay); err == nil && delay >= 0 {
			f.After = max(f.After, min(delay, mostDelay))
		}
		if d.Reason == "API_KEY_INVALID" {
			f.Code = pawl.CodeForbidden
		}
		for _, v := range d.Violations {
			if strings.Contains(v.Quota, "PerDay") {
				f.Code = llm.CodeQuota // until midnight, which no retry waits for
			}
		}
	}
	if f.Code == pawl.CodeInvalid && strings.Contains(c.Error.Message, "exceeds the maximum number of tokens") {
		f.Code = llm.CodeTooLong
	}
}
