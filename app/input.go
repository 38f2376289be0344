package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pawl"
	"pawl/engine"
	"pawl/internal/codec"
)

// input makes the input of a workflow: from --input, over it FIELD=VALUE, and text for the positional fields. What stands
// after -- (at dash, below zero: nowhere) is text, whatever it looks like.
func (c *call) input(ctx context.Context, w *pawl.Workflow, args []string, dash int, from string) (json.RawMessage, error) {
	s, err := parseSchema(w.Input())
	if err != nil {
		return nil, invalid("%s: input: %v", w.Name(), err)
	}
	base, err := c.readInput(ctx, from)
	if err != nil {
		return nil, err
	}
	if s.kind() != "object" && len(s.Properties) == 0 {
		return whole(w, s, args, base)
	}
	in := inputs{w: w, s: s, values: map[string]json.RawMessage{}, lists: map[string][]json.RawMessage{}}
	if base != nil && len(args) == 0 {
		return base, nil // as it was given: the engine checks it
	}
	if base != nil && (json.Unmarshal(base, &in.values) != nil || in.values == nil) {
		return nil, invalid("--input: it is not an object: fields cannot be added to it")
	}
	if dash < 0 {
		dash = len(args)
	}
	var texts []string
	for i, arg := range args {
		field, value, ok := strings.Cut(arg, "=")
		if !ok || i >= dash || s.Properties[field] == nil {
			if ok && i < dash {
				if err := in.suspicious(field, c.say); err != nil {
					return nil, err
				}
			}
			texts = append(texts, arg)
			continue
		}
		if err := in.set(field, value); err != nil {
			return nil, err
		}
	}
	if err := in.place(texts); err != nil {
		return nil, err
	}
	for field, list := range in.lists {
		in.values[field] = compact(list)
	}
	return in.finish()
}

// readInput reads --input.
func (c *call) readInput(ctx context.Context, from string) (json.RawMessage, error) {
	return c.readJSON(ctx, "--input", from)
}

// readJSON reads what a flag names: a file, or - for standard input; it is nil where the flag was not given. It reads for as long
// as ctx lasts: a reader that blocks is left behind when the program ends.
func (c *call) readJSON(ctx context.Context, flag, from string) (json.RawMessage, error) {
	if from == "" {
		return nil, nil
	}
	var raw json.RawMessage
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		raw, err = c.readFrom(flag, from)
	}()
	select {
	case <-done:
		return raw, err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s has not come to its end: %w", flag, ctx.Err())
	}
}

// readFrom reads JSON from a file, or from standard input for -.
func (c *call) readFrom(flag, from string) (json.RawMessage, error) {
	r := c.In
	if from != "-" {
		f, err := os.Open(from)
		if err != nil {
			return nil, invalid("%s: %v", flag, err)
		}
		defer f.Close()
		r = f
	}
	if r == nil {
		return nil, invalid("%s: there is no standard input", flag)
	}
	raw, err := io.ReadAll(io.LimitReader(r, engine.MaxState+1))
	switch {
	case err != nil:
		return nil, invalid("%s: %v", flag, err)
	case len(raw) > engine.MaxState:
		return nil, invalid("%s: larger than %d bytes", flag, engine.MaxState)
	}
	if err := codec.Check(raw); err != nil {
		return nil, invalid("%s: not JSON that can be used: %v", flag, err)
	}
	return raw, nil
}

// whole is the input of a workflow that takes one value and no object.
func whole(w *pawl.Workflow, s *schema, args []string, base json.RawMessage) (json.RawMessage, error) {
	switch {
	case base != nil && len(args) > 0:
		return nil, invalid("%s takes one value: from --input or as text, not both", w.Name())
	case base != nil:
		return base, nil
	case len(args) == 0:
		return nil, invalid("%s wants %s: give it as text, or with --input FILE", w.Name(), s.wants())
	case len(args) > 1 && s.kind() == "array":
		var all []json.RawMessage
		for _, a := range args {
			v, err := s.Items.value(a)
			if err != nil {
				return nil, invalid("input: %v", err)
			}
			all = append(all, v)
		}
		return compact(all), nil
	}
	v, err := s.value(strings.Join(args, " "))
	if err != nil {
		return nil, invalid("input: %v", err)
	}
	return v, nil
}

