package llm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"pawl"
	"pawl/internal/codec"
)

// Options of asking a model inside a run.
type Options struct {
	// Retry is how the call is tried again, each time at the whole chain; the zero value: twice, after 1 s and 4 s, or when the provider
	// says. Max -1: not by itself, so that the node's retries count.
	Retry   pawl.Retry
	Timeout time.Duration // of one try, for each model of a chain; 0: 2 minutes
	Limit   string        // name of a limit that all workers share, which the engine must have; empty: none
	// Deltas is the type of the passing events that carry the text as it is written; empty: it is not streamed.
	Deltas string
}

func (o Options) filled() Options {
	if o.Retry.Max == 0 {
		o.Retry = pawl.Retry{Max: 2, First: time.Second, Factor: 4}
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	return o
}

// asked is what is recorded of a call at a model.
type asked struct {
	Model   Ref     `json:"model"`
	Request Request `json:"request"`
}

// Generate asks a model inside a run and records the response: after a crash it is read, not asked for again. key is the call's,
// as in pawl.Do. Outside a run it only asks.
func Generate(ctx context.Context, key string, m Model, r Request, o ...Options) (Response, error) {
	opt := slices.Concat(o, []Options{{}})[0].filled()
	m, whole := timed(m, opt.Timeout)
	return pawl.Do(ctx, key, func(ctx context.Context) (Response, error) { return ask(ctx, m, r, opt) },
		pawl.CallOptions{For: asked{m.Ref(), r.abridged()}, Retry: opt.Retry, Timeout: whole, Limit: opt.Limit})
}

// ask makes one try, inside a call.
func ask(ctx context.Context, m Model, r Request, o Options) (resp Response, err error) {
	ref := m.Ref()
	pawl.Annotate(ctx, "gen_ai.operation.name", "chat", "gen_ai.provider.name", ref.Provider, "gen_ai.request.model", ref.Model)
	told := false
	if o.Deltas == "" {
		resp, err = m.Generate(ctx, r)
	} else {
		resp, err = m.Stream(ctx, r, func(d Delta) {
			told = true
			_ = pawl.Delta(ctx, o.Deltas, d) // nobody need be listening
		})
	}
	if err == nil {
		err = sound(ref, r, &resp)
	}
	if err != nil {
		if told {
			_ = pawl.Delta(ctx, o.Deltas, Delta{Void: true})
		}
		return Response{}, err
	}
	pawl.Annotate(ctx, "gen_ai.response.model", resp.Model, "gen_ai.response.finish_reasons", string(resp.Finish),
		"gen_ai.usage.input_tokens", resp.Usage.Input, "gen_ai.usage.output_tokens", resp.Usage.Output)
	return resp, nil
}

// gateway is how pages begin with which a gateway answers in a provider's place, also with status 200.
var gateway = regexp.MustCompile(`(?i)^\s*(<!doctype html|<html|<head|<\?xml|(50[234]:? )?(bad gateway|service (temporarily )?unavailable|gateway time-?out)|upstream (connect|request) |error code: 5\d\d)`)

// sound makes a response one that can be recorded, and fails where JSON was asked for and a gateway's page came. Arguments that are
// not JSON, or that two readers could take differently, are recorded as the text that they are, which is no object.
func sound(ref Ref, r Request, resp *Response) error {
	if r.Format != nil && gateway.MatchString(resp.Message.Text()) {
		return Failure{Ref: ref, Code: pawl.CodeUnavailable, Text: "a gateway's page instead of an answer", After: -1}.Fault()
	}
	parts := slices.Clone(resp.Message.Parts)
	for i, p := range parts {
		parts[i].Text = strings.ToValidUTF8(p.Text, "\ufffd")
		if p.Call == nil {
			continue
		}
		call := *p.Call
		if len(bytes.TrimSpace(call.Arguments)) == 0 {
			call.Arguments = json.RawMessage("{}")
		}
		if read, err := strict(string(call.Arguments)); err != nil || read.doubt != "" {
			text, err := codec.Encode(strings.ToValidUTF8(string(call.Arguments), "\ufffd"))
			if err != nil {
				return err
			}
			call.Arguments = text
		} else if len(read.changes) > 0 {
			if call.Arguments, err = codec.Encode(read.value); err != nil {
				return err
			}
		}
		parts[i].Call = &call
	}
	resp.Message.Parts = parts
	return nil
}

// abridged is the request with its pictures as their hashes: what a record shows, and is compared by.
func (r Request) abridged() Request {
	r.Messages = slices.Clone(r.Messages)
	for i, m := range r.Messages {
		if !slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Image != nil }) {
			continue
		}
		parts := slices.Clone(m.Parts)
		for j, p := range parts {
			if p.Image != nil {
				sum := sha256.Sum256(p.Image.Data)
				parts[j] = Part{Text: p.Image.Type + " sha256:" + hex.EncodeToString(sum[:])}
			}
		}
		r.Messages[i].Parts = parts
	}
	return r
}
