package telemetry

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// attrs are attributes in the form in which they are sent.
type attrs []*commonpb.KeyValue

// longest is what is sent of a text, in bytes.
const longest = 64 << 10

// add adds an attribute; an empty text is none.
func (a *attrs) add(name string, value any) {
	if value == "" {
		return
	}
	*a = append(*a, &commonpb.KeyValue{Key: clean(name), Value: valueOf(value)})
}

func valueOf(value any) *commonpb.AnyValue {
	switch v := value.(type) {
	case string:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: clean(v)}}
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}
	case int:
		return valueOf(int64(v))
	case int64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 { // JSON tells no integers from others
			return valueOf(int64(v))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	case []string:
		list := &commonpb.ArrayValue{}
		for _, one := range v {
			list.Values = append(list.Values, valueOf(one))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	}
	b, _ := json.Marshal(value)
	return valueOf(string(b))
}

// clean is a text as protobuf and receivers take it. One that is not would take its whole request with it.
func clean(text string) string {
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// observations are Langfuse's types of the operations that the conventions for generative AI name.
var observations = map[string]string{
	"chat": "generation", "generate_content": "generation", "text_completion": "generation", "embeddings": "embedding",
	"retrieval": "retriever", "execute_tool": "tool", "invoke_agent": "agent", "invoke_workflow": "agent",
}

// named adds what a call was annotated with, and names the span after what it did. What has a dot in its name goes as it is;
// the rest, such as a confidence, is metadata.
func (a *attrs) named(set map[string]any, sp *tracepb.Span) {
	text := func(name string) string { s, _ := set[name].(string); return s }
	operation := text("gen_ai.operation.name")
	kind := observations[operation]
	switch {
	case operation == "execute_tool":
		sp.Name = clean(strings.TrimSpace(operation + " " + text("gen_ai.tool.name")))
	case operation != "":
		sp.Name = clean(strings.TrimSpace(operation + " " + text("gen_ai.request.model")))
		sp.Kind = tracepb.Span_SPAN_KIND_CLIENT
	}
	if kind == "" {
		kind = "span"
	}
	a.add("langfuse.observation.type", kind)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if name == "gen_ai.response.finish_reasons" && text(name) != "" {
			a.add(name, []string{text(name)}) // the conventions have a list
			continue
		}
		a.add(full(name), set[name])
	}
	if model := text("gen_ai.response.model"); model != "" {
		a.add("langfuse.observation.model.name", model)
	} else {
		a.add("langfuse.observation.model.name", text("gen_ai.request.model"))
	}
	in, some := number(set["gen_ai.usage.input_tokens"])
	out, more := number(set["gen_ai.usage.output_tokens"])
	if some || more {
		a.add("langfuse.observation.usage_details", map[string]float64{"input": in, "output": out})
	}
	if usd, ok := number(set["cost_usd"]); ok {
		a.add("langfuse.observation.cost_details", map[string]float64{"total": usd})
	}
}

// annotated adds what a visit was annotated with.
func (a *attrs) annotated(payload []byte) {
	set := map[string]any{}
	if json.Unmarshal(payload, &set) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		a.add(full(name), set[name])
	}
}

// full is the name of an attribute that node code gave.
func full(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return "langfuse.observation.metadata." + name
}

// number is a value that is one, or a text that says one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case string:
		f, err := strconv.ParseFloat(strings.TrimPrefix(v, "$"), 64)
		return f, err == nil
	}
	return 0, false
}