// inputs is an input that is being put together.
type inputs struct {
	w      *pawl.Workflow
	s      *schema
	values map[string]json.RawMessage
	lists  map[string][]json.RawMessage // of fields that are lists and were given item by item
	taken  map[string]bool
}

// set fills a field from text. A field that is a list may be given several times.
func (in *inputs) set(field, text string) error {
	p := in.s.Properties[field]
	v, err := p.value(text)
	if err != nil {
		return invalid("%s: %v", field, err)
	}
	if p.kind() == "array" {
		var items []json.RawMessage
		if err := json.Unmarshal(v, &items); err == nil {
			in.lists[field] = append(in.lists[field], items...)
			in.mark(field)
			return nil
		}
	}
	if in.taken[field] {
		return invalid("%s is given twice", field)
	}
	in.mark(field)
	in.values[field] = v
	return nil
}

func (in *inputs) mark(field string) {
	if in.taken == nil {
		in.taken = map[string]bool{}
	}
	in.taken[field] = true
}

// place fills the positional fields that are still free: one text each, the last one takes what is left.
func (in *inputs) place(texts []string) error {
	if len(texts) == 0 {
		return nil
	}
	var free []string
	for _, f := range in.w.Positional() {
		if !in.taken[f] && in.s.Properties[f] != nil {
			free = append(free, f)
		}
	}
	if len(free) == 0 {
		return invalid("%s has no field for the text %s%s", in.w.Name(), shortened(texts[0]), fieldList(in.s))
	}
	for i, f := range free {
		if i == len(texts) {
			break
		}
		if i < len(free)-1 {
			if err := in.set(f, texts[i]); err != nil {
				return err
			}
			continue
		}
		if in.s.Properties[f].kind() == "array" {
			for _, t := range texts[i:] {
				if err := in.set(f, t); err != nil {
					return err
				}
			}
			return nil
		}
		return in.set(f, strings.Join(texts[i:], " "))
	}
	return nil
}

// suspicious looks at NAME=… where NAME is no field: text where text can go, unless it is nearly a field's name.
func (in *inputs) suspicious(name string, v *voice) error {
	if len(in.w.Positional()) == 0 {
		return invalid("%s has no field %s%s", in.w.Name(), shortened(name), suggest(name, in.s.fields()))
	}
	if s := suggest(name, in.s.fields()); strings.Contains(s, "did you mean") && utf8.ValidString(name) {
		v.line("note: %s= is no field and is taken as text%s (-- before it says that it is text)", oneLine(name, 40), s)
	}
	return nil
}

func fieldList(s *schema) string {
	if len(s.Properties) == 0 {
		return ": it takes no input"
	}
	return " (fields: " + strings.Join(s.fields(), ", ") + ")"
}

// finish says what is missing, in words of the command line.
func (in *inputs) finish() (json.RawMessage, error) {
	var missing []string
	for _, f := range in.s.Required {
		if _, ok := in.values[f]; !ok {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 {
		hint := fmt.Sprintf("%s=…", missing[0])
		if slices.Contains(in.w.Positional(), missing[0]) {
			hint += " or as plain text"
		}
		return nil, invalid("%s: the input has no %s: give it as %s", in.w.Name(), strings.Join(missing, ", "), hint)
	}
	raw := compact(in.values)
	if err := codec.Check(raw); err != nil {
		return nil, invalid("input: %v", err)
	}
	return raw, nil
}

// choice is what an answer means: a choice, in its own words or, where no choice reads like that, by its number; or the text.
func choice(q pawl.Open, text string) string {
	text = strings.TrimSpace(text)
	if slices.Contains(q.Choices, text) {
		return text
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(q.Choices) {
		return q.Choices[n-1]
	}
	return text
}

// answered makes JSON of an answer: plain text by the question's schema, or JSON as it was given.
func answered(q pawl.Open, text, raw string) (json.RawMessage, error) {
	if raw != "" {
		if err := codec.Check([]byte(raw)); err != nil {
			return nil, invalid("--json-answer: not JSON that can be used: %v", err)
		}
		return json.RawMessage(raw), nil
	}
	s, err := parseSchema(q.Schema)
	if err != nil {
		return nil, invalid("question %s: %v", q.ID, err)
	}
	v, err := s.answer(choice(q, text))
	if err != nil {
		return nil, invalid("answer: %v", err)
	}
	return v, nil
}
