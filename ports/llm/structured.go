package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pawl"
	"pawl/internal/codec"
	"pawl/internal/schema"
)

// StructuredOptions of asking for a value. The zero value works.
type StructuredOptions struct {
	Options      // of each attempt
	Attempts int // how often the model is asked at the most; 0: 3

	Name string // of the format; empty: the name of the type
	// Narrow adds keywords of JSON Schema to the fields of the type, by their names in JSON, with dots between: what a type cannot
	// say, such as {"category": {"enum": categories}, "items.score": {"minimum": 0, "maximum": 1}}.
	Narrow map[string]map[string]any
	// Schema is the JSON Schema, where the type is not to give it.
	Schema json.RawMessage
	// Check says what is wrong with a value that fits, where no schema can say it; nil: nothing. The model is told.
	Check func(value json.RawMessage) error
}

// Structured asks a model for a value of T. An answer is taken if it is JSON that fits the schema of T, as it stands or after
// changes that lose nothing, each of which is noted in the step log; otherwise the model is asked again and told what was
// wrong, without its answer. Attempts are calls of their own, key/1, key/2 and so on.
//
// An error that has CodeTruncated or CodeRefused comes from the first answer that was cut or refused; CodeFormat says that no
// attempt gave a value, so that the caller's own rules take over.
func Structured[T any](ctx context.Context, key string, m Model, r Request, o StructuredOptions) (t T, err error) {
	form, err := o.form(reflect.TypeFor[T]())
	if err != nil {
		return t, pawl.Permanent(&pawl.Error{Code: pawl.CodeInvalid, Op: "structured", Text: fmt.Sprintf("%s: %v", key, err)})
	}
	err = form.ask(ctx, key, m, r, func(data []byte) error {
		var got T
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&got); err != nil {
			return err
		}
		if o.Check != nil {
			if err := o.Check(data); err != nil {
				return err
			}
		}
		t = got
		return nil
	})
	return t, err
}

// form is what an answer has to be.
type form struct {
	Format
	options StructuredOptions
	schema  *schema.Schema
}

func (o StructuredOptions) form(t reflect.Type) (f form, err error) {
	f = form{Format: Format{Name: o.Name, Schema: o.Schema}, options: o}
	if f.Name == "" {
		f.Name = formatName(t.Name())
	}
	if f.Schema == nil {
		if f.Schema, err = schema.Of(t); err != nil {
			return f, err
		}
	}
	if len(o.Narrow) > 0 {
		if f.Schema, err = narrowed(f.Schema, o.Narrow); err != nil {
			return f, err
		}
	}
	f.schema, err = schema.Compile(f.Schema)
	return f, err
}

// formatName makes the name of a type one that providers take.
func formatName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "answer"
	}
	return s[:min(len(s), 64)]
}

// narrowed is a schema with keywords added to its fields.
func narrowed(in []byte, narrow map[string]map[string]any) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(in, &doc); err != nil {
		return nil, err
	}
	for name, more := range narrow {
		field := doc
		for step := range strings.SplitSeq(name, ".") {
			for field["properties"] == nil && field["items"] != nil {
				field, _ = field["items"].(map[string]any)
			}
			fields, _ := field["properties"].(map[string]any)
			next, ok := fields[step].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("the type has no field %q that could be narrowed", name)
			}
			field = next
		}
		for field["items"] != nil && more["enum"] != nil { // the allowed values are those of the elements
			field, _ = field["items"].(map[string]any)
		}
		for k, v := range more {
			field[k] = v
		}
	}
	return json.Marshal(doc)
}

// ask makes the attempts. keep takes a value that fits the schema, or says why it is none of the type all the same.
func (f form) ask(ctx context.Context, key string, m Model, r Request, keep func([]byte) error) error {
	r.Format = &f.Format
	if len(r.Tools) > 0 { // they stay, since earlier messages may speak of them
		r.Choice = ChoiceNone
	}
	problem, attempts := "", f.options.Attempts
	if attempts <= 0 {
		attempts = 3
	}
	for n := range attempts {
		each, k := r, key+"/"+strconv.Itoa(n+1)
		if n > 0 {
			each.Messages = append(slices.Clone(r.Messages), Text(RoleUser, "Your last answer could not be used: "+problem+
				".\nAnswer again, with one JSON value that fits the schema and nothing else."))
		}
		resp, err := Generate(ctx, k, m, each, f.options.Options)
		if err != nil {
			return err
		}
		var read reading
		if read, problem, err = f.accept(resp); err != nil {
			return err
		}
		if problem == "" {
			data, err := codec.Encode(read.value)
			if err != nil {
				return pawl.Permanent(err)
			}
			if err = keep(data); err == nil {
				return noteChanges(ctx, k, read.changes)
			}
			problem = clip(err.Error(), 300)
		}
		if err := pawl.Note(ctx, "answer_rejected", map[string]string{"call": k, "why": problem}); err != nil {
			return err
		}
		if f.options.Deltas != "" {
			_ = pawl.Delta(ctx, f.options.Deltas, Delta{Void: true})
		}
	}
	return pawl.Permanent(&pawl.Error{Code: CodeFormat, Op: "structured",
		Text: fmt.Sprintf("%s: none of %d answers of %s could be used; the last one: %s", key, attempts, m.Ref(), problem)})
}

func noteChanges(ctx context.Context, call string, changes []string) error {
	if len(changes) == 0 {
		return nil
	}
	return pawl.Note(ctx, "answer_mended", map[string]any{"call": call, "changes": changes})
}

// accept takes the value out of a response, or says what is wrong with it. A response that is cut or refused is an error: told
// about its form, the model would only do it again. So it comes before anything is read: cut text may be read well.
func (f form) accept(resp Response) (r reading, problem string, err error) {
	fault := func(code, text string) error {
		return pawl.Permanent(&pawl.Error{Code: code, Op: "structured", Text: resp.From.String() + ": " + text})
	}
	text := resp.Message.Text()
	switch resp.Finish {
	case FinishLength:
		return r, "", fault(CodeTruncated, fmt.Sprintf("the answer was cut after %d tokens", resp.Usage.Output))
	case FinishRefused:
		return r, "", fault(CodeRefused, "refused: "+clip(text, 200))
	case FinishCalls:
		return r, "it asks for a tool, and here none can be called", nil
	case FinishOther:
		return r, "it is not whole", nil
	}
	if strings.TrimSpace(text) == "" {
		return r, "it is empty", nil
	}
	r, problem, err = taken(f.schema, text)
	if err == nil && problem != "" && refuses(text) {
		return r, "", fault(CodeRefused, "refused: "+clip(text, 200))
	}
	return r, problem, err
}

// refusal is how models begin to say that they will not, in answers that are nothing else.
var refusal = regexp.MustCompile(`(?i)^\W*(i['’]?m (very |so |really )?(sorry|afraid)|i am (very |so |really )?(sorry|afraid|unable|not able)|i['’]?m (unable|not able)|` +
	`(we )?apologi[sz]e|my apologies|sorry[,.!]|unfortunately|i (can['’]?t|cannot|can not|won['’]?t|will not|must decline|have to decline)|as an ai\b)`)

// refuses says whether a text is a refusal: short, begun like one, and without any JSON.
func refuses(text string) bool {
	return len(text) < 600 && !strings.ContainsAny(text, "{[") && refusal.MatchString(text)
}
